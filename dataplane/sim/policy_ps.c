// SPDX-License-Identifier: Apache-2.0
// Processor sharing: every request in the system is served at once, each at the same rate, which is that of one worker
// as long as there are not more requests than workers. Central: one server with all workers. Partitioned: the
// client draws a worker, and each shares itself out among what it was sent.
//
// What is served at the same rate is done in the order of the work it came with: a request that comes when each has had
// `served` and brings `work` leaves when each has had served + work, however many come and go meanwhile.
#include <stdlib.h>

#include "buffers.h"
#include "policy_heap.h"
#include "policy_model.h"

enum { TICK_BITS = 10 }; /* times are in 1/1024 ns, rounded to the nearest, so that errors do not add up */

struct shared {
    struct sim_heap by_end; /* key: `served` at its end */
    uint64_t served, at;    /* what each had by now; now */
    uint32_t workers;
};

/* How long it takes until each has had `more`, and what each gets in that time. */
static uint64_t until_served(const struct shared *s, uint64_t more)
{
    if (s->by_end.n <= s->workers) {
        return more;
    }
    return (uint64_t)(int64_t)((double)more * (double)s->by_end.n / s->workers + 0.5);
}

static uint64_t served_in(const struct shared *s, uint64_t span)
{
    if (s->by_end.n <= s->workers) {
        return span;
    }
    return (uint64_t)(int64_t)((double)span * s->workers / (double)s->by_end.n + 0.5);
}

/* Everything that ends up to and including `until`. */
static void advance(const struct sim_policy_model *m, const struct sim_job *job, uint64_t *sojourn, struct shared *s,
                    uint64_t until)
{
    while (s->by_end.n > 0) {
        uint64_t next = s->by_end.v[0].key, end = s->at + until_served(s, next - s->served);
        if (end > until) {
            uint64_t served = s->served + served_in(s, until - s->at);
            s->served = served < next ? served : next;
            break;
        }
        s->at = end;
        s->served = next;
        uint32_t i = sim_heap_pop(&s->by_end);
        uint64_t end_ns = (end + (1u << (TICK_BITS - 1))) >> TICK_BITS;
        sojourn[i] = end_ns + m->path.reply_ns - job[i].arrival_ns;
    }
    if (s->by_end.n == 0) {
        s->served = 0;
    }
    s->at = until;
}

void sim_policy_ps(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                   struct sim_policy_counts *counts)
{
    struct bt_rng choice;
    bool central = m->kind == SIM_POLICY_PS;
    uint32_t servers = central ? 1 : m->workers;
    struct shared *all = sim_zeroed(servers * sizeof *all);
    sim_stream_seed(&choice, m->seed, SIM_STREAM_CHOICE);
    for (uint32_t k = 0; k < servers; k++) {
        all[k].workers = central ? m->workers : 1;
    }
    for (size_t i = 0; i < n; i++) {
        struct shared *s = &all[central ? 0 : bt_rng_below(&choice, servers)];
        uint64_t now = job[i].arrival_ns + m->path.client_server_ns + m->path.confirm_ns;
        advance(m, job, sojourn_ns, s, now << TICK_BITS);
        sim_heap_push(&s->by_end, s->served + ((job[i].service_ns + m->overhead_ns) << TICK_BITS), (uint32_t)i);
        if (s->by_end.n > counts->most_outstanding) {
            counts->most_outstanding = s->by_end.n;
        }
    }
    for (uint32_t k = 0; k < servers; k++) {
        advance(m, job, sojourn_ns, &all[k], UINT64_MAX);
        sim_heap_free(&all[k].by_end);
    }
    free(all);
}
