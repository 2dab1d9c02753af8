// SPDX-License-Identifier: Apache-2.0
// Packet buffers: struct bt_pkt lives in the private area of a DPDK buffer, so that a frame becomes a packet and a
// packet a frame without a copy. Behind the interface of base/pkt.h is a DPDK pool with a cache per thread.
#include "io/dpdk_internal.h"

#include <rte_mempool.h>
#include <string.h>

#define CACHE 256u

static struct bt_pkt *pool_get(struct bt_pool *pool)
{
    struct bt_dpdk_device *dev =
        (struct bt_dpdk_device *)(void *)((char *)pool - offsetof(struct bt_dpdk_device, pool));
    struct rte_mbuf *m = rte_mbuf_raw_alloc(dev->buffers);
    if (m == NULL) {
        return NULL;
    }
    struct bt_pkt *p = bt_dpdk_pkt(m);
    memset(p, 0, sizeof *p);
    p->data = (uint8_t *)m->buf_addr + BT_DPDK_HEADROOM;
    p->room_before = BT_DPDK_HEADROOM;
    p->room_after = (uint32_t)m->buf_len - BT_DPDK_HEADROOM;
    p->owner = pool;
    return p;
}

// A packet that came from another device goes back to the pool of that one: the buffer knows.
static void pool_put(struct bt_pool *pool, struct bt_pkt *p)
{
    (void)pool;
    rte_mbuf_raw_free(bt_dpdk_mbuf(p));
}

void bt_dpdk_pool_interface(struct bt_dpdk_device *dev)
{
    dev->pool = (struct bt_pool){.get = pool_get, .put = pool_put};
}

struct rte_mempool *bt_dpdk_pool_new(const char *name, uint32_t buffers)
{
    return rte_pktmbuf_pool_create(name, buffers, buffers >= 4 * CACHE ? CACHE : 0, (uint16_t)BT_DPDK_PRIV_BYTES,
                                   RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER, SOCKET_ID_ANY);
}

struct bt_pool *bt_dpdk_pool(struct bt_dpdk_device *dev)
{
    return &dev->pool;
}

unsigned bt_dpdk_in_use(const struct bt_dpdk_device *dev)
{
    return rte_mempool_in_use_count(dev->buffers);
}
