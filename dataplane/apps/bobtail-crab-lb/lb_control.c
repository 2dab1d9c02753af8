// SPDX-License-Identifier: Apache-2.0
// The balancer's answers to the control protocol: counters and state; it takes its configuration from a file.
#include "lb_app.h"

#include "shell/start.h"

static void lb_state(void *arg, struct bt_ctl_state *out)
{
    const struct lb_app *app = arg;
    out->uptime_ns = bt_io_now(app->io) - app->started_ns;
}

// As connections find them: the probes know of a change some milliseconds before the pools follow.
static void add_health(const struct lb_app *app, struct bt_ctl_samples *out)
{
    static const char *const names[] = {"down", "up", "capable"};
    uint64_t n[3] = {app->prober.n};
    for (uint32_t v = 0; v < app->n_vips; v++) {
        const struct bt_crab_pool *pool = app->pools[v];
        for (uint32_t i = 0; pool != NULL && i < pool->n; i++) {
            if (!pool->backends[i].up) {
                continue;
            }
            n[0]--;
            n[pool->backends[i].capable ? 2 : 1]++;
        }
    }
    for (unsigned h = 0; h < 3; h++) {
        struct bt_counter_desc desc = {"crab_servers", "health", names[h]};
        bt_ctl_add_labelled_gauge(out, &desc, n[h]);
    }
}

static void lb_counters(void *arg, struct bt_ctl_samples *out)
{
    static const struct bt_counter_desc own_descs[LB_COUNTERS] = {
        [LB_REPORTS] = {"crab_reports_total", NULL, NULL},
        [LB_REPORT_MALFORMED] = {"crab_reports_dropped_total", "reason", "malformed"},
        [LB_REPORT_STRANGER] = {"crab_reports_dropped_total", "reason", "stranger"},
        [LB_REPORT_UNSIGNED] = {"crab_reports_dropped_total", "reason", "unsigned"},
        [LB_REPORT_TAG] = {"crab_reports_dropped_total", "reason", "tag"},
        [LB_REPORT_SESSION] = {"crab_reports_dropped_total", "reason", "session"},
        [LB_REPORT_REPLAY] = {"crab_reports_dropped_total", "reason", "replay"},
    };
    static const struct bt_counter_desc probe_descs[] = {{"crab_probes_total", NULL, NULL},
                                                         {"crab_probe_answers_total", "kind", "accepted"},
                                                         {"crab_probe_answers_total", "kind", "refused"},
                                                         {"crab_probe_answers_total", "kind", "silent"},
                                                         {"crab_probe_answers_total", "kind", "unasked"}};
    struct lb_app *app = arg;
    const struct bt_crab_prober *p = &app->prober;
    const uint64_t probes[] = {p->sent, p->answered, p->refused, p->silent, p->unasked};
    const struct bt_counter_desc *descs;
    unsigned n;
    const uint64_t *values = bt_crab_counters(app->crab, &descs, &n);
    bt_ctl_add_counters(out, descs, values, n);
    bt_ctl_add_counters(out, own_descs, app->counters, LB_COUNTERS);
    bt_ctl_add_counters(out, probe_descs, probes, sizeof probes / sizeof *probes);
    values = app->io->ops->counters(app->io, &descs, &n);
    bt_ctl_add_counters(out, descs, values, n);
    add_health(app, out);
}

static void lb_leave(void *arg)
{
    (void)arg; // nothing to drain: it holds no connection
}

static const struct bt_hist_slices *lb_slices(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

const struct bt_ctl_app lb_ctl_app = {
    .role = "crab-lb",
    .histogram_source = "none",
    .state = lb_state,
    .counters = lb_counters,
    .leave = lb_leave,
    .slices = lb_slices,
    .histogram_names = "none",
    .now = bt_control_now,
};
