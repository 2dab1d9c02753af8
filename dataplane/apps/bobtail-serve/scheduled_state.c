// SPDX-License-Identifier: Apache-2.0
// What the threads of --mode did, all ports together: counters, histograms, traces.
#include "scheduled.h"

#include "run/told.h"
#include "tcp.h"

void serve_scheduled_counters(struct serve_app *app, struct bt_ctl_samples *out)
{
    bt_told_counters(app->scheduled->run, app->opt.threads, out);
    if (serve_is_tcp(app)) {
        serve_tcp_counters(app, out);
        serve_stack_counters(app, out);
    }
}

const uint64_t *serve_bell_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    struct serve_scheduled *s = ((struct serve_bell *)io)->of;
    *n = 0;
    for (uint32_t i = 0; i < s->app->opt.workers; i++) {
        struct bt_io *port = s->port[i].io;
        const uint64_t *c = port->ops->counters(port, desc, n);
        for (unsigned k = 0; k < *n && k < sizeof s->io_counters / sizeof s->io_counters[0]; k++) {
            s->io_counters[k] = (i == 0 ? 0 : s->io_counters[k]) + c[k];
        }
    }
    return s->io_counters;
}

const struct bt_hist_slices *serve_scheduled_slices(const struct serve_app *app, bool latency)
{
    struct serve_scheduled *s = app->scheduled;
    bt_hist_slices_sum(s->all, latency ? s->latency : s->service, app->opt.workers);
    return s->all;
}

void serve_scheduled_traces(struct serve_app *app)
{
    static struct bt_trace fresh[BT_TRACES];
    struct serve_scheduled *s = app->scheduled;
    for (uint32_t i = 0; i < app->opt.workers; i++) {
        uint64_t lost;
        size_t n = bt_trace_read(s->traces[i], s->traced[i], fresh, BT_TRACES, &s->traced[i], &lost);
        for (size_t k = 0; k < n; k++) {
            bt_trace_note(&app->traces, &fresh[k]);
        }
    }
}

uint32_t serve_scheduled_in_use(const struct serve_app *app)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < app->opt.workers; i++) {
        const struct bt_pool_fixed *pool = &app->scheduled->memory[i].pool;
        sum += pool->count - pool->left;
    }
    return sum;
}

void serve_scheduled_depth(struct serve_app *app, uint16_t n)
{
    bt_run_set_depth(app->scheduled->run, n);
}

void serve_scheduled_configure(struct serve_app *app, const struct bt_config_scheduling *c)
{
    if (app->opt.told) {
        bt_told_apply(app->scheduled->run, serve_sched_mode(&app->opt), c);
    }
}

void serve_scheduled_state(const struct serve_app *app, struct bt_ctl_scheduling *out)
{
    if (app->scheduled != NULL) {
        bt_told_state(app->scheduled->run, serve_sched_mode(&app->opt), out);
    }
}
