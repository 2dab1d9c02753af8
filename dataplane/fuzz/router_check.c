// SPDX-License-Identifier: Apache-2.0
// What must hold after every sentence of fuzz_router.
#include "router_story.h"

static uint32_t slot_of(const struct story *s, const struct bt_addr *addr)
{
    for (uint32_t i = 0; i < s->decides->order_n; i++) {
        if (bt_addr_eq(&s->decides->worker[s->decides->order[i]].addr, addr)) {
            return s->decides->order[i];
        }
    }
    return NO_SLOT;
}

/* Sticky requests to the same worker that left later in the same burst. */
static uint64_t sticky_behind(const struct story *s, const struct bt_pkt *pkt)
{
    uint64_t n = 0;
    for (const struct bt_pkt *p = s->out.head; p != NULL; p = p->next) {
        n += (p->data[2] & 15u) == BT_POLICY_STICKY && bt_addr_eq(&p->dst, &pkt->dst);
    }
    return n;
}

/* Transparent forwarding sends it as it came. */
static bool no_room(const struct bt_router *r, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *hdr)
{
    const uint32_t option = 8;
    return pkt->tx_as_src && (pkt->len + option > r->max_payload || hdr->hdr_size + option > BT_R2P2_HEADER_MAX);
}

static void check_sent(struct story *s)
{
    const struct bt_router *r = s->decides;
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(&s->out)) != NULL) {
        struct bt_r2p2_hdr hdr;
        CHECK(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ANY, &hdr) == BT_M_OK);
        CHECK(pkt->local == BT_ROUTER_PORT_REQUEST);
        if (hdr.type == BT_DROP) {
            CHECK(bt_addr_eq(&pkt->dst, &s->client) && bt_addr_eq(&pkt->src, &s->requests) && hdr.payload_len == 4);
        } else if (hdr.type == BT_CANCEL) { /* */
            CHECK(bt_addr_eq(&pkt->src, &s->requests) && !pkt->tx_as_src && hdr.payload_len == 0);
            CHECK((hdr.opt.present & BT_HAS_FORWARDED) != 0 && bt_addr_eq(&hdr.opt.forwarded, &s->client));
            CHECK((hdr.opt.present & BT_HAS_COPY) != 0 && hdr.opt.copy != 0);
            CHECK(((hdr.opt.present & BT_HAS_TAG) != 0) == s->keyed);
        } else {
            uint32_t w = slot_of(s, &pkt->dst);
            CHECK(hdr.type == BT_REQUEST && hdr.first);
            CHECK(w != NO_SLOT);
            bool options = (r->worker[w].flags & WORKER_EXTENDED) != 0;
            bool has = (hdr.opt.present & (BT_HAS_FORWARDED | BT_HAS_ROUTER)) != 0;
            CHECK(options == has || (options && no_room(r, pkt, &hdr)));
            CHECK(pkt->tx_as_src ? bt_addr_eq(&pkt->src, &s->client) : bt_addr_eq(&pkt->src, &s->requests));
            /* over n only by sticky requests, and by one that takes a copy's place */
            uint64_t n = r->worker[w].n < r->depth ? r->worker[w].n : r->depth;
            CHECK(!r->balancer->bounded || hdr.policy == BT_POLICY_STICKY ||
                  router_outstanding(r, w) <= n + s->preempts + sticky_behind(s, pkt));
        }
        bt_pool_put(s->pool, pkt);
    }
}

static void check_index(const struct story *s)
{
    const struct bt_router *r = s->decides;
    bool free_slot = false;
    for (uint32_t w = 0; w < r->slots; w++) {
        uint32_t n = r->worker[w].n < r->depth ? r->worker[w].n : r->depth;
        n = router_may_receive(r, w) ? n : 0;
        CHECK(r->load.limit[w] == (n == 0 || r->balancer->bounded ? n : BT_LOAD_TOP));
        uint64_t owed = router_outstanding(r, w); /* beyond 32 bits only by forged counters, where there is no key */
        CHECK(n == 0 || bt_load_outstanding(&r->load, w) == (owed < UINT32_MAX ? owed : UINT32_MAX));
        free_slot = free_slot || (n > 0 && (!r->balancer->bounded || router_outstanding(r, w) < n));
    }
    CHECK(bt_load_any_free(&r->load) == free_slot);
    /* no request waits while a worker could take it, hold-back and a pending tick apart */
    CHECK(r->held.n == 0 || !free_slot || r->hold_back_packets != 0 || r->pump_due);
}

static void check_counters(const struct story *s)
{
    struct bt_router_stats t;
    bt_router_read_stats(s->decides, s->now, &t);
    uint64_t drops = bt_router_drops(t.counter);
    CHECK(t.counter[BT_RC_REQUESTS] == t.counter[BT_RC_FORWARDED] + drops + t.held);
    CHECK(t.held <= s->limit);
    CHECK(t.held + s->port[0].n + s->port[1].n + s->fixed.left == PACKETS);
    CHECK(t.counter[BT_RC_PAIRS_FINISHED] + t.counter[BT_RC_PAIRS_REJECTED] + t.counter[BT_RC_PAIRS_UNANSWERED] +
              t.pairs <=
          t.counter[BT_RC_FORWARDED] + t.counter[BT_RC_HEDGES_SENT]);
    CHECK(t.counter[BT_RC_CANCELS_HONOURED] + t.counter[BT_RC_CANCELS_TOO_LATE] + t.counter[BT_RC_CANCELS_UNHEARD] <=
          t.counter[BT_RC_CANCELS_SENT]);
    CHECK(t.hedging_pairs * 2u <= t.pairs && t.hedging_kept <= t.pairs);
    CHECK(t.ejected * 2u <= t.joined + 1u || t.ejected == 0 || t.joined < 2 || t.ejected <= WORKERS / 2u);
    CHECK(t.eligible <= t.joined && t.joined <= t.members);
}

uint64_t story_fingerprint(const struct story *s)
{
    const struct bt_router *r = s->hears;
    uint64_t h = s->decides->held.n;
    for (uint32_t w = 0; w < r->slots; w++) {
        const uint64_t parts[] = {router_sent(r, w),     bt_credit_settled(&r->credit[w]),
                                  r->credit[w].received, r->credit[w].incarnation,
                                  r->worker[w].flags,    r->worker[w].n,
                                  r->worker[w].heard_at};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            h = (h ^ parts[i]) * UINT64_C(0x100000001b3);
        }
    }
    return h;
}

void story_check(struct story *s)
{
    check_sent(s);
    check_index(s);
    check_counters(s);
    if (on_two_threads(s)) {
        halves_check(s);
    }
}
