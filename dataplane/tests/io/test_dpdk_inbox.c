// SPDX-License-Identifier: Apache-2.0
// Packets that wait for the one who asks for their port: in which order, how many, and what is asked of the device
// meanwhile. The test is the device.
#include "unit.h"

#include "dpdk_world.h"
#include "wire/frame.h"

#include <string.h>

enum { PORTS = 3, FIRST_PORT = 7100 };

static struct {
    struct rte_mbuf *next[2 * BT_DPDK_INBOX];
    unsigned n, bursts;
} device;

static uint16_t burst(void *queue, struct rte_mbuf **m, uint16_t n)
{
    uint16_t i = 0;
    (void)queue;
    device.bursts++;
    for (; i < n && i < device.n; i++) {
        m[i] = device.next[i];
    }
    device.n -= i;
    memmove(device.next, device.next + i, device.n * sizeof device.next[0]);
    return i;
}

// An io with three ports in place of the one there is.
static struct bt_dpdk *begin_ports(void)
{
    struct bt_addr locals[PORTS];
    char err[400];
    for (unsigned i = 0; i < PORTS; i++) {
        locals[i] = dpdk_address(false, 1, (uint16_t)(FIRST_PORT + i));
    }
    hosts.peer->ops->close(hosts.peer);
    hosts.peer =
        bt_dpdk_open(hosts.dev[0], &(struct bt_dpdk_config){.locals = locals, .n_locals = PORTS}, err, sizeof err);
    assert_non_null(hosts.peer);
    struct bt_dpdk *d = idle_begin(hosts.peer, BT_DPDK_IDLE_SPIN);
    memset(&device, 0, sizeof device);
    idle_calls(hosts.peer)->rx_pkt_burst = burst;
    return d;
}

// Lets a datagram for that port arrive, with a number in it.
static void arrive(struct bt_dpdk *d, unsigned port, uint8_t number)
{
    enum { BYTES = BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD + 1 };
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
    struct bt_addr from = dpdk_address(false, 9, 9);
    struct bt_addr to = dpdk_address(false, 1, (uint16_t)(FIRST_PORT + port));
    struct rte_mbuf *m = rte_pktmbuf_alloc(d->dev->buffers);
    assert_non_null(m);
    uint8_t *frame = (uint8_t *)rte_pktmbuf_append(m, BYTES);
    uint8_t *ip = frame + BT_ETHER_HEAD;
    frame[BYTES - 1] = number;
    bt_ether_write(frame, d->dev->mac, mac, BT_ETHER_IP4);
    bt_ip4_write(ip, &from, &to, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD + 1);
    bt_udp_write(ip + BT_IP4_HEAD, &from, &to, 1, BT_UDP_SUM_FULL);
    device.next[device.n++] = m;
}

// Takes from a port (or BT_IO_ANY) and compares the numbers with those wanted, one character each.
static void take(uint32_t local, unsigned max, const char *numbers)
{
    struct bt_pkt *pkts[2 * BT_IO_BATCH];
    char got[2 * BT_IO_BATCH + 1] = "";
    unsigned n = bt_io_rx(hosts.peer, local, pkts, max);
    for (unsigned i = 0; i < n; i++) {
        got[i] = (char)pkts[i]->data[0];
        assert_int_equal(pkts[i]->dst.port, FIRST_PORT + pkts[i]->local);
        assert_null(pkts[i]->next);
        bt_pool_put(bt_dpdk_pool(hosts.dev[0]), pkts[i]);
    }
    assert_string_equal(got, numbers);
}

// "a1b2": number a for port 1, then b for port 2.
static void arrive_all(struct bt_dpdk *d, const char *what)
{
    for (; *what != '\0'; what += 2) {
        arrive(d, (unsigned)(what[1] - '0'), (uint8_t)what[0]);
    }
}

// Packets wait for their port in the order they came; ports are served in the order in which they got one.
static void packets_wait_for_their_port(void **state)
{
    static const struct {
        const char *first;
        unsigned port;
        const char *of_port, *then, *rest;
    } rows[] = {
        {"a0b1c2d0", 0, "ad", "e0", "bce"}, // the first in the list is taken out
        {"a0b1c2d1", 1, "bd", "e1", "ace"}, // one between
        {"a0b1c2d2", 2, "cd", "e2", "abe"}, // the last: what comes then is behind the one before
        {"a0b1c2", 2, "c", "e0f2", "aebf"}, {"a1", 1, "a", "b2c0", "bc"}, // the only one
        {"a2b0c1", 0, "b", "d0", "acd"}, // the numbers of ports say nothing of their order
        {"a2b2", 0, "", "c0", "abc"},
    };
    (void)state;
    struct bt_dpdk *d = begin_ports();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        arrive_all(d, rows[i].first);
        take(rows[i].port, BT_IO_BATCH, rows[i].of_port);
        arrive_all(d, rows[i].then);
        assert_true(bt_dpdk_look(d));
        assert_int_equal(d->pending, strlen(rows[i].rest));
        take(BT_IO_ANY, BT_IO_BATCH, rows[i].rest);
        assert_int_equal(d->pending, 0);
        assert_false(bt_dpdk_look(d));
    }
}

static void no_more_are_given_than_asked_for(void **state)
{
    (void)state;
    struct bt_dpdk *d = begin_ports();
    arrive_all(d, "a0b0c0d1e1");
    take(0, 2, "ab");
    take(0, 0, "");
    take(BT_IO_ANY, 0, "");
    take(BT_IO_ANY, 2, "cd");
    take(BT_IO_ANY, 2, "e");
    arrive_all(d, "a0b0c0"); // nothing waits: straight from the queue
    unsigned looks = device.bursts;
    take(BT_IO_ANY, 2, "ab");
    take(BT_IO_ANY, 2, "c");
    assert_int_equal(device.bursts, looks + 2);
    take(PORTS + 1, BT_IO_BATCH, ""); // there is no such port
    assert_int_equal(device.bursts, looks + 2);
    take(PORTS, BT_IO_BATCH, ""); // that of TCP
    assert_int_equal(device.bursts, looks + 3);
    for (unsigned i = 0; i < BT_IO_BATCH + 1; i++) {
        arrive(d, 0, 'x');
    }
    struct bt_pkt *pkts[2 * BT_IO_BATCH];
    unsigned n = bt_io_rx(hosts.peer, BT_IO_ANY, pkts, 2 * BT_IO_BATCH);
    assert_int_equal(n, BT_IO_BATCH);
    while (n > 0) {
        bt_pool_put(bt_dpdk_pool(hosts.dev[0]), pkts[--n]);
    }
    take(0, 1, "x");
}

// What waits for other ports may fill so many buffers; then the device's queue holds the rest. The end frees all.
static void what_waits_is_bounded(void **state)
{
    (void)state;
    struct bt_dpdk *d = begin_ports();
    for (unsigned i = 0; i < BT_DPDK_INBOX + 1; i++) {
        arrive(d, 0, 'x');
    }
    for (unsigned i = 0; i < BT_DPDK_INBOX / BT_IO_BATCH; i++) {
        take(1, 1, "");
    }
    unsigned looks = device.bursts;
    assert_int_equal(d->pending, BT_DPDK_INBOX);
    take(1, 1, "");
    assert_int_equal(device.bursts, looks);
    take(0, 1, "x");
    take(1, 1, "");
    assert_int_equal(device.bursts, looks + 1);
    assert_int_equal(d->pending, BT_DPDK_INBOX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOSTS(packets_wait_for_their_port),
        WITH_HOSTS(no_more_are_given_than_asked_for),
        WITH_HOSTS(what_waits_is_bounded),
    };
    return cmocka_run_group_tests_name("inbox", tests, hosts_start, NULL);
}
