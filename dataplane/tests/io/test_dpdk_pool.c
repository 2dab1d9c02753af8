// SPDX-License-Identifier: Apache-2.0
// Packet buffers of DPDK: what an empty one is, where it goes home, and what is kept for a thread of its own.
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"

#include <rte_errno.h>
#include <rte_mempool.h>
#include <string.h>

// Nothing of the packet before is left, and there is room for headers in front.
static void an_empty_packet_is_empty(void **state)
{
    struct bt_dpdk_device *dev = hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO);
    struct bt_pool *pool = bt_dpdk_pool(dev);
    (void)state;
    struct bt_pkt *p = bt_pool_get(pool);
    assert_non_null(p);
    struct bt_pkt fresh = {.data = p->data, .room_before = p->room_before, .room_after = p->room_after};
    assert_int_equal(p->room_before, RTE_PKTMBUF_HEADROOM + 64);
    assert_int_equal(p->room_before + p->room_after, RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER);
    assert_ptr_equal(p->data - p->room_before, bt_dpdk_mbuf(p)->buf_addr);
    assert_ptr_equal(bt_dpdk_pkt(bt_dpdk_mbuf(p)), p);
    memset(p, 0xff, sizeof *p);
    bt_pool_put(pool, p);
    struct bt_pkt *again = bt_pool_get(pool);
    assert_ptr_equal(again, p); // the last one back is the first one out
    assert_memory_equal(again, &fresh, sizeof fresh);
    bt_pool_put(pool, again);
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

// A packet goes back to the pool of the device that it came from, whoever gives it back.
static void a_packet_goes_home(void **state)
{
    struct bt_dpdk_device *dev[2] = {hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO),
                                     hosts_device(2, 1, BT_DPDK_CHECKSUMS_AUTO)};
    (void)state;
    struct bt_pkt *p = bt_pool_get(bt_dpdk_pool(dev[0]));
    assert_true(bt_dpdk_in_use(dev[0]) == 1 && bt_dpdk_in_use(dev[1]) == 0);
    bt_pool_put(bt_dpdk_pool(dev[1]), p);
    assert_true(bt_dpdk_in_use(dev[0]) == 0 && bt_dpdk_in_use(dev[1]) == 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(bt_dpdk_device_close(dev[i]), 0);
    }
}

// A pool that is used up gives nothing, and all it has.
static void a_pool_has_as_many_as_it_was_made_with(void **state)
{
    static struct bt_pkt *all[DPDK_BUFFERS + 1];
    struct bt_dpdk_device *dev = hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO);
    unsigned n = 0;
    (void)state;
    while (n <= DPDK_BUFFERS && (all[n] = bt_pool_get(bt_dpdk_pool(dev))) != NULL) {
        n++;
    }
    assert_int_equal(n, DPDK_BUFFERS);
    assert_int_equal(bt_dpdk_in_use(dev), DPDK_BUFFERS);
    while (n > 0) {
        bt_pool_put(bt_dpdk_pool(dev), all[--n]);
    }
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

// Threads keep some of a pool for themselves, unless it is so small that others would starve.
static void small_pools_keep_nothing_for_a_thread(void **state)
{
    static const struct {
        uint32_t buffers;
        unsigned kept;
    } rows[] = {{1023, 0}, {1024, 256}, {4096, 256}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rte_mempool *pools[2] = {bt_dpdk_pool_new("test-new", rows[i].buffers),
                                        bt_dpdk_pool_dense("test-dense", rows[i].buffers)};
        for (unsigned k = 0; k < 2; k++) {
            assert_non_null(pools[k]);
            assert_int_equal(pools[k]->cache_size, rows[i].kept);
            assert_int_equal(pools[k]->size, rows[i].buffers);
            assert_int_equal(rte_pktmbuf_priv_size(pools[k]), BT_DPDK_PRIV_BYTES);
            assert_int_equal(rte_pktmbuf_data_room_size(pools[k]), RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER);
            assert_int_equal((pools[k]->flags & RTE_MEMPOOL_F_NO_IOVA_CONTIG) != 0, k == 1);
            struct rte_mbuf *m = rte_pktmbuf_alloc(pools[k]); // as the driver takes them
            assert_non_null(m);
            assert_ptr_equal(m->pool, pools[k]);
            assert_int_equal(m->buf_len, RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER);
            rte_pktmbuf_free(m);
            rte_mempool_free(pools[k]);
        }
    }
}

// What cannot be had says why, and leaves no name behind.
static void a_pool_that_cannot_be_had_says_why(void **state)
{
    (void)state;
    rte_errno = 0;
    assert_null(bt_dpdk_pool_new("test-large", 4000000));
    assert_int_not_equal(rte_errno, 0);
    struct rte_mempool *first = bt_dpdk_pool_new("test-large", 64);
    assert_non_null(first);
    assert_null(bt_dpdk_pool_new("test-large", 64));
    assert_int_equal(rte_errno, EEXIST);
    rte_mempool_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_packet_is_empty),
        cmocka_unit_test(a_packet_goes_home),
        cmocka_unit_test(a_pool_has_as_many_as_it_was_made_with),
        cmocka_unit_test(small_pools_keep_nothing_for_a_thread),
        cmocka_unit_test(a_pool_that_cannot_be_had_says_why),
    };
    return cmocka_run_group_tests_name("pool", tests, hosts_start, NULL);
}
