// SPDX-License-Identifier: Apache-2.0
// The generator's answers to the control protocol, so that a coordinator can watch it.
#include "load_app.h"

#include "shell/start.h"

#include <string.h>

static void load_state(void *arg, struct bt_ctl_state *out)
{
    struct load_app *app = arg;
    out->draining = app->stopping;
    out->uptime_ns = bt_io_now(app->io) - app->start_ns;
    out->backlog = app->outstanding;
    for (unsigned i = 0; i < app->list.n && i < 2 * BT_CONFIG_ROUTERS_MAX; i++) {
        out->routers[out->n_routers++] = (struct bt_ctl_router){app->list.addr[i], -1};
    }
}

static void load_counters(void *arg, struct bt_ctl_samples *out)
{
    struct load_app *app = arg;
    uint64_t sum[BT_CLIENT_COUNTERS] = {0};
    const struct bt_counter_desc *descs;
    unsigned n;
    for (unsigned i = 0; i < app->opt.connections; i++) {
        const uint64_t *c = bt_client_counters(app->conn[i].client);
        for (unsigned k = 0; k < BT_CLIENT_COUNTERS; k++) {
            sum[k] += c[k];
        }
    }
    const uint64_t *io = app->io->ops->counters(app->io, &descs, &n);
    bt_ctl_add_counters(out, bt_client_counter_desc, sum, BT_CLIENT_COUNTERS);
    bt_ctl_add_counters(out, descs, io, n);
    bt_ctl_add_gauge(out, "load_outstanding", app->outstanding);
}

static void load_leave(void *arg)
{
    struct load_app *app = arg;
    if (!app->stopping) {
        app->stopping = true;
        app->end_ns = bt_io_now(app->io);
    }
}

static const struct bt_hist_slices *load_slices(void *arg, const char *name)
{
    const struct load_app *app = arg;
    return strcmp(name, "latency") == 0 ? app->slices : NULL;
}

const struct bt_ctl_app load_ctl_app = {
    .role = "load",
    .histogram_source = "Client",
    .state = load_state,
    .counters = load_counters,
    .leave = load_leave,
    .slices = load_slices,
    .histogram_names = "latency",
    .now = bt_control_now,
};
