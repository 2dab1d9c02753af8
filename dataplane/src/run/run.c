// SPDX-License-Identifier: Apache-2.0
// See run.h: making lanes, cores and homes, starting and ending the threads.
#include "run/run.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run_internal.h"
#include "run/tcp.h"

uint32_t bt_run_ports(enum bt_sched_mode mode, uint32_t threads)
{
    return mode == BT_SCHED_WORK_STEALING ? (threads + BT_RUN_LANE - 1) / BT_RUN_LANE : threads;
}

static bool steals(const struct bt_run *run)
{
    return run->setup.mode == BT_SCHED_WORK_STEALING;
}

/* Flows of a home: requests at its port, or connections. */
static uint32_t flows_of(const struct bt_run *run)
{
    return run->setup.tcp != NULL ? run->setup.tcp->connections : run->setup.port[0].server.max_pending;
}

static uint32_t ports_of(const struct bt_run *run)
{
    return run->setup.tcp != NULL ? 0 : bt_run_ports(run->setup.mode, run->setup.threads);
}

/* Lanes as equal as they can be: a router takes them for equal (D-3). */
static void share_threads(struct bt_run *run)
{
    uint32_t first = 0, left = run->setup.threads;
    for (uint32_t i = 0; i < run->lanes; i++) {
        uint32_t cores = (left + run->lanes - i - 1) / (run->lanes - i);
        run->lane[i] = (struct run_lane){.first = first, .cores = cores};
        first += cores;
        left -= cores;
    }
}

static bool make_sched(struct bt_run *run, struct run_lane *lane)
{
    uint32_t pending = flows_of(run);
    bool one_home = steals(run) && run->setup.tcp == NULL;
    struct bt_sched_setup setup = {.mode = run->setup.mode,
                                   .cores = lane->cores,
                                   .flows = one_home ? pending : pending * lane->cores,
                                   .groups = lane->cores};
    size_t bytes = bt_sched_bytes(&setup);
    void *mem = bytes != 0 ? aligned_alloc(64, (bytes + 63) & ~(size_t)63) : NULL;
    lane->sched = mem != NULL ? bt_sched_init(mem, bytes, &setup) : NULL;
    for (uint32_t i = 0; lane->sched != NULL && i < setup.flows; i++) {
        bt_sched_open(lane->sched, i, i / pending);
    }
    return lane->sched != NULL;
}

static bool make_core(struct bt_run *run, struct run_lane *lane, uint32_t self)
{
    uint32_t number = lane->first + self;
    struct run_core *core = &run->core[number];
    struct run_home *home = &run->home[number];
    uint32_t pending = flows_of(run);
    *core = (struct run_core){.run = run, .lane = lane, .home = home, .self = self, .number = number};
    core->epoll_fd = core->wake_fd = core->timer_fd = -1;
    sem_init(&core->unpark, 0, 0);
    home->run = run;
    home->lane = lane;
    home->core = self;
    home->first_flow = self * pending;
    atomic_store(&home->due_ns, UINT64_MAX);
    bt_rng_seed(&core->rng, run->setup.seed + number);
    core->piece = calloc(run->pieces_max, sizeof *core->piece);
    return core->piece != NULL;
}

/* Each core, and each home that has a port. */
static bool make_parts(struct bt_run *run, char *err, size_t errlen)
{
    uint32_t port = 0;
    for (uint32_t l = 0; l < run->lanes; l++) {
        struct run_lane *lane = &run->lane[l];
        if (!make_sched(run, lane)) {
            return false;
        }
        for (uint32_t i = 0; i < lane->cores; i++) {
            if (!make_core(run, lane, i)) {
                return false;
            }
            struct run_home *home = &run->home[lane->first + i];
            bool has_port = run->setup.tcp == NULL && (i == 0 || !steals(run));
            if ((run->setup.tcp != NULL && !run_tcp_open(home, run->setup.tcp, err, errlen)) ||
                (has_port && !run_home_open(home, &run->setup.port[port++], err, errlen))) {
                return false;
            }
        }
        for (uint32_t i = 0; i < lane->cores; i++) {
            if (!run_sleep_open(&run->core[lane->first + i], err, errlen)) {
                return false;
            }
        }
    }
    return true;
}

static bool out_of(const char *name, uint32_t most, uint32_t got, char *err, size_t errlen)
{
    bool out = got == 0 || got > most;
    if (out) {
        snprintf(err, errlen, "%s: must be 1..%u; got %u", name, most, got);
    }
    return out;
}

/* Threads that come and go: where that is possible. */
static bool elastic_sound(const struct bt_run_setup *setup, char *err, size_t errlen)
{
    if (setup->adjustable && (setup->mode != BT_SCHED_WORK_STEALING || setup->tcp != NULL)) {
        snprintf(err, errlen, "adjustable: needs work stealing over R2P2; other threads have ports of their own");
        return false;
    }
    if (setup->threads_min == 0 || setup->threads_min == setup->threads) {
        return true;
    }
    if (setup->threads_min > setup->threads) {
        snprintf(err, errlen, "min_threads: must be at most threads, %u; got %u", setup->threads, setup->threads_min);
    } else if (setup->mode != BT_SCHED_WORK_STEALING) {
        snprintf(err, errlen, "min_threads: needs work stealing; to completion each thread has a port of its own");
    } else if (setup->tcp != NULL) {
        snprintf(err, errlen, "min_threads: connections stay with their thread; with TCP all threads run");
    } else {
        return true;
    }
    return false;
}

static bool sound(const struct bt_run_setup *setup, char *err, size_t errlen)
{
    if (out_of("threads", BT_RUN_THREADS_MAX, setup->threads, err, errlen) ||
        out_of("batch", BT_SCHED_BATCH_MAX, setup->batch, err, errlen) ||
        (setup->tcp != NULL && out_of("connections", 65536, setup->tcp->connections, err, errlen))) {
        return false;
    }
    if (setup->mode != BT_SCHED_RUN_TO_COMPLETION && setup->mode != BT_SCHED_WORK_STEALING) {
        snprintf(err, errlen, "mode: there is none with the number %d", (int)setup->mode);
        return false;
    }
    if (setup->handler == NULL) {
        snprintf(err, errlen, "handler: there is none");
        return false;
    }
    return elastic_sound(setup, err, errlen);
}

static bool make_arrays(struct bt_run *run)
{
    const struct bt_run_setup *setup = &run->setup;
    run->lanes = steals(run) ? bt_run_ports(setup->mode, setup->threads) : 1;
    // Pieces of a message: as many packets as its bytes need at the least MTU, a short first and a short last one.
    uint32_t longest = setup->tcp != NULL ? setup->tcp->max_message : setup->port[0].server.max_message;
    run->pieces_max = longest / 400 + 16;
    run->name = strdup(setup->name != NULL ? setup->name : "handler");
    run->lane = calloc(run->lanes, sizeof *run->lane);
    run->core = aligned_alloc(64, setup->threads * sizeof *run->core);
    run->home = aligned_alloc(64, setup->threads * sizeof *run->home);
    if (run->core != NULL && run->home != NULL) {
        memset(run->core, 0, setup->threads * sizeof *run->core);
        memset(run->home, 0, setup->threads * sizeof *run->home);
    }
    return run->name != NULL && run->lane != NULL && run->core != NULL && run->home != NULL;
}

struct bt_run *bt_run_open(const struct bt_run_setup *setup, char *err, size_t errlen)
{
    if (!sound(setup, err, errlen)) {
        return NULL;
    }
    struct bt_run *run = calloc(1, sizeof *run);
    snprintf(err, errlen, "out of memory for %u threads", setup->threads);
    if (run == NULL) {
        return NULL;
    }
    run->setup = *setup;
    if (setup->tcp != NULL) {
        run->tcp = *setup->tcp;
        run->setup.tcp = &run->tcp;
    }
    pthread_mutex_init(&run->threads, NULL);
    sem_init(&run->helper_wake, 0, 0);
    atomic_store(&run->depth, setup->tcp != NULL ? 0 : setup->port[0].server.n);
    run->batch = setup->batch;
    run->ns_per_tick = run_measure_ticks();
    run->spin_ticks = (uint64_t)((double)setup->spin_ns / run->ns_per_tick);
    run->slow_ticks = (uint64_t)((double)RUN_SLOW_NS / run->ns_per_tick);
    run->flush_ticks = (uint64_t)((double)RUN_FLUSH_NS / run->ns_per_tick);
    bool ok = make_arrays(run);
    if (ok) {
        share_threads(run);
        run->elastic = setup->adjustable || (setup->threads_min != 0 && setup->threads_min != setup->threads);
        ok = run_elastic_open(run) && make_parts(run, err, errlen);
    }
    if (!ok) {
        bt_run_close(run);
        return NULL;
    }
    return run;
}

static void *core_thread(void *arg)
{
    run_core_run(arg);
    return NULL;
}

bool bt_run_start(struct bt_run *run, char *err, size_t errlen)
{
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        pthread_mutex_lock(&run->threads);
        int failed = pthread_create(&run->core[i].thread, NULL, core_thread, &run->core[i]);
        run->core[i].running = failed == 0;
        pthread_mutex_unlock(&run->threads);
        if (failed != 0) {
            snprintf(err, errlen, "thread %u cannot be started: %s", i, strerror(failed));
            return false;
        }
    }
    return run_helper_start(run, err, errlen);
}

pthread_t bt_run_thread(const struct bt_run *run, uint32_t i)
{
    return run->core[i].thread;
}

static struct run_home *home_of_port(struct bt_run *run, uint32_t port)
{
    return &run->home[steals(run) ? run->lane[port].first : port];
}

void bt_run_hold(struct bt_run *run)
{
    atomic_store(&run->hold, 1);
    for (uint32_t i = 0; i < ports_of(run); i++) {
        struct run_home *home = home_of_port(run, i);
        while (!bt_sched_take(home->lane->sched, home->core)) {
            sched_yield();
        }
        run_home_look(home);
    }
}

void bt_run_go(struct bt_run *run)
{
    for (uint32_t i = 0; i < ports_of(run); i++) {
        struct run_home *home = home_of_port(run, i);
        run_home_turn(home, NULL, false);
        run_rouse(home->lane, run, home->core);
    }
    atomic_store(&run->hold, 0);
}

struct bt_server *bt_run_server(struct bt_run *run, uint32_t i)
{
    return home_of_port(run, i)->server;
}

struct bt_txq *bt_run_txq(struct bt_run *run, uint32_t i)
{
    return &home_of_port(run, i)->txq;
}

uint32_t bt_run_cores(const struct bt_run *run, uint32_t port)
{
    return steals(run) ? run_lane_most(run, &run->lane[port]) : 1;
}

void bt_run_set_batch(struct bt_run *run, uint32_t batch)
{
    run->batch = batch;
}

void bt_run_set_order(struct bt_run *run, bool per_client)
{
    run->per_client = per_client;
}

void bt_run_read_lanes(const struct bt_run *run, struct bt_run_lanes *out)
{
    uint64_t longest = 0;
    *out = (struct bt_run_lanes){.lanes = ports_of(run), .processors = run_processors()};
    for (uint32_t l = 0; l < run->lanes; l++) {
        out->least += atomic_load_explicit(&run->lane[l].least, memory_order_relaxed);
        out->most += atomic_load_explicit(&run->lane[l].most, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        uint64_t one = run_relaxed(&run->core[i].longest);
        longest = one > longest ? one : longest;
    }
    out->longest_ns = (uint64_t)((double)longest * run->ns_per_tick);
}

void bt_run_set_depth(struct bt_run *run, uint16_t n)
{
    atomic_store(&run->depth, n);
    for (uint32_t i = 0; i < ports_of(run); i++) {
        struct run_home *home = home_of_port(run, i);
        if (!steals(run) || home->granted < n) {
            home->granted = n;
            bt_server_set_n(home->server, bt_io_now(home->io), n, &home->txq);
        }
    }
}

void bt_run_read_tcp(const struct bt_run *run, uint64_t *out)
{
    memset(out, 0, BT_RUN_TCP_COUNTERS * sizeof *out);
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        for (unsigned k = 0; k < BT_RUN_TCP_COUNTERS; k++) {
            out[k] += run_relaxed(&run_tcp_counters(&run->home[i])[k]);
        }
    }
}

/* Does something with each home that listens, as the holder of its token. */
static uint32_t each_listener(struct bt_run *run, bool end)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        struct run_home *home = &run->home[i];
        while (!bt_sched_take(home->lane->sched, home->core)) {
            sched_yield();
        }
        if (end) {
            run_tcp_end_listening(home);
        }
        n += run_tcp_backlog(home);
        run_home_turn(home, NULL, true);
        run_rouse(home->lane, run, home->core);
    }
    return n;
}

void bt_run_end_listening(struct bt_run *run)
{
    (void)each_listener(run, true);
}

uint32_t bt_run_tcp_backlog(struct bt_run *run)
{
    return each_listener(run, false);
}

void bt_run_read_counts(const struct bt_run *run, struct bobtail_server_counts *out)
{
    *out = (struct bobtail_server_counts){.assisted = run_relaxed(&run->assisted), .parks = run_relaxed(&run->parks)};
    if (run->setup.tcp != NULL) {
        uint64_t t[BT_RUN_TCP_COUNTERS];
        bt_run_read_tcp(run, t);
        out->accepted = t[BT_RUN_TCP_ACCEPTED];
        out->malformed = t[BT_RUN_TCP_MALFORMED] + t[BT_RUN_TCP_TOO_LONG] + t[BT_RUN_TCP_CUT];
        out->closed = out->malformed + t[BT_RUN_TCP_REFUSED] + t[BT_RUN_TCP_MEMORY] + t[BT_RUN_TCP_FULL];
    }
    for (uint32_t l = 0; l < run->lanes; l++) {
        out->active += atomic_load_explicit(&run->lane[l].active, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        const struct run_core *core = &run->core[i];
        struct bt_sched_counts c;
        bt_sched_read_counts(core->lane->sched, core->self, &c);
        out->handled += run_relaxed(&core->turns) / 2;
        out->stolen += c.stolen;
        out->borrowed += c.borrowed;
        out->slow += run_relaxed(&core->slow);
        out->died += run_relaxed(&core->died);
    }
}

static void end_threads(struct bt_run *run)
{
    pthread_mutex_lock(&run->threads);
    atomic_store(&run->stop, true);
    pthread_mutex_unlock(&run->threads);
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        if (run->core[i].running) {
            run_core_wake(&run->core[i]);
            sem_post(&run->core[i].unpark);
        }
    }
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        if (run->core[i].running) {
            pthread_join(run->core[i].thread, NULL);
        }
    }
    run_helper_stop(run);
}

void bt_run_close(struct bt_run *run)
{
    if (run->core != NULL && run->home != NULL) {
        end_threads(run);
        for (uint32_t i = 0; i < run->setup.threads; i++) {
            if (run->core[i].run != NULL) {
                run_sleep_close(&run->core[i]);
                sem_destroy(&run->core[i].unpark);
            }
            free(run->core[i].piece);
            run_home_close(&run->home[i]);
        }
    }
    for (uint32_t i = 0; run->lane != NULL && i < run->lanes; i++) {
        free(run->lane[i].sched);
        free(run->lane[i].capacity);
    }
    sem_destroy(&run->helper_wake);
    pthread_mutex_destroy(&run->threads);
    free(run->name);
    free(run->lane);
    free(run->core);
    free(run->home);
    free(run);
}
