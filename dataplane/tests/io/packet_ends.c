// SPDX-License-Identifier: Apache-2.0
// See packet_ends.h.
#include "packet_ends.h"

#include <string.h>

static uint8_t byte_at(uint32_t seed, uint32_t i)
{
    return (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

void packet_queue(struct packet_end *e, struct bt_txq *q, unsigned from, struct bt_addr to, uint32_t seed, uint32_t len)
{
    struct bt_pkt *p = bt_pool_get(e->pool);
    assert_non_null(p);
    uint8_t *at = bt_pkt_append(p, len);
    assert_non_null(at);
    for (uint32_t i = 0; i < len; i++) {
        at[i] = byte_at(seed, i);
    }
    if (len >= sizeof seed) {
        memcpy(at, &seed, sizeof seed);
    }
    p->local = (uint16_t)from;
    p->dst = to;
    p->index = 3; // its sender's own affair: who receives it, maybe in the same buffer, sees nothing of it
    p->mark = 5;
    bt_txq_push(q, p);
}

uint32_t packet_seed(const struct bt_pkt *p)
{
    uint32_t seed;
    assert_true(p->len >= sizeof seed);
    memcpy(&seed, p->data, sizeof seed);
    return seed;
}

void packet_check(const struct bt_pkt *p, uint32_t seed, uint32_t len)
{
    assert_int_equal(p->len, len);
    for (uint32_t i = len >= sizeof seed ? (uint32_t)sizeof seed : 0; i < len; i++) {
        assert_int_equal(p->data[i], byte_at(seed, i));
    }
}

void packet_send(struct packet_end *e, struct bt_txq *q)
{
    bt_io_tx(e->io, q);
    assert_int_equal(q->n, 0);
}

void packet_serve(struct packet_end *e)
{
    struct bt_pkt *p[BT_IO_BATCH];
    unsigned n = bt_io_rx(e->io, BT_IO_ANY, p, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        char from[BT_ADDR_TEXT];
        print_message("nobody sent this: %u bytes from %s to port %u\n", p[i]->len, bt_addr_format(&p[i]->src, from),
                      p[i]->local);
    }
    assert_int_equal(n, 0);
}

// What became of the packets that are missing.
static void tell(const struct packet_rig *r)
{
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        const struct bt_counter_desc *d;
        unsigned n;
        const uint64_t *v = r->end[i].io->ops->counters(r->end[i].io, &d, &n);
        for (unsigned k = 0; k < n; k++) {
            if (v[k] != 0) {
                print_message("end %u: %s %s = %u\n", i, d[k].name, d[k].value != NULL ? d[k].value : "",
                              (unsigned)v[k]);
            }
        }
    }
}

unsigned packet_receive(struct packet_rig *r, unsigned at, uint32_t port, struct bt_pkt **pkts, unsigned want)
{
    struct packet_end *e = &r->end[at];
    unsigned got = 0;
    unsigned turns = 0;
    uint64_t until = bt_io_now(e->io) + 5 * SECOND;
    while (got < want && bt_io_now(e->io) < until && turns++ < 1000000) {
        bt_io_wait(e->io, bt_io_now(e->io) + MS);
        got += bt_io_rx(e->io, port, pkts + got, want - got);
        if (got < want) {
            packet_serve(&r->end[1 - at]);
        }
    }
    if (got < want) {
        tell(r);
    }
    return got;
}

void packet_give_back(struct packet_end *e, struct bt_pkt **pkts, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(e->pool, pkts[i]);
    }
}

uint64_t packet_counted(struct packet_end *e, const char *name, const char *value)
{
    const struct bt_counter_desc *d;
    unsigned n;
    uint64_t sum = 0;
    const uint64_t *v = e->io->ops->counters(e->io, &d, &n);
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(d[i].name);
        size_t tail = strlen(name);
        if (len >= tail && strcmp(d[i].name + len - tail, name) == 0 &&
            (value == NULL || (d[i].value != NULL && strcmp(d[i].value, value) == 0))) {
            sum += v[i];
        }
    }
    return sum;
}

uint32_t packet_largest(const struct packet_rig *r)
{
    return r->mtu - (r->v6 ? 48u : 28u);
}

void packet_acquaint(struct packet_rig *r)
{
    struct bt_pkt *p[1];
    for (unsigned from = 0; from < PACKET_ENDS; from++) {
        struct bt_txq q;
        bt_txq_init(&q);
        packet_queue(&r->end[from], &q, 0, r->end[1 - from].port[0], 0, 4);
        packet_send(&r->end[from], &q);
        assert_int_equal(packet_receive(r, 1 - from, BT_IO_ANY, p, 1), 1);
        packet_give_back(&r->end[1 - from], p, 1);
    }
}
