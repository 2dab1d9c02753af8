// SPDX-License-Identifier: Apache-2.0
// See crab_lb_loop_bed.h.
#include "crab_lb_loop_bed.h"

#include "shell/start.h"

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

struct crab_lb_bed bed;

unsigned __wrap_bt_stop_count(void);

unsigned __wrap_bt_stop_count(void)
{
    return bed.n_arrives == 0 && bed.turns > 2;
}

static unsigned io_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    unsigned n = 0;
    (void)io;
    assert_int_equal(local, BT_IO_ANY);
    while (n < max && bed.n_arrives > 0) {
        pkts[n++] = bed.arrives[--bed.n_arrives];
    }
    return n;
}

static void io_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        assert_true(bed.n_sent < SENT && p->len <= sizeof bed.sent[0].bytes);
        bed.sent[bed.n_sent].dst = p->dst;
        bed.sent[bed.n_sent].local = p->local;
        bed.sent[bed.n_sent].as_src = p->tx_as_src;
        bed.sent[bed.n_sent].len = p->len;
        memcpy(bed.sent[bed.n_sent++].bytes, p->data, p->len);
        bt_pool_put(&bed.pool.pool, p);
    }
}

static void io_wait(struct bt_io *io, uint64_t until)
{
    (void)io;
    bed.now = until > bed.now ? until : bed.now;
    assert_true(++bed.turns < 1000);
}

static uint64_t io_now(struct bt_io *io)
{
    (void)io;
    return bed.now;
}

static unsigned io_events(struct bt_io *io, struct bt_io_event *ev, unsigned max)
{
    unsigned n = bed.events_left < max ? bed.events_left : max;
    (void)io;
    (void)ev;
    bed.events_left -= n;
    return n;
}

static const uint64_t *io_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    static const struct bt_counter_desc descs[] = {{"io_test_total", NULL, NULL}};
    static const uint64_t values[] = {41};
    (void)io;
    *desc = descs;
    *n = 1;
    return values;
}

static void no_wake(void *arg)
{
    (void)arg;
}

// Of two VIPs at port 80, whose servers are 10.0.0.3 (up), 10.0.0.4 (up and capable) and 10.0.0.5 (down); and one
// at 81.
static void make_pools(void)
{
    for (uint32_t v = 0; v < 2; v++) {
        struct bt_crab_backend b[3] = {{.ip = bt_addr_v4u(0x0a000003, 0), .weight = 1, .up = true},
                                       {.ip = bt_addr_v4u(0x0a000004, 0), .weight = 1, .up = true, .capable = true},
                                       {.ip = bt_addr_v4u(0x0a000005, 0), .weight = 1}};
        size_t bytes = (bt_crab_pool_bytes(3) + 63) & ~(size_t)63;
        bed.app.pools[v] = bt_crab_pool_build(memset(aligned_alloc(64, bytes), 0, bytes), b, 3, 1);
        assert_null(bt_crab_swap(bed.app.crab, v, bed.app.pools[v]));
    }
}

int crab_lb_open(void **state)
{
    static const struct bt_io_ops ops = {
        .rx = io_rx, .tx = io_tx, .wait = io_wait, .now = io_now, .events = io_events, .counters = io_counters};
    static struct bt_io io = {&ops};
    static const char document[] = "{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[{\"address\":\"10.0."
                                   "0.3\"},{\"address\":\"10.0.0.4\"},"
                                   "{\"address\":\"10.0.0.5\"}]},{\"address\":\"10.0.0.8\",\"port\":80,\"servers\":[]},"
                                   "{\"address\":\"10.0.0.9\",\"port\":81,\"servers\":[]}]}";
    struct bt_ctl_error e;
    (void)state;
    memset(&bed.app, 0, sizeof bed.app);
    bed.n_arrives = bed.turns = bed.n_sent = bed.events_left = 0;
    bed.now = bt_monotonic_ns() + 10 * SECOND; // every probe is due
    assert_true(bt_pool_mapped_open(&bed.pool, PACKETS));
    bed.app.opt.own[0] = bt_addr_v4u(0x0a000002, 8470);
    bed.app.opt.n_own = 1;
    bed.app.io = &io;
    bed.app.pool = &bed.pool.pool;
    bed.app.started_ns = bed.now - 5;
    assert_true(lb_config_parse(document, sizeof document - 1, &bed.app.config, &e));
    assert_true(lb_pools_start(&bed.app));
    bt_mailbox_init(&bed.app.mailbox, no_wake, NULL);
    make_pools();
    return 0;
}

int crab_lb_close(void **state)
{
    (void)state;
    assert_int_equal(bed.pool.in_use, 0);
    lb_pools_free(&bed.app);
    bt_mailbox_destroy(&bed.app.mailbox);
    bt_pool_mapped_close(&bed.pool);
    return 0;
}

struct bt_pkt *crab_lb_arrive(uint16_t local, uint32_t from, const void *bytes, uint32_t n)
{
    struct bt_pkt *p = bt_pool_get(&bed.pool.pool);
    assert_non_null(p);
    memcpy(bt_pkt_append(p, n), bytes, n);
    p->src = bt_addr_v4u(from, 40000);
    p->dst = bed.app.opt.own[0];
    p->local = local;
    assert_true(bed.n_arrives < PACKETS);
    return bed.arrives[bed.n_arrives++] = p;
}

void crab_lb_run(void)
{
    bed.turns = bed.n_sent = 0;
    lb_loop(&bed.app);
}
