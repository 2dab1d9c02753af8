// SPDX-License-Identifier: Apache-2.0
// A home's network: packets in, requests to the scheduler, replies and FEEDBACK out. All of it with the home's token,
// by whichever core has it (D-2).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/memory.h"
#include "run/run_internal.h"
#include "run/tcp.h"

// As in bobtail-serve: requests that wait for an answer hold buffers themselves, so one is refused after so long.
#define STARVED_NS UINT64_C(20000000)
#define RETRY_NS   UINT64_C(1000000)

RUN_RARE static void free_reply(struct bobtail_request *job)
{
    free(job->heap);
    job->heap = NULL;
}

static inline void give_back(struct run_home *home, struct bobtail_request *job)
{
    if (__builtin_expect(job->heap != NULL, 0)) {
        free_reply(job);
    }
    job->next = home->free;
    home->free = job;
}

static inline void fill(struct run_home *home, struct bobtail_request *job, const struct bt_server_request *rq)
{
    job->handle = rq->handle;
    job->msg = rq->msg;
    job->class_flags = rq->class_flags;
    job->reply = NULL;
    job->one.len = 0;
    atomic_store_explicit(&job->stage, RUN_WAITING, memory_order_relaxed);
    home->job_of[(uint32_t)rq->handle] = job;
}

RUN_RARE static void refuse(struct run_home *home, uint64_t handle, struct bt_txq *txq)
{
    bt_server_drop(home->server, bt_io_now(home->io), handle, txq);
}

/* The flow of a request: its own, or that of its client (D-4). Clients of one flow wait for each other. */
static inline uint32_t flow_of(const struct run_home *home, const struct bobtail_request *job)
{
    if (__builtin_expect(!home->run->per_client, 1)) {
        return (uint32_t)job->handle;
    }
    uint64_t half[2];
    memcpy(half, job->client.ip, sizeof half);
    uint64_t mixed = (half[0] ^ half[1] * UINT64_C(0x9e3779b97f4a7c15) ^ job->client.port ^ home->run->setup.seed) *
                     UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)((mixed >> 32) % home->max_pending);
}

/* Somebody else may execute it, or is to know who sent it. */
__attribute__((noinline)) static void hand_over(struct run_home *home, struct bobtail_request *job,
                                                const struct bt_server_request *rq, struct bt_txq *txq)
{
    job->client = rq->client;
    job->req_id = rq->req_id;
    if (home->own_turn && home->taken < BT_IO_BATCH) {
        home->batch[home->taken++] = job;
        return;
    }
    job->event.flow = home->first_flow + flow_of(home, job);
    if (!bt_sched_deliver(home->lane->sched, home->core, &job->event)) {
        refuse(home, job->handle, txq);
        give_back(home, job);
    }
}

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct run_home *home = arg;
    struct bobtail_request *job = home->free;
    if (__builtin_expect(job == NULL, 0)) {
        refuse(home, rq->handle, txq);
        return;
    }
    home->free = job->next;
    fill(home, job, rq);
    if (home->taken >= home->room) {
        hand_over(home, job, rq, txq);
        return;
    }
    home->batch[home->taken++] = job; // by the core that took it: nobody else need know
}

// One that waits is gone at once: whoever takes it from its queue finds it so. One that is executed has its
// bytes until its handler ends; it is given up then.
static enum bt_server_cancel on_cancel(void *arg, uint64_t handle)
{
    struct run_home *home = arg;
    struct bobtail_request *job = home->job_of[(uint32_t)handle];
    uint32_t waiting = RUN_WAITING;
    if (atomic_compare_exchange_strong_explicit(&job->stage, &waiting, RUN_GONE, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return BT_CANCEL_REMOVED;
    }
    atomic_store_explicit(&job->stage, RUN_UNWANTED, memory_order_relaxed);
    return BT_CANCEL_KEPT;
}

/* No reply was sent. False: there was no buffer for one, and it must wait. */
RUN_RARE static bool answer_otherwise(struct run_home *home, struct bobtail_request *job, uint64_t now, int result)
{
    if (atomic_load_explicit(&job->stage, memory_order_relaxed) == RUN_GONE) {
        return true;
    }
    if (result == BT_RPC_NO_BUFFER) {
        home->starved_ns = home->starved_ns != 0 ? home->starved_ns : now;
        if (now - home->starved_ns < STARVED_NS) {
            return false;
        }
    }
    if (bt_server_abandon(home->server, now, job->handle, &home->txq) != 0) { // it was not taken back
        bt_server_drop(home->server, now, job->handle, &home->txq);           // the client learns it at once
    }
    return true;
}

/* True: it is over, and given back. timed: somebody asks how long it took. */
static inline bool answer(struct run_home *home, struct bobtail_request *job, uint64_t now, bool timed)
{
    int result = BT_RPC_TOO_LARGE;
    if (job->reply != NULL && atomic_load_explicit(&job->stage, memory_order_relaxed) == RUN_EXECUTING) {
        if (timed && run_clocked(home)) {
            bt_server_measured(home->server, job->handle, job->began_ns, job->began_ns + job->took_ns);
        }
        struct iovec iov = {.iov_base = (void *)(uintptr_t)job->reply, .iov_len = job->reply_len};
        result = bt_server_reply(home->server, now, job->handle, &iov, 1, &home->txq);
    }
    if (__builtin_expect(result != 0, 0)) {
        if (!answer_otherwise(home, job, now, result)) {
            return false;
        }
    } else if (timed && home->service != NULL) {
        bt_hist_slices_record(home->service, now, job->took_ns);
    }
    give_back(home, job);
    return true;
}

static void answer_stuck(struct run_home *home, uint64_t now)
{
    struct run_list stuck = home->stuck;
    struct bobtail_request *job;
    home->stuck = (struct run_list){0};
    while ((job = run_list_take(&stuck)) != NULL) {
        if (!answer(home, job, now, true)) {
            run_list_add(&home->stuck, job);
        }
    }
    if (home->stuck.first == NULL) {
        home->starved_ns = 0;
    }
}

/* What the home's own core executed. timed: a constant; who does not ask for times does not pay for them. */
static inline __attribute__((always_inline)) void answer_all(struct run_home *home, uint64_t now, bool timed)
{
    uint32_t i = home->answered, executed = home->executed;
    for (; i < executed; i++) {
        if (!answer(home, home->batch[i], now, timed)) {
            run_list_add(&home->stuck, home->batch[i]);
        }
    }
    home->answered = i;
    if (i == home->taken) {
        home->taken = home->executed = home->answered = 0;
    }
}

__attribute__((noinline)) static void answer_timed(struct run_home *home, uint64_t now)
{
    answer_all(home, now, true);
}

static inline void answer_batch(struct run_home *home, uint64_t now)
{
    if (run_timed(home)) {
        answer_timed(home, now);
    } else {
        answer_all(home, now, false);
    }
}

static void answer_flows(struct run_home *home, uint64_t now)
{
    struct bt_sched *s = home->lane->sched;
    uint32_t flow;
    while ((flow = bt_sched_finished(s, home->core)) != BT_SCHED_NONE) {
        struct bobtail_request **left = &home->left[flow - home->first_flow];
        struct bobtail_request *next = NULL;
        for (struct bobtail_request *job = *left; job != NULL; job = next) {
            next = run_job_of(job->event.next);
            if (!answer(home, job, now, true)) {
                run_list_add(&home->stuck, job);
            }
        }
        *left = NULL;
        bt_sched_replied(s, home->core, flow);
    }
}

static void take_packets(struct run_home *home)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_sched *s = home->lane->sched;
    uint32_t bound = bt_sched_batch(home->run->batch, BT_IO_BATCH);
    atomic_store_explicit(&home->clocked, home->flow != NULL && bt_flow_on(home->flow), memory_order_relaxed);
    bt_sched_waiting(s, home->core, 0); // before looking, so that a hint of what comes later stays
    unsigned n = bt_io_rx(home->io, BT_IO_ANY, pkts, bound);
    bt_server_rx_burst(home->server, pkts, n, &home->txq);
    if (n == bound) {
        bt_sched_waiting(s, home->core, n);
    }
}

/* Says when the next turn is: the home's core may sleep on an older answer. */
static inline void want_turn(struct run_home *home, uint64_t due)
{
    if (due == run_relaxed(&home->due_ns)) {
        return;
    }
    atomic_store(&home->due_ns, due);
    if (due < atomic_load(&home->sleep_ns)) {
        run_core_wake(&home->run->core[home->lane->first + home->core]);
    }
}

static inline uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Runs what is due. Returns when the next turn is. */
static uint64_t tick(struct run_home *home, uint64_t now)
{
    if (bt_server_next(home->server) <= now) {
        bt_server_tick(home->server, now, &home->txq);
    }
    uint64_t due = bt_server_next(home->server);
    return home->stuck.first != NULL ? earlier(due, now + RETRY_NS) : due;
}

static void tcp_turn(struct run_home *home, bool poll)
{
    struct bt_sched *s = home->lane->sched;
    uint32_t flow;
    while ((flow = bt_sched_finished(s, home->core)) != BT_SCHED_NONE) {
        run_tcp_answer(home, flow);
    }
    if (poll) {
        bt_sched_waiting(s, home->core, 0); // before looking, as above
        if (run_tcp_poll(home)) {
            bt_sched_waiting(s, home->core, 1);
        }
    }
    run_tcp_flush(home);
    want_turn(home, run_tcp_next(home));
}

static void turn(struct run_home *home, struct run_core *core, bool poll)
{
    if (home->tcp != NULL) {
        tcp_turn(home, poll);
        return;
    }
    if (home->io == NULL) {
        return;
    }
    uint64_t now = bt_io_now(home->io);
    if (__builtin_expect(home->stuck.first != NULL, 0)) {
        answer_stuck(home, now);
    }
    if (core != NULL && core->home == home) {
        answer_batch(home, now);
    }
    answer_flows(home, now);
    bt_io_tx(home->io, &home->txq);
    if (poll) {
        home->own_turn = core != NULL && core->home == home && home->run->setup.mode == BT_SCHED_RUN_TO_COMPLETION;
        home->room = home->own_turn && !home->origins ? BT_IO_BATCH : 0;
        take_packets(home);
        home->own_turn = false;
        home->room = 0;
    }
    uint64_t due = tick(home, now);
    bt_io_tx(home->io, &home->txq);
    want_turn(home, earlier(due, bt_io_next(home->io)));
    atomic_store_explicit(&home->backlog, bt_server_backlog(home->server), memory_order_relaxed);
}

void run_home_look(struct run_home *home)
{
    turn(home, NULL, true);
}

void run_home_turn(struct run_home *home, struct run_core *core, bool poll)
{
    do {
        turn(home, core, poll);
        poll = false;
    } while (bt_sched_release(home->lane->sched, home->core));
}

static bool make_lists(struct run_home *home, const struct bt_server_cfg *cfg)
{
    // A request that was taken back leaves its place in the server's table before it leaves its queue here.
    uint32_t jobs = 2 * cfg->max_pending;
    home->jobs = calloc(jobs, sizeof *home->jobs);
    home->job_of = calloc(cfg->max_pending, sizeof(struct bobtail_request *));
    home->left = calloc(cfg->max_pending, sizeof(struct bobtail_request *));
    for (uint32_t i = jobs; home->jobs != NULL && i-- > 0;) {
        home->jobs[i].home = home;
        give_back(home, &home->jobs[i]);
    }
    return home->jobs != NULL && home->job_of != NULL && home->left != NULL;
}

bool run_home_open(struct run_home *home, const struct bt_run_port *port, char *err, size_t errlen)
{
    struct bt_server_cfg cfg = port->server;
    cfg.ops = (struct bt_server_ops){.on_request = on_request, .on_cancel = on_cancel, .arg = home};
    if (port->flow != NULL) {
        cfg.flow = bt_flow_hooks(port->flow);
    }
    size_t bytes = home->server_bytes = bt_server_bytes(&cfg);
    home->io = port->io;
    home->read_only = port->read_only;
    home->server_local = cfg.local;
    home->max_pending = cfg.max_pending;
    home->max_message = cfg.max_message;
    home->granted = cfg.n;
    home->service = port->service;
    home->flow = port->flow;
    home->ticked = port->service != NULL;
    home->origins = home->run->setup.origins;
    bt_txq_init(&home->txq);
    home->server_mem = bytes != 0 ? bt_run_table_open(bytes) : NULL;
    if (home->server_mem == NULL || !make_lists(home, &cfg)) {
        snprintf(err, errlen, "a port's server cannot be set up; lower max_pending or max_message");
        return false;
    }
    uint64_t now = bt_io_now(home->io);
    home->server = bt_server_init(&cfg, home->server_mem, bytes, now);
    atomic_store(&home->due_ns, now);
    return home->server != NULL;
}

void run_home_close(struct run_home *home)
{
    if (home->tcp != NULL) {
        run_tcp_close(home);
    }
    struct bobtail_request *end = home->jobs != NULL ? home->jobs + (size_t)2 * home->max_pending : NULL;
    for (struct bobtail_request *job = home->jobs; job != end; job++) {
        free(job->heap);
    }
    free(home->jobs);
    free(home->job_of);
    free(home->left);
    bt_run_table_close(home->server_mem, home->server_bytes);
}
