// SPDX-License-Identifier: Apache-2.0
// Connections and threads: made at "configure", gone when the configuration is.
#include "agent/agent.h"

#include "../load_app.h"
#include "io/mtu.h"
#include "shell/cpus.h"
#include "shell/pool.h"
#include "shell/start.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { R2P2_BUFFERS = 8192 };

uint64_t agent_now(const struct agent *a)
{
    return bt_monotonic_ns() - a->start_ns;
}

// Every target by itself, so that each is asked for and an error can name it.
static bool resolve(struct agent *a, struct load_list *out, struct bt_ctl_error *e)
{
    struct load_list found = {.n = 0};
    for (uint32_t i = 0; i < a->config.n_targets; i++) {
        const struct load_options one = {.target = a->config.target[i]};
        struct load_list list;
        char why[256];
        if (!load_target_check(one.target, why, sizeof why) || strchr(one.target, ',') != NULL) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "targets", "must be HOST:PORT; got \"%.80s\"", one.target);
        }
        if (!load_resolve(&one, false, &list, why, sizeof why) && !load_resolve(&one, true, &list, why, sizeof why)) {
            return bt_ctl_refuse(e, AGENT_TARGET_FAILED, "targets", "%.80s: %.150s", one.target, why);
        }
        for (unsigned k = 0; k < list.n && found.n < LOAD_ROUTERS_MAX; k++) {
            found.addr[found.n++] = list.addr[k];
        }
    }
    *out = found;
    return true;
}

static bool make_worker(struct agent *a, uint32_t number, uint32_t n_conn)
{
    struct agent_worker *w = &a->worker[number];
    w->agent = a;
    w->number = number;
    w->n_conn = n_conn;
    w->last_sent_ns = AGENT_NEVER;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->conn = calloc(n_conn, sizeof *w->conn);
    w->free_conn = calloc(n_conn, sizeof *w->free_conn);
    w->out = malloc(bt_request_max(&a->config.workload));
    w->in = malloc(AGENT_READ_BYTES);
    w->stream = (struct bt_request_stream){.workload = &a->config.workload, .serial = (uint64_t)number << 48};
    bt_rng_seed(&w->arrivals, a->config.seed * 3 + (uint64_t)number * 1000003);
    bt_rng_seed(&w->sampling, a->config.seed * 3 + 1 + (uint64_t)number * 1000003);
    bt_rng_seed(&w->stream.rng, a->config.seed * 3 + 2 + (uint64_t)number * 1000003);
    if (w->epoll_fd < 0 || w->wake_fd < 0 || w->conn == NULL || w->free_conn == NULL || w->out == NULL ||
        w->in == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n_conn; i++) {
        w->conn[i].fd = -1; // so that closing what was never opened is harmless
    }
    if (a->config.r2p2) {
        struct bt_pool_mapped *pool = calloc(1, sizeof *pool);
        if (pool == NULL || !bt_pool_mapped_open(pool, R2P2_BUFFERS + n_conn * 16)) {
            free(pool);
            return false;
        }
        w->pool_mem = pool;
        w->pool = &pool->pool;
    }
    struct epoll_event ev = {.events = EPOLLIN};
    return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->wake_fd, &ev) == 0;
}

static bool open_connections(struct agent *a, const struct load_list *targets, struct bt_ctl_error *e)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < a->config.threads; i++) {
        struct agent_worker *w = &a->worker[i];
        for (uint32_t k = 0; k < w->n_conn; k++, index++) {
            struct agent_conn *c = &w->conn[k];
            c->worker = w;
            c->index = index;
            c->target = targets->addr[index % targets->n];
            if (atomic_load(&a->cancel)) {
                return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the coordinator is gone");
            }
            if (!agent_transport_of(a)->open(c, e)) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t smallest_mtu(const struct load_list *targets)
{
    uint16_t mtu = BT_MTU_MAX;
    for (unsigned i = 0; i < targets->n; i++) {
        struct bt_addr any = {0};
        uint16_t one = bt_mtu_toward(&any, &targets->addr[i]);
        mtu = one < mtu ? one : mtu;
    }
    return mtu;
}

static bool start(struct agent *a, struct bt_ctl_error *e)
{
    struct load_list targets;
    const uint32_t threads = a->config.threads;
    if (a->cpus->n != 0 && threads > a->cpus->n) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "threads", "must be at most %u, the CPUs of --cpus; got %u",
                             a->cpus->n, threads);
    }
    if (!resolve(a, &targets, e) || !agent_stamps_choose(a, &targets.addr[0], e) ||
        (a->config.preload && !agent_preload(a, &targets.addr[0], e))) {
        return false;
    }
    for (uint32_t i = 0; i < threads; i++) {
        uint32_t n = a->config.connections / threads + (i < a->config.connections % threads);
        a->worker[i].mtu = a->config.r2p2 ? smallest_mtu(&targets) : 0;
        if (!make_worker(a, i, n)) {
            return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory or descriptors for thread %u", i);
        }
    }
    if (!open_connections(a, &targets, e)) {
        return false;
    }
    for (uint32_t i = 0; i < threads; i++) {
        struct agent_worker *w = &a->worker[i];
        w->started = pthread_create(&w->thread, NULL, agent_worker_run, w) == 0;
        if (!w->started || !bt_cpus_pin(a->cpus, i, w->thread)) {
            return bt_ctl_refuse(e, BT_CTL_INTERNAL, "threads", "thread %u cannot be started%s", i,
                                 w->started ? " on its CPU" : "");
        }
    }
    return true;
}

bool agent_workers_start(struct agent *a, struct bt_ctl_error *e)
{
    atomic_store(&a->quit, false);
    atomic_store(&a->rate_bits, 0);
    atomic_store(&a->busy_poll_error, 0);
    a->start_ns = bt_monotonic_ns(); // time 0
    a->worker = calloc(a->config.threads, sizeof *a->worker);
    if (a->worker == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
    }
    for (uint32_t i = 0; i < a->config.threads; i++) {
        a->worker[i].epoll_fd = a->worker[i].wake_fd = -1;
    }
    if (!start(a, e)) {
        agent_workers_stop(a);
        return false;
    }
    return true;
}

static void free_worker(struct agent_worker *w)
{
    for (uint32_t i = 0; i < w->n_conn && w->conn != NULL; i++) {
        if (w->conn[i].worker != NULL) {
            agent_transport_of(w->agent)->close(&w->conn[i]);
        }
    }
    if (w->epoll_fd >= 0) {
        close(w->epoll_fd);
    }
    if (w->wake_fd >= 0) {
        close(w->wake_fd);
    }
    if (w->pool_mem != NULL) {
        bt_pool_mapped_close(w->pool_mem);
        free(w->pool_mem);
    }
    free(w->conn);
    free(w->free_conn);
    free(w->out);
    free(w->in);
}

void agent_workers_stop(struct agent *a)
{
    if (a->worker == NULL) {
        return;
    }
    atomic_store(&a->quit, true);
    agent_wake(a);
    for (uint32_t i = 0; i < a->config.threads; i++) {
        if (a->worker[i].started) {
            pthread_join(a->worker[i].thread, NULL);
        }
    }
    for (uint32_t i = 0; i < a->config.threads; i++) {
        free_worker(&a->worker[i]);
    }
    free(a->worker);
    a->worker = NULL;
    agent_device_put_back(&a->device);
}

void agent_wake(struct agent *a)
{
    const uint64_t one = 1;
    for (uint32_t i = 0; i < a->config.threads; i++) {
        if (a->worker[i].wake_fd >= 0) {
            ssize_t ignored = write(a->worker[i].wake_fd, &one, sizeof one);
            (void)ignored; // full means that it is awake
        }
    }
}

bool agent_idle(const struct agent *a)
{
    for (uint32_t i = 0; i < a->config.threads; i++) {
        if (atomic_load(&a->worker[i].sending)) {
            return false;
        }
    }
    return agent_outstanding(a) == 0; // last: what such a turn sent is in it
}

uint32_t agent_outstanding(const struct agent *a)
{
    uint64_t out = 0;
    for (uint32_t i = 0; i < a->config.threads; i++) {
        const struct agent_tally *t = &a->worker[i].since;
        uint64_t ended = atomic_load(&t->ended); // first: it never overtakes sent
        out += atomic_load(&t->sent) - ended;
    }
    return (uint32_t)out;
}
