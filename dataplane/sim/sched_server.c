// SPDX-License-Identifier: Apache-2.0
// See sched_server.h.
#include "sched_server.h"

#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "stream.h"

struct ring {
    struct sim_sched_request *first, *last;
    uint32_t n;
};

enum after { ASLEEP, AFTER_WAKING, AFTER_NETWORK, AFTER_HANDLER };

struct core {
    struct bt_rng rng;
    enum after after; /* what its notice is about */
    struct bt_sched_work work;
    struct ring ring;
    struct sim_sched_request *done; /* with `together`: executed, not replied; the last one first */
    uint64_t look_at;               /* a migration */
};

struct redirect {
    uint64_t due; /* SIM_NOTICE_NEVER: none is under way */
    uint32_t to;
};

struct sim_sched_server {
    const struct sim_sched_setup *setup;
    struct bt_sched *sched;
    void *memory;
    struct core *core;
    struct sim_sched_request **left; /* by flow: executed, not replied */
    uint32_t *spare, spare_n;        /* flows, with flow_each */
    uint32_t *to;                    /* by group: where the network brings its packets */
    struct redirect redirect;
    struct sim_notices notices;
    struct bt_rng chance;
    struct sim_sched_seen seen;
};

static void own_flows(struct sim_sched_server *sv)
{
    uint32_t n = sv->setup->sched.flows;
    sv->left = sim_zeroed(n * sizeof(struct sim_sched_request *));
    sv->spare = sim_zeroed(n * sizeof *sv->spare);
    for (uint32_t f = 0; f < n && sv->setup->flow_each; f++) {
        sv->spare[sv->spare_n++] = n - 1u - f;
    }
}

struct sim_sched_server *sim_sched_open(const struct sim_sched_setup *setup)
{
    struct sim_sched_server *sv = sim_zeroed(sizeof *sv);
    size_t bytes = bt_sched_bytes(&setup->sched);
    sv->setup = setup;
    sv->memory = aligned_alloc(64, bytes);
    sv->sched = sv->memory != NULL ? bt_sched_init(sv->memory, bytes, &setup->sched) : NULL;
    if (sv->sched == NULL) {
        abort();
    }
    sv->core = sim_zeroed(setup->sched.cores * sizeof *sv->core);
    for (uint32_t c = 0; c < setup->sched.cores; c++) {
        bt_rng_seed(&sv->core[c].rng, setup->seed + 1u + c);
        bt_sched_sleep(sv->sched, c); /* nothing is there yet */
    }
    sv->to = sim_zeroed(setup->sched.groups * sizeof *sv->to);
    for (uint32_t g = 0; g < setup->sched.groups; g++) {
        sv->to[g] = bt_sched_home(sv->sched, g);
    }
    own_flows(sv);
    sv->redirect.due = SIM_NOTICE_NEVER;
    sim_notices_init(&sv->notices, setup->sched.cores);
    sim_stream_seed(&sv->chance, setup->seed, SIM_STREAM_FAULT);
    return sv;
}

void sim_sched_close(struct sim_sched_server *sv)
{
    sim_notices_free(&sv->notices);
    free(sv->left);
    free(sv->spare);
    free(sv->to);
    free(sv->core);
    free(sv->memory);
    free(sv);
}

static void at(struct sim_sched_server *sv, uint32_t c, enum after after, uint64_t when)
{
    sv->core[c].after = after;
    sim_notices_push(&sv->notices, c, when);
}

static void wake(struct sim_sched_server *sv, uint32_t c, uint64_t now)
{
    at(sv, c, AFTER_WAKING, now + sv->setup->costs.wake_ns);
}

static void tell(struct sim_sched_server *sv, uint32_t home)
{
    if (!sim_chance(&sv->chance, sv->setup->hint_lost)) {
        bt_sched_waiting(sv->sched, home, sv->core[home].ring.n);
    }
}

static void redirect_when_due(struct sim_sched_server *sv, uint64_t now)
{
    if (sv->redirect.due > now) {
        return;
    }
    for (uint32_t g = 0; g < sv->setup->sched.groups; g++) {
        sv->to[g] = bt_sched_move_set(sv->sched, g) ? sv->redirect.to : sv->to[g];
    }
    sv->redirect.due = SIM_NOTICE_NEVER;
}

/* A core that polls what others have, while it has nothing itself. */
static void rouse_helper(struct sim_sched_server *sv, uint64_t now)
{
    uint32_t k = sv->setup->sched.cores, start = bt_rng_below(&sv->chance, k);
    for (uint32_t i = 0; i < k; i++) {
        uint32_t c = (start + i) % k;
        if (bt_sched_rouse(sv->sched, c)) {
            wake(sv, c, now);
            return;
        }
    }
}

bool sim_sched_arrive(struct sim_sched_server *sv, struct sim_sched_request *r, uint64_t now)
{
    if (sv->setup->flow_each) {
        if (sv->spare_n == 0) {
            return false;
        }
        r->event.flow = sv->spare[--sv->spare_n];
    }
    redirect_when_due(sv, now);
    uint32_t home = sv->to[r->group];
    struct ring *ring = &sv->core[home].ring;
    r->behind = NULL;
    *(ring->n++ == 0 ? &ring->first : &ring->last->behind) = r;
    ring->last = r;
    tell(sv, home);
    if (bt_sched_rouse(sv->sched, home)) {
        wake(sv, home, now);
    } else if (sv->setup->sched.mode == BT_SCHED_WORK_STEALING && !sv->setup->sched.keep_stack) {
        rouse_helper(sv, now);
    }
    return true;
}

static struct sim_sched_request *request_of(struct bt_sched_event *e)
{
    return (struct sim_sched_request *)e;
}

static void leave(struct sim_sched_server *sv, const struct sim_sched_request *r, uint64_t now)
{
    if (sv->setup->replied != NULL) {
        sv->setup->replied(sv->setup->arg, r, now);
    }
}

/* A batch is done. */
static void leave_together(struct sim_sched_server *sv, uint32_t home, uint64_t now)
{
    struct core *core = &sv->core[home];
    for (struct sim_sched_request *r = core->done, *next; r != NULL; r = next) {
        next = r->behind;
        leave(sv, r, now);
    }
    core->done = NULL;
}

static void reply(struct sim_sched_server *sv, uint32_t home, uint32_t flow, uint64_t now)
{
    for (struct sim_sched_request *r = sv->left[flow], *next; r != NULL; r = next) {
        next = request_of(sched_get(&r->event.next));
        if (sv->setup->together) {
            r->behind = sv->core[home].done;
            sv->core[home].done = r;
        } else {
            leave(sv, r, now);
        }
    }
    sv->left[flow] = NULL;
    bt_sched_replied(sv->sched, home, flow);
    if (sv->setup->flow_each) {
        sv->spare[sv->spare_n++] = flow;
    }
}

static void take_packets(struct sim_sched_server *sv, uint32_t home)
{
    struct ring *ring = &sv->core[home].ring;
    for (uint32_t n = bt_sched_batch(ring->n, sv->setup->batch); n > 0; n--) {
        struct sim_sched_request *r = ring->first;
        ring->first = r->behind;
        ring->n--;
        if (sv->setup->flow_each) {
            bt_sched_open(sv->sched, r->event.flow, r->group);
        }
        sv->seen.astray += !bt_sched_deliver(sv->sched, home, &r->event);
    }
    tell(sv, home);
}

static void move(struct sim_sched_server *sv, uint32_t home, bool poll, uint64_t now)
{
    if ((sv->setup->look_at_polls && !poll) || now < sv->core[home].look_at) {
        return;
    }
    sv->core[home].look_at = now + sv->setup->look_ns;
    enum bt_sched_moved moved = bt_sched_move_step(sv->sched, home, sv->core[home].ring.n == 0, now);
    if (moved == BT_SCHED_MOVE_REDIRECT) {
        sv->redirect.due = now + sv->setup->redirect_ns;
    }
    sv->seen.moves += moved == BT_SCHED_MOVE_DONE;
}

/* With home's token. */
static void network(struct sim_sched_server *sv, uint32_t home, bool poll, uint64_t now)
{
    do {
        uint32_t flow;
        while ((flow = bt_sched_finished(sv->sched, home)) != BT_SCHED_NONE) {
            reply(sv, home, flow, now);
        }
        if (poll) {
            take_packets(sv, home);
        }
        redirect_when_due(sv, now);
        move(sv, home, poll, now);
    } while (bt_sched_release(sv->sched, home));
}

static uint64_t begin_handler(struct sim_sched_server *sv, uint32_t c, uint64_t now)
{
    uint64_t takes = 0;
    for (struct bt_sched_event *e = sv->core[c].work.events; e != NULL; e = sched_get(&e->next)) {
        takes += request_of(e)->service_ns + sv->setup->costs.request_ns;
        if (sv->setup->executing != NULL) {
            sv->setup->executing(sv->setup->arg, request_of(e), c, true, now);
        }
    }
    return takes;
}

static void end_handler(struct sim_sched_server *sv, uint32_t c, uint64_t now)
{
    const struct bt_sched_work *w = &sv->core[c].work;
    for (struct bt_sched_event *e = w->events; e != NULL && sv->setup->executing != NULL; e = sched_get(&e->next)) {
        sv->setup->executing(sv->setup->arg, request_of(e), c, false, now);
    }
    sv->left[w->flow] = request_of(w->events);
    if (bt_sched_executed(sv->sched, c, w->flow)) {
        network(sv, w->home, false, now);
    }
}

/* True: the core has begun something that ends later, or sleeps. */
static bool turn(struct sim_sched_server *sv, uint32_t c, uint64_t now)
{
    struct bt_sched_work *w = &sv->core[c].work;
    const struct sim_sched_costs *cost = &sv->setup->costs;
    sv->seen.turns++;
    bt_sched_next(sv->sched, c, &sv->core[c].rng, w);
    if (w->wake != BT_SCHED_NONE) {
        wake(sv, w->wake, now);
    }
    if (w->kind == BT_SCHED_HANDLE) {
        at(sv, c, AFTER_HANDLER, now + begin_handler(sv, c, now));
        return true;
    }
    leave_together(sv, c, now); /* it has nothing of its batch left */
    if (w->kind == BT_SCHED_NETWORK) {
        uint64_t takes =
            cost->network_ns + cost->packet_ns * bt_sched_batch(sv->core[w->home].ring.n, sv->setup->batch);
        if (takes == 0) {
            network(sv, w->home, true, now);
            return false;
        }
        at(sv, c, AFTER_NETWORK, now + takes);
        return true;
    }
    if (bt_sched_sleep(sv->sched, c)) {
        sv->core[c].after = ASLEEP;
    } else {
        at(sv, c, AFTER_WAKING, now + (cost->network_ns != 0 ? cost->network_ns : 1u));
    }
    return true;
}

uint64_t sim_sched_due(const struct sim_sched_server *sv)
{
    return sim_notices_next(&sv->notices);
}

void sim_sched_step(struct sim_sched_server *sv)
{
    uint64_t now = sim_notices_next(&sv->notices);
    uint32_t c = sim_notices_pop(&sv->notices);
    if (sv->core[c].after == AFTER_NETWORK) {
        network(sv, sv->core[c].work.home, true, now);
    } else if (sv->core[c].after == AFTER_HANDLER) {
        end_handler(sv, c, now);
    }
    while (!turn(sv, c, now)) {
    }
}

void sim_sched_rouse(struct sim_sched_server *sv, uint64_t now)
{
    for (uint32_t c = 0; c < sv->setup->sched.cores; c++) {
        if (bt_sched_rouse(sv->sched, c)) {
            wake(sv, c, now);
        }
    }
}

bool sim_sched_move(struct sim_sched_server *sv, uint32_t from, uint32_t to, const uint64_t *set, uint64_t now)
{
    uint64_t wait_ns = sv->setup->wait_ns != 0 ? sv->setup->wait_ns : 2 * sv->setup->redirect_ns + 1u;
    if (!bt_sched_move(sv->sched, from, to, set, wait_ns)) {
        return false;
    }
    sv->redirect.to = to;
    sim_sched_rouse(sv, now);
    return true;
}

struct bt_sched *sim_sched_of(struct sim_sched_server *sv)
{
    return sv->sched;
}

void sim_sched_read(const struct sim_sched_server *sv, struct sim_sched_seen *out)
{
    *out = sv->seen;
}
