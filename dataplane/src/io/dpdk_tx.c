// SPDX-License-Identifier: Apache-2.0
// Sending: payloads become frames in the link, frames go to the device in bursts. A queue that is full is given a
// little time, as a socket would; what it still refuses is counted and given back.
#include "io/dpdk_internal.h"

#include <rte_pause.h>
#include <sched.h>

// How long a full queue may hold up the loop before packets are dropped. The peer of a memory transport may wait for
// its share of the CPU meanwhile, so the thread that does not spin gives its own away.
#define FULL_NS UINT64_C(1000000)

enum { ETH_HEAD = 14, IP4_HEAD = 20, IP6_HEAD = 40, TYPE_HIGH = 12, IP6_TYPE_HIGH = 0x86 };

static inline struct rte_mbuf *frame_of(struct bt_pkt *p)
{
    struct rte_mbuf *m = bt_dpdk_mbuf(p);
    m->data_off = (uint16_t)(p->data - (uint8_t *)m->buf_addr);
    m->data_len = (uint16_t)p->len;
    m->pkt_len = p->len;
    m->ol_flags = 0;
    if ((p->offload & (BT_PKT_TX_UDP_SUM | BT_PKT_TX_IP_SUM)) != 0) {
        bool v6 = p->data[TYPE_HIGH] == IP6_TYPE_HIGH;
        m->l2_len = ETH_HEAD;
        m->l3_len = v6 ? IP6_HEAD : IP4_HEAD;
        m->ol_flags = v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
        m->ol_flags |= (p->offload & BT_PKT_TX_IP_SUM) != 0 ? RTE_MBUF_F_TX_IP_CKSUM : 0;
        m->ol_flags |= (p->offload & BT_PKT_TX_UDP_SUM) != 0 ? RTE_MBUF_F_TX_UDP_CKSUM : 0;
    }
    return m;
}

static unsigned burst(struct bt_dpdk *d, struct rte_mbuf **m, unsigned n)
{
    struct bt_dpdk_device *dev = d->dev;
    if (!atomic_load_explicit(&dev->running, memory_order_relaxed)) {
        return 0;
    }
    if (!d->tx_shared) {
        return rte_eth_tx_burst(dev->port, d->tx_queue, m, (uint16_t)n);
    }
    rte_spinlock_lock(&dev->tx_lock[d->tx_queue]);
    unsigned sent = rte_eth_tx_burst(dev->port, d->tx_queue, m, (uint16_t)n);
    rte_spinlock_unlock(&dev->tx_lock[d->tx_queue]);
    return sent;
}

// Tries to send the rest after a first burst took only some; returns how many it could.
static unsigned insist(struct bt_dpdk *d, struct rte_mbuf **m, unsigned n)
{
    uint64_t until = bt_dpdk_now(&d->io) + FULL_NS;
    unsigned at = 0;
    while (at < n && bt_dpdk_link_up(d->dev) && bt_dpdk_now(&d->io) < until) {
        if (d->dev->idle == BT_DPDK_IDLE_SPIN) {
            rte_pause();
        } else {
            sched_yield();
        }
        at += burst(d, m + at, n - at);
    }
    return at;
}

// Why the device took no more.
static enum bt_dpdk_counter refusal_of(const struct bt_dpdk_device *dev)
{
    if (bt_dpdk_loss(dev) == BT_DPDK_GONE) {
        return BT_DPDK_TX_LOST;
    }
    return bt_dpdk_link_up(dev) ? BT_DPDK_TX_NO_SPACE : BT_DPDK_TX_LINK_DOWN;
}

static void drop(struct bt_dpdk *d, struct rte_mbuf **m, unsigned n, enum bt_dpdk_counter why)
{
    d->counters[why] += n;
    rte_pktmbuf_free_bulk(m, n);
}

// Drivers may want headers prepared for the offload; what they refuse is dropped. Returns how many are left.
static unsigned prepare(struct bt_dpdk *d, struct rte_mbuf **m, unsigned n)
{
    unsigned fit = 0;
    while (fit < n) {
        fit += rte_eth_tx_prepare(d->dev->port, d->tx_queue, m + fit, (uint16_t)(n - fit));
        if (fit < n) {
            drop(d, m + fit, 1, BT_DPDK_TX_REFUSED);
            n--;
            for (unsigned i = fit; i < n; i++) {
                m[i] = m[i + 1];
            }
        }
    }
    return n;
}

static void transmit(struct bt_dpdk *d, struct rte_mbuf **m, unsigned n)
{
    if (d->dev->tx_udp_sum) {
        n = prepare(d, m, n);
    }
    unsigned at = burst(d, m, n);
    if (at < n) {
        at += insist(d, m + at, n - at);
    }
    d->counters[BT_DPDK_TX_PACKETS] += at;
    if (at < n) {
        drop(d, m + at, n - at, refusal_of(d->dev));
    }
}

void bt_dpdk_flush(struct bt_dpdk *d)
{
    struct rte_mbuf *m[BT_IO_BATCH];
    while (d->out.n != 0) {
        unsigned n = 0;
        while (n < BT_IO_BATCH && d->out.n != 0) {
            m[n++] = frame_of(bt_txq_pop(&d->out));
        }
        transmit(d, m, n);
    }
}

void bt_dpdk_tx(struct bt_io *io, struct bt_txq *q)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    bt_link_tx_burst(d->link, bt_dpdk_now(io), q, &d->out);
    bt_dpdk_flush(d);
}
