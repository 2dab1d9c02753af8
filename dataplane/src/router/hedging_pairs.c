// SPDX-License-Identifier: Apache-2.0
// What becomes of a request with two copies: the first completion is its end, the later one is counted, and both
// together say how much executions of the same request differ. A lost copy costs what any lost request
// costs: its worker's credit comes back by R-111, its pair goes at T_max. Copies that are taken back: hedging_cancel.c.
#include "router/hedging_pairs.h"

#include <math.h>

#include "router/hedging_cancel.h"
#include "router/watch.h"

#define REMEMBERED    20000u /* so many pairs, and up to as many before them, are what is told */
#define HICCUP_FACTOR 4u     /* a difference beyond so many mean service times is a hiccup */

void hedging_pair_began(struct bt_router *r, uint32_t i)
{
    struct router_hedging *h = r->hedging;
    struct pair *p = &r->pairs.slab[i];
    uint32_t s = h->copying != 0 ? h->copying : h->keeping;
    p->hedge = (uint16_t)s;
    if (s == 0) {
        return;
    }
    unsigned k = h->copying != 0;
    const struct bt_credit *credit = &r->credit[p->key.who >> 32];
    struct hedge_copy *copy = &h->slot[s].copy[k];
    copy->pair = i;
    copy->served = credit->served;
    copy->incarnation = credit->incarnation;
    if (h->copying != 0) { /* of a request that admission may have judged already */
        p->label |= PAIR_COPY | (r->pairs.slab[h->slot[s].copy[0].pair].label & PAIR_JUDGED);
    }
}

static unsigned which(const struct bt_router *r, uint32_t i)
{
    return (r->pairs.slab[i].label & PAIR_COPY) != 0;
}

uint32_t hedging_twin(const struct bt_router *r, uint32_t i)
{
    uint32_t s = r->pairs.slab[i].hedge;
    return s == 0 ? 0 : r->hedging->slot[s].copy[!which(r, i)].pair;
}

/* The request is answered, or given up; `over` says that none of its copies is watched any more. */
static void end_request(struct bt_router *r, uint32_t s, bool over)
{
    struct hedge_slot *slot = &r->hedging->slot[s];
    if (!slot->answered && slot->blocked != 0) {
        r->counter[BT_RC_HEDGES_SENT + slot->blocked]++;
    }
    slot->answered = true;
    if (over) {
        hedging_release(r->hedging, s);
    } else {
        hedging_unlist(r->hedging, s);
    }
}

static void remember_pair(struct router_hedging *h, uint64_t differ, uint64_t lesser)
{
    if (h->differs[0].total == REMEMBERED) {
        h->differs[1] = h->differs[0];
        h->lesser[1] = h->lesser[0];
        bt_hist_clear(&h->differs[0]);
        bt_hist_clear(&h->lesser[0]);
    }
    bt_hist_record(&h->differs[0], differ);
    bt_hist_record(&h->lesser[0], lesser);
}

/* The later of two executions that began at the same time, each alone on its worker. */
static void compare(struct router_hedging *h, const struct hedge_slot *slot, uint64_t took)
{
    if (slot->together && slot->took != 0) {
        remember_pair(h, took - slot->took, slot->took);
    }
}

/* A copy that a worker dropped, or that had another request behind it for company, says nothing of how long it takes.
 */
static bool comparable(const struct bt_router *r, const struct pair *p, bool rejected)
{
    uint32_t w = (uint32_t)(p->key.who >> 32);
    return !rejected && router_sent(r, w) == p->sent.index + 1u;
}

bool hedging_pair_ended(struct bt_router *r, uint64_t now, uint32_t i, bool rejected)
{
    struct router_hedging *h = r->hedging;
    const struct pair *p = &r->pairs.slab[i];
    uint32_t s = p->hedge, k = which(r, i);
    uint64_t took = now - p->sent.at;
    if (k == 0 && !rejected) {
        bt_hist_record(&h->response, took);
    }
    r->counter[BT_RC_CANCELS_TOO_LATE] += (p->label & PAIR_CANCELLED) != 0;
    if (s == 0) {
        return true;
    }
    struct hedge_slot *slot = &h->slot[s];
    hedging_copy_over(h, slot, k);
    slot->together = slot->together && comparable(r, p, rejected);
    if (slot->answered) {
        r->counter[BT_RC_HEDGES_LATE]++;
        compare(h, slot, took);
        hedging_release(h, s);
        return false;
    }
    slot->took = took > 0 ? took : 1;
    r->counter[BT_RC_HEDGES_WON] += k;
    h->answered_slot = slot->copy[!k].pair != 0 ? s : 0;
    end_request(r, s, slot->copy[!k].pair == 0);
    return true;
}

bool hedging_pair_gone(struct bt_router *r, uint32_t i, bool reused)
{
    struct router_hedging *h = r->hedging;
    uint32_t s = r->pairs.slab[i].hedge, k = which(r, i);
    if (s == 0) {
        return true;
    }
    struct hedge_slot *slot = &h->slot[s];
    bool answered = slot->answered, alone = slot->copy[!k].pair == 0;
    r->counter[BT_RC_CANCELS_UNHEARD] += (r->pairs.slab[i].label & PAIR_CANCELLED) != 0;
    hedging_copy_over(h, slot, k);
    slot->together = false;
    if (alone) {
        end_request(r, s, true);
    } else if (reused) {
        end_request(r, s, false);
    } else {
        hedging_unlist(h, s);
    }
    return !answered && (alone || reused);
}

void hedging_forget_pairs(struct bt_router *r)
{
    struct pair *slab = r->pairs.slab;
    for (uint32_t i = slab[0].newer, newer; i != 0; i = newer) {
        uint32_t s = slab[i].hedge;
        newer = slab[i].newer;
        if (s != 0 && ((slab[i].label & PAIR_COPY) != 0 || r->hedging->slot[s].answered)) {
            router_watch_forget(r, i);
        } else {
            slab[i].hedge = 0;
        }
    }
}

void hedging_learn_delay(struct router_hedging *h, uint64_t now)
{
    if (now < h->next_delay || h->response.total * (100000u - h->config.per_100k) < 10u * 100000u) {
        return;
    }
    h->next_delay = now + SECOND;
    h->delay_ns = bt_hist_percentile(&h->response, h->config.per_100k);
    bt_hist_clear(&h->response);
}

/* two executions differ by a hiccup when one of them had one: 2p(1 − p) of them. */
static void tell_jitter(const struct router_hedging *h, struct bt_router_stats *out)
{
    const struct bt_hist *d = h->differs, *l = h->lesser;
    uint64_t total = d[0].total + d[1].total, hiccups = 0;
    out->jitter_compared = total;
    if (total == 0) {
        return;
    }
    out->service_ns = (l[0].sum_ns + l[1].sum_ns) / total;
    double sum = 0;
    for (uint32_t i = bt_hist_index(HICCUP_FACTOR * out->service_ns) + 1u; i < BT_HIST_BUCKETS; i++) {
        uint64_t n = d[0].bucket[i] + d[1].bucket[i];
        hiccups += n;
        sum += (double)n * (double)bt_hist_value(i);
    }
    double share = (double)hiccups / (double)total;
    share = share < 0.5 ? share : 0.5;
    out->jitter_hiccups_ppm = (uint64_t)((1 - sqrt(1 - 2 * share)) / 2 * 1e6 + 0.5);
    out->hiccup_ns = hiccups > 0 ? (uint64_t)(sum / (double)hiccups) : 0;
}

void hedging_tell(const struct bt_router *r, uint64_t now, struct bt_router_stats *out)
{
    const struct router_hedging *h = r->hedging;
    (void)now;
    if (h == NULL) {
        return;
    }
    out->hedging_mode = h->config.mode;
    out->hedging_kept = h->used;
    out->hedging_pairs = hedging_pairs_live(r);
    out->hedging_delay_ns = h->delay_ns;
    out->hedging_busy_ppm = h->up > 0 ? h->busy * 1000000u / h->up : 0;
    tell_jitter(h, out);
}
