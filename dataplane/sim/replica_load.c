// SPDX-License-Identifier: Apache-2.0
// See replica_load.h.
#include "replica_load.h"

#include <math.h>
#include <stdlib.h>

#include "replica_load_machine.h"
#include "replica_load_wire.h"
#include "sample.h"

#define BEGINS (300 * LOAD_MS) /* a leader is there, and the box is past its slow start */
#define ENDS   (200 * LOAD_MS) /* after the last request */

static void on_aggregator_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct load_world *w = ctx;
    sim_load_towards(w, to, w->agenda.now + w->m->costs.hop_ns / 2, sim_load_packet(0, message, n));
}

/* --- clients and the box --- */

static uint16_t leader(const struct load_world *w)
{
    uint64_t term = 0;
    uint16_t best = 0;
    for (uint16_t id = 1; id <= w->m->members; id++) {
        if (w->machine[id].core != NULL) {
            struct bt_replica_status s = bt_replica_status(w->machine[id].core);
            bool leads = s.role == BT_REPLICA_LEADER && s.term > term;
            best = leads ? id : best;
            term = leads ? s.term : term;
        }
    }
    return best;
}

static void kill_leader(struct load_world *w)
{
    uint16_t id = leader(w);
    if (id != 0 && !w->leader_dead) {
        w->machine[id].core = NULL;
        w->leader_dead = w->agenda.now;
    }
}

static bool late(const struct load_world *w, uint64_t op)
{
    return op > w->m->requests - w->m->requests / 3;
}

static void by_box(struct load_world *w, uint64_t op)
{
    struct bt_addr client = sim_load_client_of(op);
    uint64_t half = w->m->costs.hop_ns / 2;
    if (bt_box_request(w->box, w->agenda.now, &client, (uint16_t)op) != BT_BOX_PASS) {
        w->dropped++;
        w->dropped_late += late(w, op);
        w->took[op] = UINT64_MAX; /* answered: no */
        return;
    }
    for (uint16_t id = 1; id <= w->m->members; id++) {
        sim_load_towards(w, id, w->agenda.now + half, sim_load_packet(op, NULL, 0));
    }
}

static void request(struct load_world *w)
{
    uint64_t op = ++w->sent;
    w->sent_at[op] = w->agenda.now - w->m->costs.hop_ns / 2;
    if (w->m->kill_at > 0 && (double)op >= w->m->kill_at * (double)w->m->requests) {
        kill_leader(w);
    }
    if (w->box != NULL) {
        by_box(w, op);
    } else {
        uint16_t to = w->m->group == SIM_LOAD_RAFT ? leader(w) : 1;
        if (to != 0) {
            sim_load_towards(w, to, w->agenda.now + w->m->costs.hop_ns / 2, sim_load_packet(op, NULL, 0));
        }
    }
    if (op < w->m->requests) {
        uint64_t next = w->agenda.now + sim_exponential(1e9 / w->m->rps, &w->arrivals);
        sim_agenda_push(&w->agenda, next, (struct sim_event){NULL, 0, EV_REQUEST, 0});
    }
}

static void happen(struct load_world *w, const struct sim_event *ev)
{
    uint16_t id = (uint16_t)ev->node;
    uint64_t op = (uint64_t)(uintptr_t)ev->ptr;
    struct load_packet *p = ev->ptr;
    switch ((enum load_event)ev->kind) {
    case EV_REQUEST:
        request(w);
        break;
    case EV_IN:
        sim_load_arrive(w, id, p);
        break;
    case EV_NET:
        sim_load_net_done(w, id);
        break;
    case EV_APP:
        sim_load_app_done(w, id);
        break;
    case EV_FREE:
        sim_load_app_free(w, id);
        break;
    case EV_TICK:
        sim_load_tick(w, id);
        break;
    case EV_REPLY:
        w->took[op] = w->took[op] == 0 ? w->agenda.now - w->sent_at[op] : w->took[op];
        break;
    case EV_FEEDBACK: {
        struct bt_addr client = sim_load_client_of(op);
        bt_box_feedback(w->box, w->agenda.now, &client, (uint16_t)op);
        break;
    }
    case EV_AGGREGATOR:
        bt_aggregator_receive(&w->aggregator, p->bytes, p->n);
        free(p);
        break;
    }
}

static void start_group(struct load_world *w)
{
    static const struct bt_aggregator_ops ops = {.send = on_aggregator_send};
    struct bt_aggregator_config a = {.cluster = LOAD_CLUSTER, .group = 1};
    struct bt_group_config first = {.count = 0};
    for (uint16_t id = 1; id <= w->m->members; id++) {
        first.member[first.count++] = (struct bt_group_member){.id = id, .role = BT_GROUP_VOTER};
    }
    bt_aggregator_start(&w->aggregator, &a, &ops, w);
    for (uint16_t id = 1; id <= w->m->members; id++) {
        sim_load_member_start(w, id, &first);
    }
    if (w->m->group >= SIM_LOAD_HOVERCRAFT) {
        struct bt_box_config b = {.limit = w->m->limit,
                                  .timeout_ns = 100 * LOAD_MS,
                                  .slow_start_ns = 100 * LOAD_MS,
                                  .quarantine_ns = 20 * LOAD_MS,
                                  .recent_pairs = LOAD_RECENT,
                                  .seed = w->m->seed};
        w->box_mem = malloc(bt_box_bytes(&b));
        w->box = w->box_mem != NULL ? bt_box_start(w->box_mem, &b, 0) : NULL;
    }
}

static struct load_world *begin(const struct sim_load_model *m)
{
    struct load_world *w = calloc(1, sizeof *w);
    if (w == NULL) {
        abort();
    }
    w->m = m;
    sim_agenda_init(&w->agenda);
    bt_rng_seed(&w->arrivals, m->seed);
    w->sent_at = calloc(m->requests + 1, sizeof *w->sent_at);
    w->took = calloc(m->requests + 1, sizeof *w->took);
    for (uint16_t id = 1; id < LOAD_MEMBERS; id++) {
        w->machine[id].queue = calloc(LOAD_QUEUE, sizeof *w->machine[id].queue);
        w->machine[id].line = calloc(LOAD_QUEUE, sizeof *w->machine[id].line);
    }
    if (m->group != SIM_LOAD_UNREPLICATED) {
        start_group(w);
    }
    sim_agenda_push(&w->agenda, BEGINS, (struct sim_event){NULL, 0, EV_REQUEST, 0});
    return w;
}

static void end(struct load_world *w)
{
    struct sim_event ev;
    while (sim_agenda_take(&w->agenda, UINT64_MAX / 2, &ev)) {
        if (ev.kind == EV_IN || ev.kind == EV_AGGREGATOR) {
            free(ev.ptr);
        }
    }
    for (uint16_t id = 1; id < LOAD_MEMBERS; id++) {
        struct load_machine *k = &w->machine[id];
        for (; k->waiting > 0; k->waiting--) {
            free(k->queue[k->head++ % LOAD_QUEUE]);
        }
        free(k->queue);
        free(k->line);
        free(k->mem);
    }
    sim_agenda_free(&w->agenda);
    free(w->sent_at);
    free(w->took);
    free(w->box_mem);
    free(w);
}

/* Of the requests after `from`, up to the last. */
static void judge(const struct load_world *w, uint64_t from, double *p50, double *p99, double *rps, uint64_t *lost)
{
    struct sim_samples s;
    uint64_t n = w->m->requests, last = 0;
    sim_samples_init(&s, n);
    *lost = 0;
    for (uint64_t op = from + 1; op <= n; op++) {
        if (w->took[op] == 0) {
            ++*lost;
        } else if (w->took[op] != UINT64_MAX) {
            sim_samples_add(&s, w->took[op]);
            last = w->sent_at[op] + w->took[op] > last ? w->sent_at[op] + w->took[op] : last;
        }
    }
    double seconds = (double)(last - w->sent_at[from + 1]) / 1e9;
    *p50 = s.n > 0 ? (double)sim_samples_percentile(&s, 50) : INFINITY;
    *p99 = s.n > 0 ? (double)sim_samples_percentile(&s, 99) : INFINITY;
    *rps = seconds > 0 ? (double)s.n / seconds : 0;
    sim_samples_free(&s);
}

static void conclude(const struct load_world *w, struct sim_load_result *out)
{
    uint64_t n = w->m->requests, lost;
    double p50;
    judge(w, n / 10, &out->p50_ns, &out->p99_ns, &out->answered_rps, &out->lost);
    judge(w, n - n / 3, &p50, &out->after_p99_ns, &out->after_answered_rps, &lost);
    double third = (double)(w->sent_at[n] - w->sent_at[n - n / 3]) / 1e9;
    out->after_dropped_rps = third > 0 ? (double)w->dropped_late / third : 0;
    out->dropped = w->dropped;
}

bool sim_load_run(const struct sim_load_model *m, struct sim_load_result *out)
{
    struct load_world *w = begin(m);
    struct sim_event ev;
    uint64_t until = UINT64_MAX / 2;
    *out = (struct sim_load_result){.p99_ns = INFINITY};
    bool led = true;
    while (led && !w->beyond && sim_agenda_take(&w->agenda, until, &ev)) {
        led = ev.kind != EV_REQUEST || m->group == SIM_LOAD_UNREPLICATED || w->sent > 0 || leader(w) != 0;
        happen(w, &ev);
        if (ev.kind == EV_REQUEST && w->sent == m->requests) {
            until = w->agenda.now + ENDS;
        }
    }
    if (led && !w->beyond) {
        conclude(w, out);
    }
    end(w);
    return led;
}

double sim_load_within(const struct sim_load_model *m, double slo_ns, double low, double high)
{
    struct sim_load_model at = *m;
    while (high - low > 0.01 * high) {
        struct sim_load_result r;
        at.rps = (low + high) / 2;
        bool within = sim_load_run(&at, &r) && r.p99_ns <= slo_ns && r.lost == 0 && r.dropped == 0;
        low = within ? at.rps : low;
        high = within ? high : at.rps;
    }
    return low;
}
