// SPDX-License-Identifier: Apache-2.0
// Which requests are kept, and when and where a hedged request goes. See hedging_slots.h.
#include <string.h>

#include "router/feature.h"
#include "router/forward.h"
#include "router/hedging_cancel.h"
#include "router/hedging_pairs.h"
#include "router/hedging_slots.h"

#define HUNDRED  100u
#define MILLION  1000000u
#define P_LEAST  50000u
#define P_MOST   99990u
#define LONG_AGO UINT64_MAX

/* means over some 256 arrivals, in units of 2^-16. */
#define SMOOTH   8u
#define FRACTION 16u

static void lay_out_hedging(struct bt_router *r, struct bt_mem *mem, const struct bt_router_setup *setup)
{
    uint32_t slots = setup->max_hedges;
    struct router_hedging *h = bt_mem_take(mem, sizeof *h);
    struct hedge_slot *slot = bt_mem_take(mem, (slots + 2u) * sizeof *slot);
    uint8_t *bytes = bt_mem_take(mem, (size_t)(slots + 1u) * HEDGE_BYTES);
    if (h == NULL || slot == NULL || bytes == NULL) {
        return; /* measuring */
    }
    h->slot = slot;
    h->bytes = bytes;
    h->slots = slots;
    bt_rng_seed(&h->rng, setup->seed ^ UINT64_C(0x3c6ef372fe94f82b));
    h->copy_number = (uint32_t)bt_rng_next(&h->rng);
    r->hedging_room = h;
}

static const char *judge_hedging(const struct bt_router *r, const struct bt_router_config *c, const char **field)
{
    const struct bt_hedging_config *h = &c->hedging;
    *field = "service.hedging.mode";
    if ((unsigned)h->mode >= BT_HEDGING_MODES) {
        return "must be LoadAware, Delayed or Probe";
    }
    *field = "service.hedging.cancellation";
    if ((unsigned)h->cancellation >= BT_HEDGING_CANCELLATIONS) {
        return "must be None, Answered or Preemptive";
    }
    if (h->mode == BT_HEDGING_OFF) {
        return NULL;
    }
    *field = "service.hedging.mode";
    if (r->split != NULL) {
        return "needs a router on one thread; start it with --threads=1";
    }
    if (c->policy != BT_ROUTER_JBSQ) {
        return "needs policy JBSQ, which alone knows what waits";
    }
    *field = "service.hedging.busyPercent";
    if (h->busy_percent < 1 || h->busy_percent > HUNDRED) {
        return "must be 1..100";
    }
    *field = "service.hedging.budgetPercent";
    if (h->budget_percent < 1 || h->budget_percent > HUNDRED) {
        return "must be 1..100";
    }
    *field = "service.hedging.percentilePer100000";
    if (h->mode == BT_HEDGING_DELAYED && (h->per_100k < P_LEAST || h->per_100k > P_MOST)) {
        return "must be 50000..99990";
    }
    *field = "service.hedging.probePerMillion";
    return h->probe_per_million > MILLION ? "must be 0..1000000" : NULL;
}

static void start_anew(struct router_hedging *h, uint64_t now)
{
    h->slot[0] = (struct hedge_slot){.newer = 0};
    h->slot[h->slots + 1u] = (struct hedge_slot){.newer = h->slots + 1u, .older = h->slots + 1u};
    h->answered_slot = 0;
    h->free = 0;
    for (uint32_t s = h->slots; s > 0; s--) {
        h->slot[s] = (struct hedge_slot){.newer = h->free};
        h->free = s;
    }
    h->used = h->keeping = h->copying = 0;
    h->budget = h->busy = h->up = 0;
    h->copies = 0;
    h->delay_ns = 0;
    h->next_delay = now + SECOND;
    bt_hist_clear(&h->response);
    for (unsigned i = 0; i < 2; i++) {
        bt_hist_clear(&h->differs[i]);
        bt_hist_clear(&h->lesser[i]);
    }
}

/* --- workers ----------------------------------------------------------------------------------------------------- */

struct view {
    uint32_t worker;         /* idle, other than the request's own and of its family; or NO_SLOT */
    uint32_t up, busy, idle; /* workers that may be chosen */
};

/* an idle worker; they take turns. */
static struct view survey_workers(struct bt_router *r, uint32_t own)
{
    struct view v = {.worker = NO_SLOT};
    bool v4 = own != NO_SLOT && bt_addr_is_v4(&r->worker[own].addr);
    uint32_t from = r->hedging->turn < r->used_end ? r->hedging->turn : 0, best = UINT32_MAX;
    for (uint32_t w = 0; w < r->used_end; w++) {
        if (r->load.limit[w] == 0) {
            continue;
        }
        v.up++;
        if (bt_load_outstanding(&r->load, w) != 0) {
            v.busy++;
            continue;
        }
        v.idle++;
        uint32_t turn = w >= from ? w - from : w + r->used_end - from;
        bool reads_options = (r->worker[w].flags & WORKER_EXTENDED) != 0;
        if (w != own && reads_options && bt_addr_is_v4(&r->worker[w].addr) == v4 && turn < best) {
            best = turn;
            v.worker = w;
        }
    }
    return v;
}

/* --- requests that are kept ------------------------------------------------------------------------------------- */

/* one packet, policy 0. */
static bool suited(const struct bt_pkt *pkt, const struct bt_r2p2_hdr *hdr)
{
    bool single =
        hdr == NULL || (hdr->policy == BT_POLICY_UNRESTRICTED && hdr->first && hdr->last && hdr->count_or_index == 1);
    return single && pkt->len <= HEDGE_BYTES;
}

/* The slot that the request was copied to, as it arrived; 0: it cannot be sent again. */
static uint32_t keep(struct bt_router *r, uint64_t now, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *hdr)
{
    struct router_hedging *h = r->hedging;
    uint32_t s = h->free;
    if (!suited(pkt, hdr) || s == 0) {
        r->counter[s == 0 ? BT_RC_HEDGES_NO_ROOM : BT_RC_HEDGES_UNSUITED]++;
        return 0;
    }
    struct hedge_slot *slot = &h->slot[s];
    h->free = slot->newer;
    h->used++;
    *slot = (struct hedge_slot){.since = pkt->t_rx_ns, .at = now, .client = pkt->src, .len = (uint16_t)pkt->len};
    slot->probe = h->config.probe_per_million != 0 && bt_rng_below(&h->rng, MILLION) < h->config.probe_per_million;
    memcpy(h->bytes + (size_t)s * HEDGE_BYTES, pkt->data, pkt->len);
    return s;
}

static uint64_t smoothed(uint64_t mean, uint32_t seen)
{
    return mean - (mean >> SMOOTH) + ((uint64_t)seen << (FRACTION - SMOOTH));
}

/* Arrivals see what time sees; what is forwarded has found a worker and does not. */
static void note_load(struct bt_router *r)
{
    struct router_hedging *h = r->hedging;
    struct view v = survey_workers(r, NO_SLOT);
    h->busy = smoothed(h->busy, v.busy > h->copies ? v.busy - h->copies : 0);
    h->up = smoothed(h->up, v.up);
}

static bool forward_kept(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                         struct router_target to, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    uint32_t s = keep(r, now, pkt, hdr);
    h->slot[s].together = router_outstanding(r, to.worker) == 0;
    struct bt_r2p2_hdr room;
    if (s != 0) {
        hdr = hedging_number(r, &h->slot[s].copy[0], pkt, hdr, &room, to.worker);
    }
    h->keeping = s;
    bool sent = router_forward_bare(r, now, pkt, hdr, to, txq);
    h->keeping = 0;
    if (s != 0 && h->slot[s].copy[0].pair == 0) {
        hedging_release(h, s); /* nobody would learn of its end */
    } else if (s != 0) {
        hedging_list_behind(h, s, h->slot[0].older);
    }
    if (sent) {
        h->budget += h->config.budget_percent;
        h->budget = h->budget < HEDGING_BURST ? h->budget : HEDGING_BURST;
    }
    return sent;
}

/* --- copies ------------------------------------------------------------------------------------------------------ */

/* 0, or why nobody gets a copy now. */
static enum bt_router_counter obstacle(const struct bt_router *r, const struct view *v)
{
    const struct router_hedging *h = r->hedging;
    if (v->idle == 0) {
        return BT_RC_HEDGES_NO_IDLE;
    }
    bool busy_now = v->busy * HUNDRED > h->config.busy_percent * v->up;
    if (busy_now || h->busy * 2u * HUNDRED > (h->config.busy_percent + HUNDRED) * h->up) {
        return BT_RC_HEDGES_BUSY;
    }
    if (h->budget < HUNDRED) {
        return BT_RC_HEDGES_BUDGET;
    }
    return r->pairs.free == 0 ? BT_RC_HEDGES_NO_BUFFER : 0;
}

/* The kept request as it came, in a packet of its own. */
static struct bt_pkt *copy_of(struct bt_router *r, uint32_t s)
{
    const struct hedge_slot *slot = &r->hedging->slot[s];
    struct bt_pkt *pkt = bt_pool_get(r->pool);
    uint8_t *at = pkt != NULL ? bt_pkt_append(pkt, slot->len) : NULL;
    if (at == NULL) {
        if (pkt != NULL) {
            bt_pool_put(r->pool, pkt);
        }
        return NULL;
    }
    memcpy(at, r->hedging->bytes + (size_t)s * HEDGE_BYTES, slot->len);
    pkt->src = slot->client;
    pkt->dst = r->request_addr;
    pkt->t_rx_ns = slot->since;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    return pkt;
}

/* The packet leaves for worker w. It is the same request: only its copies are counted, not another arrival. */
static bool forward_copy(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, uint32_t s, uint32_t w,
                         struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    struct bt_hist_slices *hold = r->hold;
    struct bt_r2p2_hdr hdr, *told = &hdr;
    if (bt_r2p2_is_plain(pkt->data, pkt->len, BT_REQUEST)) {
        told = NULL;
    } else if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, &hdr) != BT_M_OK) {
        return false;
    }
    told = hedging_number(r, &h->slot[s].copy[1], pkt, told, &hdr, w);
    h->copying = s;
    r->another = true; /* a hedged request has a pair of its own */
    r->hold = NULL;    /* it waited for nobody */
    bool sent = (told == NULL && router_forward_plain(r, now, pkt, router_to(w), txq)) ||
                router_forward_try(r, now, pkt, told, router_to(w), txq);
    r->hold = hold;
    r->another = false;
    h->copying = 0;
    r->counter[BT_RC_FORWARDED] -= sent;
    return sent;
}

static bool send_copy(struct bt_router *r, uint64_t now, uint32_t s, uint32_t w, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    struct bt_pkt *pkt = copy_of(r, s);
    if (pkt == NULL || !forward_copy(r, now, pkt, s, w, txq)) {
        if (pkt != NULL) {
            bt_pool_put(r->pool, pkt);
        }
        h->slot[s].blocked = BT_RC_HEDGES_NO_BUFFER - BT_RC_HEDGES_SENT;
        return false;
    }
    hedging_unlist(h, s);
    hedging_list_behind(h, s, h->slot[h->slots + 1u].older);
    h->slot[s].measures = h->slot[s].probe;
    h->slot[s].together = h->slot[s].together && h->slot[s].at == now && hedging_compares(h, s);
    h->slot[s].blocked = 0;
    h->budget -= HUNDRED;
    h->copies++;
    h->turn = w + 1u;
    r->counter[BT_RC_HEDGES_SENT]++;
    return true;
}

static uint64_t due_at(const struct router_hedging *h, const struct hedge_slot *slot)
{
    if (h->config.mode == BT_HEDGING_LOAD_AWARE || slot->probe) {
        return slot->at;
    }
    return h->config.mode == BT_HEDGING_DELAYED && h->delay_ns != 0 ? slot->at + h->delay_ns : LONG_AGO;
}

/* False: nobody else can get one now. */
static bool try_copy(struct bt_router *r, uint64_t now, uint32_t s, struct bt_txq *txq)
{
    struct hedge_slot *slot = &r->hedging->slot[s];
    struct view v = survey_workers(r, hedging_worker(r, slot->copy[0].pair));
    enum bt_router_counter why = obstacle(r, &v);
    if (why != 0) {
        slot->blocked = (uint8_t)(why - BT_RC_HEDGES_SENT);
        return false;
    }
    if (v.worker == NO_SLOT) { /* idle is only who should have the request already */
        slot->blocked = BT_RC_HEDGES_NO_IDLE - BT_RC_HEDGES_SENT;
        return true;
    }
    return send_copy(r, now, s, v.worker, txq);
}

/* A probe that did not leave together with its first copy measures nothing. */
static void probe_youngest(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    uint32_t s = h->slot[0].older;
    if (s == 0 || !h->slot[s].probe) {
        return;
    }
    if (h->slot[s].at == now) {
        try_copy(r, now, s, txq);
    }
    h->slot[s].probe = false;
}

static void send_what_is_due(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    h->looked_at = now;
    if (h->config.mode == BT_HEDGING_DELAYED) {
        hedging_learn_delay(h, now);
    }
    hedging_clean_up(r, txq);
    hedging_preempt_for_held(r, now, txq);
    if (r->held.n != 0) { /* */
        return;
    }
    probe_youngest(r, now, txq);
    for (uint32_t s = h->slot[0].newer, newer; s != 0 && due_at(h, &h->slot[s]) <= now; s = newer) {
        newer = h->slot[s].newer;
        if (!try_copy(r, now, s, txq)) {
            return;
        }
    }
}

/* What was due when we looked waits for a FEEDBACK or a request, not for time. */
static uint64_t next_due(const struct bt_router *r)
{
    const struct router_hedging *h = r->hedging;
    uint32_t oldest = h->slot[0].newer;
    if (oldest == 0 || r->held.n != 0) {
        return UINT64_MAX;
    }
    uint64_t due = due_at(h, &h->slot[oldest]);
    return due > h->looked_at ? due : UINT64_MAX;
}

/* --- the feature ------------------------------------------------------------------------------------------------- */

static enum router_end end_copy(struct bt_router *r, uint64_t now, uint32_t i, uint8_t unserved)
{
    if (hedging_pair_taken_back(r, i, unserved)) {
        return ROUTER_TAKEN_BACK;
    }
    return hedging_pair_ended(r, now, i, unserved) ? ROUTER_END : ROUTER_END_LATE;
}

static const struct router_watcher watcher = {.notes = true,
                                              .arrived = note_load,
                                              .send = hedging_preempt,
                                              .forward = forward_kept,
                                              .began = hedging_pair_began,
                                              .ended = end_copy,
                                              .gone = hedging_pair_gone,
                                              .twin = hedging_twin,
                                              .stale = hedging_earlier_copy,
                                              .follow = send_what_is_due,
                                              .next = next_due};

static void apply_hedging(struct bt_router *r, uint64_t now, const struct bt_router_config *c)
{
    const struct bt_hedging_config *config = &c->hedging;
    struct router_hedging *h = r->hedging_room;
    bool was = h->config.mode != BT_HEDGING_OFF, on = config->mode != BT_HEDGING_OFF;
    if (was && (!on || h->config.per_100k != config->per_100k)) {
        h->delay_ns = 0;
    }
    h->config = *config;
    r->hedging = h;
    if (!on) {
        if (was) {
            hedging_forget_pairs(r);
        }
        r->hedging = NULL;
        return;
    }
    if (!was) {
        start_anew(h, now);
        for (uint32_t i = r->pairs.slab[0].newer; i != 0; i = r->pairs.slab[i].newer) {
            r->pairs.slab[i].hedge = 0; /* from before: nobody kept it */
            r->pairs.slab[i].label &= (uint8_t)~(PAIR_COPY | PAIR_CANCELLED);
        }
    }
    router_watchers_add(r, &watcher);
}

static void init_hedging(struct bt_router *r, const struct bt_router_setup *setup)
{
    (void)r;
    (void)setup;
}

const struct router_feature router_hedging_feature = {.lay_out = lay_out_hedging,
                                                      .init = init_hedging,
                                                      .judge = judge_hedging,
                                                      .apply = apply_hedging,
                                                      .tell = hedging_tell};
