// SPDX-License-Identifier: Apache-2.0
// See fanout_model.h. Shards meet in the arrivals and in the maximum only, so one is served after the other.
#include "fanout_model.h"

#include <stdlib.h>
#include <string.h>

#include "fanout_shard.h"
#include "sample.h"
#include "stream.h"

enum { SHARDS_MAX = 1000, REQUESTS_MAX = 10000000 };

const char *sim_fanout_policy_name(uint32_t policy)
{
    static const char *const names[SIM_FANOUT_POLICIES] = {"Random",    "JSQ",   "PSQ",      "Naive",    "Delayed",
                                                           "LoadAware", "LA+CC", "LA+CC+PC", "Idealized"};
    return policy < SIM_FANOUT_POLICIES ? names[policy] : "?";
}

void sim_fanout_defaults(struct sim_fanout_model *m)
{
    *m = (struct sim_fanout_model){
        .shards = 50, .replicas = 2, .load = 0.2, .p = 1e-3, .d = 15, .delay = 5, .requests = 150000, .seed = 1};
}

const char *sim_fanout_refuse(const struct sim_fanout_model *m)
{
    if (m->shards < 1 || m->shards > SHARDS_MAX) {
        return "shards must be 1..1000";
    }
    if (m->replicas < 1 || m->replicas > 16) {
        return "replicas must be 1..16";
    }
    if (!(m->load >= 0.001 && m->load <= 2)) {
        return "load must be 0.001..2";
    }
    if (!(m->p >= 0 && m->p <= 1)) {
        return "p must be 0..1";
    }
    if (!(m->d >= 0 && m->d <= 10000)) {
        return "d must be 0..10000 means of P";
    }
    if (!(m->delay >= 0 && m->delay <= 10000)) {
        return "delay must be 0..10000 means of P";
    }
    if (m->requests < 1000 || m->requests > REQUESTS_MAX) {
        return "requests must be 1000..10000000";
    }
    return NULL;
}

uint64_t sim_fanout_execution(struct sim_fanout_shard *s, uint32_t query)
{
    struct sim_fanout_query *q = &s->query[query];
    bool slow = q->drawn < 2 ? q->slow[q->drawn++] : sim_chance(&s->more, s->m->p);
    s->starts++;
    return q->p + (slow ? (uint64_t)(s->m->d * SIM_FANOUT_UNIT_NS) : 0);
}

void sim_fanout_answered(struct sim_fanout_shard *s, uint32_t query, uint64_t now)
{
    uint64_t took = now - s->at[query];
    s->query[query].answered = true;
    s->took[query] = took > s->took[query] ? took : s->took[query];
}

void sim_fanout_was_busy(struct sim_fanout_shard *s, uint64_t from, uint64_t to)
{
    uint64_t last = s->at[s->m->requests - 1];
    to = to < last ? to : last;
    s->busy += to > from ? to - from : 0;
}

static void *memory(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL) {
        abort();
    }
    return p;
}

static void draw_arrivals(const struct sim_fanout_model *m, uint64_t *at)
{
    const struct sim_dist gap = {SIM_DIST_EXPONENTIAL, SIM_FANOUT_UNIT_NS / (m->load * m->replicas), 0};
    struct bt_rng g;
    uint64_t now = 0;
    sim_stream_seed(&g, m->seed, SIM_STREAM_ARRIVAL);
    for (uint32_t i = 0; i < m->requests; i++) {
        at[i] = now += sim_dist_draw(&gap, &g);
    }
}

static uint64_t seed_of(const struct sim_fanout_model *m, uint32_t shard)
{
    return m->seed * (SHARDS_MAX + 1) + shard + 1;
}

static void draw_queries(const struct sim_fanout_model *m, uint32_t shard, struct sim_fanout_query *query)
{
    const struct sim_dist p = {SIM_DIST_EXPONENTIAL, SIM_FANOUT_UNIT_NS, 0};
    struct bt_rng service, jitter;
    sim_stream_seed(&service, seed_of(m, shard), SIM_STREAM_SERVICE);
    sim_stream_seed(&jitter, seed_of(m, shard), SIM_STREAM_JITTER);
    for (uint32_t i = 0; i < m->requests; i++) {
        query[i].p = sim_dist_draw(&p, &service);
        query[i].slow[0] = sim_chance(&jitter, m->p);
        query[i].slow[1] = sim_chance(&jitter, m->p);
    }
}

static void serve(struct sim_fanout_shard *s, uint32_t shard, enum sim_fanout_policy policy)
{
    for (uint32_t i = 0; i < s->m->requests; i++) {
        s->query[i].drawn = 0;
        s->query[i].answered = false;
    }
    sim_stream_seed(&s->more, seed_of(s->m, shard), SIM_STREAM_EVENT);
    sim_stream_seed(&s->choice, seed_of(s->m, shard), SIM_STREAM_CHOICE);
    if (policy == SIM_FANOUT_PSQ || policy >= SIM_FANOUT_LAEDGE) {
        sim_fanout_pull(s, policy);
    } else {
        sim_fanout_push(s, policy);
    }
}

/* The first tenth is left out. */
static void summarize(const struct sim_fanout_shard *s, struct sim_fanout_point *out)
{
    const struct sim_fanout_model *m = s->m;
    const double percentiles[] = {50, 99, 99.9};
    uint64_t ns[3];
    struct sim_samples samples;
    sim_samples_init(&samples, m->requests);
    for (uint32_t i = m->requests / 10; i < m->requests; i++) {
        sim_samples_add(&samples, s->took[i]);
    }
    sim_samples_percentiles(&samples, percentiles, 3, ns);
    sim_samples_free(&samples);
    double span = (double)(s->at[m->requests - 1] - s->at[0]);
    *out = (struct sim_fanout_point){
        .p50 = (double)ns[0] / SIM_FANOUT_UNIT_NS,
        .p99 = (double)ns[1] / SIM_FANOUT_UNIT_NS,
        .p999 = (double)ns[2] / SIM_FANOUT_UNIT_NS,
        .copies = (double)s->starts / m->requests / m->shards,
        .busy = (double)s->busy / span / m->replicas / m->shards,
    };
    memcpy(out->chosen, s->chosen, sizeof out->chosen);
}

void sim_fanout_run(const struct sim_fanout_model *m, uint32_t policies, struct sim_fanout_point *out)
{
    struct sim_fanout_shard s[SIM_FANOUT_POLICIES];
    uint64_t *at = memory(m->requests, sizeof *at);
    struct sim_fanout_query *query = memory(m->requests, sizeof *query);
    uint32_t capacity = 1024;
    while (capacity < m->requests) {
        capacity *= 2;
    }
    uint64_t *queue = memory(capacity, sizeof *queue);
    uint32_t *rings = memory((size_t)capacity * m->replicas, sizeof *rings);
    uint64_t *took = memory((size_t)m->requests * SIM_FANOUT_POLICIES, sizeof *took);
    draw_arrivals(m, at);
    for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
        s[i] = (struct sim_fanout_shard){.m = m,
                                         .at = at,
                                         .query = query,
                                         .queue = queue,
                                         .rings = rings,
                                         .capacity = capacity,
                                         .took = took + (size_t)m->requests * i};
    }
    for (uint32_t shard = 0; shard < m->shards; shard++) {
        draw_queries(m, shard, query);
        for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
            if (policies >> i & 1) {
                serve(&s[i], shard, (enum sim_fanout_policy)i);
            }
        }
    }
    for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
        if (policies >> i & 1) {
            summarize(&s[i], &out[i]);
        }
    }
    free(at);
    free(query);
    free(queue);
    free(rings);
    free(took);
}
