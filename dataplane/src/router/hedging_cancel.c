// SPDX-License-Identifier: Apache-2.0
// Copies that are taken back: that of a request which was answered, and, so that no
// newcomer waits behind copies, the one that began last. A CANCEL asks; what the copy owes comes back with its FEEDBACK
// alone, so one that is lost, late or not heeded costs time, and no credit.
#include "router/hedging_cancel.h"

#include "router/forward.h"
#include "router/watch.h"
#include "wire/tag.h"

/* --- names of copies --------------------------------------------------------------------------------------------- */

struct bt_r2p2_hdr *hedging_number(struct bt_router *r, struct hedge_copy *copy, struct bt_pkt *pkt,
                                   struct bt_r2p2_hdr *hdr, struct bt_r2p2_hdr *room, uint32_t w)
{
    struct router_hedging *h = r->hedging;
    struct bt_options add = {.present = BT_HAS_COPY};
    uint32_t more = (uint32_t)bt_options_size(&add) + BT_R2P2_RESERVE;
    uint32_t most = r->max_payload != 0 ? r->max_payload : bt_r2p2_datagram_max(1500, false);
    copy->number = 0;
    if (h->config.cancellation == BT_HEDGING_CANCEL_NONE || (r->worker[w].flags & WORKER_EXTENDED) == 0 ||
        pkt->len + more > most || pkt->room_before < more) {
        return hdr;
    }
    if (hdr == NULL) {
        bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, room); /* it is valid: it is plain */
        hdr = room;
    }
    h->copy_number += h->copy_number == UINT32_MAX ? 2u : 1u; /* never 0 */
    add.copy = h->copy_number;
    if (hdr->hdr_size + more <= BT_R2P2_HEADER_MAX && bt_r2p2_add_options(pkt, hdr, &add)) {
        copy->number = add.copy;
    }
    return hdr;
}

bool hedging_compares(const struct router_hedging *h, uint32_t s)
{
    return h->config.cancellation == BT_HEDGING_CANCEL_NONE || h->slot[s].measures;
}

/* --- CANCEL ------------------------------------------------------------------------------------------------------ */

/* Copy k of the request in slot s runs, and may be taken back. */
static bool may_cancel(const struct bt_router *r, const struct hedge_slot *slot, unsigned k)
{
    uint32_t i = slot->copy[k].pair;
    return i != 0 && slot->copy[k].number != 0 && !slot->measures && (r->pairs.slab[i].label & PAIR_CANCELLED) == 0 &&
           (r->worker[hedging_worker(r, i)].flags & WORKER_EXTENDED) != 0;
}

static void name_copy(const struct bt_router *r, const struct hedge_slot *slot, unsigned k, struct bt_r2p2_hdr *hdr)
{
    const struct bt_key *key = bt_keyring_signer(&r->keys);
    bt_r2p2_start(hdr, BT_CANCEL, BT_POLICY_UNRESTRICTED, true);
    hdr->last = true;
    hdr->count_or_index = 1;
    hdr->req_id = (uint16_t)r->pairs.slab[slot->copy[k].pair].key.who;
    hdr->opt = (struct bt_options){.present = BT_HAS_FORWARDED | BT_HAS_COPY};
    hdr->opt.forwarded = slot->client;
    hdr->opt.copy = slot->copy[k].number;
    if (key != NULL) {
        hdr->opt.present |= BT_HAS_TAG;
        hdr->opt.key_id = key->id;
    }
}

/* False: there is no packet for it. */
static bool send_cancel(struct bt_router *r, struct hedge_slot *slot, unsigned k, struct bt_txq *txq)
{
    struct bt_r2p2_hdr hdr;
    struct bt_pkt *pkt = bt_pool_get(r->pool);
    if (pkt == NULL) {
        r->counter[BT_RC_CANCELS_NO_BUFFER]++;
        return false;
    }
    name_copy(r, slot, k, &hdr);
    bt_r2p2_push_header(pkt, &hdr); /* headroom is larger than any header */
    pkt->src = r->request_addr;
    pkt->dst = r->worker[hedging_worker(r, slot->copy[k].pair)].addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    pkt->tx_as_src = 0;
    if ((hdr.opt.present & BT_HAS_TAG) != 0) {
        bt_tag_sign(pkt->data, pkt->len, &hdr, bt_keyring_signer(&r->keys), &pkt->src, &pkt->dst);
    }
    bt_txq_push(txq, pkt);
    r->pairs.slab[slot->copy[k].pair].label |= PAIR_CANCELLED;
    r->counter[BT_RC_CANCELS_SENT]++;
    return true;
}

void hedging_clean_up(struct bt_router *r, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    struct hedge_slot *slot = &h->slot[h->answered_slot];
    h->answered_slot = 0;
    if (h->config.cancellation == BT_HEDGING_CANCEL_NONE || !slot->answered) { /* or another request has the slot */
        return;
    }
    for (unsigned k = 0; k < 2; k++) {
        if (may_cancel(r, slot, k)) {
            send_cancel(r, slot, k, txq);
        }
    }
}

/* --- pre-emption ------------------------------------------------------------------------------------------------- */

/* A copy whose worker the newcomer may be given to: it has no more than it was granted. */
static bool is_victim(const struct bt_router *r, const struct hedge_slot *slot, unsigned k)
{
    if (!may_cancel(r, slot, k)) {
        return false;
    }
    uint32_t w = hedging_worker(r, slot->copy[k].pair);
    return r->load.limit[w] != 0 && router_outstanding(r, w) <= r->load.limit[w];
}

/* of all requests with two live copies, the copy that began last; among equals, each as likely. 0: there is
 * none. The first copy is a candidate where both began at once. */
static uint32_t victim(struct bt_router *r, unsigned *copy)
{
    struct router_hedging *h = r->hedging;
    uint32_t best = 0, equals = 0;
    uint64_t latest = 0;
    for (uint32_t s = h->slot[h->slots + 1u].older; s != h->slots + 1u; s = h->slot[s].older) {
        const struct hedge_slot *slot = &h->slot[s];
        uint64_t began = r->pairs.slab[slot->copy[1].pair].sent.at;
        if (equals > 0 && began != latest) {
            break; /* the list is in order */
        }
        for (unsigned k = 0; k < 2; k++) {
            if ((k == 0 && slot->at != began) || !is_victim(r, slot, k)) {
                continue;
            }
            latest = began;
            if (bt_rng_below(&h->rng, ++equals) == 0) {
                best = s;
                *copy = k;
            }
        }
    }
    return best;
}

uint64_t hedging_pairs_live(const struct bt_router *r)
{
    const struct router_hedging *h = r->hedging;
    uint64_t n = 0;
    for (uint32_t s = h->slot[h->slots + 1u].older; s != h->slots + 1u; s = h->slot[s].older) {
        n += may_cancel(r, &h->slot[s], 1);
    }
    return n;
}

/* The survivor is the request's first copy from now on. */
static void swap_copies(struct bt_router *r, struct hedge_slot *slot)
{
    struct hedge_copy first = slot->copy[0];
    slot->copy[0] = slot->copy[1];
    slot->copy[1] = first;
    r->pairs.slab[slot->copy[0].pair].label &= (uint8_t)~PAIR_COPY;
    r->pairs.slab[slot->copy[1].pair].label |= PAIR_COPY;
}

/* Takes a copy back. Returns its worker, or NO_SLOT. */
static uint32_t make_room(struct bt_router *r, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    unsigned k = 0;
    uint32_t s = victim(r, &k);
    struct hedge_slot *slot = &h->slot[s];
    if (s == 0 || !send_cancel(r, slot, k, txq)) {
        return NO_SLOT;
    }
    if (k == 0) {
        swap_copies(r, slot);
    }
    hedging_unlist(h, s);
    slot->preempted = true;
    slot->together = false;
    h->copies--;
    hedging_refund(h);
    r->counter[BT_RC_PREEMPTIONS]++;
    return hedging_worker(r, slot->copy[1].pair);
}

bool hedging_preempt(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, struct bt_txq *txq)
{
    if (r->hedging->config.cancellation != BT_HEDGING_CANCEL_PREEMPTIVE || r->held.n != 0 ||
        bt_load_has_idle(&r->load)) {
        return false;
    }
    uint32_t w = make_room(r, txq);
    if (w != NO_SLOT) {
        router_forward(r, now, pkt, hdr, router_to(w), txq); /* even beyond its credit, by the one that comes back */
    }
    return w != NO_SLOT;
}

void hedging_preempt_for_held(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    while (r->held.n != 0 && r->hedging->config.cancellation == BT_HEDGING_CANCEL_PREEMPTIVE) {
        uint32_t w = make_room(r, txq);
        if (w == NO_SLOT) {
            return;
        }
        struct bt_pkt *pkt = bt_txq_pop(&r->held);
        struct bt_r2p2_hdr hdr;
        bool plain = bt_r2p2_is_plain(pkt->data, pkt->len, BT_REQUEST);
        bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, &hdr); /* as on arrival */
        router_forward(r, now, pkt, plain ? NULL : &hdr, router_to(w), txq);
    }
}

/* --- what becomes of it ------------------------------------------------------------------------------------------ */

/* The request has one copy again, among the others by age: when a worker is idle, it may be sent once more. */
static void alone_again(struct bt_router *r, uint32_t s)
{
    struct router_hedging *h = r->hedging;
    uint32_t before = h->slot[0].older;
    while (before != 0 && h->slot[before].at > h->slot[s].at) {
        before = h->slot[before].older;
    }
    hedging_list_behind(h, s, before);
}

bool hedging_earlier_copy(const struct bt_router *r, uint32_t w, const struct bt_feedback *fb)
{
    struct pair_key key = watch_key(&fb->client, fb->req_id, w);
    const uint32_t *link = router_watch_search(&r->pairs, watch_slot(&r->pairs, &key), key);
    if (link == NULL || r->pairs.slab[*link].hedge == 0) {
        return false;
    }
    const struct pair *p = &r->pairs.slab[*link];
    const struct hedge_slot *slot = &r->hedging->slot[p->hedge];
    unsigned k = (p->label & PAIR_COPY) != 0;
    return fb->incarnation == slot->copy[k].incarnation && (int64_t)(fb->served - slot->copy[k].served) <= 0;
}

bool hedging_pair_taken_back(struct bt_router *r, uint32_t i, uint8_t unserved)
{
    const struct pair *p = &r->pairs.slab[i];
    if ((unserved & BT_FEEDBACK_CANCELLED) == 0 || (p->label & PAIR_CANCELLED) == 0) {
        return false;
    }
    uint32_t s = p->hedge;
    struct hedge_slot *slot = &r->hedging->slot[s];
    unsigned k = (p->label & PAIR_COPY) != 0;
    r->counter[BT_RC_CANCELS_HONOURED]++;
    hedging_copy_over(r->hedging, slot, k);
    if (slot->copy[!k].pair == 0) {
        hedging_release(r->hedging, s);
    } else if (!slot->answered) {
        alone_again(r, s);
    }
    router_tell_forgotten(r, i);
    return true;
}
