// SPDX-License-Identifier: Apache-2.0
// Which requests are kept, and when and where a second copy goes. See hedging.h.
#include <string.h>

#include "router/forward.h"

#define HUNDRED  100u
#define BURST    (64u * HUNDRED) /* copies that an unused budget saves up */
#define MILLION  1000000u
#define P_LEAST  50000u
#define P_MOST   99990u
#define LONG_AGO UINT64_MAX

/* means over some 256 arrivals, in units of 2^-16. */
#define SMOOTH   8u
#define FRACTION 16u

void router_hedging_init(struct bt_router *r, uint32_t slots, struct bt_mem *mem, uint64_t seed)
{
    struct router_hedging *h = bt_mem_take(mem, sizeof *h);
    struct hedge_slot *slot = bt_mem_take(mem, (slots + 2u) * sizeof *slot);
    uint8_t *bytes = bt_mem_take(mem, (size_t)(slots + 1u) * HEDGE_BYTES);
    if (h == NULL || slot == NULL || bytes == NULL) {
        return; /* measuring */
    }
    h->slot = slot;
    h->bytes = bytes;
    h->slots = slots;
    bt_rng_seed(&h->rng, seed);
    h->copy_number = (uint32_t)bt_rng_next(&h->rng);
    r->hedging_room = h;
}

const char *router_hedging_judge(const struct bt_router *r, const struct bt_router_config *c, const char **field)
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
    if (r->publish != NULL) {
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

void router_hedging_apply(struct bt_router *r, uint64_t now, const struct bt_hedging_config *config)
{
    struct router_hedging *h = r->hedging_room;
    bool was = h->config.mode != BT_HEDGING_OFF, on = config->mode != BT_HEDGING_OFF;
    if (was && (!on || h->config.per_100k != config->per_100k)) {
        h->delay_ns = 0;
    }
    h->config = *config;
    r->hedging = h;
    if (!on) {
        if (was) {
            hedge_forget_pairs(r);
        }
        r->hedging = NULL;
    } else if (!was) {
        start_anew(h, now);
        for (uint32_t i = r->pairs.slab[0].newer; i != 0; i = r->pairs.slab[i].newer) {
            r->pairs.slab[i].hedge = 0; /* from before: nobody kept it */
            r->pairs.slab[i].label &= r->admission != NULL ? (uint8_t)~PAIR_COPY : 0;
        }
    }
    r->noted = r->admission != NULL || r->hedging != NULL;
}

/* --- workers ----------------------------------------------------------------------------------------------------- */

struct view {
    uint32_t worker;         /* idle, other than the request's own and of its family; or NO_SLOT */
    uint32_t up, busy, idle; /* workers that may be chosen */
};

static uint32_t worker_of(const struct bt_router *r, uint32_t pair)
{
    return (uint32_t)(r->pairs.slab[pair].key.who >> 32);
}

/* an idle worker; they take turns. */
static struct view look(struct bt_router *r, uint32_t own)
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

void hedge_unlist(struct router_hedging *h, uint32_t s)
{
    struct hedge_slot *slot = &h->slot[s];
    if (slot->listed) {
        h->slot[slot->older].newer = slot->newer;
        h->slot[slot->newer].older = slot->older;
        slot->listed = false;
    }
}

void hedge_list_behind(struct router_hedging *h, uint32_t s, uint32_t before)
{
    uint32_t after = h->slot[before].newer;
    h->slot[s].older = before;
    h->slot[s].newer = after;
    h->slot[before].newer = s;
    h->slot[after].older = s;
    h->slot[s].listed = true;
}

void hedge_release(struct router_hedging *h, uint32_t s)
{
    hedge_unlist(h, s);
    h->slot[s].newer = h->free;
    h->free = s;
    h->used--;
}

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
void router_hedge_arrival(struct bt_router *r)
{
    struct router_hedging *h = r->hedging;
    struct view v = look(r, NO_SLOT);
    h->busy = smoothed(h->busy, v.busy > h->copies ? v.busy - h->copies : 0);
    h->up = smoothed(h->up, v.up);
}

bool router_forward_kept(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, uint32_t w,
                         bool handed_over, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    uint32_t s = keep(r, now, pkt, hdr);
    h->slot[s].together = router_outstanding(r, w) == 0;
    struct bt_r2p2_hdr room;
    hdr = hedge_number(r, s, 0, pkt, hdr, &room, w);
    h->keeping = s;
    bool sent = (hdr == NULL && router_forward_plain(r, now, pkt, w, handed_over, txq)) ||
                router_forward_any(r, now, pkt, hdr, w, handed_over, txq);
    h->keeping = 0;
    if (s != 0 && h->slot[s].copy[0].pair == 0) {
        hedge_release(h, s); /* nobody would learn of its end */
    } else if (s != 0) {
        hedge_list_behind(h, s, h->slot[0].older);
    }
    if (sent) {
        h->budget += h->config.budget_percent;
        h->budget = h->budget < BURST ? h->budget : BURST;
    }
    return sent;
}

/* A copy that was taken back to make room is none that the budget is for. */
void hedge_refund(struct router_hedging *h)
{
    h->budget = h->budget + HUNDRED < BURST ? h->budget + HUNDRED : BURST;
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
    told = hedge_number(r, s, 1, pkt, told, &hdr, w);
    h->copying = s;
    r->hold = NULL; /* it waited for nobody */
    bool sent = (told == NULL && router_forward_plain(r, now, pkt, w, false, txq)) ||
                router_forward_try(r, now, pkt, told, w, false, txq);
    r->hold = hold;
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
    hedge_unlist(h, s);
    hedge_list_behind(h, s, h->slot[h->slots + 1u].older);
    h->slot[s].measures = h->slot[s].probe;
    h->slot[s].together = h->slot[s].together && h->slot[s].at == now && hedge_compares(h, s);
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
    struct view v = look(r, worker_of(r, slot->copy[0].pair));
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

void router_hedge(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    struct router_hedging *h = r->hedging;
    h->looked_at = now;
    if (h->config.mode == BT_HEDGING_DELAYED) {
        hedge_learn_delay(h, now);
    }
    hedge_clean_up(r, txq);
    hedge_preempt_for_held(r, now, txq);
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
uint64_t router_hedge_next(const struct bt_router *r)
{
    const struct router_hedging *h = r->hedging;
    uint32_t oldest = h->slot[0].newer;
    if (oldest == 0 || r->held.n != 0) {
        return UINT64_MAX;
    }
    uint64_t due = due_at(h, &h->slot[oldest]);
    return due > h->looked_at ? due : UINT64_MAX;
}
