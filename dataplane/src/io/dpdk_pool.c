// SPDX-License-Identifier: Apache-2.0
// Packet buffers: struct bt_pkt lives in the private area of a DPDK buffer, so that a frame becomes a packet and a
// packet a frame without a copy. Behind the interface of base/pkt.h is a DPDK pool with a cache per thread.
#include "io/dpdk_internal.h"

#include <rte_errno.h>
#include <rte_mbuf_pool_ops.h>
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

// What rte_pktmbuf_pool_create does, with flags.
static struct rte_mempool *pool_with(const char *name, uint32_t buffers, unsigned flags)
{
    struct rte_pktmbuf_pool_private sizes = {.mbuf_data_room_size = RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER,
                                             .mbuf_priv_size = (uint16_t)BT_DPDK_PRIV_BYTES};
    unsigned each = (unsigned)sizeof(struct rte_mbuf) + sizes.mbuf_priv_size + sizes.mbuf_data_room_size;
    struct rte_mempool *pool = rte_mempool_create_empty(name, buffers, each, buffers >= 4 * CACHE ? CACHE : 0,
                                                        sizeof sizes, SOCKET_ID_ANY, flags);
    if (pool == NULL) {
        return NULL;
    }
    int failed = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL);
    if (failed == 0) {
        rte_pktmbuf_pool_init(pool, &sizes);
        failed = rte_mempool_populate_default(pool);
    }
    if (failed < 0) {
        rte_mempool_free(pool);
        rte_errno = -failed;
        return NULL;
    }
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
    return pool;
}

// Usually no buffer crosses a page, which leaves room between them: with ordinary memory nearly half of it. A driver
// that takes a pool for so many times the size of a buffer would then not know the last of them.
struct rte_mempool *bt_dpdk_pool_dense(const char *name, uint32_t buffers)
{
    return pool_with(name, buffers, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
}

struct rte_mempool *bt_dpdk_pool_new(const char *name, uint32_t buffers)
{
    return pool_with(name, buffers, 0);
}

struct bt_pool *bt_dpdk_pool(struct bt_dpdk_device *dev)
{
    return &dev->pool;
}

unsigned bt_dpdk_in_use(const struct bt_dpdk_device *dev)
{
    return rte_mempool_in_use_count(dev->buffers);
}
