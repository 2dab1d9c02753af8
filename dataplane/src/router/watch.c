// SPDX-License-Identifier: Apache-2.0
// Watched pairs (see watch.h): what few packets do, and expiry. What is not answered within T_max counts as +inf.
// Bounded: when the table is full, requests are forwarded unmeasured. The list is in order of forwarding; one that was
// held is older than that, and its +inf may be counted later by the time it was held.
#include "router/watch.h"

static uint32_t slots_for(uint32_t limit)
{
    return bt_pow2_at_least(2u * limit); /* never more than one pair to two slots: chains stay short */
}

void router_watch_init(struct bt_router *r, uint32_t limit, struct bt_mem *mem, uint64_t seed)
{
    uint32_t *slots = bt_mem_take(mem, slots_for(limit) * sizeof *slots);
    struct pair *slab = bt_mem_take(mem, (limit + 1u) * sizeof *slab);
    if (slots == NULL || slab == NULL) {
        return; /* measuring */
    }
    bt_pairs_seed(r->pairs.seed, (uint64_t[2]){seed, seed * UINT64_C(0x9e3779b97f4a7c15) + 1u});
    r->pairs.slots = slots;
    r->pairs.mask = slots_for(limit) - 1u;
    r->pairs.count = 0;
    r->pairs.slab = slab;
    slab[0] = (struct pair){.key.who = UINT64_MAX}; /* no pair has it: no worker is that high */
    r->pairs.free = 0;
    for (uint32_t i = limit; i > 0; i--) {
        slab[i].next = r->pairs.free;
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

/* The identity is watched already: a copy made by the network is the same request, anything later is a new one that
 * reuses the id of one that was never answered. */
static void start_again(struct bt_router *r, uint32_t i, struct pair_key key, struct pair_sent sent, uint8_t label)
{
    struct pair *p = &r->pairs.slab[i];
    if (sent.since < p->sent.since + r->timers.loss_ns) {
        router_tell_unseen(r);
        return;
    }
    if (!r->noted || router_tell_gone(r, i, true)) {
        unanswered(r, sent.at);
    }
    watch_unlink(r->pairs.slab, p);
    p->key = key;
    p->sent = sent;
    watch_append(r->pairs.slab, i);
    if (r->noted) {
        router_tell_began(r, i, label);
    }
}

__attribute__((noinline, cold)) bool router_watch_again(struct bt_router *r, uint32_t i, struct pair_key key,
                                                        struct pair_sent sent, uint8_t label)
{
    if (r->another) {
        return false;
    }
    for (; i != 0; i = r->pairs.slab[i].next) {
        const struct pair_key *here = &r->pairs.slab[i].key;
        if ((uint32_t)here->who == (uint32_t)key.who && here->ip[0] == key.ip[0] && here->ip[1] == key.ip[1]) {
            start_again(r, i, key, sent, label); /* whichever worker had it */
            return true;
        }
    }
    return false;
}

__attribute__((noinline, cold)) void router_watch_full(struct bt_router *r, struct pair_key key, struct pair_sent sent,
                                                       uint8_t label)
{
    if (r->watchers.sent != NULL) {
        r->watchers.sent(r, key, sent, label);
        return;
    }
    r->counter[BT_RC_PAIRS_FULL]++;
    router_tell_unseen(r);
}

__attribute__((noinline, cold)) uint32_t *router_watch_search(const struct pair_watch *watch, uint32_t *link,
                                                              struct pair_key key)
{
    while (*link != 0 && !watch_same(&watch->slab[*link].key, key)) {
        link = &watch->slab[*link].next;
    }
    return *link != 0 ? link : NULL;
}

static void remove_at(struct pair_watch *watch, uint32_t i)
{
    uint32_t *link = watch_slot(watch, &watch->slab[i].key);
    while (*link != i) {
        link = &watch->slab[*link].next;
    }
    watch_remove(watch, link, i);
}

void router_watch_forget(struct bt_router *r, uint32_t i)
{
    remove_at(&r->pairs, i);
}

__attribute__((noinline, cold)) void router_watch_end_late(struct bt_router *r, uint64_t now, uint32_t *link,
                                                           struct bt_credit *credit)
{
    const struct pair_sent sent = r->pairs.slab[*link].sent;
    watch_remove(&r->pairs, link, *link);
    r->response[63u - (uint32_t)__builtin_clzll((now - sent.at) | 1u)]++;
    bt_credit_finished(credit, sent.index);
}

static uint32_t oldest(const struct bt_router *r)
{
    return r->pairs.slab[0].newer;
}

void router_watch_expire(struct bt_router *r, uint64_t now)
{
    for (uint32_t i = oldest(r); i != 0; i = oldest(r)) {
        if (r->pairs.slab[i].sent.since + r->request_timeout_ns > now) {
            return;
        }
        if (!r->noted || router_tell_gone(r, i, false)) {
            unanswered(r, now);
        }
        remove_at(&r->pairs, i);
    }
}

uint64_t router_watch_next(const struct bt_router *r)
{
    uint32_t i = oldest(r);
    return i == 0 ? UINT64_MAX : r->pairs.slab[i].sent.since + r->request_timeout_ns;
}
