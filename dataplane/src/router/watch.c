// SPDX-License-Identifier: Apache-2.0
// Latency as the router sees it: from a REQ0's arrival to the FEEDBACK that names its pair. What is not answered
// within T_max counts as +inf. Bounded: when the table is full, requests are forwarded unmeasured. The list is in order
// of forwarding; one that was held is older than that, and its +inf may be counted later by the time it was held.
#include "router/internal.h"

static void unlink_pair(struct pair_watch *watch, uint32_t i)
{
    struct pair *p = &watch->slab[i];
    if (p->older != NO_SLOT) {
        watch->slab[p->older].newer = p->newer;
    } else {
        watch->oldest = p->newer;
    }
    if (p->newer != NO_SLOT) {
        watch->slab[p->newer].older = p->older;
    } else {
        watch->newest = p->older;
    }
}

static void append_pair(struct pair_watch *watch, uint32_t i)
{
    struct pair *p = &watch->slab[i];
    p->older = watch->newest;
    p->newer = NO_SLOT;
    if (watch->newest != NO_SLOT) {
        watch->slab[watch->newest].newer = i;
    } else {
        watch->oldest = i;
    }
    watch->newest = i;
}

static void free_pair(struct pair_watch *watch, uint32_t i)
{
    unlink_pair(watch, i);
    watch->slab[i].newer = watch->free;
    watch->free = i;
}

void router_watch_init(struct bt_router *r, uint32_t limit, struct bt_mem *mem, uint64_t seed)
{
    void *table = bt_mem_take(mem, bt_pairs_bytes(limit));
    struct pair *slab = bt_mem_take(mem, limit * sizeof *slab);
    if (table == NULL || slab == NULL) {
        return; /* measuring */
    }
    uint64_t seeds[2] = {seed, seed * UINT64_C(0x9e3779b97f4a7c15) + 1u};
    bt_pairs_init(&r->pairs.table, table, limit, seeds);
    r->pairs.slab = slab;
    r->pairs.oldest = r->pairs.newest = NO_SLOT;
    r->pairs.free = NO_SLOT;
    for (uint32_t i = limit; i-- > 0;) {
        slab[i].newer = r->pairs.free;
        r->pairs.free = i;
    }
}

static void unanswered(struct bt_router *r, uint64_t now)
{
    r->counter[BT_RC_PAIRS_UNANSWERED]++;
    if (r->latency != NULL) {
        bt_hist_slices_record_inf(r->latency, now, 1);
    }
}

static void fill_pair(struct pair *p, const struct pair *request)
{
    p->client = request->client;
    p->req_id = request->req_id;
    p->worker = request->worker;
    p->since = request->since;
    p->sent_at = request->sent_at;
    p->index = request->index;
}

/* The identity is watched already: a copy made by the network is the same request, anything later is a new one that
 * reuses the id of one that was never answered. */
static void start_again(struct bt_router *r, uint64_t now, uint32_t i, const struct pair *request)
{
    struct pair *p = &r->pairs.slab[i];
    if (request->since < p->since + r->timers.loss_ns) {
        return;
    }
    unanswered(r, now);
    unlink_pair(&r->pairs, i);
    fill_pair(p, request);
    append_pair(&r->pairs, i);
}

void router_watch_start(struct bt_router *r, uint64_t now, const struct pair *request)
{
    uint32_t known = bt_pairs_find(&r->pairs.table, &request->client, request->req_id);
    if (known != BT_PAIRS_NONE) {
        start_again(r, now, known, request);
        return;
    }
    uint32_t i = r->pairs.free;
    if (i == NO_SLOT || !bt_pairs_put(&r->pairs.table, &request->client, request->req_id, i)) {
        r->counter[BT_RC_PAIRS_FULL]++;
        return;
    }
    r->pairs.free = r->pairs.slab[i].newer;
    fill_pair(&r->pairs.slab[i], request);
    append_pair(&r->pairs, i);
}

void router_watch_end(struct bt_router *r, uint64_t now, const struct bt_addr *client, uint16_t req_id, uint32_t w,
                      bool rejected)
{
    uint32_t i = bt_pairs_find(&r->pairs.table, client, req_id);
    if (i == BT_PAIRS_NONE || r->pairs.slab[i].worker != w) {
        r->counter[BT_RC_PAIRS_UNKNOWN]++;
        return;
    }
    uint64_t since = r->pairs.slab[i].since;
    uint64_t took = now - r->pairs.slab[i].sent_at;
    r->response[63u - (uint32_t)__builtin_clzll(took | 1u)]++;
    bt_credit_finished(&r->credit[w], r->pairs.slab[i].index);
    bt_pairs_del(&r->pairs.table, client, req_id);
    free_pair(&r->pairs, i);
    r->counter[rejected ? BT_RC_PAIRS_REJECTED : BT_RC_PAIRS_FINISHED]++;
    if (r->latency == NULL) {
        return;
    }
    if (rejected) {
        bt_hist_slices_rejected(r->latency, now, 1);
    } else {
        bt_hist_slices_record(r->latency, now, now > since ? now - since : 0);
    }
}

void router_watch_expire(struct bt_router *r, uint64_t now)
{
    while (r->pairs.oldest != NO_SLOT) {
        struct pair *p = &r->pairs.slab[r->pairs.oldest];
        if (p->since + r->request_timeout_ns > now) {
            return;
        }
        unanswered(r, now);
        bt_pairs_del(&r->pairs.table, &p->client, p->req_id);
        free_pair(&r->pairs, r->pairs.oldest);
    }
}

uint64_t router_watch_next(const struct bt_router *r)
{
    return r->pairs.oldest == NO_SLOT ? UINT64_MAX : r->pairs.slab[r->pairs.oldest].since + r->request_timeout_ns;
}
