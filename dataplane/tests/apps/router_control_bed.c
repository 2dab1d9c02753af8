// SPDX-License-Identifier: Apache-2.0
// See router_control_bed.h.
#include "router_control_bed.h"

#include <stdio.h>
#include <string.h>

struct router_control_bed bed;

bool __wrap_bt_router_apply(struct bt_router *r, uint64_t now, const struct bt_router_config *c,
                            struct bt_router_refusal *why);
void __wrap_bt_router_read_stats(const struct bt_router *r, uint64_t now, struct bt_router_stats *out);
bool __wrap_bt_router_member(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out);
void __wrap_bt_router_drain(struct bt_router *r, uint64_t now);
const struct bt_hist_slices *__wrap_bt_router_latency(const struct bt_router *r);
const struct bt_hist_slices *__wrap_bt_router_hold(const struct bt_router *r);
const struct bt_hist *__wrap_bt_router_class_latency(const struct bt_router *r, unsigned class);
int __wrap_bt_network_allow_transparent(struct bt_network *n, struct bt_io *io, char *err, size_t errlen);
uint32_t __wrap_bt_network_in_use(const struct bt_network *n);

bool __wrap_bt_router_apply(struct bt_router *r, uint64_t now, const struct bt_router_config *c,
                            struct bt_router_refusal *why)
{
    assert_ptr_equal(r, bed.app.router);
    assert_int_equal(now, ROUTER_NOW);
    bed.applied = *c;
    memcpy(bed.applied_member, c->members, c->members_n * sizeof *c->members);
    if (bed.refuses.field != NULL) {
        *why = bed.refuses;
    }
    return bed.refuses.field == NULL;
}

void __wrap_bt_router_read_stats(const struct bt_router *r, uint64_t now, struct bt_router_stats *out)
{
    (void)r;
    assert_int_equal(now, ROUTER_NOW);
    *out = bed.stats;
}

bool __wrap_bt_router_member(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out)
{
    (void)r;
    (void)now;
    if (i < 2) {
        *out = bed.member[i];
    }
    return i < 2;
}

void __wrap_bt_router_drain(struct bt_router *r, uint64_t now)
{
    (void)r;
    bed.drained_at = now;
}

const struct bt_hist_slices *__wrap_bt_router_latency(const struct bt_router *r)
{
    (void)r;
    return (const void *)"latency";
}

const struct bt_hist_slices *__wrap_bt_router_hold(const struct bt_router *r)
{
    (void)r;
    return (const void *)"hold";
}

const struct bt_hist *__wrap_bt_router_class_latency(const struct bt_router *r, unsigned class)
{
    static const char text[] = "0123456789";
    (void)r;
    return (const void *)(text + class);
}

int __wrap_bt_network_allow_transparent(struct bt_network *n, struct bt_io *io, char *err, size_t errlen)
{
    (void)n;
    (void)io;
    snprintf(err, errlen, "no privilege");
    return bed.no_privilege ? -1 : 0;
}

uint32_t __wrap_bt_network_in_use(const struct bt_network *n)
{
    (void)n;
    return 88;
}

struct bt_ctl_fast_path fast_path_state(const struct router_app *of)
{
    (void)of;
    return (struct bt_ctl_fast_path){.active = true, .reason = "Why"};
}

void fast_path_counters(const struct router_app *of, struct bt_ctl_samples *out)
{
    (void)of;
    bt_ctl_add_gauge(out, "router_fast_path", 1);
}

// --- an io of each thread

static uint64_t io_now(struct bt_io *io)
{
    (void)io;
    return ROUTER_NOW;
}

static struct bt_addr io_local(struct bt_io *io, uint32_t local)
{
    (void)io;
    assert_int_equal(local, BT_ROUTER_PORT_REQUEST);
    return bt_addr_v4u(0x0a000001, 8000);
}

static const uint64_t *io_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    static const struct bt_counter_desc descs[] = {{"io_one_total", NULL, NULL}, {"io_two_total", NULL, NULL}};
    static const uint64_t values[2][2] = {{1, 2}, {10, 20}};
    *desc = descs;
    *n = 2;
    return values[io == &bed.feedback_io];
}

static const struct bt_io_ops io_ops = {.now = io_now, .local = io_local, .counters = io_counters};

int router_control_open(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof bed);
    bed.request_io.ops = bed.feedback_io.ops = &io_ops;
    bed.app.io = &bed.request_io;
    bed.app.router = (struct bt_router *)&bed;
    bed.app.started_ns = 400 * MS;
    bed.app.datagram = 1234;
    return 0;
}
