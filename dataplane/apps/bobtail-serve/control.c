// SPDX-License-Identifier: Apache-2.0
// The server's answers to the control protocol; all of them run in the I/O thread.
#include "serve_app.h"

#include "shell/log.h"
#include "shell/start.h"

#include <string.h>

static bool serve_apply(void *arg, const struct bt_config *c, const struct bt_keyring *keys, struct bt_ctl_error *e)
{
    struct serve_app *app = arg;
    const struct bt_config_service *s = &c->service;
    struct bt_server_router routers[BT_CONFIG_ROUTERS_MAX];
    struct bt_rpc_timers timers = bt_rpc_timers_for(s->device);
    uint64_t now = bt_io_now(app->io);
    (void)e; // the document's own bounds are the server's
    for (size_t i = 0; i < c->n_routers; i++) {
        routers[i] = (struct bt_server_router){.request = c->routers[i].request, .feedback = c->routers[i].feedback};
    }
    for (unsigned i = 0; i < app->opt.workers; i++) {
        struct bt_server *server = app->worker[i].server;
        bt_server_set_keys(server, keys); // before the JOIN that set_routers sends
        bt_server_set_timers(server, &timers);
        if (app->scheduled == NULL) {
            bt_server_set_n(server, now, (uint16_t)s->worker_queue_depth, app->worker[i].txq);
        }
        bt_server_set_routers(server, now, routers, (int)c->n_routers, app->worker[i].txq);
    }
    if (app->scheduled != NULL) {
        serve_scheduled_depth(app, (uint16_t)s->worker_queue_depth);
        serve_scheduled_configure(app, &s->scheduling);
    }
    serve_flow_configure(app, &s->flow);
    bt_log_info("configuration in force: service %s/%s, n %d, %zu routers", s->namespace, s->name,
                (int)s->worker_queue_depth, c->n_routers);
    return true;
}

static void serve_state(void *arg, struct bt_ctl_state *out)
{
    struct serve_app *app = arg;
    struct bt_server_router_state r;
    uint64_t now = bt_io_now(app->io);
    out->is_router = false;
    bt_network_look(app->network, &app->device, &out->device);
    out->draining = app->leaving;
    out->uptime_ns = now - app->started_ns;
    out->backlog = serve_backlog(app);
    serve_flow_state(app, &out->flow);
    serve_scheduled_state(app, &out->scheduling);
    for (unsigned i = 0; i < app->opt.workers; i++) {
        const struct bt_server *s = app->worker[i].server;
        out->workers[out->n_workers++] =
            (struct bt_ctl_worker){(uint16_t)(app->opt.first.port + i), bt_server_backlog(s)};
        for (int k = 0; bt_server_router_state(s, k, &r); k++) {
            bt_ctl_add_router(out, &r.router.request, r.heard_ns, now);
        }
    }
}

static void serve_counters(void *arg, struct bt_ctl_samples *out)
{
    struct serve_app *app = arg;
    uint64_t sum[BT_SERVER_COUNTERS] = {0};
    const struct bt_counter_desc *descs;
    unsigned n;
    for (unsigned i = 0; i < app->opt.workers; i++) {
        const uint64_t *c = bt_server_counters(app->worker[i].server);
        for (unsigned k = 0; k < BT_SERVER_COUNTERS; k++) {
            sum[k] += c[k];
        }
    }
    const uint64_t *io = app->io->ops->counters(app->io, &descs, &n);
    bt_ctl_add_counters(out, bt_server_counter_desc, sum, BT_SERVER_COUNTERS);
    bt_ctl_add_counters(out, descs, io, n);
    bt_ctl_add_gauge(out, "server_backlog", serve_backlog(app));
    bt_ctl_add_gauge(out, "server_workers", app->opt.workers);
    bt_ctl_add_gauge(out, "server_draining", app->leaving);
    bt_ctl_add_gauge(out, "server_buffers_in_use",
                     app->scheduled != NULL ? serve_scheduled_in_use(app) : bt_network_in_use(app->network));
    serve_flow_counters(app, out);
    if (app->scheduled != NULL) {
        serve_scheduled_counters(app, out);
    }
}

static void leave(void *arg)
{
    serve_leave(arg);
}

static const struct bt_hist_slices *serve_slices(void *arg, const char *name)
{
    const struct serve_app *app = arg;
    bool latency = strcmp(name, "latency") == 0;
    if (app->scheduled != NULL && (latency || strcmp(name, "service") == 0)) {
        return serve_scheduled_slices(app, latency);
    }
    if (latency) {
        return app->latency;
    }
    return strcmp(name, "service") == 0 ? app->service : NULL;
}

static const struct bt_trace_ring *serve_traces(void *arg)
{
    struct serve_app *app = arg;
    if (app->scheduled != NULL) {
        serve_scheduled_traces(app);
    }
    return &app->traces;
}

const struct bt_ctl_app serve_ctl_app = {
    .role = "server",
    .histogram_source = "Server",
    .apply = serve_apply,
    .state = serve_state,
    .counters = serve_counters,
    .leave = leave,
    .slices = serve_slices,
    .histogram_names = "latency, service",
    .traces = serve_traces,
    .now = bt_control_now,
};
