// SPDX-License-Identifier: Apache-2.0
// Flow control of all ports: set up, configured, and read.
#include "serve_app.h"

#include "run/told.h"
#include "shell/log.h"
#include "shell/start.h"

bool serve_flow_open(struct serve_app *app)
{
    for (unsigned i = 0; i < app->opt.workers; i++) {
        const uint64_t seed[2] = {bt_new_seed(), bt_new_seed()};
        app->flow[i] = bt_flow_new(seed);
        if (app->flow[i] == NULL) {
            bt_log_error("out of memory for the flow control of %u ports", app->opt.workers);
            return false;
        }
    }
    return true;
}

void serve_flow_close(struct serve_app *app)
{
    for (unsigned i = 0; i < app->opt.workers; i++) {
        bt_flow_free(app->flow[i]);
        app->flow[i] = NULL;
    }
}

void serve_flow_set(struct serve_app *app, const struct bt_fc_objective *o)
{
    for (unsigned i = 0; i < app->opt.workers; i++) {
        if (o == NULL) {
            bt_flow_set(app->flow[i], NULL, 0);
            continue;
        }
        struct bt_fc_objective own = *o;
        own.cores = app->scheduled != NULL ? serve_scheduled_cores(app, i) : 1;
        bt_flow_set(app->flow[i], &own, bt_io_now(app->io));
    }
}

void serve_flow_begin(struct serve_app *app)
{
    struct bt_fc_objective o = {.wait_ns = (double)app->opt.wait_ns,
                                .percentile = app->opt.wait_percentile,
                                .model = (enum bt_fc_model)app->opt.wait_model};
    if (app->opt.wait_ns != 0) {
        serve_flow_set(app, &o);
    }
}

void serve_flow_configure(struct serve_app *app, const struct bt_config_flow *flow)
{
    struct bt_fc_objective o = bt_told_objective(flow);
    serve_flow_set(app, flow->given ? &o : NULL);
}

static void read_all(const struct serve_app *app, struct bt_flow_figures *sum)
{
    *sum = (struct bt_flow_figures){0};
    for (unsigned i = 0; i < app->opt.workers; i++) {
        struct bt_flow_figures one;
        bt_flow_read(app->flow[i], bt_io_now(app->io), &one);
        bt_flow_add(sum, &one);
    }
}

void serve_flow_state(struct serve_app *app, struct bt_ctl_flow *out)
{
    struct bt_flow_figures f;
    read_all(app, &f);
    bt_told_flow_state(&f, out);
    if (f.alarm && !app->flow_alarmed) {
        bt_log_warn("flow control: service times differ so much (c² %.0f) that the load it admits says little; "
                    "see docs/concepts/flow-control.md",
                    f.cv2);
    }
    app->flow_alarmed = f.alarm;
}

void serve_flow_counters(struct serve_app *app, struct bt_ctl_samples *out)
{
    struct bt_flow_figures f;
    read_all(app, &f);
    bt_told_flow_counters(&f, out);
}
