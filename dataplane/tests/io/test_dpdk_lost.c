// SPDX-License-Identifier: Apache-2.0
// A device is taken from under a running io: it is told once and by its name, what is not there is not touched, and all
// buffers come home.
#define ALLOW_EXPERIMENTAL_API // rte_dev_event_callback_process: as DPDK's own thread calls it when vfio asks
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"
#include "netns.h"

#include <rte_dev.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// libxdp keeps what the driver of af_xdp made with it until the process ends, and the driver the object of its program.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:xsk_umem__create\nleak:libbpf.so\n";
}

static unsigned told;
static enum bt_dpdk_loss loss;
static char why[200];

static void note(enum bt_dpdk_loss what, const char *text)
{
    told++;
    loss = what;
    snprintf(why, sizeof why, "%s", text);
}

static void listen_to(struct bt_dpdk_device *dev)
{
    told = 0;
    loss = BT_DPDK_KEPT;
    why[0] = '\0';
    dev->lost = note;
}

// A look at the device that is due: what it took from the queues is given back; how much that was.
static unsigned look(struct bt_io *io)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    bt_dpdk_of(io)->look_ns = 0;
    unsigned n = bt_io_rx(io, BT_IO_ANY, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(bt_dpdk_pool(bt_dpdk_of(io)->dev), pkts[i]);
    }
    return n;
}

// Both hosts know each other's address from here on.
static void acquaint(struct hosts *h)
{
    unsigned got = 0;
    hosts_send(h->dev[0], h->peer, dpdk_address(false, 2, REQUEST_PORT), 1);
    for (unsigned turn = 0; turn < 1000 && got == 0; turn++) {
        got = look(h->request);
        (void)look(h->peer);
    }
    assert_int_equal(got, 1);
}

// vfio waits for the program, and the device works until then: nothing that was asked need be lost.
static void what_is_wanted_back_works_until_it_is_closed(void **state)
{
    struct hosts h = hosts_open();
    (void)state;
    listen_to(h.dev[1]);
    acquaint(&h);
    assert_int_equal(told, 0);
    rte_dev_event_callback_process(h.dev[1]->name, RTE_DEV_EVENT_ADD); // somebody else's
    (void)look(h.request);
    assert_int_equal(told, 0);
    for (unsigned turn = 0; turn < 3; turn++) { // vfio asks again until it has it
        rte_dev_event_callback_process(h.dev[1]->name, RTE_DEV_EVENT_REMOVE);
        hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, REQUEST_PORT), turn);
        assert_int_equal(look(h.request), 1);
    }
    assert_int_equal(told, 1);
    assert_int_equal(loss, BT_DPDK_WANTED);
    assert_non_null(strstr(why, "wants it back"));
    assert_int_equal(bt_dpdk_loss(h.dev[1]), BT_DPDK_WANTED);
    assert_int_equal(bt_dpdk_loss(h.dev[0]), BT_DPDK_KEPT);
    hosts_close(&h);
}

static void what_is_gone_is_not_touched(void **state)
{
    struct hosts h = hosts_open();
    (void)state;
    listen_to(h.dev[1]);
    acquaint(&h);
    atomic_store(&h.dev[1]->wanted, true);
    atomic_store(&h.dev[1]->removed, true); // as its driver's event does
    (void)look(h.request);
    (void)look(h.request);
    assert_int_equal(told, 1);
    assert_int_equal(loss, BT_DPDK_GONE);
    assert_non_null(strstr(why, "its driver says that it is gone"));
    assert_false(bt_dpdk_link_up(h.dev[1]));
    assert_false(bt_dpdk_carrier(h.dev[1]));
    hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, REQUEST_PORT), 2);
    assert_int_equal(look(h.request), 0);
    hosts_send(h.dev[1], h.request, dpdk_address(false, 1, 7000), 3);
    assert_true(hosts_counter(h.request, "io_tx_dropped_total", "device_lost") > 0);
    void *m = NULL; // what the first host sent lies on the wire
    assert_int_equal(rte_ring_dequeue(wire[0], &m), 0);
    rte_pktmbuf_free(m);
    hosts_close(&h);
}

static struct bt_dpdk_device *open_on(const char *port)
{
    struct bt_link_prefix own[2];
    char err[500];
    dpdk_addresses(2, own);
    struct bt_dpdk_device_config cfg = {
        .port = port, .addrs = own, .n_addrs = 2, .buffers = DPDK_BUFFERS, .link_wait_ms = 5000, .lost = note};
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    if (dev == NULL) {
        fail_msg("%s", err);
    }
    return dev;
}

static void run_here(const char *command)
{
    char said[600];
    int ns = netns_here();
    if (!netns_run(ns, said, sizeof said, "%s", command)) {
        fail_msg("%s", said);
    }
    close(ns);
}

// The interface under a port is deleted, as when somebody takes a pod's veth away.
static void over_deleted(const char *port)
{
    if (geteuid() != 0) {
        print_message("left out: network namespaces need root\n");
        skip();
    }
    int here = netns_here();
    int ns = netns_new();
    assert_true(here >= 0 && ns >= 0 && netns_enter(ns));
    assert_true(bt_dpdk_absent(port));
    run_here("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 && ip link add la type veth peer name lb && "
             "ip link set la up && ip link set lb up");
    assert_false(bt_dpdk_absent(port));
    struct bt_dpdk_device *dev = open_on(port);
    struct bt_io *io = hosts_io(dev, false, 2, REQUEST_PORT);
    listen_to(dev);
    (void)look(io);
    assert_int_equal(told, 0);
    run_here("ip link del la");
    (void)look(io);
    (void)look(io);
    assert_int_equal(told, 1);
    assert_int_equal(loss, BT_DPDK_GONE);
    assert_string_equal(why, "interface lb was taken away: the kernel has it no more here");
    assert_false(bt_dpdk_carrier(dev));
    hosts_send(dev, io, dpdk_address(false, 1, 7000), 1); // asks for the neighbour
    assert_true(hosts_counter(io, "io_tx_dropped_total", "device_lost") > 0);
    io->ops->close(io);
    (void)bt_dpdk_device_close(dev); // the datagram waited for the neighbour, and af_xdp keeps some
    assert_true(bt_dpdk_absent(port));
    assert_true(netns_enter(here));
    close(ns);
    close(here);
}

static void an_interface_under_af_packet(void **state)
{
    (void)state;
    over_deleted("net_af_packet9,iface=lb");
}

static void an_interface_under_af_xdp(void **state)
{
    (void)state;
    over_deleted("net_af_xdp9,iface=lb,busy_budget=0");
}

static void a_device_that_the_kernel_has_not_is_absent(void **state)
{
    (void)state;
    assert_true(bt_dpdk_absent("ffff:ff:1f.7,arg=1"));
    assert_false(bt_dpdk_absent("net_memif0,role=client")); // stands on nothing
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wanted_back_works_until_it_is_closed),
        cmocka_unit_test(what_is_gone_is_not_touched),
        cmocka_unit_test(an_interface_under_af_packet),
        cmocka_unit_test(an_interface_under_af_xdp),
        cmocka_unit_test(a_device_that_the_kernel_has_not_is_absent),
    };
    return cmocka_run_group_tests(tests, hosts_start, NULL);
}
