// SPDX-License-Identifier: Apache-2.0
// See told.h.
#include "run/told.h"

#include <string.h>

bool bt_told_mode(const char *word, enum bt_sched_mode *mode)
{
    bool steals = strcmp(word, bt_scheduling_mode_words[BT_SCHEDULE_WORK_STEALING]) == 0;
    *mode = steals ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION;
    return steals || strcmp(word, bt_scheduling_mode_words[BT_SCHEDULE_RUN_TO_COMPLETION]) == 0;
}

uint32_t bt_told_threads(enum bt_sched_mode mode, uint32_t ports)
{
    uint32_t threads = mode == BT_SCHED_WORK_STEALING ? ports * BT_RUN_LANE : ports;
    return threads < BT_RUN_THREADS_MAX ? threads : BT_RUN_THREADS_MAX;
}

void bt_told_apply(struct bt_run *run, enum bt_sched_mode mode, const struct bt_config_scheduling *c)
{
    bool steals = mode == BT_SCHED_WORK_STEALING;
    if (!c->given || (c->mode == BT_SCHEDULE_WORK_STEALING) != steals) {
        return;
    }
    bt_run_set_batch(run, (uint32_t)c->batch);
    bt_run_set_order(run, c->ordering == BT_ORDER_PER_CLIENT);
    if (steals) {
        bt_run_set_cores(run, (uint32_t)c->min_cores, (uint32_t)c->max_cores);
    }
}

void bt_told_state(const struct bt_run *run, enum bt_sched_mode mode, struct bt_ctl_scheduling *out)
{
    struct bobtail_server_counts c;
    struct bt_run_lanes lanes;
    bool steals = mode == BT_SCHED_WORK_STEALING;
    bt_run_read_counts(run, &c);
    bt_run_read_lanes(run, &lanes);
    *out = (struct bt_ctl_scheduling){
        .mode = bt_scheduling_mode_words[steals ? BT_SCHEDULE_WORK_STEALING : BT_SCHEDULE_RUN_TO_COMPLETION],
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

enum { COUNTS = 7 };

static const struct bt_counter_desc count_desc[COUNTS] = {
    {"server_handled_total", NULL, NULL},        {"server_stolen_total", NULL, NULL},
    {"server_borrowed_total", NULL, NULL},       {"server_slow_handlers_total", NULL, NULL},
    {"server_assisted_turns_total", NULL, NULL}, {"server_threads_died_total", NULL, NULL},
    {"server_parks_total", NULL, NULL},
};

void bt_told_counters(const struct bt_run *run, uint32_t threads, struct bt_ctl_samples *out)
{
    struct bobtail_server_counts c;
    struct bt_run_lanes lanes;
    bt_run_read_counts(run, &c);
    bt_run_read_lanes(run, &lanes);
    const uint64_t values[COUNTS] = {c.handled, c.stolen, c.borrowed, c.slow, c.assisted, c.died, c.parks};
    bt_ctl_add_counters(out, count_desc, values, COUNTS);
    bt_ctl_add_gauge(out, "server_threads", threads);
    bt_ctl_add_gauge(out, "server_threads_active", c.active);
    bt_ctl_add_gauge(out, "server_threads_allowed", lanes.most);
    bt_ctl_add_gauge(out, "server_processors", lanes.processors);
    bt_ctl_add_gauge(out, "server_handler_longest_nanoseconds", lanes.longest_ns);
}

struct bt_fc_objective bt_told_objective(const struct bt_config_flow *c)
{
    return (struct bt_fc_objective){.wait_ns = (double)c->wait_us * 1e3,
                                    .percentile = (double)c->per_100k / 1e5,
                                    .model = c->model == BT_WAIT_PAPER ? BT_FC_PAPER : BT_FC_REFINED};
}

void bt_told_flow_state(const struct bt_flow_figures *f, struct bt_ctl_flow *out)
{
    *out = (struct bt_ctl_flow){.on = f->on,
                                .throttling = f->throttling,
                                .alarm = f->alarm,
                                .load_ppm = (uint64_t)(1e6 * f->load),
                                .admitted_ppm = (uint64_t)(1e6 * f->admitted),
                                .service_ns = (uint64_t)f->service_ns,
                                .cv2_milli = (uint64_t)(1e3 * f->cv2),
                                .refused = f->refused,
                                .silences = f->counters[BT_FLOW_THROTTLED_SIGNALS],
                                .clients = f->clients};
}

void bt_told_flow_counters(const struct bt_flow_figures *f, struct bt_ctl_samples *out)
{
    bt_ctl_add_counters(out, bt_flow_counter_desc, f->counters, BT_FLOW_COUNTERS);
    if (f->on) {
        bt_ctl_add_gauge(out, "server_flow_load_millionths", (uint64_t)(1e6 * f->load));
        bt_ctl_add_gauge(out, "server_flow_admitted_millionths", (uint64_t)(1e6 * f->admitted));
        bt_ctl_add_gauge(out, "server_flow_throttling", f->throttling);
        bt_ctl_add_gauge(out, "server_flow_dispersed", f->alarm);
    }
}
