// SPDX-License-Identifier: Apache-2.0
// Receiving: frames from the queues and from other ios go through the link; what is UDP and ours waits in the inbox
// of its port until it is asked for. When nothing waits and any port will do, packets go straight to the caller.
#include "io/dpdk_internal.h"

#include <string.h>

#define NO_PORT       UINT32_MAX
#define CARRIER_NS    UINT64_C(1000000000) // between two looks at the carrier
#define NO_CARRIER_NS UINT64_C(100000000)  // while there is none: a memif client looks for its server again

// A buffer we cannot keep state in (somebody else's pool, several segments, memory of the device) is copied.
static struct bt_pkt *foreign(struct bt_dpdk *d, struct rte_mbuf *m)
{
    struct bt_pkt *p = bt_pool_get(&d->dev->pool);
    uint8_t *at = NULL;
    if (p == NULL) {
        d->counters[BT_DPDK_RX_NO_BUFFER]++;
    } else if ((at = bt_pkt_append(p, rte_pktmbuf_pkt_len(m))) == NULL) {
        d->counters[BT_DPDK_RX_TOO_LONG]++;
        bt_pool_put(&d->dev->pool, p);
        p = NULL;
    } else {
        const void *from = rte_pktmbuf_read(m, 0, rte_pktmbuf_pkt_len(m), at);
        if (from != at) { // it was in one piece
            memcpy(at, from, rte_pktmbuf_pkt_len(m));
        }
        d->counters[BT_DPDK_RX_COPIED]++;
    }
    rte_pktmbuf_free(m);
    return p;
}

static inline bool ours(const struct bt_dpdk *d, struct rte_mbuf *m)
{
    return m->nb_segs == 1 && RTE_MBUF_DIRECT(m) &&
           (m->pool == d->dev->buffers || rte_pktmbuf_priv_size(m->pool) >= sizeof(struct bt_pkt));
}

// A frame in its buffer. Of what the link will fill in for a UDP payload nothing is cleared before.
static inline struct bt_pkt *packet_of(struct bt_dpdk *d, struct rte_mbuf *m)
{
    if (!ours(d, m)) {
        return foreign(d, m);
    }
    struct bt_pkt *p = bt_dpdk_pkt(m);
    p->data = rte_pktmbuf_mtod(m, uint8_t *);
    p->len = m->data_len;
    p->room_before = m->data_off;
    p->room_after = (uint32_t)m->buf_len - m->data_off - m->data_len;
    p->tx_as_src = p->mark = p->ttl = p->offload = 0;
    p->index = 0;
    p->next = NULL;
    return p;
}

// What the device found out about the checksums. NONE: the field holds none yet, but the data is known to be whole; so
// come packets that never were on a wire.
static inline uint8_t offload_of(const struct rte_mbuf *m)
{
    uint8_t bits = 0;
    uint64_t ip = m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
    uint64_t l4 = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
    bits |= ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD || ip == RTE_MBUF_F_RX_IP_CKSUM_NONE ? BT_PKT_RX_IP_OK : 0;
    bits |= ip == RTE_MBUF_F_RX_IP_CKSUM_BAD ? BT_PKT_RX_IP_BAD : 0;
    bits |= l4 == RTE_MBUF_F_RX_L4_CKSUM_GOOD || l4 == RTE_MBUF_F_RX_L4_CKSUM_NONE ? BT_PKT_RX_L4_OK : 0;
    bits |= l4 == RTE_MBUF_F_RX_L4_CKSUM_BAD ? BT_PKT_RX_L4_BAD : 0;
    return bits;
}

// The af_xdp driver counts what it finds as missed, again at every look, while the pool cannot replace it.
static bool can_replace(const struct bt_dpdk *d)
{
    void *some[BT_IO_BATCH];
    if (rte_mempool_get_bulk(d->dev->buffers, some, BT_IO_BATCH) != 0) {
        return false;
    }
    rte_mempool_put_bulk(d->dev->buffers, some, BT_IO_BATCH);
    return true;
}

// Frames of one queue, those of other ios already handed over.
static unsigned from_queue(struct bt_dpdk *d, uint16_t queue, struct bt_pkt **frames, unsigned max)
{
    struct rte_mbuf *m[BT_IO_BATCH];
    if (!atomic_load_explicit(&d->dev->running, memory_order_relaxed)) {
        return 0;
    }
    if (d->dev->keeps_buffers && !can_replace(d)) {
        return 0; // they wait in the queue
    }
    unsigned got = rte_eth_rx_burst(d->dev->port, queue, m, (uint16_t)max);
    unsigned n = 0;
    // Another core or a device wrote these lines last: all transfers are asked for before the first one is needed.
    for (unsigned i = 0; i < got; i++) {
        rte_prefetch0(m[i]);
    }
    for (unsigned i = 0; i < got; i++) {
        rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
        rte_prefetch0(rte_pktmbuf_mtod_offset(m[i], void *, RTE_CACHE_LINE_SIZE)); // R2P2 begins in the first line
        rte_prefetch0(bt_dpdk_pkt(m[i]));
        rte_prefetch0((char *)bt_dpdk_pkt(m[i]) + RTE_CACHE_LINE_SIZE);
    }
    for (unsigned i = 0; i < got; i++) {
        uint8_t offload = d->dev->rx_sums ? offload_of(m[i]) : 0;
        struct bt_pkt *p = packet_of(d, m[i]);
        if (p != NULL) {
            p->offload = offload;
            p->t_rx_ns = d->now_ns;
            frames[n++] = p;
        }
    }
    return d->dev->n_ios > 1 && n != 0 ? bt_dpdk_dispatch(d, frames, n) : n;
}

static unsigned frames_of(struct bt_dpdk *d, struct bt_pkt **frames, unsigned max)
{
    unsigned n = 0;
    if (d->handed != NULL) {
        n = rte_ring_sc_dequeue_burst(d->handed, (void **)frames, max, NULL);
    }
    for (unsigned i = 0; i < d->n_rx && n < max; i++) {
        n += from_queue(d, d->rx_queue[d->next_rx], frames + n, max - n);
        d->next_rx = d->next_rx + 1 == d->n_rx ? 0 : d->next_rx + 1;
    }
    return n;
}

static void look_at_carrier(struct bt_dpdk *d)
{
    if (d->index == 0) {
        bt_dpdk_lost_look(d->dev);
    }
    bool up = bt_dpdk_link_up(d->dev);
    if (up != d->carrier) {
        d->carrier = up;
        if (d->index == 0) {
            atomic_store_explicit(&d->dev->carrier, up, memory_order_relaxed);
            bt_dpdk_say(d->dev->log, up ? "DPDK: the carrier is there" : "DPDK: the carrier is gone");
        }
        if (up) {
            bt_link_announce(d->link, d->now_ns);
        }
    }
    if (!up && d->index == 0) {
        bt_dpdk_port_reconnect(d->dev);
    }
    d->look_ns = d->now_ns + (up ? CARRIER_NS : NO_CARRIER_NS);
}

// Looks once; returns how many packets it wrote to pkts[].
static unsigned take(struct bt_dpdk *d, struct bt_pkt **pkts, unsigned max)
{
    d->now_ns = bt_dpdk_now(&d->io);
    unsigned got = frames_of(d, pkts, max);
    unsigned n = bt_link_rx_burst(d->link, pkts, got, &d->out);
    if (d->now_ns >= d->look_ns) {
        look_at_carrier(d);
    }
    if (d->now_ns >= bt_link_next(d->link)) {
        bt_link_tick(d->link, d->now_ns, &d->out);
    }
    if (d->out.n != 0) {
        bt_dpdk_flush(d);
    }
    if (got != 0) {
        d->last_rx_ns = d->now_ns;
        d->counters[BT_DPDK_RX_PACKETS] += n;
    }
    return n;
}

uint64_t bt_dpdk_next(struct bt_io *io)
{
    const struct bt_dpdk *d = bt_dpdk_of(io);
    uint64_t due = bt_link_next(d->link);
    return due < d->look_ns ? due : d->look_ns;
}

static void store(struct bt_dpdk *d, struct bt_pkt *p)
{
    struct bt_dpdk_port *port = &d->ports[p->local];
    if (port->inbox.n == 0) {
        port->next_ready = NO_PORT;
        if (d->ready_head == NO_PORT) {
            d->ready_head = p->local;
        } else {
            d->ports[d->ready_tail].next_ready = p->local;
        }
        d->ready_tail = p->local;
    }
    bt_txq_push(&port->inbox, p);
    d->pending++;
}

// Takes a port that has become empty off the list.
static void unready(struct bt_dpdk *d, uint32_t local)
{
    uint32_t before = NO_PORT;
    uint32_t at = d->ready_head;
    while (at != local) {
        before = at;
        at = d->ports[at].next_ready;
    }
    if (before == NO_PORT) {
        d->ready_head = d->ports[local].next_ready;
    } else {
        d->ports[before].next_ready = d->ports[local].next_ready;
    }
    if (d->ready_tail == local) {
        d->ready_tail = before;
    }
}

bool bt_dpdk_look(struct bt_dpdk *d)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = take(d, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        store(d, pkts[i]);
    }
    return n != 0;
}

static unsigned from_inbox(struct bt_dpdk *d, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct bt_txq *inbox = &d->ports[local].inbox;
    struct bt_pkt *p = inbox->head;
    unsigned n = 0;
    if (p == NULL) {
        return 0;
    }
    while (n < max && p != NULL) {
        struct bt_pkt *next = p->next;
        p->next = NULL;
        pkts[n++] = p;
        p = next;
    }
    inbox->head = p;
    inbox->tail = p != NULL ? inbox->tail : NULL;
    inbox->n -= n;
    d->pending -= n;
    if (inbox->n == 0) {
        unready(d, local);
    }
    return n;
}

unsigned bt_dpdk_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    unsigned n = 0;
    max = max < BT_IO_BATCH ? max : BT_IO_BATCH;
    if (local != BT_IO_ANY) {
        if (local > d->n_ports) {
            return 0;
        }
        if (d->ports[local].inbox.n == 0 && d->pending < BT_DPDK_INBOX) {
            (void)bt_dpdk_look(d);
        }
        return from_inbox(d, local, pkts, max);
    }
    while (n < max && d->pending != 0) {
        n += from_inbox(d, d->ready_head, pkts + n, max - n);
    }
    return n != 0 || max == 0 ? n : take(d, pkts, max);
}

void bt_dpdk_rx_flush(struct bt_dpdk *d)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    while (d->pending != 0) {
        unsigned n = from_inbox(d, d->ready_head, pkts, BT_IO_BATCH);
        for (unsigned i = 0; i < n; i++) {
            bt_pool_put(&d->dev->pool, pkts[i]);
        }
    }
}
