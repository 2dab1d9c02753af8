// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the whole router: the input is a story of configurations, requests, FEEDBACK (honest and raw) and
// time; after every sentence the router's invariants are checked. tests/router/test_faults.c tells random stories.
#include "base/bytes.h"
#include "mutate.h"
#include "router/internal.h"

#define WORKERS 6u
#define PACKETS 96u

struct story {
    struct input in;
    struct bt_router *r;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    uint64_t now;
    uint64_t received[WORKERS], served[WORKERS];
    uint32_t incarnation[WORKERS];
    struct bt_addr worker[WORKERS], client, requests, feedback;
    struct bt_keyring keys;
    bool keyed;
    bool preempts;      /* or did, in an earlier setting */
    bool clean;         /* the last sentence had to leave the workers' state alone */
    uint64_t limit;     /* largest centralQueueLimit so far */
    uint8_t last[1600]; /* the last packet it was given, to be changed and given again */
    uint32_t last_n;
    bool pristine; /* it was not changed: a second change might undo the first */
    struct bt_addr last_from, last_to;
};

static uint32_t take(struct story *s, unsigned bytes)
{
    uint32_t v = 0;
    while (bytes-- > 0) {
        v = v << 8 | in8(&s->in);
    }
    return v;
}

static void setting(struct story *s)
{
    uint32_t bits = take(s, 2);
    struct bt_addr members[WORKERS];
    uint32_t members_n = bits % (WORKERS + 1u);
    for (uint32_t i = 0; i < members_n; i++) {
        members[i] = s->worker[(i + bits / 7u) % WORKERS];
    }
    bool hold_back = (bits & 0x100u) != 0 && bits >> 13 == BT_ROUTER_JBSQ;
    uint32_t hedging = bits >> 13 == BT_ROUTER_JBSQ ? bits >> 10 & 3u : 0; /* off, or one more than the cancellation */
    struct bt_router_config c = {
        .policy = (enum bt_router_policy)(bits >> 13),
        .forwarding = (enum bt_router_forwarding)(bits >> 4 & 1u),
        .device = (enum bt_device)((bits >> 5 & 1u) * 2u),
        .legacy_peers = (bits >> 6 & 1u) != 0,
        .depth = 1u + take(s, 1) % 8u,
        .central_limit = 1u + take(s, 1) % 16u,
        .max_queue_ns = (1u + take(s, 1)) * MILLISECOND,
        .request_timeout_ns = (1u + take(s, 1)) * 4u * MILLISECOND,
        .hold_back_packets = hold_back ? 2 : 0,
        .hold_back_ns = hold_back ? 5000 : 0,
        .hedging = {.mode = hedging == 0 ? BT_HEDGING_OFF : BT_HEDGING_LOAD_AWARE,
                    .cancellation =
                        hedging == 0 ? BT_HEDGING_CANCEL_NONE : (enum bt_hedging_cancellation)(hedging - 1u),
                    .busy_percent = 100,
                    .budget_percent = 100,
                    .per_100k = 95000},
        .members = members,
        .members_n = members_n,
        .keys = (bits >> 9 & 1u) != 0 ? &s->keys : NULL,
    };
    if (bt_router_apply(s->r, s->now, &c, NULL)) {
        s->keyed = c.keys != NULL;
        s->preempts = s->preempts || hedging == BT_HEDGING_CANCEL_PREEMPTIVE + 1u;
        s->limit = c.central_limit > s->limit ? c.central_limit : s->limit;
    } else {
        CHECK(bits >> 13 >= BT_ROUTER_POLICIES);
    }
}

static struct bt_pkt *packet(struct story *s, const struct bt_addr *from, const struct bt_addr *to,
                             const uint8_t *bytes, size_t len)
{
    struct bt_pkt *pkt = bt_pool_get(s->pool);
    CHECK(pkt != NULL);
    memcpy(bt_pkt_append(pkt, (uint32_t)len), bytes, len);
    pkt->src = *from;
    pkt->dst = *to;
    pkt->t_rx_ns = s->now;
    s->last_n = (uint32_t)len;
    s->pristine = true;
    s->last_from = *from;
    s->last_to = *to;
    memcpy(s->last, bytes, len);
    return pkt;
}

/* The last packet once more, changed. Without a key a forged FEEDBACK is believed, as it must be. */
static void changed_packet(struct story *s, struct bt_txq *out)
{
    uint8_t bytes[1600];
    memcpy(bytes, s->last, s->last_n);
    uint32_t n = mutate(&s->in, bytes, s->last_n, sizeof bytes);
    struct bt_addr from = s->last_from, to = s->last_to;
    if (bt_addr_eq(&to, &s->feedback)) {
        /* every byte of it is under the tag: not the same any more, so not believed */
        bool same = n == s->last_n && memcmp(bytes, s->last, n) == 0;
        s->clean = s->keyed && !s->r->legacy_peers && !same && s->pristine;
        bt_router_feedback(s->r, s->now, packet(s, &from, &to, bytes, n), out);
    } else if (n > 0) {
        bt_router_request(s->r, s->now, packet(s, &from, &to, bytes, n), out);
    }
    s->pristine = false;
}

static size_t raw(struct story *s, uint8_t *bytes)
{
    size_t len = take(s, 1) % 80u;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)take(s, 1);
    }
    if (len > 0 && take(s, 1) % 8u != 0) {
        bytes[0] = BT_R2P2_MAGIC;
    }
    return len;
}

static void request(struct story *s, struct bt_txq *out)
{
    uint32_t bits = take(s, 2);
    uint8_t bytes[1500] = {0};
    struct bt_r2p2_hdr hdr = {.type = BT_REQUEST,
                              .policy = bits % 11u == 0 ? bits >> 4 & 15u : 0,
                              .first = true,
                              .last = (bits & 0x400u) == 0,
                              .ext = true,
                              .req_id = (uint16_t)(bits >> 8),
                              .count_or_index = (bits & 0x400u) == 0 ? 1 : 3};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    len += bits % 61u == 0 ? 1450u : 8u;
    bt_router_request(s->r, s->now, packet(s, &s->client, &s->requests, bytes, len), out);
}

static void raw_request(struct story *s, struct bt_txq *out)
{
    uint8_t bytes[80];
    struct bt_addr from = s->client;
    size_t len = raw(s, bytes);
    if (len > 3 && bytes[3] % 4u == 0) {
        from = bytes[3] % 8u == 0 ? s->requests : bt_addr_v4u(0xe0000001, 7);
        s->clean = true;
    }
    bt_router_request(s->r, s->now, packet(s, &from, &s->requests, bytes, len), out);
}

static size_t sign(struct story *s, uint8_t *bytes, struct bt_r2p2_hdr *hdr, const struct bt_feedback *fb,
                   const struct bt_addr *from)
{
    if (s->keyed) {
        hdr->opt.present = BT_HAS_TAG;
        hdr->opt.key_id = s->keys.key[fb->n % 2u].id;
    }
    size_t len = bt_r2p2_encode(bytes, 64, hdr);
    len += bt_feedback_encode(bytes + len, 64, fb);
    if (s->keyed) {
        bt_tag_sign(bytes, len, hdr, &s->keys.key[fb->n % 2u], from, &s->feedback);
    }
    return len;
}

/* A worker that counts honestly, except that bits may send its counters anywhere. */
static void worker_speaks(struct story *s, struct bt_txq *out)
{
    uint32_t bits = take(s, 2);
    uint32_t w = bits % WORKERS;
    s->received[w] += bits >> 4 & 3u;
    s->served[w] += bits >> 6 & 3u;
    s->served[w] = s->served[w] > s->received[w] ? s->received[w] : s->served[w];
    s->incarnation[w] += bits % 37u == 0 ? 1u : 0u;
    uint32_t odd = bits % 23u == 0 ? take(s, 2) : 0; /* stale, contradicting or absurd */
    struct bt_feedback fb = {.version = 1,
                             .flags = (uint8_t)(bits >> 8 & 63u),
                             .req_id = (uint16_t)(bits >> 8),
                             .client = s->client,
                             .n = (uint16_t)(1u + bits % 5u + (odd >> 10)),
                             .incarnation = s->incarnation[w] - (odd >> 3 & 1u),
                             .received = s->received[w] - (odd & 3u),
                             .served = s->served[w] - (odd >> 1 & 3u)};
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    uint8_t bytes[128];
    size_t len = sign(s, bytes, &hdr, &fb, &s->worker[w]);
    if (odd >> 15 != 0 && s->keyed) {
        bytes[len - 1] ^= 1;
        s->clean = true; /* forged */
    }
    bt_router_feedback(s->r, s->now, packet(s, &s->worker[w], &s->feedback, bytes, len), out);
}

static void raw_feedback(struct story *s, struct bt_txq *out)
{
    uint8_t bytes[80];
    uint32_t w = take(s, 1) % (WORKERS + 1u);
    size_t len = raw(s, bytes);
    struct bt_addr from = w < WORKERS ? s->worker[w] : bt_addr_v4u(0x0a0b0c0d, 8000);
    if (len > 2 && take(s, 1) % 2u == 0) {
        bytes[2] = BT_FEEDBACK << 4;
    }
    s->clean = w == WORKERS;
    bt_router_feedback(s->r, s->now, packet(s, &from, &s->feedback, bytes, len), out);
}

static void legacy_feedback(struct story *s, struct bt_txq *out)
{
    uint32_t bits = take(s, 1);
    uint8_t bytes[16] = {BT_R2P2_MAGIC, 0, BT_FEEDBACK << 4};
    struct bt_feedback fb = {.version = 0, .flags = BT_FEEDBACK_PAIR, .req_id = (uint16_t)bits, .client = s->client};
    bt_feedback_encode(bytes + 8, 8, &fb);
    s->clean = !s->r->legacy_peers;
    bt_router_feedback(s->r, s->now, packet(s, &s->worker[bits % WORKERS], &s->feedback, bytes, 16), out);
}

/* --- invariants -------------------------------------------------------------------------------------------------- */

static uint32_t slot_of(const struct story *s, const struct bt_addr *addr)
{
    for (uint32_t i = 0; i < s->r->order_n; i++) {
        if (bt_addr_eq(&s->r->worker[s->r->order[i]].addr, addr)) {
            return s->r->order[i];
        }
    }
    return NO_SLOT;
}

static void check_sent(struct story *s, struct bt_txq *out)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(out)) != NULL) {
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
            bool options = (s->r->worker[w].flags & WORKER_EXTENDED) != 0;
            CHECK(options == ((hdr.opt.present & (BT_HAS_FORWARDED | BT_HAS_ROUTER)) != 0));
            CHECK(pkt->tx_as_src ? bt_addr_eq(&pkt->src, &s->client) : bt_addr_eq(&pkt->src, &s->requests));
            /* over n only by sticky requests, and by one that takes a copy's place */
            uint64_t n = s->r->worker[w].n < s->r->depth ? s->r->worker[w].n : s->r->depth;
            CHECK(!s->r->balancer->bounded || hdr.policy == BT_POLICY_STICKY ||
                  router_outstanding(s->r, w) <= n + s->preempts);
        }
        bt_pool_put(s->pool, pkt);
    }
}

static void check_index(const struct story *s)
{
    const struct bt_router *r = s->r;
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
    bt_router_stats(s->r, s->now, &t);
    uint64_t drops = 0;
    for (int i = BT_RC_DROP_QUEUE_FULL; i <= BT_RC_DROP_OPTION; i++) {
        drops += t.counter[i];
    }
    CHECK(t.counter[BT_RC_REQUESTS] == t.counter[BT_RC_FORWARDED] + drops + t.held);
    CHECK(t.held <= s->limit);
    CHECK(t.held + s->fixed.left == PACKETS);
    CHECK(t.counter[BT_RC_PAIRS_FINISHED] + t.counter[BT_RC_PAIRS_REJECTED] + t.counter[BT_RC_PAIRS_UNANSWERED] +
              t.pairs <=
          t.counter[BT_RC_FORWARDED] + t.counter[BT_RC_HEDGES_SENT]);
    CHECK(t.counter[BT_RC_CANCELS_HONOURED] + t.counter[BT_RC_CANCELS_TOO_LATE] + t.counter[BT_RC_CANCELS_UNHEARD] <=
          t.counter[BT_RC_CANCELS_SENT]);
    CHECK(t.hedging_pairs * 2u <= t.pairs && t.hedging_kept <= t.pairs);
    CHECK(t.ejected * 2u <= t.joined + 1u || t.ejected == 0 || t.joined < 2 || t.ejected <= WORKERS / 2u);
    CHECK(t.eligible <= t.joined && t.joined <= t.members);
}

static uint64_t fingerprint(const struct bt_router *r)
{
    uint64_t h = r->held.n;
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

static void time_passes(struct story *s, struct bt_txq *out)
{
    uint32_t bits = take(s, 1);
    s->now += (uint64_t)(bits >> 2) << (bits % 4u * 6u + 6u);
    bt_router_tick(s->r, s->now, out);
    CHECK(bt_router_next(s->r) > s->now); /* a driver that sleeps until then must not spin */
    if (bits == 0xfe) { /* which no monotonic clock may do: the router's own time stands still until it is caught up */
        s->now -= 3u * MILLISECOND;
    } else if (bits == 0xfd) {
        bt_router_drain(s->r, s->now);
        CHECK(bt_router_draining(s->r));
    }
}

static void sentence(struct story *s)
{
    struct bt_txq out;
    bt_txq_init(&out);
    uint64_t before = fingerprint(s->r);
    s->clean = false;
    switch (take(s, 1) % 16u) {
    case 0:
        setting(s);
        break;
    case 1:
        raw_request(s, &out);
        break;
    case 2:
        raw_feedback(s, &out);
        break;
    case 3:
        legacy_feedback(s, &out);
        break;
    case 4:
        bt_router_unreachable(s->r, s->now, &s->worker[take(s, 1) % WORKERS]);
        break;
    case 5:
    case 6:
        time_passes(s, &out);
        break;
    case 7:
        changed_packet(s, &out);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        request(s, &out);
        break;
    default:
        worker_speaks(s, &out);
        break;
    }
    check_sent(s, &out);
    check_index(s);
    check_counters(s);
    CHECK(!s->clean || fingerprint(s->r) == before); /* */
}

static void open_story(struct story *s, void *mem, size_t bytes, void *pool_mem)
{
    s->pool = bt_pool_fixed_init(&s->fixed, pool_mem, PACKETS);
    s->now = SECOND;
    s->client = bt_addr_v4u(0x0a000063, 33000);
    s->requests = bt_addr_v4u(0x0a000001, 8000);
    s->feedback = bt_addr_v4u(0x0a000001, 9000);
    for (uint32_t w = 0; w < WORKERS; w++) {
        s->worker[w] = bt_addr_v4u(0x0a010001, (uint16_t)(8000u + w));
        s->incarnation[w] = UINT32_MAX - 1u;
        s->received[w] = s->served[w] = UINT64_MAX - 20u; /* counters that wrap */
    }
    for (uint8_t i = 0; i < 2; i++) {
        s->keys.key[i].id = (uint8_t)(i + 1u);
        memset(s->keys.key[i].bytes, 7 + i, sizeof s->keys.key[i].bytes);
    }
    struct bt_router_setup setup = {.max_members = WORKERS,
                                    .max_pairs = 24,
                                    .no_histograms = true,
                                    .seed = 3,
                                    .pool = s->pool,
                                    .request_addr = s->requests,
                                    .feedback_addr = s->feedback};
    s->r = bt_router_init(mem, bytes, &setup, s->now);
    CHECK(s->r != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bt_router_setup setup = {.max_members = WORKERS, .max_pairs = 24, .no_histograms = true};
    size_t bytes = bt_router_bytes(&setup);
    void *mem = aligned_alloc(64, bytes);
    void *pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
    struct story s;
    memset(&s, 0, sizeof s);
    if (mem == NULL || pool_mem == NULL) {
        abort();
    }
    open_story(&s, mem, bytes, pool_mem);
    s.in = (struct input){data, size};
    setting(&s);
    while (s.in.left > 0) {
        sentence(&s);
    }
    bt_router_discard_held(s.r);
    CHECK(s.fixed.left == PACKETS);
    free(mem);
    free(pool_mem);
    return 0;
}
