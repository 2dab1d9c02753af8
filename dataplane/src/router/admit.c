// SPDX-License-Identifier: Apache-2.0
// Between the router and admission control: which class a request is of, DROP or the mark, and what becomes of the
// pairs that are watched.
#include "router/admission.h"
#include "router/feature.h"
#include "router/leave.h"
#include "router/watchers.h"

#define PRIORITY_FIRST 4u

/* Sticky requests and replicated writes stay what they are; others may ask for a priority. */
static uint8_t label_of(const struct bt_r2p2_hdr *hdr)
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
static bool mark_degraded(const struct bt_router *r, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr)
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

static bool admit_request(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr **hdr,
                          struct bt_r2p2_hdr *room, struct bt_txq *txq)
{
    unsigned class = *hdr != NULL ? label_of(*hdr) & PAIR_CLASS : BT_POLICY_UNRESTRICTED;
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
    r->counter[mark_degraded(r, pkt, *hdr) ? BT_RC_DEGRADED : BT_RC_DEGRADE_NO_ROOM]++;
    return true;
}

static void keep_oldest_unjudged(struct bt_router *r, uint32_t i)
{
    if (r->unjudged == 0) {
        r->unjudged = i;
    }
}

/* It is removed without a word, and the other copy of its request speaks. */
static void skip_forgotten(struct bt_router *r, uint32_t i)
{
    r->unjudged = r->unjudged == i ? r->pairs.slab[i].newer : r->unjudged;
}

static void skip_judged(struct bt_router *r)
{
    const struct pair *slab = r->pairs.slab;
    while (r->unjudged != 0 && (slab[r->unjudged].label & PAIR_JUDGED) != 0) {
        r->unjudged = slab[r->unjudged].newer;
    }
}

/* True: nothing has been said yet of the request that pair i is of. Now it has, of both its copies. */
static bool speak_of(struct bt_router *r, uint32_t i)
{
    struct pair *slab = r->pairs.slab;
    uint32_t twin = router_twin(r, i);
    bool first = (slab[i].label & PAIR_JUDGED) == 0;
    slab[i].label |= PAIR_JUDGED;
    if (twin != 0) {
        slab[twin].label |= PAIR_JUDGED;
    }
    skip_judged(r); /* before pair i is removed */
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

static enum router_end speak_of_ended(struct bt_router *r, uint64_t now, uint32_t i, uint8_t unserved)
{
    const struct pair *p = &r->pairs.slab[i];
    note_answered(r, p);
    if (speak_of(r, i)) {
        if (unserved) {
            bt_admission_dropped(r->admission);
        } else {
            bt_admission_served(r->admission, p->label & PAIR_CLASS, (p->label & PAIR_MARKED) != 0,
                                now - p->sent.since);
        }
    }
    return ROUTER_END;
}

/* overdue unless its worker is shown to have served it. Then its FEEDBACK was lost, or it never arrived: nothing
 * is known of how long it took. The objective's record counts all of them (unanswered, watch.c); not so the loop, since
 * no refusal mends lost FEEDBACK. Of a request with two copies the first speaks. */
static void judge_overdue(struct bt_router *r, uint32_t i)
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
static bool judge_gone(struct bt_router *r, uint32_t i, bool reused)
{
    if (reused && speak_of(r, i)) {
        bt_admission_unknown(r->admission);
    } else {
        judge_overdue(r, i);
    }
    return true;
}

static void count_unseen(struct bt_router *r)
{
    bt_admission_unknown(r->admission);
}

static void judge_and_steer(struct bt_router *r, uint64_t now)
{
    uint64_t patience = bt_admission_patience(r->admission);
    while (r->unjudged != 0 && r->pairs.slab[r->unjudged].sent.since + patience <= now) {
        judge_overdue(r, r->unjudged);
    }
    bt_admission_tick(r->admission, now);
}

static uint64_t next_period(const struct bt_router *r)
{
    return bt_admission_next(r->admission);
}

static const struct router_watcher watcher = {.notes = true,
                                              .admit = admit_request,
                                              .label = label_of,
                                              .began = keep_oldest_unjudged,
                                              .ended = speak_of_ended,
                                              .gone = judge_gone,
                                              .forgotten = skip_forgotten,
                                              .unseen = count_unseen,
                                              .tick = judge_and_steer,
                                              .next = next_period};

/* Of the half that takes requests: the loop is run by whoever sees how long they take. */
static const struct router_watcher gate = {.notes = true, .admit = admit_request, .label = label_of};

/* --- the feature ------------------------------------------------------------------------------------------------- */

static void lay_out_admission(struct bt_router *r, struct bt_mem *mem, const struct bt_router_setup *setup)
{
    r->admission_room = bt_mem_take(mem, sizeof *r->admission_room);
    if (!setup->no_histograms && !setup->no_latency) {
        r->class_latency = bt_mem_take(mem, (BT_ADMISSION_CLASSES + 1u) * sizeof *r->class_latency);
    }
}

static void init_admission(struct bt_router *r, const struct bt_router_setup *setup)
{
    bt_admission_init(r->admission_room, setup->seed ^ UINT64_C(0xbb67ae8584caa73b), r->class_latency);
}

static const char *judge_config(const struct bt_router *r, const struct bt_router_config *c, const char **field)
{
    static const char *const fields[] = {"service.admission.mode", "service.admission.controller",
                                         "service.admission.latencyMicroseconds",
                                         "service.admission.percentilePer100000"};
    unsigned which = 0;
    (void)r;
    const char *reason = bt_admission_judge(&c->admission, &which);
    *field = fields[which];
    if (reason == NULL && c->admission.mode == BT_ADMISSION_DEGRADE && c->legacy_peers) {
        *field = fields[0];
        return "Degrade needs legacyPeers Deny: workers without options cannot read the mark";
    }
    return reason;
}

static void apply_admission(struct bt_router *r, uint64_t now, const struct bt_router_config *config)
{
    bool was = r->admission != NULL;
    bt_admission_apply(r->admission_room, &config->admission, now);
    r->admission = bt_admission_on(r->admission_room) ? r->admission_room : NULL;
    if (r->admission == NULL) {
        return;
    }
    struct pair *slab = r->pairs.slab;
    for (uint32_t i = slab[0].newer; i != 0 && !was; i = slab[i].newer) {
        slab[i].label &= r->noted ? PAIR_COPY : 0; /* from before: nobody kept the rest */
    }
    r->unjudged = slab[0].newer; /* the oldest, or 0 */
    skip_judged(r);
    router_watchers_add(r, &watcher);
}

static void share_admission(struct bt_router *q, const struct bt_router *f)
{
    q->admission = f->admission;
    if (q->admission != NULL) {
        router_watchers_add(q, &gate);
    }
}

static void tell_admission(const struct bt_router *r, uint64_t now, struct bt_router_stats *out)
{
    const struct bt_admission *a = r->admission_room;
    out->admission_mode = a->config.mode;
    out->admission_controller = a->config.controller;
    out->admission_unknown = a->unknown;
    out->admission_decisions = a->decisions;
    out->admission_extensions = a->extensions;
    out->admission_stalls = a->stalls;
    out->admission_dropped = a->dropped;
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        bt_admission_class_stats(a, now, c, &out->admission_class[c]);
    }
}

const struct router_feature router_admission_feature = {.lay_out = lay_out_admission,
                                                        .init = init_admission,
                                                        .judge = judge_config,
                                                        .apply = apply_admission,
                                                        .share = share_admission,
                                                        .tell = tell_admission};
