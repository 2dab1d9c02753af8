// SPDX-License-Identifier: Apache-2.0
// See mute_bed.h.
#include "mute_bed.h"

#include "bed_port.h"
#include "unit.h"

enum { PACKETS = 8 };

int mute_fds[2];
_Atomic unsigned mute_slow_thread, mute_slow_times;

static struct bt_io net[2];
static struct bt_pool_fixed pool;

static unsigned net_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    (void)io;
    (void)local;
    (void)pkts;
    (void)max;
    return 0;
}

static void net_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        bt_pool_put(&pool.pool, p);
    }
}

static uint64_t net_now(struct bt_io *io)
{
    (void)io;
    return 1000;
}

static unsigned net_watch(struct bt_io *io, int *out, unsigned max)
{
    assert_true(max > 0);
    out[0] = mute_fds[io - net];
    return 1;
}

static unsigned net_watches_nothing(struct bt_io *io, int *out, unsigned max)
{
    (void)io;
    (void)out;
    (void)max;
    return 0;
}

const struct bt_io_ops mute_io = {.rx = net_rx, .tx = net_tx, .now = net_now},
                       mute_watched = {.rx = net_rx, .tx = net_tx, .now = net_now, .watch = net_watch},
                       mute_unwatched = {.rx = net_rx, .tx = net_tx, .now = net_now, .watch = net_watches_nothing};

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    (void)request;
}

static void on_slow(void *arg, const char *name, unsigned thread)
{
    (void)arg;
    assert_string_equal(name, "bed");
    mute_slow_thread = thread;
    mute_slow_times++;
}

struct bt_run *mute_open(enum bt_sched_mode mode, const struct bt_io_ops *ops, char *why, size_t room)
{
    static uint8_t mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER)] __attribute__((aligned(64)));
    struct bt_run_port port[2];
    bt_pool_fixed_init(&pool, mem, PACKETS);
    for (uint32_t i = 0; i < 2; i++) {
        net[i].ops = ops;
        port[i] = small_port(&net[i], i, &pool.pool);
    }
    struct bt_run_setup setup = {.mode = mode,
                                 .threads = 2,
                                 .batch = 64,
                                 .loop_ns = 50000,
                                 .seed = 1,
                                 .name = "bed",
                                 .handler = handle,
                                 .slow = on_slow,
                                 .port = port};
    return bt_run_open(&setup, why, room);
}
