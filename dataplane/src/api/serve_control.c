// SPDX-License-Identifier: Apache-2.0
// See serve_internal.h. Letters of the control thread are opened by a thread of their own, which holds the networks
// meanwhile; the threads that serve know nothing of it.
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/serve_internal.h"
#include "ctl/ctl.h"

struct serve_control {
    struct bobtail_server *server;
    uint32_t ports;
    struct bt_hist_slices **latency, **service; // of each port
    struct bt_hist_slices *sum;
    struct bt_trace_ring **traces, *all; // of each port, and together
    uint64_t *traced;                    // of each, so many are in `all`
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    sem_t rung;
    pthread_t thread;
    bool opened, running;
    atomic_bool stop;
    uint64_t started_ns;
};

static uint64_t now_ns(void *arg)
{
    struct timespec t;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void ring(void *arg)
{
    sem_post(&((struct serve_control *)arg)->rung);
}

static void *answer_letters(void *arg)
{
    struct serve_control *c = arg;
    while (!atomic_load(&c->stop)) {
        (void)sem_wait(&c->rung);
        serve_hold(c->server);
        bt_mailbox_poll(&c->mailbox);
        serve_go(c->server);
    }
    return NULL;
}

static bool apply(void *arg, const struct bt_config *config, const struct bt_keyring *keys, struct bt_ctl_error *e)
{
    struct serve_control *c = arg;
    struct bt_server_router routers[BT_CONFIG_ROUTERS_MAX];
    struct bt_rpc_timers timers = bt_rpc_timers_for(config->service.device);
    (void)e; // the document's own bounds are the server's
    for (size_t i = 0; i < config->n_routers; i++) {
        routers[i] =
            (struct bt_server_router){.request = config->routers[i].request, .feedback = config->routers[i].feedback};
    }
    for (uint32_t i = 0; i < c->ports; i++) {
        struct bt_server *port = bt_run_server(c->server->run, i);
        bt_server_set_keys(port, keys); // before the JOIN that set_routers sends
        bt_server_set_timers(port, &timers);
        bt_server_set_routers(port, now_ns(NULL), routers, (int)config->n_routers, bt_run_txq(c->server->run, i));
    }
    bt_run_set_depth(c->server->run, (uint16_t)config->service.worker_queue_depth);
    serve_told_apply(c->server, &config->service);
    return true;
}

static void state(void *arg, struct bt_ctl_state *out)
{
    struct serve_control *c = arg;
    struct bt_server_router_state r;
    uint64_t now = now_ns(NULL);
    out->draining = c->server->leaving;
    out->uptime_ns = now - c->started_ns;
    serve_told_state(c->server, out);
    for (uint32_t i = 0; i < c->ports; i++) {
        const struct bt_server *port = bt_run_server(c->server->run, i);
        uint32_t backlog = bt_server_backlog(port);
        out->backlog += backlog;
        out->workers[out->n_workers++] = (struct bt_ctl_worker){c->server->port[i].server.local.port, backlog};
        for (int k = 0; bt_server_router_state(port, k, &r); k++) {
            bt_ctl_add_router(out, &r.router.request, r.heard_ns, now);
        }
    }
}

static void add_io(const struct serve_control *c, struct bt_ctl_samples *out)
{
    enum { IO_COUNTERS = 64 };
    uint64_t sum[IO_COUNTERS] = {0};
    const struct bt_counter_desc *descs = NULL;
    unsigned n = 0;
    for (uint32_t i = 0; i < c->ports; i++) {
        struct bt_io *io = c->server->port[i].io;
        const uint64_t *one = io->ops->counters(io, &descs, &n);
        n = n < IO_COUNTERS ? n : IO_COUNTERS;
        for (unsigned k = 0; k < n; k++) {
            sum[k] += one[k];
        }
    }
    bt_ctl_add_counters(out, descs, sum, n);
}

static void counters(void *arg, struct bt_ctl_samples *out)
{
    struct serve_control *c = arg;
    uint64_t sum[BT_SERVER_COUNTERS] = {0};
    uint32_t backlog = 0;
    for (uint32_t i = 0; i < c->ports; i++) {
        const struct bt_server *port = bt_run_server(c->server->run, i);
        const uint64_t *one = bt_server_counters(port);
        for (unsigned k = 0; k < BT_SERVER_COUNTERS; k++) {
            sum[k] += one[k];
        }
        backlog += bt_server_backlog(port);
    }
    bt_ctl_add_counters(out, bt_server_counter_desc, sum, BT_SERVER_COUNTERS);
    add_io(c, out);
    serve_told_counters(c->server, out);
    bt_ctl_add_gauge(out, "server_backlog", backlog);
    bt_ctl_add_gauge(out, "server_workers", c->ports);
    bt_ctl_add_gauge(out, "server_draining", c->server->leaving);
}

static void leave(void *arg)
{
    serve_leave(((struct serve_control *)arg)->server);
}

static const struct bt_hist_slices *slices(void *arg, const char *name)
{
    struct serve_control *c = arg;
    bool latency = strcmp(name, "latency") == 0;
    if (!latency && strcmp(name, "service") != 0) {
        return NULL;
    }
    bt_hist_slices_sum(c->sum, latency ? c->latency : c->service, c->ports);
    return c->sum;
}

static const struct bt_trace_ring *traces(void *arg)
{
    struct serve_control *c = arg;
    struct bt_trace fresh[16];
    for (uint32_t i = 0; i < c->ports; i++) {
        size_t n;
        uint64_t lost;
        while ((n = bt_trace_read(c->traces[i], c->traced[i], fresh, 16, &c->traced[i], &lost)) > 0) {
            for (size_t k = 0; k < n; k++) {
                bt_trace_note(c->all, &fresh[k]);
            }
        }
    }
    return c->all;
}

static struct bt_hist_slices *kept_slices(void)
{
    struct bt_hist_slices *s = calloc(1, bt_hist_slices_bytes());
    if (s != NULL) {
        bt_hist_slices_init(s, now_ns(NULL));
    }
    return s;
}

static bool make_port(struct serve_control *c, uint32_t i)
{
    c->latency[i] = kept_slices();
    c->service[i] = kept_slices();
    c->traces[i] = calloc(1, sizeof *c->traces[i]);
    return c->latency[i] != NULL && c->service[i] != NULL && c->traces[i] != NULL;
}

struct serve_control *serve_control_new(struct bobtail_server *s, uint32_t ports)
{
    struct serve_control *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->server = s;
    c->ports = ports;
    c->started_ns = now_ns(NULL);
    c->latency = calloc(ports, sizeof(void *));
    c->service = calloc(ports, sizeof(void *));
    c->traces = calloc(ports, sizeof(void *));
    c->traced = calloc(ports, sizeof *c->traced);
    c->sum = kept_slices();
    c->all = calloc(1, sizeof *c->all);
    bool ok = c->latency != NULL && c->service != NULL && c->traces != NULL && c->traced != NULL && c->sum != NULL &&
              c->all != NULL;
    for (uint32_t i = 0; ok && i < ports; i++) {
        ok = make_port(c, i);
    }
    if (!ok) {
        serve_control_free(c);
        return NULL;
    }
    return c;
}

void serve_control_port(struct serve_control *c, uint32_t i, struct bt_run_port *port)
{
    port->service = c->service[i];
    port->server.latency = c->latency[i];
    port->server.traces = c->traces[i];
}

static bool keeps(const char *path)
{
    return path != NULL && path[0] != '\0' && access(path, F_OK) == 0;
}

static bool listen_to(struct serve_control *c, const struct bobtail_server_config *config, struct bt_ctl_error *e)
{
    const struct bt_ctl_app answers = {.role = "server",
                                       .histogram_source = "Server",
                                       .incarnation = c->server->port[0].server.incarnation,
                                       .arg = c,
                                       .apply = apply,
                                       .state = state,
                                       .counters = counters,
                                       .leave = leave,
                                       .slices = slices,
                                       .histogram_names = "latency, service",
                                       .traces = traces,
                                       .now = now_ns};
    const struct bt_ctl_options options = {
        .socket = config->control, .key_dir = config->key_dir, .config_cache = config->config_cache};
    c->ctl = bt_ctl_new(&answers, &options, &c->mailbox);
    if (c->ctl == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
    }
    if (keeps(config->config_cache)) {
        serve_hold(c->server);
        (void)bt_ctl_load(c->ctl, config->config_cache, e); // one that is broken is replaced by the next
        serve_go(c->server);
    }
    return bt_ctl_start(c->ctl, e);
}

bool serve_control_start(struct serve_control *c, const struct bobtail_server_config *config, char *err, size_t errlen)
{
    struct bt_ctl_error e = {0};
    bt_mailbox_init(&c->mailbox, ring, c);
    sem_init(&c->rung, 0, 0);
    c->opened = true;
    c->running = pthread_create(&c->thread, NULL, answer_letters, c) == 0;
    if (!c->running) {
        snprintf(err, errlen, "control: no thread could be started");
        return false;
    }
    if (!listen_to(c, config, &e)) {
        snprintf(err, errlen, "control: %s", e.message);
        return false;
    }
    return true;
}

void serve_control_stop(struct serve_control *c)
{
    if (c == NULL || !c->opened) {
        return;
    }
    c->opened = false;
    bt_mailbox_close(&c->mailbox);
    bt_ctl_stop(c->ctl);
    atomic_store(&c->stop, true);
    ring(c);
    if (c->running) {
        pthread_join(c->thread, NULL);
    }
    bt_mailbox_destroy(&c->mailbox);
    sem_destroy(&c->rung);
}

void serve_control_free(struct serve_control *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->ports; i++) {
        free(c->latency != NULL ? c->latency[i] : NULL);
        free(c->service != NULL ? c->service[i] : NULL);
        free(c->traces != NULL ? c->traces[i] : NULL);
    }
    free(c->latency);
    free(c->service);
    free(c->traces);
    free(c->traced);
    free(c->sum);
    free(c->all);
    free(c);
}
