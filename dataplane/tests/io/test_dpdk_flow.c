// SPDX-License-Identifier: Apache-2.0
// Steering by the device, which no driver that runs everywhere does. The linker puts these in front of DPDK's calls
// (--wrap): a table of rules that takes them all, or refuses one.
#include "unit.h"

#include "fixture_dpdk.h"
#include "io/dpdk_internal.h"
#include "wire/frame.h"

#include <netinet/in.h>
#include <rte_eth_ring.h>
#include <rte_flow.h>
#include <stdio.h>
#include <string.h>

enum { QUEUES = 2, RULES = 16, NEVER = RULES };

static struct rule {
    struct rte_flow_item_udp udp;
    enum rte_flow_item_type ip;
    uint16_t queue;
    bool live, numbered;
} rules[RULES];

static struct {
    struct bt_dpdk_device *dev;
    unsigned created, destroyed;
    unsigned validate_fails, create_fails; // at the rule of that number
    bool wants_number;                     // of UDP, in IP's header
} table;

static struct rte_ring *wire[QUEUES];
static char said[1000];

int __wrap_rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
                             const struct rte_flow_action actions[], struct rte_flow_error *why);
struct rte_flow *__wrap_rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
                                        const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
                                        struct rte_flow_error *why);
int __wrap_rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *why);

// Whether IP's header, where it is looked at, has to say UDP, and nothing else is asked of it.
static bool read_ip(const struct rte_flow_item *item)
{
    struct rte_flow_item_ipv4 only4 = {.hdr.next_proto_id = 0xff}, udp4 = {.hdr.next_proto_id = IPPROTO_UDP};
    struct rte_flow_item_ipv6 only6 = {.hdr.proto = 0xff}, udp6 = {.hdr.proto = IPPROTO_UDP};
    bool v4 = item->type == RTE_FLOW_ITEM_TYPE_IPV4;
    if (item->spec == NULL && item->mask == NULL) {
        return false;
    }
    assert_memory_equal(item->mask, v4 ? (void *)&only4 : (void *)&only6, v4 ? sizeof only4 : sizeof only6);
    assert_memory_equal(item->spec, v4 ? (void *)&udp4 : (void *)&udp6, v4 ? sizeof udp4 : sizeof udp6);
    return true;
}

// A rule of the only shape there is: arriving Ethernet, IP, UDP with this destination port and any source port, to a
// queue.
static struct rule read_rule(const struct rte_flow_attr *attr, const struct rte_flow_item *item,
                             const struct rte_flow_action *action)
{
    struct rule r = {.ip = item[1].type, .live = true};
    const struct rte_flow_item_udp *mask = item[2].mask;
    const struct rte_flow_action_queue *to = action[0].conf;
    assert_true(attr->ingress && !attr->egress && !attr->transfer);
    assert_int_equal(item[0].type, RTE_FLOW_ITEM_TYPE_ETH);
    assert_true(item[0].spec == NULL && item[1].last == NULL && item[2].last == NULL);
    r.numbered = read_ip(&item[1]);
    assert_int_equal(item[2].type, RTE_FLOW_ITEM_TYPE_UDP);
    assert_int_equal(item[3].type, RTE_FLOW_ITEM_TYPE_END);
    r.udp = *(const struct rte_flow_item_udp *)item[2].spec;
    assert_int_equal(mask->hdr.dst_port, 0xffff);
    assert_true(mask->hdr.src_port == 0 && mask->hdr.dgram_len == 0 && mask->hdr.dgram_cksum == 0);
    assert_int_equal(action[0].type, RTE_FLOW_ACTION_TYPE_QUEUE);
    assert_int_equal(action[1].type, RTE_FLOW_ACTION_TYPE_END);
    r.queue = to->index;
    return r;
}

int __wrap_rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
                             const struct rte_flow_action actions[], struct rte_flow_error *why)
{
    (void)port;
    struct rule r = read_rule(attr, pattern, actions);
    if (table.created == table.validate_fails || r.numbered != table.wants_number) {
        return rte_flow_error_set(why, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, NULL, "no such item here");
    }
    return 0;
}

struct rte_flow *__wrap_rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
                                        const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
                                        struct rte_flow_error *why)
{
    struct bt_dpdk_device *dev = table.dev;
    assert_true(dev == NULL || dev->port == port);
    if (table.created == table.create_fails) {
        rte_flow_error_set(why, ENOSPC, RTE_FLOW_ERROR_TYPE_HANDLE, NULL, "the table is full");
        return NULL;
    }
    assert_true(table.created < RULES);
    rules[table.created] = read_rule(attr, pattern, actions);
    return (struct rte_flow *)&rules[table.created++];
}

int __wrap_rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *why)
{
    struct rule *r = (struct rule *)flow;
    (void)why;
    assert_int_equal(table.dev->port, port);
    assert_true(atomic_load(&table.dev->running)); // before the port is stopped
    assert_true(r >= rules && r < rules + table.created && r->live);
    r->live = false;
    table.destroyed++;
    return 0;
}

static void say(const char *line)
{
    size_t at = strlen(said);
    print_message("  %s\n", line);
    snprintf(said + at, sizeof said - at, "%s\n", line);
}

static struct bt_dpdk_device *open_device(unsigned ios, unsigned queues)
{
    struct bt_link_prefix own[2];
    char err[400];
    dpdk_addresses(2, own);
    struct bt_dpdk_device_config cfg = {.port = "net_ring_flow",
                                        .addrs = own,
                                        .n_addrs = 2,
                                        .ios = ios,
                                        .queues = queues,
                                        .buffers = 2048,
                                        .seed = 1,
                                        .log = say};
    memset(rules, 0, sizeof rules);
    memset(&table, 0, sizeof table);
    table.validate_fails = table.create_fails = NEVER;
    said[0] = '\0';
    table.dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    if (table.dev == NULL) {
        fail_msg("%s", err);
    }
    return table.dev;
}

static void close_device(void)
{
    void *m;
    for (unsigned i = 0; i < QUEUES; i++) {
        while (rte_ring_dequeue(wire[i], &m) == 0) {
            rte_pktmbuf_free(m);
        }
    }
    assert_int_equal(bt_dpdk_device_close(table.dev), 0);
}

static struct bt_io *open_io(uint16_t port, bool both_families)
{
    struct bt_addr locals[] = {dpdk_address(false, 2, port), dpdk_address(true, 2, port)};
    struct bt_dpdk_config cfg = {.locals = locals, .n_locals = both_families ? 2 : 1};
    char err[400];
    struct bt_io *io = bt_dpdk_open(table.dev, &cfg, err, sizeof err);
    if (io == NULL) {
        fail_msg("%s", err);
    }
    return io;
}

static void check_rule(unsigned i, enum rte_flow_item_type ip, uint16_t port, uint16_t queue)
{
    assert_int_equal(rules[i].ip, ip);
    assert_int_equal(rte_be_to_cpu_16(rules[i].udp.hdr.dst_port), port);
    assert_int_equal(rules[i].queue, queue);
    assert_true(rules[i].live);
}

static void each_port_goes_to_the_queue_of_its_thread(void **state)
{
    struct bt_io *io[QUEUES];
    (void)state;
    open_device(QUEUES, QUEUES);
    io[0] = open_io(8000, true);
    io[1] = open_io(9000, false);
    assert_int_equal(table.created, 3);
    check_rule(0, RTE_FLOW_ITEM_TYPE_IPV4, 8000, 0);
    check_rule(1, RTE_FLOW_ITEM_TYPE_IPV6, 8000, 0);
    check_rule(2, RTE_FLOW_ITEM_TYPE_IPV4, 9000, 1);
    assert_null(strstr(said, "steer"));
    io[1]->ops->close(io[1]);
    assert_true(table.destroyed == 1 && !rules[2].live);
    io[0]->ops->close(io[0]);
    assert_int_equal(table.destroyed, 3);
    close_device();
    assert_int_equal(table.destroyed, 3);
}

// Intel's drivers take no rule whose IP header does not name UDP: they are given such ones.
static void a_device_that_wants_udps_number_gets_it(void **state)
{
    struct bt_io *io[QUEUES];
    (void)state;
    open_device(QUEUES, QUEUES);
    table.wants_number = true;
    io[0] = open_io(8000, true);
    io[1] = open_io(9000, false);
    assert_int_equal(table.created, 3);
    for (unsigned i = 0; i < table.created; i++) {
        assert_true(rules[i].numbered);
    }
    check_rule(2, RTE_FLOW_ITEM_TYPE_IPV4, 9000, 1);
    assert_null(strstr(said, "steer"));
    for (unsigned i = QUEUES; i-- > 0;) {
        io[i]->ops->close(io[i]);
    }
    close_device();
}

// A datagram for a port of the device, put into one of its queues.
static void deliver(uint16_t port, unsigned queue)
{
    struct bt_addr from = dpdk_address(false, 1, 7000);
    struct bt_addr to = dpdk_address(false, 2, port);
    static const uint8_t somebody[6] = {2, 0, 0, 0, 0, 1};
    struct rte_mbuf *m = rte_pktmbuf_alloc(table.dev->buffers);
    assert_non_null(m);
    uint8_t *frame = (uint8_t *)rte_pktmbuf_append(m, BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD);
    uint8_t *ip = frame + BT_ETHER_HEAD;
    bt_ether_write(frame, table.dev->mac, somebody, BT_ETHER_IP4);
    bt_ip4_write(ip, &from, &to, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD);
    bt_udp_write(ip + BT_IP4_HEAD, &from, &to, 0, BT_UDP_SUM_FULL);
    assert_int_equal(rte_ring_enqueue(wire[queue], m), 0);
}

static unsigned receive(struct bt_io *io)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(io, BT_IO_ANY, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(bt_dpdk_pool(table.dev), pkts[i]);
    }
    return n;
}

// Whatever the device does: packets reach their thread from both queues.
static void check_dispatch(struct bt_io *const io[QUEUES])
{
    for (unsigned i = 0; i < QUEUES; i++) {
        for (unsigned queue = 0; queue < QUEUES; queue++) {
            deliver((uint16_t)(8000 + 1000 * i), queue);
            assert_int_equal(receive(io[1 - i]), 0); // hands over, if it was its queue
            assert_int_equal(receive(io[i]), 1);
        }
    }
}

static void what_the_device_refuses_software_does(void **state)
{
    static const struct {
        unsigned validate_fails, create_fails, left, taken_back;
        const char *line;
    } stories[] = {
        {0, NEVER, 0, 0, "UDP port 8000 to queue 0 (rte_flow: no such item here); software does"},
        {NEVER, 0, 0, 0, "UDP port 8000 to queue 0 (rte_flow: the table is full); software does"},
        {1, NEVER, 0, 1,
         "UDP port 8000 to queue 0 (rte_flow: no such item here); software does"}, // its first rule goes
        {2, NEVER, 2, 0, "UDP port 9000 to queue 1 (rte_flow: no such item here); software does"},
        {NEVER, 2, 2, 0, "UDP port 9000 to queue 1 (rte_flow: the table is full); software does"},
    };
    (void)state;
    for (unsigned s = 0; s < sizeof stories / sizeof stories[0]; s++) {
        struct bt_io *io[QUEUES];
        open_device(QUEUES, QUEUES);
        table.validate_fails = stories[s].validate_fails;
        table.create_fails = stories[s].create_fails;
        io[0] = open_io(8000, true);
        io[1] = open_io(9000, false);
        assert_non_null(strstr(said, stories[s].line));
        assert_int_equal(table.destroyed, stories[s].taken_back);
        assert_int_equal(table.created - table.destroyed, stories[s].left);
        check_dispatch(io);
        for (unsigned i = QUEUES; i-- > 0;) {
            io[i]->ops->close(io[i]);
        }
        assert_int_equal(table.destroyed, table.created);
        close_device();
    }
}

// Nothing to choose: no rule is asked for, and none is missed.
static void one_queue_or_one_thread_asks_for_no_rule(void **state)
{
    static const unsigned ios[] = {1, 2, 3}, queues[] = {2, 1, 2};
    (void)state;
    for (unsigned s = 0; s < sizeof ios / sizeof ios[0]; s++) {
        struct bt_io *io[3];
        open_device(ios[s], queues[s]);
        for (unsigned i = 0; i < ios[s]; i++) {
            io[i] = open_io((uint16_t)(8000 + 1000 * i), false);
        }
        assert_int_equal(table.created, ios[s] < 3 ? 0 : QUEUES); // the third thread has no queue
        assert_null(strstr(said, "steer"));
        for (unsigned i = ios[s]; i-- > 0;) {
            io[i]->ops->close(io[i]);
        }
        close_device();
    }
}

static int start(void **state)
{
    char why[400];
    (void)state;
    if (!dpdk_begin("net_ring", why, sizeof why)) {
        print_message("%s\n", why);
        return -1;
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        wire[i] = rte_ring_create(i == 0 ? "flow-0" : "flow-1", 1024, SOCKET_ID_ANY, 0);
    }
    return wire[0] != NULL && wire[1] != NULL && rte_eth_from_rings("flow", wire, QUEUES, wire, QUEUES, 0) >= 0 ? 0
                                                                                                                : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_port_goes_to_the_queue_of_its_thread),
        cmocka_unit_test(a_device_that_wants_udps_number_gets_it),
        cmocka_unit_test(what_the_device_refuses_software_does),
        cmocka_unit_test(one_queue_or_one_thread_asks_for_no_rule),
    };
    return cmocka_run_group_tests_name("rte_flow", tests, start, NULL);
}
