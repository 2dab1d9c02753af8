// SPDX-License-Identifier: Apache-2.0
// The simulator's driver over a network of two endpoints that loses nothing and in which time is virtual: it passes
// while an end waits. A datagram travels for a microsecond, so does the answer of a host where nobody listens.
#include "packet_suite.h"

#include "io/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 1024, MTU = 1500 };

#define WAY_NS  UINT64_C(1000) // from end to end
#define LOOK_NS UINT64_C(1000) // the shortest wait

enum what { DATAGRAM, NEWS, WAKE };

// Something that happens to an end.
struct thing {
    struct thing *next;
    uint64_t at_ns;
    unsigned end;
    enum what what;
    struct bt_addr src, dst; // of the datagram, or of the one there is news of
    uint32_t len;
    uint8_t data[];
};

struct sim_net {
    struct bt_pool_fixed fixed[PACKET_ENDS];
    void *mem[PACKET_ENDS];
    struct bt_io_sim node[PACKET_ENDS];
    struct bt_io_sim_net net[PACKET_ENDS];
    struct thing *things; // by time, and in the order in which they were brought about
    uint64_t now;
};

static struct sim_net *of(const struct packet_end *e)
{
    const struct bt_io_sim *s = (const struct bt_io_sim *)(const void *)e->io;
    return s->net->ctx;
}

static struct thing *add(struct sim_net *n, unsigned end, enum what what, uint64_t in_ns, uint32_t len)
{
    struct thing *t = calloc(1, sizeof *t + len);
    struct thing **at = &n->things;
    assert_non_null(t);
    t->at_ns = n->now + in_ns;
    t->end = end;
    t->what = what;
    t->len = len;
    while (*at != NULL && (*at)->at_ns <= t->at_ns) {
        at = &(*at)->next;
    }
    t->next = *at;
    *at = t;
    return t;
}

static void deliver(void *ctx, uint32_t endpoint, struct bt_pkt *pkt)
{
    struct sim_net *n = ctx;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        if (bt_addr_ip_eq(&pkt->dst, &n->node[i].port[0])) {
            struct thing *t = add(n, i, DATAGRAM, WAY_NS, pkt->len);
            t->src = pkt->src;
            t->dst = pkt->dst;
            memcpy(t->data, pkt->data, pkt->len);
        }
    }
    bt_pool_put(&n->fixed[endpoint].pool, pkt);
}

// Nobody listens: whoever sent it hears so, unless the address it named as its own is somebody else's.
static void answer(struct sim_net *n, const struct thing *t)
{
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        for (unsigned p = 0; p < PACKET_PORTS; p++) {
            if (bt_addr_eq(&t->src, &n->node[i].port[p])) {
                struct thing *news = add(n, i, NEWS, WAY_NS, 0);
                news->src = t->src;
                news->dst = t->dst;
            }
        }
    }
}

static void happen(struct sim_net *n, const struct thing *t)
{
    struct bt_io_sim *s = &n->node[t->end];
    struct bt_io_event ev = {.peer = t->dst, .local = bt_addr_eq(&t->src, &s->port[1]), .error = ECONNREFUSED};
    if (t->what == WAKE) {
        bt_io_wake(&s->io);
    } else if (t->what == NEWS) {
        bt_io_sim_tell(s, &ev);
    } else if (!bt_io_sim_deliver(s, &t->src, &t->dst, t->data, t->len)) {
        answer(n, t);
    }
}

static void reach(struct sim_net *n, uint64_t at_ns)
{
    while (n->things != NULL && n->things->at_ns <= at_ns) {
        struct thing *t = n->things;
        n->things = t->next;
        n->now = t->at_ns;
        happen(n, t);
        free(t);
    }
    n->now = at_ns;
}

static void pass(void *ctx, uint32_t endpoint, uint64_t until_ns)
{
    struct sim_net *n = ctx;
    reach(n, n->now + LOOK_NS);
    while (n->now < until_ns && !bt_io_sim_ready(&n->node[endpoint])) {
        uint64_t next = n->things != NULL ? n->things->at_ns : BT_IO_FOREVER;
        if (next == BT_IO_FOREVER && until_ns == BT_IO_FOREVER) {
            fail_msg("nothing will ever end this wait");
        }
        reach(n, next < until_ns ? next : until_ns);
    }
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
    r->fixture = n;
    r->mtu = MTU;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        struct packet_end *e = &r->end[i];
        char text[40];
        for (unsigned p = 0; p < PACKET_PORTS; p++) {
            snprintf(text, sizeof text, r->v6 ? "[fd99::%u]:%u" : "10.99.0.%u:%u", i + 1, 8000 + p);
            assert_int_equal(bt_addr_parse(text, 0, &e->port[p]), 0);
        }
        n->mem[i] = malloc(bt_pool_fixed_bytes(BUFFERS));
        assert_non_null(n->mem[i]);
        e->pool = bt_pool_fixed_init(&n->fixed[i], n->mem[i], BUFFERS);
        e->buffers = BUFFERS;
        n->net[i] = (struct bt_io_sim_net){
            .send = deliver, .ctx = n, .now = &n->now, .pool = e->pool, .mtu = MTU, .pass = pass};
        bt_io_sim_init(&n->node[i], &n->net[i], i, e->port);
        e->io = &n->node[i].io;
    }
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        r->end[i].nobody = r->end[1 - i].port[0]; // the host is there
        r->end[i].nobody.port = 9;
    }
}

static unsigned close_ends(struct packet_rig *r)
{
    struct sim_net *n = r->fixture;
    unsigned lost = 0;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        r->end[i].io->ops->close(r->end[i].io);
        lost += BUFFERS - n->fixed[i].left;
        free(n->mem[i]);
    }
    while (n->things != NULL) {
        struct thing *t = n->things;
        n->things = t->next;
        free(t);
    }
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

// Longer than a packet buffer (M-14).
static bool inject_broken(struct packet_rig *r, unsigned from, struct bt_addr to)
{
    struct thing *t = add(r->fixture, 1 - from, DATAGRAM, WAY_NS, BT_PKT_BUFFER + 1);
    t->src = r->end[from].port[0];
    t->dst = to;
    return true;
}

static void wake_in(struct packet_end *e, uint64_t ns)
{
    struct sim_net *n = of(e);
    add(n, e->io == &n->node[1].io, WAKE, ns, 0);
}

const struct packet_driver packet_driver_sim = {
    .name = "sim",
    .begin = begin,
    .end = end,
    .has_v6 = true,
    .open = open_ends,
    .close = close_ends,
    .transparent = transparent,
    .inject_broken = inject_broken,
    .wake_in = wake_in,
};
