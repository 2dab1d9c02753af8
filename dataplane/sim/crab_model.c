// SPDX-License-Identifier: Apache-2.0
#include "crab_model.h"

#include <math.h>
#include <stdlib.h>

/* Reports and choices are dated in nanoseconds; a mean service time is a thousand of them. */
#define UNIT_NS    1000.0
#define RESOLUTION 0.005 /* mean service times */

enum { BINS = 1 << 18 };

struct bed {
    const struct sim_crab_model *m;
    struct bt_crab_pool *pool;
    struct bt_crab_chooser *choosers; /* by client */
    _Atomic uint64_t *cursors;
    double *free_at;     /* by server: when its queue is empty */
    double *next_report; /* by server */
    double *ends;        /* by server: ring of the ends of its connections, for the reports */
    uint32_t *first, *open, *chosen;
    uint64_t *bins;
    struct bt_rng rng;
};

enum { RING = 4096 }; /* open connections of a server that are told apart */

const char *sim_crab_variant_name(enum sim_crab_variant v)
{
    static const char *const names[SIM_CRAB_VARIANTS] = {"Random", "D-RR", "C-RR", "PowerOfTwo", "Least"};
    return v < SIM_CRAB_VARIANTS ? names[v] : "?";
}

static enum bt_crab_policy policy_of(enum sim_crab_variant v)
{
    static const enum bt_crab_policy policies[SIM_CRAB_VARIANTS] = {
        BT_CRAB_RANDOM, BT_CRAB_ROUND_ROBIN, BT_CRAB_ROUND_ROBIN, BT_CRAB_POWER_OF_TWO, BT_CRAB_LEAST};
    return policies[v];
}

static double exponential(struct bt_rng *r)
{
    return -log1p(-bt_rng_unit(r));
}

static void retire(struct bed *b, uint32_t s, double now)
{
    while (b->open[s] > 0 && b->ends[(size_t)s * RING + b->first[s]] <= now) {
        b->first[s] = (b->first[s] + 1) % RING;
        b->open[s]--;
    }
}

/* The reports that fell due before `now`; each tells what was open at its time. */
static void report(struct bed *b, double now)
{
    for (uint32_t s = 0; s < b->m->servers; s++) {
        if (b->next_report[s] > now) {
            continue;
        }
        while (b->next_report[s] + b->m->report_every <= now) {
            b->next_report[s] += b->m->report_every;
        }
        retire(b, s, b->next_report[s]);
        const struct bt_addr server = bt_addr_v4u(s + 1, 0);
        bt_crab_pool_report(b->pool, &server, b->open[s], (uint64_t)(b->next_report[s] * UNIT_NS) + 1);
        b->next_report[s] += b->m->report_every;
    }
}

/* One connection: chosen, queued, served; returns its sojourn. */
static double serve(struct bed *b, enum sim_crab_variant v, double now)
{
    uint32_t client = bt_rng_below(&b->rng, b->m->clients);
    struct bt_crab_chooser *chooser = &b->choosers[v == SIM_CRAB_DISTRIBUTED ? client : 0];
    uint32_t s = bt_crab_pool_choose(b->pool, policy_of(v), chooser, bt_rng_next(&b->rng), (uint64_t)(now * UNIT_NS));
    double service = b->m->exponential ? exponential(&b->rng) : 1;
    b->free_at[s] = (b->free_at[s] > now ? b->free_at[s] : now) + service;
    b->chosen[s]++;
    if (b->open[s] < RING) {
        b->ends[(size_t)s * RING + (b->first[s] + b->open[s]++) % RING] = b->free_at[s];
    }
    return b->free_at[s] - now;
}

static double quantile(const uint64_t *bins, uint64_t n, double q)
{
    uint64_t rank = (uint64_t)ceil(q * (double)n), seen = 0;
    for (uint32_t i = 0; i < BINS; i++) {
        seen += bins[i];
        if (seen >= rank) {
            return (i + 0.5) * RESOLUTION;
        }
    }
    return BINS * RESOLUTION;
}

static void simulate(struct bed *b, enum sim_crab_variant v, struct sim_crab_point *point)
{
    const struct sim_crab_model *m = b->m;
    bool reports = v == SIM_CRAB_TWO || v == SIM_CRAB_LEAST;
    double now = 0, gap = 1 / (m->load * m->servers);
    uint64_t warm = m->requests / 10, kept = 0;
    for (uint64_t i = 0; i < m->requests; i++) {
        now += exponential(&b->rng) * gap;
        if (reports) {
            report(b, now);
        }
        double sojourn = serve(b, v, now);
        if (i >= warm) {
            double bin = sojourn / RESOLUTION;
            b->bins[bin < BINS ? (uint32_t)bin : BINS - 1]++;
            kept++;
        }
    }
    uint32_t most = 0, fewest = UINT32_MAX;
    for (uint32_t s = 0; s < m->servers; s++) {
        most = b->chosen[s] > most ? b->chosen[s] : most;
        fewest = b->chosen[s] < fewest ? b->chosen[s] : fewest;
    }
    *point = (struct sim_crab_point){quantile(b->bins, kept, 0.5), quantile(b->bins, kept, 0.99),
                                     fewest > 0 ? (double)most / fewest : INFINITY};
}

static bool make_pool(struct bed *b)
{
    uint32_t n = b->m->servers;
    size_t bytes = (bt_crab_pool_bytes(n) + 63) & ~(size_t)63;
    void *mem = aligned_alloc(64, bytes);
    struct bt_crab_backend *servers = calloc(n, sizeof *servers);
    if (mem != NULL && servers != NULL) {
        for (uint32_t s = 0; s < n; s++) {
            servers[s] =
                (struct bt_crab_backend){.ip = bt_addr_v4u(s + 1, 0), .weight = 1, .capable = true, .up = true};
        }
        b->pool = bt_crab_pool_build(mem, servers, n, 1);
    } else {
        free(mem);
    }
    free(servers);
    return b->pool != NULL;
}

static void start(struct bed *b)
{
    bt_rng_seed(&b->rng, b->m->seed);
    for (uint32_t c = 0; c < b->m->clients; c++) {
        b->cursors[c] = bt_rng_below(&b->rng, b->m->servers); /* */
        b->choosers[c] = (struct bt_crab_chooser){.cursor = &b->cursors[c], .stale_ns = UINT64_MAX};
        bt_rng_seed(&b->choosers[c].rng, bt_rng_next(&b->rng));
    }
    for (uint32_t s = 0; s < b->m->servers; s++) {
        b->next_report[s] = b->m->report_every * bt_rng_unit(&b->rng);
    }
}

int sim_crab_run(const struct sim_crab_model *m, enum sim_crab_variant v, struct sim_crab_point *point)
{
    uint32_t n = m->servers;
    struct bed b = {.m = m,
                    .choosers = calloc(m->clients, sizeof *b.choosers),
                    .cursors = calloc(m->clients, sizeof *b.cursors),
                    .free_at = calloc(n, sizeof *b.free_at),
                    .next_report = calloc(n, sizeof *b.next_report),
                    .ends = calloc((size_t)n * RING, sizeof *b.ends),
                    .first = calloc(n, sizeof *b.first),
                    .open = calloc(n, sizeof *b.open),
                    .chosen = calloc(n, sizeof *b.chosen),
                    .bins = calloc(BINS, sizeof *b.bins)};
    bool ready = b.choosers && b.cursors && b.free_at && b.next_report && b.ends && b.first && b.open && b.chosen &&
                 b.bins && make_pool(&b);
    if (ready) {
        start(&b);
        simulate(&b, v, point);
    }
    void *all[] = {b.choosers, (void *)b.cursors, b.free_at, b.next_report, b.ends, b.first,
                   b.open,     b.chosen,          b.bins,    b.pool};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    return ready ? 0 : -1;
}
