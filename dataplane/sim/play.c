// SPDX-License-Identifier: Apache-2.0
// One run from the first JOIN to the verdict: load, drain, calm, probes, calm.
#include "extras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL

enum { START_MS = 1, LOAD_MS = 20 };

/* --- events ------------------------------------------------------------------------------------ */

static inline void run_node(struct sim_node *n, uint64_t now, struct bt_pkt *p)
{
    if (n->role == SIM_ROUTER) {
        sim_router_run(n, now, p);
    } else if (n->role == SIM_CLIENT) {
        sim_client_run(n, now, p);
    } else {
        sim_server_run(n, now, p);
    }
}

void sim_node_run(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = w->node[node];
    n->asked_ns = UINT64_MAX;
    if (*n->up && n->frozen_until <= w->agenda.now) {
        run_node(n, sim_node_now(n), NULL);
    }
}

static uint64_t node_state(struct sim_world *w, uint32_t node)
{
    enum sim_role role = sim_net_role(&w->net, node);
    uint32_t i = node - w->net.first[role];
    return role == SIM_CLIENT   ? sim_client_state(w, i)
           : role == SIM_ROUTER ? sim_router_state(w, i)
                                : sim_server_state(w, i);
}

/* A router on two threads that cannot come to rest: what it reads waits at its port. */
static bool restless(struct sim_world *w, const struct sim_node *n)
{
    return n->role == SIM_ROUTER && !w->router[n->index].form->catch_up(&w->router[n->index]);
}

static void no_port(struct sim_world *w, struct sim_node *n, struct bt_pkt *p)
{
    w->net.no_port++;
    bt_pool_put(sim_node_pool(n), p);
}

/* what must be rejected must change nothing but a counter. The node reads p, and nothing else. */
__attribute__((noinline, cold)) static void read_bad(struct sim_world *w, struct sim_node *n, struct bt_pkt *p,
                                                     uint8_t mark, uint64_t before)
{
    char head[40] = "";
    for (uint32_t i = 0; i < p->len && i < 12; i++) {
        snprintf(head + 3 * i, 4, "%02x ", p->data[i]);
    }
    w->ledger.bad_packet = true;
    run_node(n, n->local_ns, p);
    w->ledger.bad_packet = false;
    sim_checked(&w->ledger.verdict, SIM_INV_UNCHANGED);
    if (node_state(w, n->node) != before) {
        static const char *const names[] = {"client", "router", "worker"};
        enum sim_role role = sim_net_role(&w->net, n->node);
        sim_breach(w, SIM_INV_UNCHANGED, "%s packet (%s…) changed %s %u",
                   (mark & SIM_MARK_GARBAGE) != 0 ? "malformed" : "corrupted", head, names[role], n->index);
    }
}

__attribute__((cold)) void sim_read_bad(struct sim_world *w, struct sim_node *n, struct bt_pkt *p)
{
    uint8_t mark = p->mark;
    p->mark = 0;
    sim_buffer_give(p, &w->net.wire); /* not counted among what the node holds */
    uint64_t before = node_state(w, n->node);
    sim_buffer_give(p, &w->net.holder[n->node]);
    read_bad(w, n, p, mark, before);
}

__attribute__((noinline, cold)) static void on_bad_packet(struct sim_world *w, struct sim_node *n, struct bt_pkt *p,
                                                          uint8_t mark)
{
    sim_buffer_give(p, &w->net.wire); /* as above */
    run_node(n, n->local_ns, NULL);   /* whatever is due anyway */
    bool later = restless(w, n);
    uint64_t before = node_state(w, n->node);
    sim_buffer_give(p, &w->net.holder[n->node]);
    if (!bt_io_sim_receive(&n->io, p, n->local_ns)) {
        no_port(w, n, p);
        return;
    }
    w->net.received++;
    if (later) {
        p->mark = mark; /* its thread says when: sim_read_bad */
        run_node(n, n->local_ns, p);
        return;
    }
    read_bad(w, n, p, mark, before);
}

/* The node's core gets the packet. */
static inline void hand_in(struct sim_world *w, struct sim_node *n, struct bt_pkt *p)
{
    p->mark = 0;
    if (__builtin_expect(!bt_io_sim_receive(&n->io, p, n->local_ns), 0)) {
        no_port(w, n, p);
        return;
    }
    w->net.received++;
    run_node(n, n->local_ns, p);
}

/* Where something may have happened to the packet or the node. Apart, so that runs without faults have a short loop. */
__attribute__((noinline)) static void on_arrive_disturbed(struct sim_world *w, const struct sim_event *ev)
{
    struct bt_pkt *p = ev->ptr;
    struct sim_node *n = w->node[ev->node];
    if (w->watching) {
        sim_check_req0_gone(w, ev->arg, ev->node, p);
    }
    if (!*n->up) {
        w->net.seen.to_the_dead++;
        sim_nobody_there(w, p);
        sim_net_bury(&w->net, p);
        return;
    }
    const struct sim_holder *holder = &w->net.holder[ev->node];
    if (holder->count >= holder->limit) { /* the driver has no buffer for it */
        w->net.seen.full[SIM_FULL_RECEIVE_BUFFERS]++;
        sim_net_bury(&w->net, p);
        return;
    }
    n->local_ns = sim_node_now(n);
    uint8_t mark = p->mark;
    sim_net_arrived(&w->net, ev->arg, ev->node, p);
    if ((mark & (SIM_MARK_GARBAGE | SIM_MARK_CORRUPTED)) != 0) {
        p->mark = 0;
        on_bad_packet(w, n, p, mark);
    } else {
        hand_in(w, n, p);
    }
}

static inline void on_arrive(struct sim_world *w, const struct sim_event *ev)
{
    struct sim_node *n = w->node[ev->node];
    n->local_ns = sim_node_now(n);
    hand_in(w, n, ev->ptr);
}

static void on_wake(struct sim_world *w, const struct sim_event *ev)
{
    struct sim_node *n = w->node[ev->node];
    if (!*n->up || n->wake_ns != w->agenda.now) {
        return; /* an earlier wish was granted since */
    }
    n->wake_ns = n->asked_ns = UINT64_MAX;
    run_node(n, sim_node_now(n), NULL);
}

static void on_load(struct sim_world *w)
{
    if (w->requests_made == w->requests_warm) {
        sim_integrate(w);
        w->window_from_ns = w->agenda.now;
        w->measuring = true;
    }
    if (w->requests_made >= w->requests_warm && w->requests_made < w->requests_main) {
        w->window_arrivals++;
    }
    sim_client_load(w);
    if (w->requests_made == w->requests_main) {
        sim_integrate(w);
        w->window_to_ns = w->load_end_ns = w->agenda.now;
        w->measuring = false;
    }
    if (w->requests_made == w->requests_main || w->requests_made == w->requests_wanted) {
        return;
    }
    uint64_t wait = sim_next_arrival(w);
    sim_agenda_push(&w->agenda, w->agenda.now + wait, (struct sim_event){.kind = SIM_EVENT_LOAD});
}

static void on_garbage(struct sim_world *w)
{
    if (w->net.calm) {
        return;
    }
    sim_garbage(w);
    double wait = -1e9 / w->s->garbage_per_second * __builtin_log(sim_uniform(&w->stream[SIM_STREAM_GARBAGE]));
    sim_agenda_push(&w->agenda, w->agenda.now + (uint64_t)wait + 1, (struct sim_event){.kind = SIM_EVENT_GARBAGE});
}

static void on_stranger(struct sim_world *w)
{
    if (w->net.calm) {
        return;
    }
    sim_half_open(w);
    double rate = w->s->half_open_per_second * w->s->half_open_sources;
    double wait = -1e9 / rate * __builtin_log(sim_uniform(&w->stream[SIM_STREAM_GARBAGE]));
    sim_agenda_push(&w->agenda, w->agenda.now + (uint64_t)wait + 1, (struct sim_event){.kind = SIM_EVENT_STRANGER});
}

/* What happens to a frozen process waits until it runs again, in its order. */
static bool postponed(struct sim_world *w, const struct sim_event *ev)
{
    if (ev->kind > SIM_EVENT_DONE || ev->kind == SIM_EVENT_LOAD) {
        return false;
    }
    uint32_t node = ev->kind == SIM_EVENT_DONE ? sim_node_of(w, SIM_SERVER, ev->node) : ev->node;
    struct sim_node *n = w->node[node];
    if (n->frozen_until <= w->agenda.now || !*n->up) {
        return false;
    }
    w->net.seen.postponed++;
    if (ev->kind == SIM_EVENT_WAKE) {
        n->wake_ns = n->wake_ns == w->agenda.now ? n->frozen_until : n->wake_ns;
    }
    if (ev->kind == SIM_EVENT_TURN) {
        sim_threads_postpone(&w->router[n->index], ev->arg, n->frozen_until);
    }
    sim_agenda_push(&w->agenda, n->frozen_until, *ev);
    return true;
}

static inline void dispatch(struct sim_world *w, const struct sim_event *ev)
{
    if (ev->kind == SIM_EVENT_ARRIVE && w->net.direct) {
        on_arrive(w, ev);
        return;
    }
    if (w->watching && postponed(w, ev)) {
        return;
    }
    switch (ev->kind) {
    case SIM_EVENT_ARRIVE:
        on_arrive_disturbed(w, ev);
        break;
    case SIM_EVENT_WAKE:
        on_wake(w, ev);
        break;
    case SIM_EVENT_LOAD:
        on_load(w);
        break;
    case SIM_EVENT_TURN:
        sim_threads_turn(w, ev->node, ev->arg);
        break;
    case SIM_EVENT_DONE:
        sim_server_done(w, ev->node, ev->arg, (uintptr_t)ev->ptr);
        break;
    case SIM_EVENT_HAPPENING:
        sim_happen(w, &w->s->event[ev->node]);
        break;
    case SIM_EVENT_BACK:
        sim_come_back(w, &w->s->event[ev->node]);
        break;
    case SIM_EVENT_UNREACHABLE:
        sim_hear_unreachable(w, ev->node, ev->arg);
        break;
    case SIM_EVENT_STRANGER:
        on_stranger(w);
        break;
    default:
        on_garbage(w);
        break;
    }
}

__attribute__((noinline, cold)) static void stand_still(struct sim_world *w, const struct sim_event ev)
{
    sim_breach(w, SIM_INV_PROGRESS, "time stands still: event kind %u at node %u again and again", ev.kind, ev.node);
    w->stuck = true;
    w->requests_enough = 0;
}

/* Runs until `until`, or until `enough` requests have ended; false when something is stuck. */
__attribute__((noinline)) static bool advance(struct sim_world *w, uint64_t until_ns, uint64_t enough)
{
    struct sim_event ev;
    w->requests_enough = w->stuck || w->agenda.now > until_ns ? 0 : enough;
    while (w->requests_ended < w->requests_enough) {
        bool same_instant = sim_agenda_has_more_now(&w->agenda);
        if (!sim_agenda_next(&w->agenda, until_ns, &ev)) {
            break;
        }
        if (same_instant && __builtin_expect(sim_agenda_stands_still(&w->agenda), 0)) {
            stand_still(w, ev);
        }
        dispatch(w, &ev);
    }
    return !w->stuck;
}

/* --- the run ------------------------------------------------------------------------------------ */

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size);
    if (p == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory\n");
        abort();
    }
    return p;
}

static void build(struct sim_world *w, const struct sim_scenario *s)
{
    w->s = s;
    w->requests_main = s->requests;
    w->requests_wanted = s->requests + s->probes;
    w->threads_all = (uint64_t)s->workers * s->threads;
    w->unshaped = s->long_requests <= 0 && s->long_replies <= 0 && s->sticky <= 0 && s->direct <= 0 && s->spared <= 0 &&
                  s->prioritised <= 0;
    w->requests_warm = (uint64_t)((double)s->requests * s->warmup);
    sim_agenda_init(&w->agenda);
    w->agenda.now = START_MS * MS;
    sim_buffers_init(&w->buffers, 1 << 18);
    sim_net_init(&w->net, s, &w->agenda, &w->buffers, SIM_EVENT_ARRIVE);
    sim_ledger_init(w);
    w->watching = s->faults_n > 0 || s->events_n > 0 || s->links_n > 0 || s->checks;
    w->net.late_ns = w->ledger.t_loss_ns / 4;
    w->net.watch = w->watching ? sim_check_watch : NULL;
    w->net.watch_ctx = w;
    for (int i = 0; i < SIM_STREAMS; i++) {
        sim_stream_seed(&w->stream[i], s->seed, (enum sim_purpose)i);
    }
    w->keys.key[0].id = 7;
    for (int i = 0; i < 16; i++) {
        w->keys.key[0].bytes[i] = (uint8_t)bt_rng_next(&w->stream[SIM_STREAM_CHOICE]);
    }
    w->client = zeroed(s->clients, sizeof *w->client);
    w->router = zeroed(s->routers, sizeof *w->router);
    w->server = zeroed(s->workers, sizeof *w->server);
    w->node = zeroed(sim_net_nodes(&w->net), sizeof *w->node);
    w->request = zeroed(w->requests_wanted, sizeof *w->request);
    sim_arrivals_init(w);
}

static void tear_down(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->s->clients; i++) {
        sim_client_stop(w, i);
    }
    for (uint32_t i = 0; i < w->s->routers; i++) {
        sim_router_stop(w, i);
        sim_memory_free(w->router[i].n.mem, w->router[i].n.mem_n);
    }
    for (uint32_t i = 0; i < w->s->workers; i++) {
        sim_server_stop(w, i);
        sim_memory_free(w->server[i].n.mem, w->server[i].n.mem_n);
        free(w->server[i].queue);
        free(w->server[i].job);
    }
    free(w->node);
    free(w->client);
    free(w->router);
    free(w->server);
    free(w->request);
    sim_ledger_free(w);
    sim_net_free(&w->net);
    sim_buffers_free(&w->buffers);
    sim_agenda_free(&w->agenda);
}

static void start(struct sim_world *w)
{
    const struct sim_scenario *s = w->s;
    for (uint32_t i = 0; i < s->clients; i++) {
        sim_client_start(w, i);
    }
    for (uint32_t i = 0; i < s->routers; i++) {
        sim_router_start(w, i);
    }
    for (uint32_t i = 0; i < s->workers; i++) {
        sim_server_start(w, i);
    }
    w->load_start_ns = w->net.load_start_ns = LOAD_MS * MS;
    w->last_event_ns = w->load_start_ns;
    sim_agenda_push(&w->agenda, w->load_start_ns, (struct sim_event){.kind = SIM_EVENT_LOAD});
    for (uint32_t i = 0; i < s->events_n; i++) {
        uint64_t t = w->load_start_ns + s->event[i].at_ns, end = t + s->event[i].for_ns;
        sim_agenda_push(&w->agenda, t, (struct sim_event){.node = i, .kind = SIM_EVENT_HAPPENING});
        if (end > w->last_event_ns) {
            w->last_event_ns = end;
        }
    }
    if (s->garbage_per_second > 0) {
        sim_agenda_push(&w->agenda, w->load_start_ns, (struct sim_event){.kind = SIM_EVENT_GARBAGE});
    }
    if (s->half_open_sources > 0) {
        sim_agenda_push(&w->agenda, w->load_start_ns, (struct sim_event){.kind = SIM_EVENT_STRANGER});
    }
}

/* Every request of the load has been sent and has ended, or should have. */
static void run_load(struct sim_world *w)
{
    uint64_t sending = w->load_start_ns + (uint64_t)(w->gap_ns * (double)w->requests_main * 4) + 60000 * MS;
    advance(w, sending + 2 * w->s->timeout_ns + 5000 * MS, w->requests_main);
    advance(w, w->last_event_ns, UINT64_MAX);
    if (w->requests_ended < w->requests_main) {
        sim_breach(w, SIM_INV_EXACTLY_ONCE, "%llu of %llu requests never ended",
                   (unsigned long long)(w->requests_main - w->requests_ended), (unsigned long long)w->requests_main);
    }
}

static void run_calm(struct sim_world *w)
{
    const struct sim_scenario *s = w->s;
    w->net.calm = true;
    if (s->settle_ms == 0) {
        return;
    }
    advance(w, w->agenda.now + s->settle_ms * MS, UINT64_MAX);
    if (w->stuck) {
        return;
    }
    sim_check_idle(w);
    if (s->probes > 0) {
        sim_agenda_push(&w->agenda, w->agenda.now, (struct sim_event){.kind = SIM_EVENT_LOAD});
        advance(w, w->agenda.now + (uint64_t)(s->service.mean_ns * s->probes) + s->timeout_ns + 2000 * MS,
                w->requests_wanted);
        sim_check_probes(w);
        advance(w, w->agenda.now + s->settle_ms * MS, UINT64_MAX);
        sim_check_idle(w);
    }
    sim_check_buffers(w);
}

/* Where somebody asks, since it is a walk over all requests. */
static void count_answered(const struct sim_world *w, struct sim_result *out)
{
    bool wanted = w->s->expect_n > 0 || w->s->half_open_sources > 0;
    for (uint64_t i = 0; wanted && i < w->requests_made && i < w->requests_main; i++) {
        bool several = (w->request[i].flags & SIM_RQ_LONG_REQUEST) != 0;
        out->asked[several]++;
        out->answered[several] += w->request[i].outcome == SIM_SUCCESS;
    }
}

/* Of millions, without a call for each. */
static inline void note_latency(struct sim_samples *s, uint64_t ns)
{
    if (__builtin_expect(s->n < s->cap, 1)) {
        s->v[s->n++] = ns;
    } else {
        sim_samples_add(s, ns);
    }
}

static void summarise(struct sim_world *w, struct sim_result *out)
{
    struct sim_samples v;
    static const double p[] = {50, 99, 99.9};
    uint64_t from = w->requests_warm, ns[3];
    sim_samples_init(&v, w->requests_main - from);
    const uint64_t end = w->requests_made < w->requests_main ? w->requests_made : w->requests_main;
    for (uint64_t i = 0; i < end; i++) {
        const struct sim_request *r = &w->request[i];
        out->outcome[r->outcome]++;
        if (i >= from && r->outcome == SIM_SUCCESS) {
            note_latency(&v, r->ended_ns - r->sent_ns);
        }
    }
    out->mean_ns = sim_samples_mean(&v);
    sim_samples_percentiles(&v, p, 3, ns);
    out->p50_ns = (double)ns[0];
    out->p99_ns = (double)ns[1];
    out->p999_ns = (double)ns[2];
    double span = (double)(w->window_to_ns - w->window_from_ns);
    out->throughput =
        span > 0 ? (double)w->window_done * w->s->service.mean_ns / span / w->s->workers / w->s->threads : 0;
    double lambda_t = span > 0 ? (double)w->window_arrivals / span * out->mean_ns : 0;
    out->little_error = lambda_t > 0 ? w->area / span / lambda_t - 1 : 0;
    out->idle_while_waiting_ns = w->idle_while_waiting_ns;
    sim_samples_free(&v);
}

static void write_trace(const struct sim_world *w, struct sim_trace *t)
{
    t->n = w->requests_main;
    for (size_t i = 0; i < t->n; i++) {
        const struct sim_request *r = &w->request[i];
        t->job[i] = (struct sim_job){r->sent_ns, r->service_ns};
        t->sojourn_ns[i] = r->outcome == SIM_SUCCESS ? r->ended_ns - r->sent_ns : UINT64_MAX;
    }
}

static void collect(struct sim_world *w, struct sim_result *out)
{
    out->seed = w->s->seed;
    for (uint32_t i = 0; i < w->s->clients; i++) {
        sim_client_harvest(w, i);
    }
    for (uint32_t i = 0; i < w->s->workers; i++) {
        sim_server_harvest(w, i);
    }
    for (uint32_t i = 0; i < w->s->routers; i++) {
        sim_router_harvest(w, i);
    }
    out->packets = w->net.packets;
    out->events = sim_agenda_taken(&w->agenda);
    out->virtual_ns = w->agenda.now;
    out->seen = w->net.seen;
    for (uint32_t r = 0; r < w->s->routers; r++) {
        struct bt_router_stats st;
        if (!w->router[r].up) {
            continue;
        }
        sim_router_totals(w, r, &st);
        for (int c = 0; c < BT_ROUTER_COUNTERS; c++) {
            out->router_counter[c] += st.counter[c];
        }
    }
    out->verdict = w->ledger.verdict;
}

void sim_run(const struct sim_scenario *s, struct sim_result *out, struct sim_trace *trace)
{
    sim_run_full(s, out, trace, NULL);
}

void sim_run_full(const struct sim_scenario *s, struct sim_result *out, struct sim_trace *trace,
                  struct sim_extras *extras)
{
    struct sim_world *w = zeroed(1, sizeof *w);
    memset(out, 0, sizeof *out);
    build(w, s);
    start(w);
    run_load(w);
    if (!w->stuck) {
        run_calm(w);
    }
    sim_check_ended(w);
    summarise(w, out);
    count_answered(w, out);
    if (trace != NULL) {
        write_trace(w, trace);
    }
    if (extras != NULL) {
        sim_extras_take(w, extras);
    }
    collect(w, out);
    tear_down(w);
    free(w);
}
