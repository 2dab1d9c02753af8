// SPDX-License-Identifier: Apache-2.0
// How a port is made of what a device can do and what is wanted of it, and what is said of one that cannot be had.
#include "unit.h"

#include "dpdk_card.h"

#include <errno.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <string.h>

// What opening made is gone, whatever it was that failed.
static void assert_nothing_is_left(void)
{
    char name[40];
    for (unsigned port = 0; port < 4; port++) {
        snprintf(name, sizeof name, "bobtail%u", port);
        assert_null(rte_mempool_lookup(name));
    }
}

static void the_mtu_is_what_all_can_carry(void **state)
{
    static const struct {
        const char *port;
        uint16_t wanted, device, interface, mtu;
        unsigned set;
        const char *refusal;
    } rows[] = {
        {NULL, 0, 0, 0, 1500, 0, NULL},
        {NULL, 0, 1400, 0, 1400, 0, NULL},
        {NULL, 0, 9000, 0, 1500, 0, NULL},
        {NULL, 1500, 9000, 0, 1500, 0, NULL},
        {NULL, 1400, 1400, 0, 1400, 1, NULL},
        {NULL, 2034, 9000, 0, 2034, 1, NULL},
        {NULL, 2035, 0, 0, 0, 0, "port \"net_ring_a\" takes an MTU of 2034 at most; got 2035"},
        {NULL, 1401, 1400, 0, 0, 0, "port \"net_ring_a\" takes an MTU of 1400 at most; got 1401"},
        {"net_x,iface=lo", 0, 9000, 1280, 1280, 0, NULL},
        {"net_x,iface=lo", 0, 1200, 1280, 1200, 0, NULL},
        {"net_x,iface=lo", 1281, 9000, 1280, 0, 0,
         "port \"net_x,iface=lo\" takes an MTU of 1280 at most; got 1281: give its interface a larger one, or ask for "
         "less"},
        {"net_x,iface=lo", 1281, 1279, 1280, 0, 0, "port \"net_x,iface=lo\" takes an MTU of 1279 at most; got 1281"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.max_mtu = rows[i].device;
        card.if_mtu = rows[i].interface;
        struct bt_dpdk_device *dev =
            card_open(&(struct bt_dpdk_device_config){.port = rows[i].port, .mtu = rows[i].wanted});
        assert_int_equal(card.mtus, rows[i].set);
        if (rows[i].refusal != NULL) {
            assert_null(dev);
            assert_string_equal(card_error, rows[i].refusal);
            continue;
        }
        assert_non_null(dev);
        assert_int_equal(bt_dpdk_mtu(dev), rows[i].mtu);
        assert_int_equal(dev->link.mtu, rows[i].mtu);
        assert_true(rows[i].set == 0 || card.mtu == rows[i].mtu);
        card_close(dev);
    }
    assert_nothing_is_left();
}

static void a_device_that_takes_no_mtu_may_keep_its_own(void **state)
{
    (void)state;
    card_new();
    card.set_mtu = -ENOTSUP;
    card_close(card_must_open(&(struct bt_dpdk_device_config){.mtu = 1600}));
    card_new();
    card.set_mtu = -EINVAL;
    assert_null(card_open(&(struct bt_dpdk_device_config){.mtu = 1600}));
    assert_string_equal(card_error, "port \"net_ring_a\" does not take an MTU of 1600: Invalid argument");
    assert_nothing_is_left();
}

static void queues_are_as_many_as_are_of_use(void **state)
{
    static const struct {
        const char *driver, *port;
        uint16_t max_rx, max_tx;
        unsigned wanted, ios, queues;
    } rows[] = {
        {"net_ring", NULL, 3, 3, 0, 1, 3},       {"net_ring", NULL, 3, 2, 0, 1, 2},
        {"net_af_packet", NULL, 2, 2, 0, 1, 2},  {"net_af_xdp", NULL, 4, 4, 0, 1, 4},
        {"net_memif", NULL, 8, 8, 0, 4, 1},      {"net_ixgbe", "0000:05:00.0", 8, 8, 0, 4, 4},
        {"net_ixgbe", "05:00.0", 8, 3, 0, 4, 3}, {"net_ixgbe", "05:00.0", 3, 8, 0, 4, 3},
        {"net_ring", NULL, 20, 20, 0, 1, 16},    {"net_ring", NULL, 20, 20, 16, 1, 16},
        {"net_memif", NULL, 8, 8, 8, 1, 8},      {"net_ixgbe", "05:00.0", 8, 8, 0, 0, 1},
        {"net_ring", NULL, 5, 5, 2, 4, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.driver = rows[i].driver;
        card.max_rx = rows[i].max_rx;
        card.max_tx = rows[i].max_tx;
        struct bt_dpdk_device *dev = card_must_open(
            &(struct bt_dpdk_device_config){.port = rows[i].port, .queues = rows[i].wanted, .ios = rows[i].ios});
        assert_int_equal(card.rx_queues, rows[i].queues);
        assert_int_equal(card.tx_queues, rows[i].queues);
        assert_int_equal(card.rx_setups, rows[i].queues);
        assert_int_equal(card.tx_setups, rows[i].queues);
        assert_int_equal(card.ring, 1024);
        assert_int_equal(strstr(card_said, "take turns to send") != NULL, rows[i].ios > rows[i].queues);
        card_close(dev);
    }
    card_new();
    card_close(card_must_open(&(struct bt_dpdk_device_config){.ring = 77}));
    assert_int_equal(card.ring, 77);
}

static void queues_that_a_device_has_not_are_refused(void **state)
{
    static const uint16_t has[][2] = {{4, 5}, {5, 4}};
    char want[200];
    (void)state;
    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++) {
        card_new();
        card.max_rx = has[i][0];
        card.max_tx = has[i][1];
        assert_null(card_open(&(struct bt_dpdk_device_config){.queues = 5}));
        snprintf(want, sizeof want,
                 "port \"net_ring_a\" does not have the 5 queues asked for: it has %u to receive and %u to send",
                 has[i][0], has[i][1]);
        assert_string_equal(card_error, want);
    }
    assert_nothing_is_left();
}

static void a_device_that_refuses_is_named_with_its_reason(void **state)
{
    static const struct {
        int *fails;
        const char *driver, *says;
        unsigned stops;
    } rows[] = {
        {&card.info, NULL, "port \"net_ring_a\" does not describe itself: Input/output error", 0},
        {&card.configure, NULL, "port \"net_ring_a\" cannot be set up with 1 queues: Input/output error", 0},
        {&card.adjust, NULL, "port \"net_ring_a\" cannot be set up with 1 queues: Input/output error", 0},
        {&card.rx_setup, NULL, "port \"net_ring_a\" cannot be set up with 1 queues: Input/output error", 0},
        {&card.tx_setup, NULL, "port \"net_ring_a\" cannot be set up with 1 queues: Input/output error", 0},
        {&card.tx_setup, "net_af_xdp",
         "port \"net_ring_a\" cannot be set up with 1 queues: Input/output error" BT_DPDK_XDP_NEEDS, 0},
        {&card.start, NULL, "port \"net_ring_a\" does not start: Input/output error", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.driver = rows[i].driver;
        *rows[i].fails = -EIO;
        assert_null(card_open(&(struct bt_dpdk_device_config){.idle = BT_DPDK_IDLE_SPIN}));
        assert_string_equal(card_error, rows[i].says);
        assert_int_equal(card.stops + card.closes + card.removes, 0); // it never ran, and others made it
        assert_nothing_is_left();
    }
}

// Interrupts are tried where a thread would sleep on them.
static void interrupts_are_asked_for_by_who_sleeps(void **state)
{
    static const struct {
        enum bt_dpdk_idle idle;
        int refused;
        unsigned tries, with;
        bool has;
    } rows[] = {
        {BT_DPDK_IDLE_SPIN, 0, 1, 0, false},
        {BT_DPDK_IDLE_SLEEP, 0, 1, 1, true},
        {BT_DPDK_IDLE_AUTO, 0, 1, 1, true}, // of a port that is no card: YIELD
        {BT_DPDK_IDLE_YIELD, -ENOTSUP, 2, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.interrupts = rows[i].refused;
        struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){.idle = rows[i].idle});
        assert_int_equal(card.configured, rows[i].tries);
        assert_int_equal(card.with_interrupts, rows[i].with);
        assert_int_equal(dev->interrupts, rows[i].has);
        card_close(dev);
    }
    card_new();
    struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){.port = "0000:05:00.0"});
    assert_int_equal(dev->idle, BT_DPDK_IDLE_SPIN);
    card_close(dev);
}

// What has no address of its own, or none that can be one, gets one at random.
static void a_port_has_an_address_of_one_host(void **state)
{
    static const struct {
        int failed;
        struct rte_ether_addr address;
        bool kept;
    } rows[] = {
        {0, {{2, 0, 0, 0, 0, 7}}, true},
        {0, {{0, 0, 0, 0, 0, 0}}, false},
        {0, {{3, 0, 0, 0, 0, 7}}, false},
        {-EIO, {{2, 0, 0, 0, 0, 7}}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t mac[6];
        card_new();
        card.mac = rows[i].failed;
        card.address = rows[i].address;
        struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){0});
        bt_dpdk_mac(dev, mac);
        assert_int_equal(memcmp(mac, rows[i].address.addr_bytes, sizeof mac) == 0, rows[i].kept);
        assert_int_equal(mac[0] & 3, 2);
        assert_memory_equal(dev->link.mac, mac, sizeof mac);
        assert_int_equal(card.multicasts, 1);
        card_close(dev);
    }
}

// What is believed of checksums by the port's kind, or as told.
static void checksums_are_as_told(void **state)
{
    static const struct {
        const char *port;
        enum bt_dpdk_checksums checksums;
        bool unfinished, none;
    } rows[] = {
        {NULL, BT_DPDK_CHECKSUMS_AUTO, false, false},
        {NULL, BT_DPDK_CHECKSUMS_FULL, false, false},
        {NULL, BT_DPDK_CHECKSUMS_UNFINISHED, true, false},
        {NULL, BT_DPDK_CHECKSUMS_NONE, false, true},
        {"net_af_xdp0,iface=lo", BT_DPDK_CHECKSUMS_AUTO, true, false},
        {"net_af_xdp0,iface=lo", BT_DPDK_CHECKSUMS_FULL, false, false},
        {"net_af_packet0,iface=lo", BT_DPDK_CHECKSUMS_AUTO, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        struct bt_dpdk_device *dev =
            card_must_open(&(struct bt_dpdk_device_config){.port = rows[i].port, .checksums = rows[i].checksums});
        assert_int_equal(dev->link.rx_unfinished, rows[i].unfinished);
        assert_int_equal(dev->link.tx_no_udp_sum, rows[i].none);
        assert_int_equal(dev->link.rx_trusted, rows[i].none);
        card_close(dev);
    }
}

// The link of every io gets what the device was given, which its giver need not keep.
static void what_links_share_is_kept(void **state)
{
    struct bt_link_static peers[2] = {{.ip = dpdk_address(false, 8, 0), .mac = {2, 8}},
                                      {.ip = dpdk_address(true, 9, 0), .mac = {2, 9}}};
    const struct bt_link_static was[2] = {peers[0], peers[1]};
    (void)state;
    card_new();
    struct bt_dpdk_device_config cfg = {.statics = peers,
                                        .n_statics = 2,
                                        .gateway4 = dpdk_address(false, 77, 0),
                                        .gateway6 = dpdk_address(true, 78, 0),
                                        .takes_tcp = true,
                                        .ios = 3,
                                        .neighbour_retry_ns = 12345};
    struct bt_dpdk_device *dev = card_must_open(&cfg);
    memset(peers, 0, sizeof peers);
    assert_int_equal(dev->link.n_statics, 2);
    assert_memory_equal(dev->link.statics, was, sizeof was);
    assert_true(bt_addr_eq(&dev->link.gateway4, &cfg.gateway4) && bt_addr_eq(&dev->link.gateway6, &cfg.gateway6));
    assert_true(dev->link.takes_tcp && dev->link.retry_ns == 12345 && dev->link.n_addrs == 2);
    assert_ptr_equal(dev->link.pool, bt_dpdk_pool(dev));
    for (unsigned i = 0; i < 2; i++) {
        struct bt_addr own = dpdk_address(i, 1, 0);
        assert_true(bt_addr_ip_eq(&dev->link.addrs[i].addr, &own));
        assert_int_equal(dev->link.addrs[i].bits, i == 0 ? 24 : 64);
    }
    for (unsigned i = 0; i < BT_TOEPLITZ_ENTRIES; i++) {
        assert_int_equal(dev->flow_io[i], bt_toeplitz_queue(i, 3));
    }
    card_close(dev);
}

// Nodes are told of cards only: anything else says 0 for want of anything better.
static void what_a_device_turned_out_to_be(void **state)
{
    struct bt_dpdk_facts facts;
    (void)state;
    for (unsigned pci = 0; pci < 2; pci++) {
        card_new();
        card.driver = "net_something";
        struct bt_dpdk_device *dev =
            card_must_open(&(struct bt_dpdk_device_config){.port = pci ? "0000:05:00.0" : NULL});
        memset(&facts, 0x55, sizeof facts);
        bt_dpdk_describe(dev, &facts);
        assert_string_equal(facts.driver, "net_something");
        assert_int_equal(facts.hugepages_mib, 0);
        assert_int_equal(facts.device_node, pci ? rte_eth_dev_socket_id(dev->port) : -1);
        assert_int_equal(facts.memory_node, pci ? bt_dpdk_node_of(rte_mempool_get_priv(dev->buffers)) : -1);
        card.info = -EIO;
        bt_dpdk_describe(dev, &facts);
        assert_string_equal(facts.driver, "");
        card.info = 0;
        card_close(dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mtu_is_what_all_can_carry),
        cmocka_unit_test(a_device_that_takes_no_mtu_may_keep_its_own),
        cmocka_unit_test(queues_are_as_many_as_are_of_use),
        cmocka_unit_test(queues_that_a_device_has_not_are_refused),
        cmocka_unit_test(a_device_that_refuses_is_named_with_its_reason),
        cmocka_unit_test(interrupts_are_asked_for_by_who_sleeps),
        cmocka_unit_test(a_port_has_an_address_of_one_host),
        cmocka_unit_test(checksums_are_as_told),
        cmocka_unit_test(what_links_share_is_kept),
        cmocka_unit_test(what_a_device_turned_out_to_be),
    };
    return cmocka_run_group_tests_name("port", tests, hosts_start, NULL);
}
