// SPDX-License-Identifier: Apache-2.0
// See udp_bed.h.
#include "udp_bed.h"

#include <stdlib.h>
#include <string.h>

struct bt_io *udp_open_at(struct bt_pool *pool, const char *const *where, unsigned n, enum bt_idle idle, bool report,
                          unsigned rcvbuf)
{
    struct bt_addr local[8];
    char err[256];
    for (unsigned i = 0; i < n; i++) {
        // Port 0 is no address a text may name; any free port will do here.
        assert_int_equal(bt_addr_parse(where[i], 1, &local[i]), 0);
        local[i].port = 0;
    }
    struct bt_udp_config cfg = {.locals = local,
                                .n_locals = n,
                                .pool = pool,
                                .idle = idle,
                                .report_unreachable = report,
                                .rcvbuf_bytes = rcvbuf};
    struct bt_io *io = bt_udp_open(&cfg, err, sizeof err);
    if (io == NULL) {
        fail_msg("%s", err);
    }
    return io;
}

void rig_open(struct rig *r, uint32_t packets, const char *ip, enum bt_idle idle)
{
    const char *const two[] = {ip, ip};
    r->packets = packets;
    r->mem = malloc(bt_pool_fixed_bytes(packets));
    r->pool = bt_pool_fixed_init(&r->fixed, r->mem, packets);
    r->a = udp_open_at(r->pool, two, 2, idle, true, 0);
    r->b = udp_open_at(r->pool, two, 1, idle, false, 0);
}

void rig_close(struct rig *r)
{
    r->a->ops->close(r->a);
    r->b->ops->close(r->b);
    assert_int_equal(r->fixed.left, r->packets); // every buffer came home
    free(r->mem);
}

uint64_t udp_counter(struct bt_io *io, enum bt_udp_counter c)
{
    const struct bt_counter_desc *desc;
    unsigned n;
    const uint64_t *v = io->ops->counters(io, &desc, &n);
    assert_int_equal(n, BT_UDP_COUNTERS);
    assert_non_null(desc[c].name);
    return v[c];
}

struct bt_addr udp_local(struct bt_io *io, uint32_t port)
{
    return io->ops->local(io, port);
}

void udp_queue(struct rig *r, struct bt_txq *q, uint16_t from, struct bt_addr dst, const void *data, uint32_t len)
{
    struct bt_pkt *p = bt_pool_get(r->pool);
    assert_non_null(p);
    memcpy(bt_pkt_append(p, len), data, len);
    p->local = from;
    p->dst = dst;
    bt_txq_push(q, p);
}

unsigned udp_receive(struct bt_io *io, uint32_t port, struct bt_pkt **pkts, unsigned want)
{
    unsigned got = 0;
    uint64_t until = bt_io_now(io) + 60000 * MS;
    while (got < want && bt_io_now(io) < until) {
        bt_io_wait(io, until);
        got += bt_io_rx(io, port, pkts + got, want - got);
    }
    return got;
}
