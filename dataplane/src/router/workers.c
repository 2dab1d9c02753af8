// SPDX-License-Identifier: Apache-2.0
// The worker table: address → slot, what the load index is told about each slot, and the life of a slot.
#include "router/workers.h"

#include <string.h>

void router_map_add(const struct bt_router *r, uint16_t *map, const struct bt_addr *addr, uint32_t slot)
{
    uint32_t i = router_map_start(r, addr);
    while (map[i] != 0) {
        i = (i + 1u) & r->map_mask;
    }
    map[i] = (uint16_t)(slot + 1u);
}

/* Enters all[i] in a map of indices of all[]; false if an equal address is there. */
bool router_map_claim(const struct bt_router *r, uint16_t *map, const struct bt_addr *all, uint32_t i)
{
    for (uint32_t at = router_map_start(r, &all[i]); map[at] != 0; at = (at + 1u) & r->map_mask) {
        if (bt_addr_eq(&all[map[at] - 1u], &all[i])) {
            return false;
        }
    }
    router_map_add(r, map, &all[i], i);
    return true;
}

void router_map_rebuild(struct bt_router *r)
{
    memset(r->map, 0, (r->map_mask + 1u) * sizeof *r->map);
    for (uint32_t w = 0; w < r->used_end; w++) {
        if ((r->worker[w].flags & WORKER_USED) != 0) {
            router_map_add(r, r->map, &r->worker[w].addr, w);
        }
    }
}

bool router_may_receive(const struct bt_router *r, uint32_t w)
{
    const unsigned wanted = WORKER_USED | WORKER_ALLOWED | WORKER_JOINED;
    const unsigned unwanted = WORKER_LEAVING | WORKER_SUSPECT | WORKER_EJECTED;
    return (r->worker[w].flags & (wanted | unwanted)) == wanted && r->worker[w].n > 0;
}

bool router_master_ready(const struct bt_router *r)
{
    if (r->order_n == 0) {
        return false;
    }
    const struct worker *master = &r->worker[r->order[0]];
    const unsigned unwanted = WORKER_LEAVING | WORKER_SUSPECT; /* ejection only steers requests that have a choice */
    return (master->flags & (WORKER_JOINED | unwanted)) == WORKER_JOINED && master->n > 0;
}

/* A legacy worker reads its payload at offset 8, so it cannot be told the client's address (r2p2.md §11). */
bool router_legacy_possible(const struct bt_router *r)
{
    return r->legacy_peers && r->forwarding == BT_FORWARD_TRANSPARENT;
}

/* A worker never heard of may be a legacy one, which speaks only after its first request: give it one. The
 * published router gives every worker its whole credit at start; one request is enough and costs less if it is not
 * there. */
void router_legacy_default(struct bt_router *r, uint32_t w)
{
    struct worker *worker = &r->worker[w];
    if ((worker->flags & WORKER_EXTENDED) != 0 || (worker->flags & WORKER_ALLOWED) == 0) {
        return;
    }
    if (!router_legacy_possible(r)) {
        worker->flags = (uint16_t)(worker->flags & ~WORKER_JOINED);
        return;
    }
    worker->flags |= WORKER_JOINED;
    worker->n = worker->heard_at == 0 ? 1u : (uint16_t)r->depth;
}

/* Steady is a worker in service that speaks the long form: a FEEDBACK that a pair was served, with the same n and
 * incarnation and neither JOIN nor LEAVE, and with a valid tag where there is a key, then changes nothing but counters.
 * Where a watcher acts behind FEEDBACK nobody is steady. */
static uint64_t steady(const struct bt_router *r, uint32_t w)
{
    const unsigned in_service = WORKER_USED | WORKER_ALLOWED | WORKER_JOINED | WORKER_EXTENDED;
    if (r->worker[w].flags != in_service || r->none_steady) {
        return NEVER_STEADY;
    }
    uint8_t payload[BT_FEEDBACK_V1_SIZE] = {0};
    payload[BT_FEEDBACK_VERSION_AT] = 1;
    payload[BT_FEEDBACK_FLAGS_AT] = BT_FEEDBACK_PAIR;
    bt_put16(payload + BT_FEEDBACK_N_AT, r->worker[w].n);
    bt_put32(payload + BT_FEEDBACK_INCARNATION_AT, r->credit[w].incarnation);
    return router_steady(payload) | (bt_keyring_empty(&r->keys) ? 0 : STEADY_TAGGED);
}

void router_refresh(struct bt_router *r, uint32_t w)
{
    r->worker[w].steady = steady(r, w);
    if (r->watchers.changed != NULL) {
        r->watchers.changed(r, w);
        return;
    }
    uint32_t n = 0;
    if (router_may_receive(r, w)) {
        n = r->worker[w].n < r->depth ? r->worker[w].n : r->depth;
    }
    bt_load_set(&r->load, w, router_outstanding(r, w), n);
}

/* A worker that fell silent without LEAVE may have been replaced, at its address, by one that speaks only after a
 * request, like a worker never heard of: it gets one, too. */
static void probe_as_legacy(struct bt_router *r, uint32_t w)
{
    struct worker *worker = &r->worker[w];
    worker->flags = (uint16_t)(worker->flags & ~WORKER_EXTENDED);
    router_legacy_default(r, w);
    worker->n = 1;
}

void router_forget(struct bt_router *r, uint32_t w, uint64_t now)
{
    struct worker *worker = &r->worker[w];
    r->counter[BT_RC_FORGOTTEN]++;
    bt_credit_write_off(&r->credit[w], router_sent(r, w));
    r->cold[w].given_up = bt_credit_settled(&r->credit[w]);
    if ((worker->flags & WORKER_ALLOWED) != 0) {
        /* It may join again: its incarnation and counters stay, as a guard against replays. */
        bool silent = (worker->flags & (WORKER_SUSPECT | WORKER_LEAVING)) == WORKER_SUSPECT;
        worker->flags = (uint16_t)(worker->flags & ~(WORKER_JOINED | WORKER_EJECTED | WORKER_SUSPECT));
        worker->window_total = worker->window_dropped = 0;
        worker->ejections = 0;
        if (silent && router_legacy_possible(r)) {
            probe_as_legacy(r, w);
        }
        router_refresh(r, w);
        return;
    }
    worker->flags = 0;
    worker->n = 0;
    router_refresh(r, w);
    r->cold[w].quiet_since = now;
    router_map_rebuild(r);
}

static void clear_slot(struct bt_router *r, uint32_t w)
{
    atomic_store_explicit(&r->sent[w], 0, memory_order_relaxed);
    memset(&r->credit[w], 0, sizeof r->credit[w]);
    r->worker[w] = (struct worker){.steady = NEVER_STEADY};
    memset(&r->cold[w], 0, sizeof r->cold[w]);
}

static uint32_t longest_draining(const struct bt_router *r)
{
    uint32_t victim = NO_SLOT;
    for (uint32_t w = 0; w < r->slots; w++) {
        if ((r->worker[w].flags & WORKER_ALLOWED) == 0 &&
            (victim == NO_SLOT || r->cold[w].quiet_since < r->cold[victim].quiet_since)) {
            victim = w;
        }
    }
    return victim;
}

/* A free slot for a new member; *from is where to look, for the next call. When all are taken, the removed worker that
 * has been draining longest gives way: a configuration never has more members than there are slots. */
uint32_t router_take_slot(struct bt_router *r, uint64_t now, uint32_t *from)
{
    uint32_t w = *from;
    while (w < r->slots && (r->worker[w].flags & WORKER_USED) != 0) {
        w++;
    }
    *from = w;
    if (w == r->slots) {
        w = longest_draining(r);
        router_forget(r, w, now);
    }
    clear_slot(r, w);
    r->worker[w].flags = WORKER_USED | WORKER_ALLOWED;
    if (w >= r->used_end) {
        r->used_end = w + 1u;
    }
    return w;
}
