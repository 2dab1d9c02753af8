// SPDX-License-Identifier: Apache-2.0
// Receiving from a device that is the test: frames in buffers of others, queues that must wait, and
// what a look at the carrier does.
#include "unit.h"

#include "counter_names.h"
#include "dpdk_world.h"
#include "link/internal.h"
#include "wire/frame.h"

#include <errno.h>
#include <string.h>

static struct {
    struct rte_mbuf *next; // NULL: nothing is there
    unsigned bursts;
} device;

static uint16_t burst(void *queue, struct rte_mbuf **m, uint16_t n)
{
    (void)queue;
    (void)n;
    device.bursts++;
    m[0] = device.next;
    device.next = NULL;
    return m[0] != NULL;
}

static struct bt_dpdk *begin(void)
{
    struct bt_dpdk *d = idle_begin(hosts.peer, BT_DPDK_IDLE_SPIN);
    memset(&device, 0, sizeof device);
    idle_calls(hosts.peer)->rx_pkt_burst = burst;
    return d;
}

static unsigned receive(struct bt_pkt **pkts, unsigned max)
{
    return bt_io_rx(hosts.peer, BT_IO_ANY, pkts, max);
}

static uint64_t dropped(const char *why)
{
    return hosts_counter(hosts.peer, "io_rx_dropped_total", why);
}

// A chain of `pieces` full buffers of a pool that knows nothing of ours.
static struct rte_mbuf *chain(struct rte_mempool *pool, unsigned pieces)
{
    struct rte_mbuf *head = NULL;
    for (unsigned i = 0; i < pieces; i++) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
        assert_non_null(m);
        char *at = rte_pktmbuf_append(m, 900);
        assert_non_null(at);
        memset(at, 0, 900);
        assert_true(head == NULL || rte_pktmbuf_chain(head, m) == 0);
        head = head != NULL ? head : m;
    }
    return head;
}

static struct bt_pkt *all[2 * DPDK_BUFFERS];
static unsigned n_all;

static void take_every_buffer(struct bt_dpdk *d)
{
    for (n_all = 0; n_all < 2 * DPDK_BUFFERS && (all[n_all] = bt_pool_get(&d->dev->pool)) != NULL; n_all++) {
    }
}

static void give_back(struct bt_dpdk *d, unsigned n)
{
    for (; n > 0 && n_all > 0; n--) {
        bt_pool_put(&d->dev->pool, all[--n_all]);
    }
}

// One that does not fit into a buffer of ours is dropped, and so is one for which there is none; both go home.
static void what_cannot_be_copied_is_dropped_and_counted(void **state)
{
    struct rte_mempool *pool = rte_pktmbuf_pool_create("others", 63, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    struct bt_pkt *pkts[BT_IO_BATCH];
    (void)state;
    assert_non_null(pool);
    struct bt_dpdk *d = begin();
    unsigned used = bt_dpdk_in_use(d->dev);
    device.next = chain(pool, 3);
    assert_int_equal(receive(pkts, BT_IO_BATCH), 0);
    assert_int_equal(dropped("too_long"), 1);
    assert_int_equal(bt_dpdk_in_use(d->dev), used);
    device.next = chain(pool, 2); // no frame of ours, but it fits
    assert_int_equal(receive(pkts, BT_IO_BATCH), 0);
    assert_int_equal(hosts_counter(hosts.peer, "io_rx_copied_total", NULL), 1);
    assert_int_equal(bt_dpdk_in_use(d->dev), used);
    take_every_buffer(d);
    device.next = chain(pool, 1);
    assert_int_equal(receive(pkts, BT_IO_BATCH), 0);
    assert_int_equal(dropped("no_buffer"), 1);
    assert_int_equal(dropped("too_long"), 1);
    assert_int_equal(rte_mempool_in_use_count(pool), 0);
    give_back(d, n_all);
    rte_mempool_free(pool);
}

// The driver of af_xdp counts what it cannot replace as lost: it is not asked before a batch of buffers is free.
static void a_driver_that_keeps_buffers_is_asked_when_some_are_free(void **state)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    (void)state;
    struct bt_dpdk *d = begin();
    take_every_buffer(d);
    (void)receive(pkts, 1);
    assert_int_equal(device.bursts, 1);
    d->dev->keeps_buffers = true;
    (void)receive(pkts, 1);
    assert_int_equal(device.bursts, 1);
    give_back(d, 4 * BT_IO_BATCH);
    unsigned used = bt_dpdk_in_use(d->dev);
    (void)receive(pkts, 1);
    assert_int_equal(device.bursts, 2);
    assert_int_equal(bt_dpdk_in_use(d->dev), used); // those it tried are back
    atomic_store(&d->dev->running, false);
    (void)receive(pkts, 1);
    assert_int_equal(device.bursts, 2);
    atomic_store(&d->dev->running, true);
    give_back(d, n_all);
    d->dev->keeps_buffers = false;
}

enum { HEADS = BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD, BYTES = HEADS + 5 };

// A frame in a buffer of that pool arrives at the second host's first thread, and is the other's.
static struct bt_pkt *hand_over(struct rte_mempool *pool, struct rte_mbuf **m, uint8_t frame[BYTES])
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
    struct bt_addr from = dpdk_address(false, 9, 9), to = dpdk_address(false, 2, FEEDBACK_PORT);
    struct bt_pkt *pkts[BT_IO_BATCH];
    void *p = NULL;
    *m = rte_pktmbuf_alloc(pool);
    assert_non_null(*m);
    memset(frame + HEADS, 7, BYTES - HEADS);
    bt_ether_write(frame, hosts.dev[1]->mac, mac, BT_ETHER_IP4);
    bt_ip4_write(frame + BT_ETHER_HEAD, &from, &to, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD + BYTES - HEADS);
    bt_udp_write(frame + BT_ETHER_HEAD + BT_IP4_HEAD, &from, &to, BYTES - HEADS, BT_UDP_SUM_FULL);
    memcpy(rte_pktmbuf_append(*m, BYTES), frame, BYTES);
    memset(*m + 1, 0xff, rte_pktmbuf_priv_size(pool)); // what the packet before left there
    device.next = *m;
    assert_int_equal(bt_io_rx(hosts.request, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
    assert_int_equal(rte_ring_dequeue(bt_dpdk_of(hosts.feedback)->handed, &p), 0);
    return p;
}

// A frame for another thread as it is handed over: its bytes, its time, and nothing of the packet its buffer was
// before. That of another pool is copied.
static void a_frame_keeps_nothing_of_the_packet_before(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SPIN);
    struct rte_mempool *others = rte_pktmbuf_pool_create("others", 63, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    assert_non_null(others);
    memset(&device, 0, sizeof device);
    idle_calls(hosts.request)->rx_pkt_burst = burst;
    for (unsigned foreign = 0; foreign < 2; foreign++) {
        uint8_t frame[BYTES];
        struct rte_mbuf *m;
        struct bt_pkt *got = hand_over(foreign ? others : d->dev->buffers, &m, frame);
        assert_int_equal(got == bt_dpdk_pkt(m), !foreign);
        assert_int_equal(got->len, BYTES);
        assert_memory_equal(got->data, frame, BYTES);
        assert_int_equal(got->room_before, foreign ? BT_DPDK_HEADROOM : RTE_PKTMBUF_HEADROOM);
        assert_int_equal(got->room_before + BYTES + got->room_after, RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER);
        assert_int_equal(got->tx_as_src | got->mark | got->ttl | got->offload, 0);
        assert_int_equal(got->index, 0);
        assert_null(got->next);
        assert_int_equal(got->t_rx_ns, world.now);
        assert_int_equal(hosts_counter(hosts.request, "io_rx_copied_total", NULL), foreign);
        bt_pool_put(bt_dpdk_pool(d->dev), got);
    }
    assert_int_equal(rte_mempool_in_use_count(others), 0);
    rte_mempool_free(others);
}

static unsigned there, gone;

static void hear(const char *line)
{
    there += strcmp(line, "DPDK: the carrier is there") == 0;
    gone += strcmp(line, "DPDK: the carrier is gone") == 0;
}

// A look each second, each tenth while it is away; the first io tells, and all say to their neighbours who is back.
static void the_carrier_is_looked_at(void **state)
{
    struct bt_pkt *pkts[1];
    (void)state;
    struct bt_dpdk *d = begin();
    d->dev->log = hear;
    there = gone = 0;
    d->dev->client = true;
    d->dev->patience = 5;
    d->look_ns = world.now + 2 * US;
    uint64_t look = d->look_ns;
    assert_int_equal(bt_io_next(hosts.peer), look);
    (void)receive(pkts, 1);
    assert_int_equal(d->look_ns, look);
    (void)receive(pkts, 1); // due
    assert_int_equal(d->look_ns, look + 1000 * MS);
    assert_int_equal(d->dev->patience, 5);
    world.no_carrier = true;
    for (unsigned i = 1; i <= 3; i++) { // said once
        d->look_ns = world.now;
        (void)receive(pkts, 1);
        assert_int_equal(d->look_ns, world.now + 100 * MS);
        assert_true(there == 0 && gone == 1);
        assert_int_equal(d->dev->patience, 5 - i); // a client looks for its server
        assert_false(bt_dpdk_carrier(d->dev));
    }
    world.no_carrier = false;
    uint64_t announced = hosts_counter(hosts.peer, "io_tx_packets_total", NULL);
    d->look_ns = world.now;
    (void)receive(pkts, 1);
    assert_true(there == 1 && gone == 1);
    assert_true(bt_dpdk_carrier(d->dev));
    world.now += 1000 * MS;
    (void)receive(pkts, 1);
    assert_true(hosts_counter(hosts.peer, "io_tx_packets_total", NULL) > announced);
    assert_true(bt_io_next(hosts.peer) <= world.now + 1000 * MS);
    d->dev->client = false;
    d->dev->log = NULL;
}

// Of an io that is not the first of its device nobody hears.
static void the_first_io_looks_for_all(void **state)
{
    struct bt_pkt *pkts[1];
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.feedback, BT_DPDK_IDLE_SPIN);
    d->dev->log = hear;
    there = gone = 0;
    d->dev->client = true;
    d->dev->patience = 5;
    atomic_store(&d->dev->removed, true);
    world.no_carrier = true;
    d->look_ns = world.now;
    (void)bt_io_rx(hosts.feedback, BT_IO_ANY, pkts, 1);
    assert_int_equal(d->look_ns, world.now + 100 * MS);
    assert_false(d->carrier);
    assert_true(bt_dpdk_carrier(d->dev));
    assert_int_equal(bt_dpdk_loss(d->dev), BT_DPDK_KEPT);
    assert_int_equal(d->dev->patience, 5);
    assert_int_equal(there + gone, 0);
    atomic_store(&d->dev->removed, false);
    d->dev->client = false;
    d->dev->log = NULL;
}

// What docs/reference/metrics.md calls each of them; those of the link follow.
static void counters_stand_under_their_names(void **state)
{
    const struct bt_counter_desc *desc;
    unsigned n;
    (void)state;
    bt_dpdk_of(hosts.peer)->link->counters[BT_LINK_EVENTS_LOST] = 77;
    assert_int_equal(hosts.peer->ops->counters(hosts.peer, &desc, &n)[BT_DPDK_COUNTERS + BT_LINK_EVENTS_LOST], 77);
    assert_int_equal(n, BT_DPDK_COUNTERS + BT_LINK_COUNTERS);
    assert_string_equal(desc[n - 1].name, "link_events_lost_total");
    assert_counter_names(desc, BT_DPDK_COUNTERS,
                         "io_rx_packets_total\n"
                         "io_tx_packets_total\n"
                         "io_rx_dropped_total{reason=too_long}\n"
                         "io_rx_dropped_total{reason=no_buffer}\n"
                         "io_rx_dropped_total{reason=handover_full}\n"
                         "io_rx_dropped_total{reason=device_queue_full}\n"
                         "io_rx_buffer_failures_total\n"
                         "io_rx_dropped_total{reason=device_error}\n"
                         "io_tx_dropped_total{reason=no_space}\n"
                         "io_tx_dropped_total{reason=link_down}\n"
                         "io_tx_dropped_total{reason=device_lost}\n"
                         "io_tx_dropped_total{reason=refused}\n"
                         "io_tx_dropped_total{reason=device_error}\n"
                         "io_unreachable_total\n"
                         "io_rx_copied_total\n"
                         "io_rx_handed_over_total\n"
                         "io_wakeups_total\n");
}

// What the device counts is its first io's; if it tells nothing, that stands which it told before.
static void the_device_counts_for_its_first_io(void **state)
{
    const struct rte_eth_stats stats = {.imissed = 3, .rx_nombuf = 5, .ierrors = 7, .oerrors = 11},
                               other = {.imissed = 33, .rx_nombuf = 55, .ierrors = 77, .oerrors = 111};
    struct bt_io *const io[] = {hosts.request, hosts.feedback};
    (void)state;
    for (unsigned failed = 0; failed < 2; failed++) {
        world.stats = failed ? &other : &stats;
        world.no_stats = failed ? -ENOTSUP : 0;
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(hosts_counter(io[i], "io_rx_dropped_total", "device_queue_full"), i == 0 ? 3 : 0);
            assert_int_equal(hosts_counter(io[i], "io_rx_buffer_failures_total", NULL), i == 0 ? 5 : 0);
            assert_int_equal(hosts_counter(io[i], "io_rx_dropped_total", "device_error"), i == 0 ? 7 : 0);
            assert_int_equal(hosts_counter(io[i], "io_tx_dropped_total", "device_error"), i == 0 ? 11 : 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOSTS(what_cannot_be_copied_is_dropped_and_counted),
        WITH_HOSTS(a_driver_that_keeps_buffers_is_asked_when_some_are_free),
        WITH_HOSTS(a_frame_keeps_nothing_of_the_packet_before),
        WITH_HOSTS(the_carrier_is_looked_at),
        WITH_HOSTS(the_first_io_looks_for_all),
        WITH_HOSTS(counters_stand_under_their_names),
        WITH_HOSTS(the_device_counts_for_its_first_io),
    };
    return cmocka_run_group_tests_name("rx", tests, hosts_start, NULL);
}
