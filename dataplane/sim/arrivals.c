// SPDX-License-Identifier: Apache-2.0
// When the next request comes: Poisson, fixed gaps, bursts of two states, a recording; load steps.
#include <math.h>

#include "times.h"
#include "world.h"

/* Mean time between arrivals at a load, bursts of simultaneous ones included. */
static double gap_at(const struct sim_world *w, double load)
{
    const struct sim_scenario *s = w->s;
    return s->service.mean_ns / ((double)s->workers * s->threads * load) / (1 - s->burst);
}

static double phase_load(const struct sim_world *w)
{
    const struct sim_scenario *s = w->s;
    uint64_t since = w->agenda.now - w->load_start_ns;
    uint32_t i = 0;
    for (; i + 1 < s->phases_n && since >= s->phase[i].for_ns; i++) {
        since -= s->phase[i].for_ns;
    }
    return s->phase[i].load;
}

static uint64_t independent_gap(struct sim_world *w)
{
    const struct sim_scenario *s = w->s;
    struct bt_rng *g = &w->stream[SIM_STREAM_ARRIVAL];
    double mean = s->phases_n > 0 ? gap_at(w, phase_load(w)) : w->gap_ns;
    uint64_t wait;
    if (s->arrivals == SIM_ARRIVE_FIXED) {
        wait = sim_dist_draw(&(struct sim_dist){SIM_DIST_DETERMINISTIC, mean, 0}, g);
    } else {
        wait = sim_exponential(mean, g);
    }
    return sim_chance(g, s->burst) ? 0 : wait;
}

/* Exact: both the next arrival and the next change of state are memoryless, so whichever comes first decides. */
static uint64_t mmpp_gap(struct sim_world *w)
{
    const struct sim_mmpp *m = &w->s->mmpp;
    struct bt_rng *g = &w->stream[SIM_STREAM_ARRIVAL];
    uint64_t at = w->agenda.now;
    for (;;) {
        struct sim_dist dwell = {SIM_DIST_EXPONENTIAL, (double)(w->bursting ? m->burst_ns : m->quiet_ns), 0};
        if (w->state_until_ns == 0) {
            w->state_until_ns = at + sim_dist_draw(&dwell, g);
        }
        double load = w->bursting ? m->burst_load : m->quiet_load;
        const struct sim_dist gap = {SIM_DIST_EXPONENTIAL, load > 0 ? gap_at(w, load) : 0, 0};
        uint64_t next = load > 0 ? at + sim_dist_draw(&gap, g) : UINT64_MAX;
        if (next <= w->state_until_ns) {
            return next - w->agenda.now;
        }
        at = w->state_until_ns;
        w->bursting = !w->bursting;
        w->state_until_ns = 0;
    }
}

/* Time of arrival k of the recording since the first, the recording being repeated end to end. */
static uint64_t recorded_ns(const struct sim_recording *r, uint64_t k)
{
    uint64_t last = r->at_ns[r->n - 1], once = last + (r->n > 1 ? last / (r->n - 1) : 1);
    return k / r->n * once + r->at_ns[k % r->n];
}

/* Probes come fast enough to be held now and then, and never so fast that a full queue refuses them by right: a worker
 * of a router on two threads gets its next request up to two lags later. */
static uint64_t probe_gap(const struct sim_scenario *s)
{
    return (uint64_t)(s->service.mean_ns * 0.3) + 2u * s->thread_lag_ns;
}

uint64_t sim_next_arrival(struct sim_world *w)
{
    uint64_t k = w->requests_made;
    if (k > w->requests_main) {
        return probe_gap(w->s);
    }
    switch (w->s->arrivals) {
    case SIM_ARRIVE_MMPP:
        return mmpp_gap(w);
    case SIM_ARRIVE_TRACE:
        return recorded_ns(w->s->recording, k) - recorded_ns(w->s->recording, k - 1);
    default:
        return independent_gap(w);
    }
}

void sim_arrivals_init(struct sim_world *w)
{
    const struct sim_scenario *s = w->s;
    double least = s->load;
    for (uint32_t i = 0; i < s->phases_n; i++) {
        least = fmin(least, s->phase[i].load);
    }
    w->gap_ns = gap_at(w, s->phases_n > 0 ? least : s->load);
    w->bursting = false;
    w->state_until_ns = 0;
}

uint64_t sim_service_ns(struct sim_world *w, uint64_t number)
{
    const struct sim_recording *r = w->s->recording;
    if (w->s->service.kind == SIM_DIST_TRACE && w->s->times != NULL) {
        return sim_times_draw(w->s->times, &w->stream[SIM_STREAM_SERVICE]);
    }
    if (w->s->service.kind == SIM_DIST_TRACE) {
        return r->service_ns[number % r->n];
    }
    return sim_dist_draw(&w->s->service, &w->stream[SIM_STREAM_SERVICE]);
}
