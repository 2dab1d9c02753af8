// SPDX-License-Identifier: Apache-2.0
// Sending by a device whose queue is full, or whose driver refuses frames: what leaves, in which order, and what is
// counted of the rest. The test is the device.
#include "unit.h"

#include "dpdk_world.h"

#include <string.h>

// Takes so many in one burst, and of all so many.
static struct {
    unsigned at_once, in_all, bursts, n, largest;
    uint32_t taken[200];
    uint32_t refused; // by tx_prepare, by its number
} device;

static uint32_t number_of(const struct rte_mbuf *m)
{
    uint32_t number;
    memcpy(&number, rte_pktmbuf_mtod(m, const void *), sizeof number);
    return number;
}

static uint16_t burst(void *queue, struct rte_mbuf **m, uint16_t n)
{
    uint16_t i = 0;
    (void)queue;
    device.bursts++;
    device.largest = n > device.largest ? n : device.largest;
    for (; i < n && i < device.at_once && device.n < device.in_all; i++) {
        assert_int_equal(m[i]->data_len, 60);
        assert_int_equal(m[i]->pkt_len, 60);
        device.taken[device.n++] = number_of(m[i]);
        rte_pktmbuf_free(m[i]);
    }
    return i;
}

static uint16_t refuse(void *queue, struct rte_mbuf **m, uint16_t n)
{
    uint16_t fit = 0;
    (void)queue;
    while (fit < n && number_of(m[fit]) % device.refused != 0) {
        fit++;
    }
    return fit;
}

static struct bt_dpdk *begin(enum bt_dpdk_idle idle, unsigned at_once, unsigned in_all)
{
    struct bt_dpdk *d = idle_begin(hosts.peer, idle);
    memset(&device, 0, sizeof device);
    device.at_once = at_once;
    device.in_all = in_all;
    idle_calls(hosts.peer)->tx_pkt_burst = burst;
    world.step = 100 * US;
    return d;
}

// Frames from 1 on.
static void send_frames(struct bt_dpdk *d, uint32_t n)
{
    for (uint32_t i = 1; i <= n; i++) {
        struct bt_pkt *p = bt_pool_get(&d->dev->pool);
        assert_non_null(p);
        uint8_t frame[60] = {0};
        memcpy(frame, &i, sizeof i);
        memcpy(bt_pkt_append(p, sizeof frame), frame, sizeof frame);
        bt_txq_push(&d->out, p);
    }
    bt_dpdk_flush(d);
    assert_int_equal(d->out.n, 0);
}

static void assert_taken_in_order(unsigned n)
{
    assert_int_equal(device.n, n);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(device.taken[i], i + 1);
    }
}

static uint64_t dropped(const char *why)
{
    return hosts_counter(hosts.peer, "io_tx_dropped_total", why);
}

static void frames_leave_in_order_a_batch_at_a_time(void **state)
{
    (void)state;
    struct bt_dpdk *d = begin(BT_DPDK_IDLE_YIELD, 200, 200);
    uint64_t before = hosts_counter(hosts.peer, "io_tx_packets_total", NULL);
    send_frames(d, 2 * BT_IO_BATCH + 1);
    assert_taken_in_order(2 * BT_IO_BATCH + 1);
    assert_int_equal(device.bursts, 3);
    assert_int_equal(device.largest, BT_IO_BATCH);
    assert_int_equal(hosts_counter(hosts.peer, "io_tx_packets_total", NULL) - before, 2 * BT_IO_BATCH + 1);
    assert_int_equal(world.yields, 0);
}

// A queue that takes a few at a time gets the rest again, and who does not spin gives the core away before.
static void a_full_queue_is_given_a_moment(void **state)
{
    static const enum bt_dpdk_idle idles[] = {BT_DPDK_IDLE_SPIN, BT_DPDK_IDLE_YIELD, BT_DPDK_IDLE_SLEEP};
    (void)state;
    for (size_t i = 0; i < sizeof idles / sizeof idles[0]; i++) {
        struct bt_dpdk *d = begin(idles[i], 3, 200);
        send_frames(d, 10);
        assert_taken_in_order(10);
        assert_int_equal(device.bursts, 4);
        assert_int_equal(world.yields, idles[i] == BT_DPDK_IDLE_SPIN ? 0 : 3);
        assert_int_equal(dropped("no_space"), 0);
    }
}

// A millisecond: at a look every 100 us that is nine more attempts.
static void what_a_full_queue_refuses_is_dropped_and_counted(void **state)
{
    (void)state;
    struct bt_dpdk *d = begin(BT_DPDK_IDLE_YIELD, 200, 4);
    unsigned used = bt_dpdk_in_use(d->dev);
    uint64_t before = hosts_counter(hosts.peer, "io_tx_packets_total", NULL);
    send_frames(d, 10);
    assert_taken_in_order(4);
    assert_int_equal(device.bursts, 1 + 9);
    assert_int_equal(dropped("no_space"), 6);
    assert_int_equal(dropped("link_down") + dropped("device_lost"), 0);
    assert_int_equal(hosts_counter(hosts.peer, "io_tx_packets_total", NULL) - before, 4);
    assert_int_equal(bt_dpdk_in_use(d->dev), used);
}

// Without a carrier nobody waits for room, and of a device that is gone nothing is asked.
static void without_a_carrier_nothing_is_waited_for(void **state)
{
    (void)state;
    struct bt_dpdk *d = begin(BT_DPDK_IDLE_YIELD, 0, 0);
    world.no_carrier = true;
    send_frames(d, 5);
    assert_int_equal(device.bursts, 1);
    assert_int_equal(dropped("link_down"), 5);
    atomic_store(&d->dev->running, false);
    send_frames(d, 2);
    assert_int_equal(device.bursts, 1);
    assert_int_equal(dropped("link_down"), 7);
    atomic_store(&d->dev->loss, BT_DPDK_WANTED); // and still there
    send_frames(d, 1);
    assert_int_equal(dropped("link_down"), 8);
    atomic_store(&d->dev->loss, BT_DPDK_GONE);
    send_frames(d, 3);
    assert_int_equal(dropped("device_lost"), 3);
    assert_int_equal(dropped("no_space"), 0);
    assert_int_equal(device.bursts, 1);
    atomic_store(&d->dev->loss, BT_DPDK_KEPT);
    atomic_store(&d->dev->running, true);
}

// What the driver will not have for its offload is dropped; the others close ranks.
static void what_a_driver_cannot_prepare_is_dropped(void **state)
{
    static const struct {
        uint32_t refused, n;
    } rows[] = {{3, 10}, {1, 4}, {4, 4}, {20, 10}};
    (void)state;
    struct bt_dpdk *d = begin(BT_DPDK_IDLE_YIELD, 200, 200);
    unsigned used = bt_dpdk_in_use(d->dev);
    uint64_t refused = 0;
    idle_calls(hosts.peer)->tx_pkt_prepare = refuse;
    d->dev->tx_udp_sum = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t at = 0;
        device.n = 0;
        device.refused = rows[i].refused;
        send_frames(d, rows[i].n);
        refused += rows[i].n / rows[i].refused;
        assert_int_equal(dropped("refused"), refused);
        for (uint32_t k = 1; k <= rows[i].n; k++) {
            if (k % rows[i].refused != 0) {
                assert_int_equal(device.taken[at++], k);
            }
        }
        assert_int_equal(device.n, at);
    }
    assert_int_equal(bt_dpdk_in_use(d->dev), used);
    d->dev->tx_udp_sum = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOSTS(frames_leave_in_order_a_batch_at_a_time),
        WITH_HOSTS(a_full_queue_is_given_a_moment),
        WITH_HOSTS(what_a_full_queue_refuses_is_dropped_and_counted),
        WITH_HOSTS(without_a_carrier_nothing_is_waited_for),
        WITH_HOSTS(what_a_driver_cannot_prepare_is_dropped),
    };
    return cmocka_run_group_tests_name("tx", tests, hosts_start, NULL);
}
