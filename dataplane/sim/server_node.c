// SPDX-License-Identifier: Apache-2.0
// A simulated worker: the shipped bt_server under an application that serves what waits in the order it is told to.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/server.h"
#include "world.h"

/* TRIES: to answer without a packet to do it with. MANY: tables of more workers than this are smaller, so that a
 * thousand fit in memory. */
enum { TRIES = 20, RETRY_NS = 100000, MANY = 64 };

static struct sim_server *at(const struct sim_world *w, uint32_t i)
{
    return &w->server[i];
}

static void queue_push(struct sim_server *v, struct sim_job_waiting job)
{
    if (v->q_n == v->q_cap) {
        uint32_t cap = v->q_cap > 0 ? v->q_cap * 2 : 64;
        struct sim_job_waiting *ring = malloc(cap * sizeof *ring);
        if (ring == NULL) {
            abort();
        }
        for (uint32_t k = 0; k < v->q_n; k++) {
            ring[k] = v->queue[(v->q_head + k) & (v->q_cap - 1)];
        }
        free(v->queue);
        v->queue = ring;
        v->q_cap = cap;
        v->q_head = 0;
    }
    v->queue[(v->q_head + v->q_n++) & (v->q_cap - 1)] = job;
}

/* The thread has served its request then, in this life. */
static void done_at(struct sim_server *v, uint32_t thread, uint64_t when_ns)
{
    struct sim_event ev = {.node = v->n.index, .kind = SIM_EVENT_DONE, .arg = (uint16_t)v->life};
    ev.ptr = (void *)((uintptr_t)v->job[thread].turn << 32 | thread);
    sim_agenda_push(&v->n.world->agenda, when_ns, ev);
}

static void serve(struct sim_server *v, struct sim_job_waiting job)
{
    struct sim_world *w = v->n.world;
    uint32_t thread = 0;
    while (v->job[thread].handle != 0) {
        thread++;
    }
    sim_integrate(w);
    v->running++;
    w->in_service++;
    job.turn = v->job[thread].turn + 1;
    v->job[thread] = job;
    uint64_t service = w->request[job.request].service_ns * v->slow;
    if (w->s->hiccups > 0 && sim_chance(&w->stream[SIM_STREAM_HICCUP], w->s->hiccups)) {
        service += w->s->hiccup_ns;
    }
    done_at(v, thread, w->agenda.now + service);
}

static struct sim_job_waiting *waiting(struct sim_server *v, uint32_t k)
{
    return &v->queue[(v->q_head + k) & (v->q_cap - 1)];
}

/* What is behind it moves up. */
static void leave_queue(struct sim_server *v, uint32_t k)
{
    for (v->q_n--; k < v->q_n; k++) {
        *waiting(v, k) = *waiting(v, k + 1);
    }
}

/* The waiting request of which the service or the deadline, counted from when its client sent it, comes
 * first; of equal ones that which came first. */
static struct sim_job_waiting take_first(struct sim_server *v)
{
    const struct sim_world *w = v->n.world;
    uint64_t least = UINT64_MAX;
    uint32_t first = 0;
    for (uint32_t k = 0; k < v->q_n; k++) {
        const struct sim_request *r = &w->request[waiting(v, k)->request];
        uint64_t key = w->s->discipline == SIM_SERVE_EDF ? r->sent_ns + SIM_DEADLINE * r->service_ns : r->service_ns;
        if (key < least) {
            least = key;
            first = k;
        }
    }
    struct sim_job_waiting job = *waiting(v, first);
    leave_queue(v, first);
    return job;
}

static inline void begin_next(struct sim_server *v)
{
    if (v->q_n == 0 || v->running == v->n.world->s->threads) {
        return;
    }
    if (v->n.world->s->discipline != SIM_SERVE_FCFS) {
        serve(v, take_first(v));
        return;
    }
    struct sim_job_waiting job = v->queue[v->q_head];
    v->q_head = (v->q_head + 1) & (v->q_cap - 1);
    v->q_n--;
    serve(v, job);
}

/* The application lets go of the request that is `handle`, if it has it. */
static enum bt_server_cancel let_go(struct sim_server *v, uint64_t handle, uint32_t *request)
{
    struct sim_world *w = v->n.world;
    for (uint32_t k = 0; k < v->q_n; k++) {
        if (waiting(v, k)->handle != handle) {
            continue;
        }
        *request = waiting(v, k)->request;
        leave_queue(v, k);
        return BT_CANCEL_REMOVED;
    }
    for (uint32_t thread = 0; thread < w->s->threads; thread++) {
        if (v->job[thread].handle != handle) {
            continue;
        }
        sim_integrate(w);
        w->in_service--;
        v->running--;
        v->job[thread].handle = 0;
        *request = v->job[thread].request;
        return BT_CANCEL_STOPPED;
    }
    return BT_CANCEL_KEPT;
}

static enum bt_server_cancel on_cancel(void *arg, uint64_t handle)
{
    struct sim_server *v = arg;
    struct sim_world *w = v->n.world;
    uint32_t request = 0;
    if (w->s->ignored_cancels > 0 && sim_chance(&w->stream[SIM_STREAM_CHOICE], w->s->ignored_cancels)) {
        w->net.seen.cancels_ignored++;
        return BT_CANCEL_KEPT;
    }
    enum bt_server_cancel how = let_go(v, handle, &request);
    if (how != BT_CANCEL_KEPT) {
        sim_check_let_go(w, v->n.index, request);
    }
    begin_next(v);
    return how;
}

/* It is what the client that it names calls so now. */
static inline bool is_of(const struct sim_client *c, const struct bt_server_request *rq, uint32_t number)
{
    return c->by_id[rq->req_id] == number + 1 && bt_addr_eq(&rq->client, &c->n.io.port[0]);
}

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct sim_server *v = arg;
    struct sim_world *w = v->n.world;
    uint64_t service = 0;
    uint32_t len = rq->msg.len, number = sim_body_of(w, &rq->msg, &service);
    sim_checked(&w->ledger.verdict, SIM_INV_CONTENT);
    const struct sim_request *r = number < w->requests_made ? &w->request[number] : NULL;
    if (r == NULL || service != r->service_ns || r->id != rq->req_id || !is_of(&w->client[r->client], rq, number)) {
        sim_breach(w, SIM_INV_CONTENT, "worker %u was handed %u bytes that are no request it was sent (says %u)",
                   v->n.index, len, number);
        return;
    }
    if (v->refusing) {
        w->net.seen.refused++;
        bt_server_drop(v->core, sim_node_now(&v->n), rq->handle, txq);
        return;
    }
    sim_check_executed(w, v->n.index, number);
    struct sim_job_waiting job = {rq->handle, number, 0};
    if (v->q_n == 0 && v->running < w->s->threads) {
        serve(v, job);
        return;
    }
    queue_push(v, job);
    begin_next(v);
}

static inline __attribute__((always_inline)) void finish_at(struct sim_server *v, struct bt_txq *q, uint64_t next)
{
    if (__builtin_expect(v->n.world->watching, 0)) {
        sim_check_server_tx(v->n.world, v->n.index, q);
        sim_check_server_step(v->n.world, v->n.index);
    }
    sim_node_after(&v->n, q, next);
}

static void finish(struct sim_server *v, struct bt_txq *q)
{
    finish_at(v, q, bt_server_next(v->core));
}

static void answered(struct sim_server *v, uint32_t thread)
{
    struct sim_world *w = v->n.world;
    sim_integrate(w);
    w->in_service--;
    sim_check_answered(w, v->n.index, v->job[thread].request);
    v->job[thread].handle = 0;
    v->running--;
    v->tries = 0;
}

/* which: thread, and its turn << 32 */
void sim_server_done(struct sim_world *w, uint32_t i, uint32_t life, uint64_t which)
{
    struct sim_server *v = at(w, i);
    uint32_t thread = (uint32_t)which;
    if (!v->up || (uint16_t)v->life != life || v->job[thread].handle == 0 || v->job[thread].turn != which >> 32) {
        return;
    }
    if (v->stalled_until > w->agenda.now) {
        done_at(v, thread, v->stalled_until);
        return;
    }
    struct sim_job_waiting job = v->job[thread];
    const struct sim_request *r = &w->request[job.request];
    uint32_t len = (r->flags & SIM_RQ_LONG_REPLY) != 0 ? w->s->long_bytes : w->s->reply_bytes;
    struct iovec iov = {w->scratch, sim_body_write(w->scratch, len, job.request, i + 1)};
    struct bt_txq q;
    bt_txq_init(&q);
    int rc = bt_server_reply(v->core, sim_node_now(&v->n), job.handle, &iov, 1, &q);
    bool starved = rc == BT_RPC_NO_BUFFER && w->net.holder[v->n.node].limit != UINT32_MAX;
    if (starved && ++v->tries == TRIES) { /* waiting requests may hold every packet: refusing one frees some */
        rc = bt_server_drop(v->core, sim_node_now(&v->n), job.handle, &q);
    }
    if (rc == 0) {
        answered(v, thread);
    } else {
        if (!starved) {
            sim_breach(w, SIM_INV_PROGRESS, "worker %u cannot reply to request %u: code %d", i, job.request, rc);
        }
        done_at(v, thread, w->agenda.now + RETRY_NS);
    }
    begin_next(v);
    finish_at(v, &q, bt_server_next(v->core));
}

static void tell_routers(struct sim_server *v)
{
    struct sim_world *w = v->n.world;
    struct bt_server_router list[SIM_ROUTERS_MAX];
    for (uint32_t r = 0; r < w->s->routers; r++) {
        list[r] = (struct bt_server_router){
            .request = sim_addr(w, SIM_ROUTER, r, 0),
            .feedback = sim_addr(w, SIM_ROUTER, r, 1),
            .legacy = v->legacy,
        };
    }
    struct bt_txq q;
    bt_txq_init(&q);
    if (bt_server_set_routers(v->core, sim_node_now(&v->n), list, (int)w->s->routers, &q) != 0) {
        sim_breach(w, SIM_INV_PROGRESS, "worker %u refused its routers", v->n.index);
    }
    finish(v, &q);
}

static void build(struct sim_world *w, struct sim_server *v)
{
    bool large = w->requests_wanted > 20000, many = w->s->workers > MANY;
    struct bt_server_cfg cfg = {
        .local = sim_addr(w, SIM_SERVER, v->n.index, 0),
        .mtu = 1500,
        .n = (uint16_t)v->depth,
        .feedback_port = 9000,
        .max_pending = w->s->server_pairs > 0 ? w->s->server_pairs
                       : many                 ? 512
                       : large                ? 16384
                                              : 1024,
        .max_assemblies = w->s->server_assemblies > 0 ? w->s->server_assemblies : 64,
        .max_done = many    ? 1024
                    : large ? 65536
                            : 4096,
        .max_held = w->s->server_held > 0 ? w->s->server_held : 64,
        .max_message = w->s->server_max_message,
        .incarnation = v->incarnation,
        .timers = bt_rpc_timers_for((enum bt_device)w->s->device),
        .pool = sim_node_pool(&v->n),
        .ops = {.on_request = on_request, .arg = v, .on_cancel = on_cancel},
    };
    cfg.seed[0] = bt_rng_next(&w->stream[SIM_STREAM_CHOICE]);
    cfg.seed[1] = bt_rng_next(&w->stream[SIM_STREAM_CHOICE]);
    if (w->s->tagged) {
        cfg.keys = w->keys;
    }
    if (v->n.mem == NULL) {
        v->n.mem_n = bt_server_bytes(&cfg);
        v->n.mem = sim_memory(v->n.mem_n);
    }
    v->core = bt_server_init(&cfg, v->n.mem, v->n.mem_n, sim_node_now(&v->n));
    if (v->core == NULL) {
        fprintf(stderr, "bobtail-sim: worker %u could not be built\n", v->n.index);
        abort();
    }
}

void sim_server_start(struct sim_world *w, uint32_t i)
{
    struct sim_server *v = at(w, i);
    if (v->life == 0) {
        sim_node_init(w, &v->n, SIM_SERVER, i);
        v->depth = w->s->depth;
        v->legacy = i < w->s->legacy_workers;
        v->job = calloc(w->s->threads, sizeof *v->job);
        if (v->job == NULL) {
            abort();
        }
        v->incarnation = SIM_FIRST_INCARNATION;
        v->slow = 1;
        if (w->s->server_packets > 0) {
            w->net.holder[v->n.node].limit = w->s->server_packets;
        }
    }
    v->life++;
    v->incarnation++;
    v->up = true;
    v->leaving = v->refusing = false;
    v->n.wake_ns = v->n.asked_ns = UINT64_MAX;
    v->n.core_ns = 0;
    build(w, v);
    tell_routers(v);
}

/* Far enough back that later restarts do not meet an incarnation that was. */
void sim_server_start_older(struct sim_world *w, uint32_t i)
{
    at(w, i)->incarnation -= SIM_FIRST_INCARNATION / 2;
    sim_server_start(w, i);
}

void sim_server_run(struct sim_node *n, uint64_t now, struct bt_pkt *p)
{
    struct sim_server *v = (struct sim_server *)(void *)n;
    struct bt_txq q;
    bt_txq_init(&q);
    sim_node_core_at(n, now);
    if (p != NULL) {
        bt_server_rx(v->core, now, p, &q);
    }
    uint64_t next = bt_server_next(v->core);
    if (next <= now) {
        bt_server_tick(v->core, now, &q);
        next = bt_server_next(v->core);
    }
    finish_at(v, &q, next);
}

/* kill -9: nothing is said, everything held is gone. */
void sim_server_stop(struct sim_world *w, uint32_t i)
{
    struct sim_server *v = at(w, i);
    if (!v->up) {
        return;
    }
    sim_integrate(w);
    sim_server_harvest(w, i);
    w->in_service -= v->running;
    for (uint32_t k = 0; k < v->q_n; k++) {
        w->request[v->queue[(v->q_head + k) & (v->q_cap - 1)].request].live--;
    }
    for (uint32_t k = 0; k < w->s->threads; k++) {
        if (v->job[k].handle != 0) {
            w->request[v->job[k].request].live--;
        }
    }
    v->up = false;
    v->running = v->q_n = v->q_head = 0;
    memset(v->job, 0, w->s->threads * sizeof *v->job);
    sim_holder_drop_all(&w->net.holder[v->n.node]);
    v->core = NULL;
}

void sim_server_leave(struct sim_world *w, uint32_t i)
{
    struct sim_server *v = at(w, i);
    struct bt_txq q;
    bt_txq_init(&q);
    v->leaving = !v->leaving;
    if (v->leaving) {
        bt_server_leave(v->core, sim_node_now(&v->n), &q);
    } else {
        bt_server_join(v->core, sim_node_now(&v->n), &q);
    }
    finish(v, &q);
}

void sim_server_depth(struct sim_world *w, uint32_t i, uint32_t depth)
{
    struct sim_server *v = at(w, i);
    struct bt_txq q;
    bt_txq_init(&q);
    v->depth = depth;
    bt_server_set_n(v->core, sim_node_now(&v->n), (uint16_t)depth, &q);
    finish(v, &q);
}

uint64_t sim_server_state(const struct sim_world *w, uint32_t i)
{
    const struct sim_server *v = at(w, i);
    uint64_t sum = bt_server_backlog(v->core) + (v->q_n + v->running) * 1000003ULL, received, served;
    for (uint32_t r = 0; r < w->s->routers; r++) {
        if (!sim_server_counts(w, i, r, &received, &served)) {
            continue;
        }
        sum = sum * 0x9e3779b97f4a7c15ULL + received * 31 + served;
    }
    return sum ^ bt_server_next(v->core) ^ (uint64_t)w->net.holder[v->n.node].count << 40;
}

void sim_server_harvest(struct sim_world *w, uint32_t i)
{
    if (!at(w, i)->up) {
        return;
    }
    const uint64_t *n = bt_server_counters(at(w, i)->core);
    uint64_t *full = w->net.seen.full;
    full[SIM_FULL_SERVER_PAIRS] += n[BT_SERVER_DROP_TABLE];
    full[SIM_FULL_SERVER_HELD] += n[BT_M16];
    full[SIM_FULL_SERVER_BUFFERS] += n[BT_SERVER_NO_BUFFER];
}
