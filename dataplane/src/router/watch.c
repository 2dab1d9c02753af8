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

static uint32_t slots_for(uint32_t limit)
{
    return bt_pow2_at_least(2u * limit); /* never more than half full: probes stay short */
}

void router_watch_init(struct bt_router *r, uint32_t limit, struct bt_mem *mem, uint64_t seed)
{
    struct pair_slot *slots = bt_mem_take(mem, slots_for(limit) * sizeof *slots);
    struct pair *slab = bt_mem_take(mem, limit * sizeof *slab);
    if (slots == NULL || slab == NULL) {
        return; /* measuring */
    }
    bt_pairs_seed(r->pairs.seed, (uint64_t[2]){seed, seed * UINT64_C(0x9e3779b97f4a7c15) + 1u});
    r->pairs.slots = slots;
    r->pairs.mask = slots_for(limit) - 1u;
    r->pairs.count = 0;
    r->pairs.slab = slab;
    r->pairs.oldest = r->pairs.newest = NO_SLOT;
    r->pairs.free = NO_SLOT;
    for (uint32_t i = limit; i-- > 0;) {
        slab[i].newer = r->pairs.free;
        r->pairs.free = i;
    }
}

/* Slot of the pair, or the free one where it belongs. */
static inline uint32_t probe(const struct pair_watch *watch, uint32_t hash, const struct bt_addr *client,
                             uint16_t req_id)
{
    uint32_t i = hash & watch->mask;
    for (; watch->slots[i].at != 0; i = (i + 1u) & watch->mask) {
        if (watch->slots[i].hash == hash) {
            const struct pair *p = &watch->slab[watch->slots[i].at - 1u];
            if (p->req_id == req_id && bt_addr_eq(&p->client, client)) {
                break;
            }
        }
    }
    return i;
}

/* Empties a slot and closes the gap: every follower whose home is not behind the hole moves back. */
static void empty(struct pair_watch *watch, uint32_t hole)
{
    for (uint32_t i = (hole + 1u) & watch->mask; watch->slots[i].at != 0; i = (i + 1u) & watch->mask) {
        if (((i - watch->slots[i].hash) & watch->mask) >= ((i - hole) & watch->mask)) {
            watch->slots[hole] = watch->slots[i];
            hole = i;
        }
    }
    watch->slots[hole].at = 0;
    watch->count--;
}

static void unanswered(struct bt_router *r, uint64_t now)
{
    r->counter[BT_RC_PAIRS_UNANSWERED]++;
    if (r->latency != NULL) {
        bt_hist_slices_record_inf(r->latency, now, 1);
    }
}

static inline void fill_pair(const struct bt_router *r, uint64_t now, struct pair *p, uint32_t w, uint64_t since)
{
    p->worker = (uint16_t)w;
    p->since = since;
    p->sent_at = now;
    p->index = router_sent(r, w) - 1u; /* it is counted */
}

/* The identity is watched already: a copy made by the network is the same request, anything later is a new one that
 * reuses the id of one that was never answered. */
static void start_again(struct bt_router *r, uint64_t now, uint32_t i, uint32_t w, uint64_t since)
{
    struct pair *p = &r->pairs.slab[i];
    if (since < p->since + r->timers.loss_ns) {
        return;
    }
    unanswered(r, now);
    unlink_pair(&r->pairs, i);
    fill_pair(r, now, p, w, since);
    append_pair(&r->pairs, i);
}

void router_watch_start(struct bt_router *r, uint64_t now, const struct bt_addr *client, uint16_t req_id, uint32_t w,
                        uint64_t since)
{
    struct pair_watch *watch = &r->pairs;
    uint32_t hash = bt_pairs_hash(watch->seed, client, req_id);
    uint32_t slot = probe(watch, hash, client, req_id);
    if (__builtin_expect(watch->slots[slot].at != 0, 0)) {
        start_again(r, now, watch->slots[slot].at - 1u, w, since);
        return;
    }
    uint32_t i = watch->free;
    if (__builtin_expect(i == NO_SLOT, 0)) {
        r->counter[BT_RC_PAIRS_FULL]++;
        return;
    }
    watch->free = watch->slab[i].newer;
    watch->slots[slot] = (struct pair_slot){hash, i + 1u};
    watch->count++;
    watch->slab[i].client = *client;
    watch->slab[i].req_id = req_id;
    fill_pair(r, now, &watch->slab[i], w, since);
    append_pair(watch, i);
}

void router_watch_end(struct bt_router *r, uint64_t now, const struct bt_addr *client, uint16_t req_id, uint32_t w,
                      bool rejected)
{
    struct pair_watch *watch = &r->pairs;
    uint32_t slot = probe(watch, bt_pairs_hash(watch->seed, client, req_id), client, req_id);
    uint32_t i = watch->slots[slot].at - 1u; /* NO_SLOT when free */
    if (i == NO_SLOT || watch->slab[i].worker != w) {
        r->counter[BT_RC_PAIRS_UNKNOWN]++;
        return;
    }
    uint64_t since = watch->slab[i].since;
    uint64_t took = now - watch->slab[i].sent_at;
    r->response[63u - (uint32_t)__builtin_clzll(took | 1u)]++;
    bt_credit_finished(&r->credit[w], watch->slab[i].index);
    empty(watch, slot);
    free_pair(watch, i);
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
        empty(&r->pairs, probe(&r->pairs, bt_pairs_hash(r->pairs.seed, &p->client, p->req_id), &p->client, p->req_id));
        free_pair(&r->pairs, r->pairs.oldest);
    }
}

uint64_t router_watch_next(const struct bt_router *r)
{
    return r->pairs.oldest == NO_SLOT ? UINT64_MAX : r->pairs.slab[r->pairs.oldest].since + r->request_timeout_ns;
}

void router_watch_expect(const struct bt_router *r, const struct bt_addr *client, uint16_t req_id)
{
    const struct pair_watch *watch = &r->pairs;
    __builtin_prefetch(&watch->slots[bt_pairs_hash(watch->seed, client, req_id) & watch->mask], 1);
}
