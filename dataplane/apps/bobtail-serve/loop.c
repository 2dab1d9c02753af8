// SPDX-License-Identifier: Apache-2.0
// The server's I/O thread: packets in, jobs to the workers, replies and FEEDBACK out.
#include "serve_app.h"

#include "rpc/client.h" // enum bt_rpc_error
#include "shell/log.h"
#include "shell/stop.h"
#include "scheduled.h"
#include "tcp.h"
#include "wire/options.h"

#include <string.h>

#define DRAIN_LOOK_NS UINT64_C(20000000)
#define RETRY_NS      UINT64_C(1000000)

// Requests that wait for an answer hold buffers themselves. When all of them do, no reply finds one however long it
// waits; after so long one request is refused at a time, which gives its buffers back.
#define STARVED_NS UINT64_C(20000000)

// What to answer with: the request's own bytes or reply_size zeros.
static int reply_iov(struct serve_app *app, const struct bt_msg *msg)
{
    if (app->opt.reply_size == SERVE_ECHO) {
        return bt_msg_iov(msg, app->iov, app->iov_max);
    }
    app->iov[0] = (struct iovec){.iov_base = app->reply, .iov_len = app->opt.reply_size};
    return 1;
}

static void give_back(struct serve_worker *w, struct serve_job *job)
{
    job->next = w->free_jobs;
    w->free_jobs = job;
}

// Answers a finished job; false when there was no buffer for the reply and it must wait.
static bool answer(struct serve_worker *w, uint64_t handle, const struct bt_msg *msg, struct bt_txq *txq)
{
    struct serve_app *app = w->app;
    uint64_t now = bt_io_now(app->io);
    int n = reply_iov(app, msg);
    int result = n <= app->iov_max ? bt_server_reply(w->server, now, handle, app->iov, n, txq) : BT_RPC_TOO_LARGE;
    if (result == BT_RPC_TOO_LARGE) { // cannot be sent at any time: the client learns it at once
        bt_server_drop(w->server, now, handle, txq);
    }
    return result != BT_RPC_NO_BUFFER;
}

void serve_on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct serve_worker *w = arg;
    struct serve_job *job = w->free_jobs;
    if (job == NULL) {
        bt_server_drop(w->server, bt_io_now(w->app->io), rq->handle, txq);
        return;
    }
    serve_executions_add(w, rq);
    // Nothing to spend: the thread would only add two context switches.
    bool degraded = (rq->class_flags & BT_CLASS_DEGRADED) != 0;
    const struct service_time *takes = degraded ? &w->app->opt.degraded : &w->app->opt.service;
    if (service_time_is_zero(takes) && answer(w, rq->handle, &rq->msg, txq)) {
        return;
    }
    w->free_jobs = job->next;
    job->handle = rq->handle;
    job->msg = rq->msg;
    job->degraded = degraded;
    atomic_store(&job->begun, false);
    atomic_store(&job->cancelled, false);
    w->job_of[(uint32_t)rq->handle] = job;
    bt_spsc_push(&w->todo, job); // as long as the list of jobs, so never full
    if (w->app->opt.occupy == OCCUPY_SLEEP) {
        serve_sleeper_begin(w, bt_io_now(w->app->io));
    } else {
        sem_post(&w->work);
    }
}

// The request's bytes are gone with this, and the job comes back through `done` as if it had been served. A thread
// looks at the flag while it spins; a sleep ends when the I/O thread comes to it next, which is at once.
enum bt_server_cancel serve_on_cancel(void *arg, uint64_t handle)
{
    struct serve_worker *w = arg;
    struct serve_job *job = w->job_of[(uint32_t)handle];
    atomic_store(&job->cancelled, true);
    if (job == w->asleep) {
        w->until_ns = 0;
    }
    return atomic_load(&job->begun) ? BT_CANCEL_STOPPED : BT_CANCEL_REMOVED;
}

// There is no buffer for the reply to a job: it waits, or is refused when that went on for too long. The client
// learns it by DROP, the router by FEEDBACK, the operator by both their counters.
static void wait_or_refuse(struct serve_worker *w, struct serve_job *job)
{
    uint64_t now = bt_io_now(w->app->io);
    if (w->starved_ns == 0) {
        w->starved_ns = now;
    }
    if (now - w->starved_ns < STARVED_NS) {
        w->waiting = job;
        return;
    }
    bt_server_drop(w->server, now, job->handle, &w->app->txq);
    give_back(w, job);
}

// Replies of one worker, that which waited for a buffer first. True if some may still wait: buffers come back when
// what was made so far is sent.
static bool take_done(struct serve_worker *w)
{
    struct serve_job *job;
    while ((job = w->waiting != NULL ? w->waiting : bt_spsc_pop(&w->done)) != NULL) {
        w->waiting = NULL;
        if (atomic_load(&job->cancelled)) {
            give_back(w, job);
            continue;
        }
        if (!answer(w, job->handle, &job->msg, &w->app->txq)) {
            wait_or_refuse(w, job);
            return true;
        }
        w->starved_ns = 0;
        give_back(w, job);
    }
    return false;
}

// True when there may be more.
static bool take_packets(struct serve_app *app)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(app->io, BT_IO_ANY, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_server_rx(app->worker[pkts[i]->local].server, pkts[i]->t_rx_ns, pkts[i], &app->txq);
    }
    return n == BT_IO_BATCH;
}

// Runs what is due and returns when to look again.
static uint64_t tick(struct serve_app *app, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < app->opt.workers; i++) {
        struct bt_server *s = app->worker[i].server;
        if (bt_server_next(s) <= now) {
            bt_server_tick(s, now, &app->txq);
        }
        uint64_t due = bt_server_next(s);
        next = due < next ? due : next;
    }
    return next;
}

void serve_leave(struct serve_app *app)
{
    if (app->leaving) {
        return;
    }
    app->leaving = true;
    if (serve_is_tcp(app)) {
        bt_run_end_listening(app->scheduled->run);
        bt_log_info("leaving: no more connections are taken");
        return;
    }
    for (unsigned i = 0; i < app->opt.workers; i++) {
        bt_server_leave(app->worker[i].server, bt_io_now(app->io), app->worker[i].txq);
    }
    bt_log_info("leaving: routers were told to send nothing more");
}

uint32_t serve_backlog(const struct serve_app *app)
{
    uint32_t n = serve_is_tcp(app) ? bt_run_tcp_backlog(app->scheduled->run) : 0;
    for (unsigned i = 0; i < app->opt.workers; i++) {
        n += bt_server_backlog(app->worker[i].server);
    }
    return n;
}

static uint64_t requests_over_tcp(const struct serve_app *app)
{
    uint64_t values[BT_RUN_TCP_COUNTERS];
    bt_run_read_tcp(app->scheduled->run, values);
    return values[BT_RUN_TCP_REQUESTS];
}

static uint64_t requests_so_far(const struct serve_app *app)
{
    uint64_t n = serve_is_tcp(app) ? requests_over_tcp(app) : 0;
    for (unsigned i = 0; i < app->opt.workers; i++) {
        n += bt_server_counters(app->worker[i].server)[BT_SERVER_REQUESTS];
    }
    return n;
}

bool serve_may_stop(struct serve_app *app, struct serve_drain *d)
{
    unsigned signals = bt_stop_count();
    if (signals == 0) {
        return false;
    }
    uint64_t now = bt_io_now(app->io);
    uint64_t requests = requests_so_far(app);
    if (!d->asked) {
        *d = (struct serve_drain){true, now + (uint64_t)app->opt.drain_seconds * 1000000000u, now, requests};
        serve_leave(app);
        bt_io_tx(app->io, &app->txq);
    }
    if (requests != d->requests || serve_backlog(app) != 0) {
        d->busy_ns = now;
        d->requests = requests;
    }
    if (now - d->busy_ns >= app->opt.drain_quiet_ns) {
        bt_log_info("drained");
        return true;
    }
    if (now >= d->deadline_ns || signals > 1) {
        bt_log_warn("stopping with %u requests unanswered", serve_backlog(app));
        return true;
    }
    return false;
}

void serve_loop(struct serve_app *app)
{
    struct serve_drain drain = {0};
    uint64_t until = 0;
    unsigned packet_turns = 0; // in a row, that left packets behind
    while (!serve_may_stop(app, &drain)) {
        bt_io_wait(app->io, until);
        bool short_of_buffers = false;
        uint64_t looked = bt_io_now(app->io);
        bool more = take_packets(app);
        uint64_t wake = serve_sleepers_run(app, bt_io_now(app->io));
        for (unsigned i = 0; i < app->opt.workers; i++) {
            short_of_buffers |= take_done(&app->worker[i]);
        }
        bt_mailbox_poll(&app->mailbox);
        // After a pause the socket holds what the timers wait for: it goes first, within reason.
        uint64_t now = bt_io_now(app->io);
        packet_turns = more || now - looked > BT_IO_PAUSE_NS ? packet_turns + 1 : 0;
        until = packet_turns % BT_IO_TURNS_BEFORE_TIMERS != 0 ? 0 : tick(app, now);
        until = wake < until ? wake : until;
        bt_io_tx(app->io, &app->txq);
        now = bt_io_now(app->io);
        if (short_of_buffers && until > now + RETRY_NS) {
            until = now + RETRY_NS;
        }
        if (drain.asked && until > now + DRAIN_LOOK_NS) {
            until = now + DRAIN_LOOK_NS;
        }
    }
}
