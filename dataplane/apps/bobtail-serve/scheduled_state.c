// SPDX-License-Identifier: Apache-2.0
// What the threads of --mode did, all ports together: counters, histograms, traces.
#include "scheduled.h"
#include "tcp.h"

enum { COUNTS = 7 };

static const struct bt_counter_desc count_desc[COUNTS] = {
    {"server_handled_total", NULL, NULL},        {"server_stolen_total", NULL, NULL},
    {"server_borrowed_total", NULL, NULL},       {"server_slow_handlers_total", NULL, NULL},
    {"server_assisted_turns_total", NULL, NULL}, {"server_threads_died_total", NULL, NULL},
    {"server_parks_total", NULL, NULL},
};

void serve_scheduled_counters(struct serve_app *app, struct bt_ctl_samples *out)
{
    struct bobtail_server_counts c;
    bt_run_read_counts(app->scheduled->run, &c);
    const uint64_t values[COUNTS] = {c.handled, c.stolen, c.borrowed, c.slow, c.assisted, c.died, c.parks};
    bt_ctl_add_counters(out, count_desc, values, COUNTS);
    if (serve_is_tcp(app)) {
        serve_tcp_counters(app, out);
        serve_stack_counters(app, out);
    }
    bt_ctl_add_gauge(out, "server_threads", app->opt.threads);
    bt_ctl_add_gauge(out, "server_threads_active", c.active);
    struct bt_run_lanes lanes;
    bt_run_read_lanes(app->scheduled->run, &lanes);
    bt_ctl_add_gauge(out, "server_threads_allowed", lanes.most);
    bt_ctl_add_gauge(out, "server_processors", lanes.processors);
    bt_ctl_add_gauge(out, "server_handler_longest_nanoseconds", lanes.longest_ns);
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

static bool steals(const struct serve_app *app)
{
    return app->opt.mode == MODE_WORK_STEALING;
}

/* What a server can do while it runs. One of another mode is about to be replaced by one of this. */
void serve_scheduled_configure(struct serve_app *app, const struct bt_config_scheduling *c)
{
    struct bt_run *run = app->scheduled->run;
    if (!app->opt.told || !c->given || (c->mode == BT_SCHEDULE_WORK_STEALING) != steals(app)) {
        return;
    }
    bt_run_set_batch(run, (uint32_t)c->batch);
    bt_run_set_order(run, c->ordering == BT_ORDER_PER_CLIENT);
    if (steals(app)) {
        bt_run_set_cores(run, (uint32_t)c->min_cores, (uint32_t)c->max_cores);
    }
}

void serve_scheduled_state(const struct serve_app *app, struct bt_ctl_scheduling *out)
{
    struct bobtail_server_counts c;
    struct bt_run_lanes lanes;
    if (app->scheduled == NULL) {
        return;
    }
    bt_run_read_counts(app->scheduled->run, &c);
    bt_run_read_lanes(app->scheduled->run, &lanes);
    *out = (struct bt_ctl_scheduling){
        .mode = bt_scheduling_mode_words[steals(app) ? BT_SCHEDULE_WORK_STEALING : BT_SCHEDULE_RUN_TO_COMPLETION],
        .lanes = lanes.lanes,
        .active = (uint32_t)c.active,
        .least = lanes.least,
        .most = lanes.most,
        .processors = lanes.processors,
        .stolen = c.stolen,
        .parks = c.parks,
        .slow = c.slow,
        .longest_ns = lanes.longest_ns};
}
