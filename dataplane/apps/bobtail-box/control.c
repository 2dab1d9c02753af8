// SPDX-License-Identifier: Apache-2.0
// A box's answers to the control protocol; all of them run in the loop.
#include "box_app.h"

#include "shell/start.h"

static uint64_t now_of(const struct box_app *app)
{
    return bt_io_now(atomic_load(&app->io));
}

static void box_state(void *arg, struct bt_ctl_state *out)
{
    struct box_app *app = arg;
    out->draining = app->leaving;
    out->uptime_ns = bt_monotonic_ns() - app->started_ns;
    out->backlog = app->box != NULL ? bt_box_front_inside(app->box, now_of(app)) : 0;
}

static void box_counters(void *arg, struct bt_ctl_samples *out)
{
    struct box_app *app = arg;
    const struct bt_counter_desc *descs;
    unsigned n;
    struct bt_io *io = atomic_load(&app->io);
    const uint64_t *of_io = io->ops->counters(io, &descs, &n);
    if (app->box != NULL) {
        bt_ctl_add_counters(out, bt_box_counter_desc, bt_box_front_counters(app->box, now_of(app)), BT_BOX_COUNTERS);
        bt_ctl_add_gauge(out, "box_requests_inside", bt_box_front_inside(app->box, now_of(app)));
        bt_ctl_add_gauge(out, "box_limit", (uint64_t)app->document.in_flight);
    }
    bt_ctl_add_counters(out, descs, of_io, n);
    bt_ctl_add_gauge(out, "box_buffers_in_use", app->pool.in_use);
}

static void leave(void *arg)
{
    struct box_app *app = arg;
    app->leaving = true; // nothing is kept here that could be handed over
}

static const struct bt_hist_slices *no_slices(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

const struct bt_ctl_app box_ctl_app = {
    .role = "box",
    .histogram_source = "Router",
    .apply_text = box_apply,
    .state = box_state,
    .counters = box_counters,
    .leave = leave,
    .slices = no_slices,
    .histogram_names = "none",
    .now = bt_control_now,
};
