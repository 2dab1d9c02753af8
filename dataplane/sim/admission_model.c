// SPDX-License-Identifier: Apache-2.0
// See admission_model.h. A worker is a recursion on the time it is free again; what waits in front of it, and in the
// central queue, stands in rings. Workers have a clock of their own, which stands still while they pause: what they
// have begun then ends later without being touched.
#include "admission_model.h"

#include <stdlib.h>
#include <string.h>

#include "policy_notices.h"
#include "router/policy.h"

struct request {
    uint64_t at, service;
    uint8_t class;
};

struct ring {
    struct request *r;
    size_t head, n, cap;
};

struct engine {
    const struct sim_admission_model *m;
    struct sim_admission_result *out;
    const struct bt_balancer *balancer;
    struct bt_admission *admission;
    struct bt_load load;
    struct sim_notices notices;
    struct ring *queue; /* [workers] */
    struct ring central;
    uint64_t *free_at;
    uint32_t *outstanding;
    struct bt_rng arrival, service, choice, hiccup;
    uint64_t pause_at; /* the next one; UINT64_MAX: none */
    uint64_t lost;     /* by all pauses so far: how far the workers' clock is behind */
    uint64_t stood_at; /* what it shows during the last one */
    /* the window being filled */
    uint64_t window_end, answered, arrived, refused;
    struct bt_hist hist;
};

void sim_admission_defaults(struct sim_admission_model *m)
{
    *m = (struct sim_admission_model){
        .policy = BT_ROUTER_RANDOM,
        .workers = 16,
        .depth = 3,
        .service = {SIM_DIST_EXPONENTIAL, 1e4, 1},
        .admission = {.mode = BT_ADMISSION_REJECT,
                      .controller = BT_CONTROL_TRACK,
                      .slo_ns = 300000,
                      .per_100k = 99000,
                      .droppable = BT_ADMISSION_DROPPABLE_DEFAULT},
        .rate = {1.0e6, 1.2e6, 1.4e6, 1.6e6, 1.8e6},
        .steps = 5,
        .step_ns = 10000000000u,
        .settle_ns = 2000000000u,
        .window_ns = 1000000000u,
        .mix = {1},
        .seed = 1,
    };
}

static const char *refuse_size(const struct sim_admission_model *m)
{
    if (m->workers < 1 || m->workers > 1024) {
        return "workers must be 1..1024";
    }
    if (m->depth < 1 || m->depth > 64) {
        return "n must be 1..64 (R-117)";
    }
    if (!(m->service.mean_ns >= 10 && m->service.mean_ns <= 1e10)) {
        return "mean must be 0.01 us to 10 s";
    }
    return NULL;
}

static const char *refuse_rates(const struct sim_admission_model *m)
{
    if (m->steps < 1 || m->steps > SIM_ADMISSION_STEPS_MAX) {
        return "rates must be 1 to 64";
    }
    for (uint32_t i = 0; i < m->steps; i++) {
        if (!(m->rate[i] >= 1 && m->rate[i] <= 1e9)) {
            return "each rate must be 1 to 1e9 requests per second";
        }
    }
    return NULL;
}

static const char *refuse_times(const struct sim_admission_model *m)
{
    if (m->pause_every_ns != 0 && m->pause_ns >= m->pause_every_ns) {
        return "a pause must be shorter than the mean distance between two";
    }
    if (m->settle_ns >= m->step_ns) {
        return "settle must be shorter than a step";
    }
    if (m->window_ns < 1000000 || m->steps * m->step_ns / m->window_ns > SIM_ADMISSION_WINDOWS_MAX) {
        return "window must be at least 1 ms and make at most 4096 windows";
    }
    return NULL;
}

const char *sim_admission_refuse(const struct sim_admission_model *m)
{
    unsigned field;
    if (bt_admission_judge(&m->admission, &field) != NULL) {
        return "objective must be 1..100000000 us at percentile 50..99.99";
    }
    const char *why = refuse_size(m);
    why = why != NULL ? why : refuse_rates(m);
    return why != NULL ? why : refuse_times(m);
}

static void *memory(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL) {
        abort();
    }
    return p;
}

static void push(struct ring *q, struct request r)
{
    if (q->n == q->cap) {
        size_t cap = q->cap == 0 ? 16 : q->cap * 2;
        struct request *bigger = memory(cap, sizeof *bigger);
        for (size_t i = 0; i < q->n; i++) {
            bigger[i] = q->r[(q->head + i) & (q->cap - 1)];
        }
        free(q->r);
        *q = (struct ring){bigger, 0, q->n, cap};
    }
    q->r[(q->head + q->n++) & (q->cap - 1)] = r;
}

static struct request pop(struct ring *q)
{
    struct request r = q->r[q->head];
    q->head = (q->head + 1) & (q->cap - 1);
    q->n--;
    return r;
}

static uint64_t workers_time(const struct engine *e, uint64_t now)
{
    uint64_t at = now > e->lost ? now - e->lost : 0;
    return at > e->stood_at ? at : e->stood_at;
}

static uint64_t pause_after(struct engine *e, uint64_t now)
{
    const struct sim_dist gap = {SIM_DIST_EXPONENTIAL, (double)e->m->pause_every_ns, 0};
    return e->m->pause_every_ns == 0 ? UINT64_MAX : now + sim_dist_draw(&gap, &e->hiccup);
}

/* The workers stand still; a pause within a pause makes it longer. */
static void pause_workers(struct engine *e)
{
    uint64_t now = e->pause_at;
    e->stood_at = workers_time(e, now);
    e->lost += e->m->pause_ns;
    e->pause_at = pause_after(e, now);
}

static void start(struct engine *e)
{
    const struct sim_admission_model *m = e->m;
    sim_stream_seed(&e->arrival, m->seed, SIM_STREAM_ARRIVAL);
    sim_stream_seed(&e->service, m->seed, SIM_STREAM_SERVICE);
    sim_stream_seed(&e->choice, m->seed, SIM_STREAM_CHOICE);
    sim_stream_seed(&e->hiccup, m->seed, SIM_STREAM_HICCUP);
    e->pause_at = pause_after(e, 0);
    e->balancer = &bt_balancers[m->policy];
    e->queue = memory(m->workers, sizeof *e->queue);
    e->free_at = memory(m->workers, sizeof *e->free_at);
    e->outstanding = memory(m->workers, sizeof *e->outstanding);
    bt_load_init(&e->load, bt_rng_next(&e->choice));
    bt_load_bound(&e->load, e->balancer->bounded);
    for (uint32_t w = 0; w < m->workers; w++) {
        bt_load_set(&e->load, w, 0, m->depth);
    }
    sim_notices_init(&e->notices, m->workers);
    e->admission = memory(1, sizeof *e->admission);
    bt_admission_init(e->admission, bt_rng_next(&e->choice), NULL);
    bt_admission_apply(e->admission, &m->admission, 0);
    e->window_end = m->window_ns;
}

static void stop(struct engine *e)
{
    e->out->decisions = e->admission->decisions;
    for (uint32_t w = 0; w < e->m->workers; w++) {
        free(e->queue[w].r);
    }
    free(e->queue);
    free(e->central.r);
    free(e->free_at);
    free(e->outstanding);
    free(e->admission);
    sim_notices_free(&e->notices);
}

/* The step at a time, and whether it has settled by then; NULL after the last. */
static struct sim_admission_part *part_at(struct engine *e, uint64_t now, bool *settled)
{
    uint64_t i = now / e->m->step_ns;
    *settled = now % e->m->step_ns >= e->m->settle_ns;
    return i < e->m->steps ? &e->out->step[i] : NULL;
}

static void close_window(struct engine *e)
{
    const struct sim_admission_model *m = e->m;
    double seconds = (double)m->window_ns / 1e9;
    uint64_t begin = e->window_end - m->window_ns;
    if (e->out->windows < SIM_ADMISSION_WINDOWS_MAX) {
        e->out->window[e->out->windows++] = (struct sim_admission_window){
            .at = (double)begin / 1e9,
            .offered = (double)e->arrived / seconds,
            .answered = (double)e->answered / seconds,
            .p_ns = (double)bt_hist_percentile(&e->hist, m->admission.per_100k),
            .refused_share = e->arrived > 0 ? (double)e->refused / (double)e->arrived : 0,
            .settled = begin % m->step_ns >= m->settle_ns,
        };
    }
    e->window_end += m->window_ns;
    e->arrived = e->answered = e->refused = 0;
    bt_hist_clear(&e->hist);
}

static void dispatch(struct engine *e, struct request r, uint32_t w, uint64_t now)
{
    uint64_t begins = workers_time(e, now);
    e->free_at[w] = (begins > e->free_at[w] ? begins : e->free_at[w]) + r.service;
    sim_notices_push(&e->notices, w, e->free_at[w]);
    push(&e->queue[w], r);
    e->outstanding[w]++;
    bt_load_push(&e->load, w);
}

static void note_answer(struct engine *e, const struct request *r, uint64_t now)
{
    uint64_t took = now - r->at;
    bool settled;
    struct sim_admission_part *part = part_at(e, now, &settled);
    bt_hist_record(&e->hist, took);
    e->answered++;
    if (part != NULL && settled) {
        bt_hist_record(&part->latency, took);
        part->within += took <= e->m->admission.slo_ns;
    }
    if (bt_admission_on(e->admission)) {
        bt_admission_served(e->admission, r->class, false, took);
    }
}

/* On everybody's clock. */
static uint64_t next_notice(const struct engine *e)
{
    uint64_t at = sim_notices_next(&e->notices);
    return at == UINT64_MAX ? at : at + e->lost;
}

/* A FEEDBACK came: its worker has a credit more, and what is held may leave. */
static void heard(struct engine *e)
{
    uint64_t now = next_notice(e);
    uint32_t w = sim_notices_pop(&e->notices);
    struct request r = pop(&e->queue[w]);
    bt_load_move(&e->load, w, --e->outstanding[w]);
    note_answer(e, &r, now);
    while (e->central.n > 0) {
        uint32_t to = e->balancer->pick(&e->load);
        if (to == BT_NO_WORKER) {
            return;
        }
        dispatch(e, pop(&e->central), to, now);
    }
}

/* Everything that happens until `until`, in order. */
static void advance(struct engine *e, uint64_t until)
{
    for (;;) {
        uint64_t notice = next_notice(e), tick = bt_admission_next(e->admission);
        uint64_t next = notice < tick ? notice : tick;
        next = next < e->window_end ? next : e->window_end;
        next = next < e->pause_at ? next : e->pause_at;
        if (next > until) {
            return;
        }
        if (next == e->pause_at) {
            pause_workers(e);
        } else if (next == notice) {
            heard(e);
        } else if (next == tick) {
            bt_admission_tick(e->admission, next);
        } else {
            close_window(e);
        }
    }
}

static uint8_t draw_class(struct engine *e)
{
    if (e->m->mix[0] >= 1) {
        return 0;
    }
    double u = bt_rng_unit(&e->choice);
    for (uint8_t c = 0; c < BT_ADMISSION_CLASSES; c++) {
        if (u < e->m->mix[c]) {
            return c;
        }
        u -= e->m->mix[c];
    }
    return BT_ADMISSION_CLASSES - 1;
}

static void arrive(struct engine *e, uint64_t now)
{
    struct request r = {now, sim_dist_draw(&e->m->service, &e->service), draw_class(e)};
    bool settled;
    struct sim_admission_part *part = part_at(e, now, &settled);
    bool spared =
        bt_admission_keeps_busy(e->admission) && e->balancer->least && e->central.n == 0 && bt_load_has_idle(&e->load);
    bool refused = bt_admission_on(e->admission) && bt_admission_refuse(e->admission, now, r.class, spared);
    e->arrived++;
    e->refused += refused;
    if (part != NULL && settled) {
        part->arrived++;
        part->refused += refused;
        part->arrived_class[r.class]++;
        part->refused_class[r.class] += refused;
    }
    if (refused) {
        return;
    }
    uint32_t w = e->central.n == 0 ? e->balancer->pick(&e->load) : BT_NO_WORKER;
    if (w != BT_NO_WORKER) {
        dispatch(e, r, w, now);
    } else {
        push(&e->central, r);
    }
}

void sim_admission_run(const struct sim_admission_model *m, struct sim_admission_result *out)
{
    struct engine *e = memory(1, sizeof *e);
    memset(out, 0, sizeof *out);
    e->m = m;
    e->out = out;
    start(e);
    uint64_t end = m->steps * m->step_ns;
    double at = 0;
    for (;;) {
        uint64_t step = (uint64_t)at / m->step_ns;
        const struct sim_dist gap = {SIM_DIST_EXPONENTIAL, 1e9 / m->rate[step], 0};
        at += (double)sim_dist_draw(&gap, &e->arrival);
        if ((uint64_t)at >= end) {
            break;
        }
        advance(e, (uint64_t)at);
        arrive(e, (uint64_t)at);
        out->requests++;
    }
    advance(e, end);
    for (uint32_t i = 0; i < m->steps; i++) {
        out->step[i].span_ns = m->step_ns - m->settle_ns;
        out->step[i].rate = m->rate[i];
    }
    stop(e);
    free(e);
}

void sim_admission_merge(const struct sim_admission_model *m, const struct sim_admission_result *r, double above,
                         struct sim_admission_part *out)
{
    double load = 0;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < m->steps; i++) {
        const struct sim_admission_part *p = &r->step[i];
        if (p->rate <= above) {
            continue;
        }
        out->span_ns += p->span_ns;
        out->arrived += p->arrived;
        out->refused += p->refused;
        out->within += p->within;
        for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
            out->arrived_class[c] += p->arrived_class[c];
            out->refused_class[c] += p->refused_class[c];
        }
        load += p->rate * (double)p->span_ns;
        bt_hist_merge(&out->latency, &p->latency);
    }
    out->rate = out->span_ns > 0 ? load / (double)out->span_ns : 0;
}

double sim_admission_oscillation(const struct sim_admission_model *m, const struct sim_admission_result *r,
                                 double above)
{
    double worst = 0;
    for (uint32_t i = 0; i < m->steps; i++) {
        double from = (double)i * (double)m->step_ns / 1e9, to = from + (double)m->step_ns / 1e9, sum = 0;
        unsigned n = 0;
        if (m->rate[i] <= above) {
            continue;
        }
        for (uint32_t w = 0; w < r->windows; w++) {
            bool in = r->window[w].settled && r->window[w].at >= from && r->window[w].at < to;
            sum += in ? r->window[w].p_ns : 0;
            n += in;
        }
        for (uint32_t w = 0; w < r->windows; w++) {
            bool in = r->window[w].settled && r->window[w].at >= from && r->window[w].at < to;
            double off = in ? r->window[w].p_ns - sum / n : 0;
            off = off < 0 ? -off : off;
            worst = off > worst ? off : worst;
        }
    }
    return worst / (double)m->admission.slo_ns;
}
