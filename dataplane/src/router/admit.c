// SPDX-License-Identifier: Apache-2.0
// Between the router and admission control: which class a request is of, DROP or the mark, and what becomes of the
// pairs that are watched.
#include "router/internal.h"

#define PRIORITY_FIRST 4u

/* Sticky requests and replicated writes stay what they are; others may ask for a priority. */
uint8_t router_label(const struct bt_r2p2_hdr *hdr)
{
    unsigned class = hdr->policy & 3u, flags = 0;
    bool may_ask = class != BT_POLICY_STICKY && class != BT_POLICY_REPLICATED_WRITE;
    if ((hdr->opt.present & BT_HAS_CLASS) != 0) {
        unsigned asked = hdr->opt.class_id < BT_ADMISSION_CLASSES ? hdr->opt.class_id : BT_ADMISSION_CLASSES - 1u;
        class = may_ask && asked >= PRIORITY_FIRST ? asked : class;
        flags = hdr->opt.class_flags;
    }
    return (uint8_t)(class | ((flags & BT_CLASS_DEGRADED) != 0 ? PAIR_MARKED : 0u));
}

/* the mark is a flag of the class option, which the client may have written already. */
static bool mark(const struct bt_router *r, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr)
{
    if ((hdr->opt.present & BT_HAS_CLASS) != 0) {
        hdr->opt.class_flags |= BT_CLASS_DEGRADED;
        bt_options_set_class_flags(pkt->data + BT_R2P2_HEADER, hdr->hdr_size - BT_R2P2_HEADER, hdr->opt.class_flags);
        return true;
    }
    struct bt_options add = {.present = BT_HAS_CLASS, .class_flags = BT_CLASS_DEGRADED};
    uint32_t most = r->max_payload != 0 ? r->max_payload : bt_r2p2_datagram_max(1500, false);
    return pkt->len + bt_options_size(&add) <= most && bt_r2p2_add_options(pkt, hdr, &add);
}

/* its client says so. R-260: it would find an idle worker. */
static bool is_spared(const struct bt_router *r, const struct bt_r2p2_hdr *hdr)
{
    if (hdr != NULL && (hdr->opt.present & BT_HAS_CLASS) != 0 && (hdr->opt.class_flags & BT_CLASS_NON_DROPPABLE) != 0) {
        return true;
    }
    return bt_admission_keeps_busy(r->admission) && r->balancer->least && r->held.n == 0 &&
           (hdr == NULL || hdr->policy != BT_POLICY_STICKY) && bt_load_has_idle(&r->load);
}

bool router_admit(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr **hdr,
                  struct bt_r2p2_hdr *room, struct bt_txq *txq)
{
    unsigned class = *hdr != NULL ? router_label(*hdr) & PAIR_CLASS : BT_POLICY_UNRESTRICTED;
    if (!bt_admission_refuse(r->admission, now, class, is_spared(r, *hdr))) {
        return true;
    }
    if (r->admission->config.mode == BT_ADMISSION_REJECT) {
        router_drop(r, now, pkt, BT_RC_DROP_ADMISSION, txq);
        return false;
    }
    if (*hdr == NULL) {
        bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, room); /* it is valid: it is plain */
        *hdr = room;
    }
    r->counter[mark(r, pkt, *hdr) ? BT_RC_DEGRADED : BT_RC_DEGRADE_NO_ROOM]++;
    return true;
}

void router_pair_began(struct bt_router *r, uint32_t i, uint8_t label)
{
    struct pair *p = &r->pairs.slab[i];
    p->label = label;
    p->hedge = 0;
    if (r->hedging != NULL) {
        hedge_pair_began(r, i);
    }
    if (r->admission != NULL && r->unjudged == 0) {
        r->unjudged = i;
    }
}

/* True: nothing has been said yet of the request that pair i is of. Now it has, of both its copies. */
static bool speak_of(struct bt_router *r, uint32_t i)
{
    struct pair *slab = r->pairs.slab;
    uint32_t twin = r->hedging != NULL ? hedge_twin(r, i) : 0;
    bool first = (slab[i].label & PAIR_JUDGED) == 0;
    slab[i].label |= PAIR_JUDGED;
    if (twin != 0) {
        slab[twin].label |= PAIR_JUDGED;
    }
    while (r->unjudged != 0 && (slab[r->unjudged].label & PAIR_JUDGED) != 0) { /* before pair i is removed */
        r->unjudged = slab[r->unjudged].newer;
    }
    return first;
}

/* A worker that counts nothing is known by what it answers. */
static void note_answered(struct bt_router *r, const struct pair *p)
{
    uint32_t w = (uint32_t)(p->key.who >> 32);
    if (!r->credit[w].known && (int64_t)(p->sent.index - r->cold[w].answered) >= 0) {
        r->cold[w].answered = p->sent.index + 1u;
    }
}

/* workers serve in order of arrival, so that its counters show whether one has served a request, or, where it
 * has none, that it answered a later one. Credit of theirs that is taken back shows nothing. */
static bool shown_served(const struct bt_router *r, const struct pair *p)
{
    uint32_t w = (uint32_t)(p->key.who >> 32);
    uint64_t done = r->credit[w].known ? bt_credit_settled(&r->credit[w]) : r->cold[w].answered;
    return (int64_t)(done - p->sent.index) > 0;
}

bool router_pair_ended(struct bt_router *r, uint64_t now, uint32_t i, uint8_t unserved)
{
    const struct pair *p = &r->pairs.slab[i];
    if (r->admission != NULL) {
        note_answered(r, p);
    }
    if (r->hedging != NULL && hedge_pair_taken_back(r, i, unserved)) {
        return false;
    }
    if (r->admission != NULL && speak_of(r, i)) {
        if (unserved) {
            bt_admission_dropped(r->admission);
        } else {
            bt_admission_served(r->admission, p->label & PAIR_CLASS, (p->label & PAIR_MARKED) != 0,
                                now - p->sent.since);
        }
    }
    return r->hedging == NULL || hedge_pair_ended(r, now, i, unserved);
}

/* overdue unless its worker is shown to have served it. Then its FEEDBACK was lost, or it never arrived: nothing
 * is known of how long it took. The objective's record counts all of them (unanswered, watch.c); not so the loop, since
 * no refusal mends lost FEEDBACK. Of a request with two copies the first speaks. */
static void judge(struct bt_router *r, uint32_t i)
{
    const struct pair *p = &r->pairs.slab[i];
    if (!speak_of(r, i)) {
        return;
    }
    if (shown_served(r, p)) {
        r->counter[BT_RC_PAIRS_UNSEEN]++;
        bt_admission_unknown(r->admission);
    } else {
        r->counter[BT_RC_PAIRS_OVERDUE]++;
        bt_admission_overdue(r->admission, p->label & PAIR_CLASS, (p->label & PAIR_MARKED) != 0);
    }
}

/* Reused: the client gave it up, and nobody will ever know. */
bool router_pair_gone(struct bt_router *r, uint32_t i, bool reused)
{
    if (r->admission != NULL && reused && speak_of(r, i)) {
        bt_admission_unknown(r->admission);
    } else if (r->admission != NULL) {
        judge(r, i);
    }
    return r->hedging == NULL || hedge_pair_gone(r, i, reused);
}

void router_admission_tick(struct bt_router *r, uint64_t now)
{
    uint64_t patience = bt_admission_patience(r->admission);
    while (r->unjudged != 0 && r->pairs.slab[r->unjudged].sent.since + patience <= now) {
        judge(r, r->unjudged);
    }
    bt_admission_tick(r->admission, now);
}

void router_admission_apply(struct bt_router *r, uint64_t now, const struct bt_admission_config *config)
{
    bool was = r->admission != NULL;
    bt_admission_apply(r->admission_room, config, now);
    r->admission = bt_admission_on(r->admission_room) ? r->admission_room : NULL;
    r->noted = r->admission != NULL || r->hedging != NULL;
    if (r->admission == NULL || was) {
        return;
    }
    const struct pair *slab = r->pairs.slab;
    r->unjudged = slab[0].newer; /* the oldest, or 0 */
    for (uint32_t i = r->unjudged; i != 0; i = slab[i].newer) {
        r->pairs.slab[i].label &= r->hedging != NULL ? PAIR_COPY : 0; /* from before: nobody kept the rest */
    }
}
