// SPDX-License-Identifier: Apache-2.0
// Answers to the control protocol; all of them run in the loop.
#include "beside.h"

#include "shell/start.h"

static uint64_t now_of(const struct beside *b)
{
    return bt_io_now(atomic_load(&b->io));
}

static void state(void *arg, struct bt_ctl_state *out)
{
    struct beside *b = arg;
    out->draining = b->leaving;
    out->uptime_ns = bt_monotonic_ns() - b->started_ns;
    out->backlog = b->it != NULL ? b->kind->backlog(b->it, now_of(b)) : 0;
}

static void counters(void *arg, struct bt_ctl_samples *out)
{
    struct beside *b = arg;
    const struct bt_counter_desc *descs;
    unsigned n;
    struct bt_io *io = atomic_load(&b->io);
    const uint64_t *of_io = io->ops->counters(io, &descs, &n);
    if (b->it != NULL) {
        b->kind->counters(b->it, now_of(b), out);
    }
    bt_ctl_add_counters(out, descs, of_io, n);
    bt_ctl_add_gauge(out, b->kind->buffers, b->pool.in_use);
}

static void describe(void *arg, struct bt_json_out *o)
{
    struct beside *b = arg;
    if (b->it != NULL && b->kind->describe != NULL) {
        b->kind->describe(b->it, o);
    }
}

static void leave(void *arg)
{
    struct beside *b = arg;
    b->leaving = true; // nothing is kept here that could be handed over
}

static const struct bt_hist_slices *no_slices(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

void beside_answers(struct beside *b)
{
    b->answers = (struct bt_ctl_app){
        .role = b->kind->word,
        .histogram_source = "Router",
        .apply_text = beside_apply,
        .state = state,
        .describe = describe,
        .counters = counters,
        .leave = leave,
        .slices = no_slices,
        .histogram_names = "none",
        .now = bt_control_now,
    };
}
