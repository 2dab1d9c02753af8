// SPDX-License-Identifier: Apache-2.0
// The simulator's driver over a network of two endpoints that loses nothing. An endpoint takes one packet at a time,
// so that the simulator can let it run on each; here the wire keeps the others and rx takes them off it.
#include "packet_suite.h"

#include "io/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 1024 };

struct sim_net {
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    void *mem;
    struct bt_io_sim node[PACKET_ENDS];
    struct bt_txq wire[PACKET_ENDS]; // towards each
    struct bt_io_sim_net net;
    uint64_t now;
};

static const struct bt_io_ops *sim_ops;
static struct bt_io_ops wired_ops;

static void deliver(void *ctx, uint32_t endpoint, struct bt_pkt *pkt)
{
    struct sim_net *n = ctx;
    bt_txq_push(&n->wire[1 - endpoint], pkt);
}

static unsigned wired_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    const struct bt_io_sim *s = (struct bt_io_sim *)(void *)io;
    struct sim_net *n = s->net->ctx;
    unsigned got = 0;
    unsigned more = 1;
    while (got < max && more != 0) {
        struct bt_pkt *next = s->arrived == NULL ? bt_txq_pop(&n->wire[s->endpoint]) : NULL;
        n->now++; // time passes only when something happens
        if (next != NULL && bt_io_sim_arrive(&n->node[s->endpoint], next) != 0) {
            bt_pool_put(n->pool, next); // for nobody
        }
        more = sim_ops->rx(io, local, pkts + got, max - got);
        got += more;
    }
    return got;
}

static bool begin(char *why, size_t len)
{
    (void)why;
    (void)len;
    return true;
}

static void end(void) {}

static void open_ends(struct packet_rig *r)
{
    struct sim_net *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->mem = malloc(bt_pool_fixed_bytes(BUFFERS));
    assert_non_null(n->mem);
    n->pool = bt_pool_fixed_init(&n->fixed, n->mem, BUFFERS);
    n->net = (struct bt_io_sim_net){.send = deliver, .ctx = n, .now = &n->now};
    r->fixture = n;
    r->mtu = 1500;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        struct packet_end *e = &r->end[i];
        char text[40];
        for (unsigned p = 0; p < PACKET_PORTS; p++) {
            snprintf(text, sizeof text, r->v6 ? "[fd99::%u]:%u" : "10.99.0.%u:%u", i + 1, 8000 + p);
            assert_int_equal(bt_addr_parse(text, 0, &e->port[p]), 0);
        }
        bt_io_sim_init(&n->node[i], &n->net, i, e->port);
        bt_txq_init(&n->wire[i]);
        sim_ops = n->node[i].io.ops;
        wired_ops = *sim_ops;
        wired_ops.rx = wired_rx;
        n->node[i].io.ops = &wired_ops;
        e->io = &n->node[i].io;
        e->pool = n->pool;
        e->buffers = BUFFERS;
        e->nobody = e->port[0];
        e->nobody.port = 9;
        e->lacks =
            LACKS_WAITING | LACKS_MTU | LACKS_UNREACHABLE | LACKS_POOL_LIMIT | LACKS_BAD_PORT | LACKS_PORTS_APART;
    }
}

static unsigned close_ends(struct packet_rig *r)
{
    struct sim_net *n = r->fixture;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        bt_io_sim_flush(&n->node[i], n->pool);
        bt_pool_put_chain(n->pool, n->wire[i].head);
        r->end[i].io->ops->close(r->end[i].io);
    }
    unsigned lost = BUFFERS - n->fixed.left;
    free(n->mem);
    free(n);
    return lost;
}

static bool transparent(struct packet_end *e, char *why, size_t len)
{
    (void)e;
    (void)why;
    (void)len;
    return true;
}

const struct packet_driver packet_driver_sim = {
    .name = "sim",
    .begin = begin,
    .end = end,
    .has_v6 = true,
    .open = open_ends,
    .close = close_ends,
    .transparent = transparent,
};
