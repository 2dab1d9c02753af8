// SPDX-License-Identifier: Apache-2.0
// --mode=run-to-completion and work-stealing: the threads of src/run take, execute and answer requests. The main thread
// sleeps until the control socket or a signal wants something, and holds the threads' networks while it answers.
#include "scheduled.h"

#include "io/mtu.h"
#include "io/udp.h"
#include "shell/log.h"
#include "shell/pool.h"
#include "shell/start.h"
#include "shell/stop.h"
#include "tcp.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PACKETS    16384u          // of each port
#define LOOP_NS    UINT64_C(50000) // D of D-3 over kernel sockets
#define NAMED_NS   UINT64_C(1000000000)
#define DRAIN_LOOK UINT64_C(20000000) // ns

static uint64_t bell_now(struct bt_io *io)
{
    (void)io;
    return bt_monotonic_ns();
}

static void bell_ring(struct bt_io *io)
{
    sem_post(&((struct serve_bell *)io)->rung);
}

static void bell_wait(struct bt_io *io, uint64_t until_ns)
{
    struct serve_bell *bell = (struct serve_bell *)io;
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
    if (until_ns == BT_IO_FOREVER) {
        (void)sem_wait(&bell->rung);
    } else {
        (void)sem_clockwait(&bell->rung, CLOCK_MONOTONIC, &until);
    }
}

static void bell_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    (void)q;
}

static const struct bt_io_ops bell_ops = {
    .now = bell_now, .wake = bell_ring, .wait = bell_wait, .tx = bell_tx, .counters = serve_bell_counters};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void note_execution(const struct serve_app *app, struct bobtail_request *request)
{
    struct bt_addr client;
    uint16_t id;
    struct serve_execution x = {.client = &client};
    x.port = (unsigned)bt_run_origin(request, &client, &id);
    x.req_id = id;
    bobtail_request_copy(request, &x.serial, sizeof x.serial);
    serve_executions_write(app, &x);
}

static void answer(const struct serve_app *app, struct bobtail_request *request)
{
    int n;
    if (serve_is_tcp(app)) {
        serve_tcp_answer(app, request);
        return;
    }
    if (app->opt.reply_size != SERVE_ECHO) {
        bobtail_reply(request, app->reply, app->opt.reply_size);
        return;
    }
    const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
    bobtail_reply_pieces(request, piece, n);
}

/* Spends the drawn time, unless nobody waits for the answer any more. */
static void handle(void *arg, struct bobtail_request *request)
{
    struct serve_app *app = arg;
    bool degraded = (bt_run_class_flags(request) & BT_CLASS_DEGRADED) != 0;
    const struct service_time *takes = degraded ? &app->opt.degraded : &app->opt.service;
    if (app->executions >= 0) {
        note_execution(app, request);
    }
    if (!service_time_is_zero(takes)) {
        struct bt_rng *rng = &app->scheduled->rng[bt_run_thread_of(request)];
        uint64_t until = bt_monotonic_ns() + service_time_draw(takes, rng);
        while (bt_monotonic_ns() < until && !bobtail_request_cancelled(request) &&
               !atomic_load_explicit(&app->stop, memory_order_relaxed)) {
            relax();
        }
    }
    answer(app, request);
}

// At most once a second; all are counted.
static void named(void *arg, const char *name, unsigned thread)
{
    struct serve_app *app = arg;
    uint64_t now = bt_monotonic_ns(), last = atomic_load(&app->scheduled->named_ns);
    if ((last == 0 || now - last >= NAMED_NS) &&
        atomic_compare_exchange_strong(&app->scheduled->named_ns, &last, now)) {
        bt_log_warn("handler %s: a request has kept thread %u for more than 10 ms", name, thread);
    }
}

static struct bt_server_cfg server_config(struct serve_scheduled *s, uint32_t i, uint32_t incarnation)
{
    const struct serve_options *o = &s->app->opt;
    struct bt_addr local = o->first;
    local.port = (uint16_t)(local.port + i);
    return (struct bt_server_cfg){
        .local = local,
        .mtu = s->app->mtu,
        .n = (uint16_t)o->queue_depth,
        .feedback_port = (uint16_t)o->feedback_port,
        .max_pending = SERVE_PENDING,
        .max_assemblies = 64,
        .max_done = 8192,
        .max_held = 256,
        .max_message = o->max_message,
        .incarnation = incarnation,
        .incarnation_shift = BT_INCARNATION_SHIFT,
        .timers = bt_rpc_timers_for((enum bt_device)o->device),
        .seed = {bt_new_seed(), bt_new_seed()},
        .pool = &s->memory[i].pool.pool,
        .latency = s->latency[i],
        .traces = s->traces[i],
    };
}

static bool open_port(struct serve_scheduled *s, uint32_t i, uint32_t incarnation)
{
    char why[256];
    struct bt_run_port *p = &s->port[i];
    uint64_t now = bt_monotonic_ns();
    s->latency[i] = bt_map(bt_hist_slices_bytes());
    s->service[i] = bt_map(bt_hist_slices_bytes());
    s->traces[i] = calloc(1, sizeof *s->traces[i]);
    if (s->latency[i] == NULL || s->service[i] == NULL || s->traces[i] == NULL ||
        !bt_run_memory_open(&s->memory[i], PACKETS)) {
        bt_log_error("out of memory for port %u", i);
        return false;
    }
    bt_hist_slices_init(s->latency[i], now);
    bt_hist_slices_init(s->service[i], now);
    p->server = server_config(s, i, incarnation);
    p->service = s->service[i]; // the runtime knows when a handler began, the port's server does not
    p->read_only = s->memory[i].read_only;
    p->flow = s->app->flow[i];
    p->io = bt_udp_open(
        &(struct bt_udp_config){
            .locals = &p->server.local, .n_locals = 1, .pool = p->server.pool, .idle = BT_IDLE_SPIN},
        why, sizeof why);
    if (p->io == NULL) {
        bt_log_error("%s", why);
    }
    return p->io != NULL;
}

static bool open_threads(struct serve_scheduled *s)
{
    char why[256];
    const struct serve_options *o = &s->app->opt;
    struct bt_run_setup setup = {.mode = serve_sched_mode(o),
                                 .threads = o->threads,
                                 .batch = o->batch,
                                 .threads_min = o->min_threads,
                                 .adjustable = o->told && o->mode == MODE_WORK_STEALING,
                                 .delay_bound_ns = o->delay_bound_ns,
                                 .spin_ns = o->spin_ns,
                                 .loop_ns = LOOP_NS,
                                 .seed = o->seed,
                                 .name = "synthetic",
                                 .origins = s->app->executions >= 0,
                                 .handler = handle,
                                 .arg = s->app,
                                 .slow = named,
                                 .port = serve_is_tcp(s->app) ? NULL : s->port,
                                 .tcp = serve_is_tcp(s->app) ? &s->tcp : NULL};
    for (uint32_t i = 0; i < o->threads; i++) {
        bt_rng_seed(&s->rng[i], o->seed + i);
    }
    s->run = bt_run_open(&setup, why, sizeof why);
    if (s->run == NULL) {
        bt_log_error("%s", why);
    }
    return s->run != NULL;
}

// As far as the loop's code looks at them, each port is a worker.
static void be_workers(struct serve_scheduled *s)
{
    struct serve_app *app = s->app;
    bt_run_hold(s->run);
    for (uint32_t i = 0; i < app->opt.workers; i++) {
        struct serve_worker *w = &app->worker[i];
        *w = (struct serve_worker){
            .app = app, .index = i, .server = bt_run_server(s->run, i), .txq = bt_run_txq(s->run, i)};
        bt_server_set_routers(w->server, app->started_ns, app->opt.static_routers, app->opt.n_static_routers, w->txq);
    }
    bt_run_go(s->run);
}

uint32_t serve_scheduled_cores(const struct serve_app *app, uint32_t port)
{
    return bt_run_cores(app->scheduled->run, port);
}

bool serve_scheduled_open(struct serve_app *app, uint32_t incarnation)
{
    struct serve_scheduled *s = calloc(1, sizeof *s);
    uint32_t zeros = app->opt.reply_size != SERVE_ECHO && app->opt.reply_size != 0 ? app->opt.reply_size : 1;
    app->reply = calloc(1, zeros);
    if (s == NULL || app->reply == NULL || (s->all = bt_map(bt_hist_slices_bytes())) == NULL) {
        bt_log_error("out of memory");
        return false;
    }
    s->app = app;
    s->bell = (struct serve_bell){.io = {&bell_ops}, .of = s};
    sem_init(&s->bell.rung, 0, 0);
    app->scheduled = s;
    app->io = &s->bell.io;
    app->started_ns = bt_io_now(app->io);
    app->mtu = (uint16_t)(app->opt.mtu != 0 ? app->opt.mtu : bt_mtu_of(&app->opt.first));
    for (uint32_t i = 0; i < app->opt.workers; i++) {
        if (!open_port(s, i, incarnation)) {
            return false;
        }
    }
    if ((serve_is_tcp(app) && !serve_tcp_setup(app, &s->tcp)) || !open_threads(s)) {
        return false;
    }
    be_workers(s);
    serve_flow_begin(app);
    return true;
}

bool serve_scheduled_start(struct serve_app *app)
{
    char why[256], text[BT_ADDR_TEXT];
    struct serve_scheduled *s = app->scheduled;
    if (!bt_run_start(s->run, why, sizeof why)) {
        bt_log_error("%s", why);
        return false;
    }
    for (uint32_t i = 0; i < app->opt.threads; i++) {
        if (!bt_cpus_pin(&app->opt.network.cpus, i, bt_run_thread(s->run, i))) {
            return false;
        }
    }
    if (serve_is_tcp(app)) {
        bt_log_info("version %s, %u threads %s, TCP %s%s, service time %s, MTU %u", BOBTAIL_VERSION, app->opt.threads,
                    app->opt.mode == MODE_WORK_STEALING ? "that steal work" : "to completion",
                    bt_addr_format(&app->opt.first, text), app->network != NULL ? " past the kernel" : "",
                    app->opt.service_time, app->mtu);
        return true;
    }
    bt_log_info("version %s, %u threads %s, %u ports from %s, service time %s, MTU %u%s", BOBTAIL_VERSION,
                app->opt.threads, app->opt.mode == MODE_WORK_STEALING ? "that steal work" : "to completion",
                app->opt.workers, bt_addr_format(&app->opt.first, text), app->opt.service_time, app->mtu,
                app->opt.mtu == 0 ? " (auto)" : "");
    return true;
}

void serve_scheduled_loop(struct serve_app *app)
{
    struct serve_drain drain = {0};
    struct bt_run *run = app->scheduled->run;
    for (;;) {
        bt_run_hold(run);
        bt_mailbox_poll(&app->mailbox);
        bool over = serve_may_stop(app, &drain);
        bt_run_go(run);
        if (over) {
            return;
        }
        bt_io_wait(app->io, drain.asked ? bt_io_now(app->io) + DRAIN_LOOK : BT_IO_FOREVER);
    }
}

void serve_scheduled_close(struct serve_app *app)
{
    struct serve_scheduled *s = app->scheduled;
    atomic_store(&app->stop, true);
    bt_run_close(s->run);
    for (uint32_t i = 0; i < app->opt.workers; i++) {
        s->port[i].io->ops->close(s->port[i].io);
        bt_run_memory_close(&s->memory[i]);
        free(s->traces[i]);
    }
    serve_stack_close(app);
    sem_destroy(&s->bell.rung);
    free(app->reply);
    free(s);
}
