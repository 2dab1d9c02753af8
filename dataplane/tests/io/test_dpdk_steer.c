// SPDX-License-Identifier: Apache-2.0
// Who gets which frame where software tells threads apart, the ports it finds free, and the sockets a port stands on.
// Frames are given to it by hand: none was on a wire.
#include "dpdk_hosts.h"
#include "unit.h"

#include "io/dpdk_internal.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct hosts h;
static struct bt_dpdk *one, *two; // of requests, the first; and of FEEDBACK
static struct bt_pool *pool;

static int open_hosts(void **state)
{
    (void)state;
    h = hosts_open();
    one = bt_dpdk_of(h.request);
    two = bt_dpdk_of(h.feedback);
    pool = bt_dpdk_pool(h.dev[1]);
    return 0;
}

static int close_hosts(void **state)
{
    (void)state;
    hosts_close(&h);
    return 0;
}

/* --- frames ------------------------------------------------------------------------------------------------------ */

static struct bt_pkt *frame_of(uint16_t ether, uint8_t proto, uint16_t port, uint32_t len)
{
    struct bt_addr from = dpdk_address(false, 1, 7000), to = dpdk_address(false, 2, port);
    struct bt_pkt *p = bt_pool_get(pool);
    assert_non_null(p);
    uint8_t *at = bt_pkt_append(p, BT_ETHER_HEAD + BT_IP4_HEAD + len);
    memset(at, 0, BT_ETHER_HEAD + BT_IP4_HEAD + len);
    bt_ether_write(at, h.dev[0]->mac, h.dev[1]->mac, ether);
    bt_ip4_write(at + BT_ETHER_HEAD, &from, &to, proto, BT_TTL, len);
    if (proto == BT_PROTO_UDP) {
        bt_udp_write(at + BT_ETHER_HEAD + BT_IP4_HEAD, &from, &to, len - BT_UDP_HEAD, BT_UDP_SUM_FULL);
    }
    return p;
}

static struct bt_pkt *udp_to(uint16_t port)
{
    return frame_of(BT_ETHER_IP4, BT_PROTO_UDP, port, BT_UDP_HEAD + 4);
}

/* The first frame that was handed over to an io; NULL: none. */
static struct bt_pkt *handed_to(struct bt_dpdk *d)
{
    void *p = NULL;
    return rte_ring_dequeue(d->handed, &p) == 0 ? p : NULL;
}

static bool was_woken(struct bt_dpdk *d)
{
    return atomic_exchange(&d->bell.asked, false);
}

static void expect_kept(struct bt_dpdk *by, struct bt_pkt *frame)
{
    struct bt_pkt *frames[] = {frame};
    assert_int_equal(bt_dpdk_dispatch(by, frames, 1), 1);
    assert_ptr_equal(frames[0], frame);
    assert_null(handed_to(one));
    assert_null(handed_to(two));
    assert_false(was_woken(one));
    assert_false(was_woken(two));
    bt_pool_put(pool, frame);
}

static void expect_given(struct bt_dpdk *by, struct bt_dpdk *to, struct bt_pkt *frame)
{
    uint64_t before = by->counters[BT_DPDK_RX_HANDED_OVER];
    assert_int_equal(bt_dpdk_dispatch(by, &(struct bt_pkt *){frame}, 1), 0);
    assert_ptr_equal(handed_to(to), frame);
    assert_null(handed_to(to));
    assert_true(was_woken(to));
    assert_false(was_woken(by));
    assert_int_equal(by->counters[BT_DPDK_RX_HANDED_OVER], before + 1);
    bt_pool_put(pool, frame);
}

static void a_port_is_its_ios(void **state)
{
    (void)state;
    expect_kept(one, udp_to(REQUEST_PORT));
    expect_given(one, two, udp_to(FEEDBACK_PORT));
    expect_kept(two, udp_to(FEEDBACK_PORT));
    expect_given(two, one, udp_to(REQUEST_PORT));
}

/* Somebody has to count it: the first. */
static void what_is_nobodys_is_the_firsts(void **state)
{
    (void)state;
    expect_kept(one, udp_to(12));
    expect_given(two, one, udp_to(12));
    expect_kept(one, frame_of(0x1234, 0, 0, 40));
    expect_given(two, one, frame_of(0x1234, 0, 0, 40));
    memset(h.dev[1]->flow_io, 1, sizeof h.dev[1]->flow_io);
    expect_given(two, one, frame_of(BT_ETHER_IP4, BT_PROTO_TCP, FEEDBACK_PORT, 20)); /* nobody takes TCP */
}

static void a_flow_is_its_ios(void **state)
{
    (void)state;
    h.dev[1]->link.takes_tcp = true;
    for (uint8_t of = 0; of < 2; of++) {
        struct bt_dpdk *its = of == 0 ? one : two, *other = of == 0 ? two : one;
        memset(h.dev[1]->flow_io, of, sizeof h.dev[1]->flow_io);
        expect_kept(its, frame_of(BT_ETHER_IP4, BT_PROTO_TCP, REQUEST_PORT, 20));
        expect_given(other, its, frame_of(BT_ETHER_IP4, BT_PROTO_TCP, REQUEST_PORT, 20));
    }
    expect_given(two, one, frame_of(0x1234, 0, 0, 40)); /* what is no TCP is still the first's */
    h.dev[1]->link.takes_tcp = false;
}

/* ARP: any of them may wait for it. */
static void everybody_hears_of_neighbours(void **state)
{
    (void)state;
    struct bt_pkt *frame = frame_of(0x0806, 0, 0, 40), *frames[] = {frame};
    frame->offload = BT_PKT_RX_IP_OK;
    frame->t_rx_ns = 77;
    assert_int_equal(bt_dpdk_dispatch(one, frames, 1), 1);
    assert_ptr_equal(frames[0], frame);
    struct bt_pkt *copy = handed_to(two);
    assert_true(copy != NULL && copy != frame);
    assert_int_equal(copy->len, frame->len);
    assert_memory_equal(copy->data, frame->data, frame->len);
    assert_int_equal(copy->offload, BT_PKT_RX_IP_OK);
    assert_int_equal(copy->t_rx_ns, 77);
    assert_null(handed_to(two));
    assert_null(handed_to(one));
    assert_true(was_woken(two));
    assert_false(was_woken(one));
    assert_int_equal(one->counters[BT_DPDK_RX_HANDED_OVER], 1);
    bt_pool_put(pool, copy);
    bt_pool_put(pool, frame);
}

static void a_copy_needs_a_buffer(void **state)
{
    (void)state;
    struct bt_pkt *frame = frame_of(0x0806, 0, 0, 40), *p;
    struct bt_txq rest;
    bt_txq_init(&rest);
    while ((p = bt_pool_get(pool)) != NULL) {
        bt_txq_push(&rest, p);
    }
    assert_int_equal(bt_dpdk_dispatch(one, &(struct bt_pkt *){frame}, 1), 1);
    assert_int_equal(one->counters[BT_DPDK_RX_NO_BUFFER], 1);
    assert_int_equal(one->counters[BT_DPDK_RX_HANDED_OVER], 0);
    assert_null(handed_to(two));
    assert_false(was_woken(two));
    while ((p = bt_txq_pop(&rest)) != NULL) {
        bt_pool_put(pool, p);
    }
    bt_pool_put(pool, frame);
}

/* Those that stay move up, in order; who got something is woken once all are told apart. */
static void a_burst_is_told_apart(void **state)
{
    (void)state;
    static const uint16_t port[] = {FEEDBACK_PORT, REQUEST_PORT, FEEDBACK_PORT, REQUEST_PORT, 12};
    struct bt_pkt *frames[5], *was[5];
    for (unsigned i = 0; i < 5; i++) {
        was[i] = frames[i] = udp_to(port[i]);
    }
    assert_int_equal(bt_dpdk_dispatch(one, frames, 5), 3);
    assert_ptr_equal(frames[0], was[1]);
    assert_ptr_equal(frames[1], was[3]);
    assert_ptr_equal(frames[2], was[4]);
    assert_ptr_equal(handed_to(two), was[0]);
    assert_ptr_equal(handed_to(two), was[2]);
    assert_null(handed_to(two));
    assert_true(was_woken(two));
    for (unsigned i = 0; i < 5; i++) {
        bt_pool_put(pool, was[i]);
    }
}

static void who_does_not_keep_up_loses_it(void **state)
{
    (void)state;
    struct bt_pkt *p;
    unsigned n = 0;
    do {
        (void)was_woken(two);
        assert_int_equal(bt_dpdk_dispatch(one, &(struct bt_pkt *){udp_to(FEEDBACK_PORT)}, 1), 0);
    } while (one->counters[BT_DPDK_RX_HANDOVER] == 0 && ++n < BT_DPDK_HANDOVER);
    assert_int_equal(n, BT_DPDK_HANDOVER - 1); /* a ring holds one less than its size */
    assert_int_equal(one->counters[BT_DPDK_RX_HANDOVER], 1);
    assert_int_equal(one->counters[BT_DPDK_RX_HANDED_OVER], n);
    assert_false(was_woken(two)); /* by the one that it did not get */
    while ((p = handed_to(two)) != NULL) {
        bt_pool_put(pool, p);
        n--;
    }
    assert_int_equal(n, 0);
}

/* --- ports ------------------------------------------------------------------------------------------------------- */

/* Every port from 49152 up is somebody's but one, and that one is asked for by name. */
static void no_port_is_free(void **state)
{
    (void)state;
    struct bt_dpdk_device *dev = h.dev[1];
    struct bt_addr locals[] = {dpdk_address(false, 2, 0), dpdk_address(false, 2, 65535)};
    struct bt_dpdk_config cfg = {.locals = locals, .n_locals = 2};
    char err[400];
    for (unsigned port = 49152; port < 65535; port++) {
        atomic_store(&dev->listener[port], two);
    }
    assert_null(bt_dpdk_choose_ports(one, &cfg, err, sizeof err));
    assert_string_equal(err, "no UDP port from 49152 up is free on this device for local port 0; name one");
    cfg.n_locals = 1; /* nobody names it now */
    struct bt_addr *chosen = bt_dpdk_choose_ports(one, &cfg, err, sizeof err);
    assert_non_null(chosen);
    assert_int_equal(chosen[0].port, 65535);
    free(chosen);
    cfg.n_locals = 2; /* wherever the search begins, it comes round */
    for (unsigned port = 49152; port < 65535; port += port < 49160 ? 1 : 53) {
        atomic_store(&dev->listener[port], NULL);
        chosen = bt_dpdk_choose_ports(one, &cfg, err, sizeof err);
        assert_non_null(chosen);
        assert_int_equal(chosen[0].port, port);
        assert_int_equal(chosen[1].port, 65535);
        free(chosen);
        atomic_store(&dev->listener[port], two);
    }
    for (unsigned port = 49152; port < 65535; port++) {
        atomic_store(&dev->listener[port], NULL);
    }
}

/* Threads begin so far apart that each may have as many as there can be, and half of them are others'. */
static void each_begins_elsewhere(void **state)
{
    (void)state;
    struct bt_addr local = dpdk_address(false, 2, 0);
    struct bt_dpdk_config cfg = {.locals = &local, .n_locals = 1};
    struct bt_dpdk *by[] = {one, two};
    unsigned port[2];
    for (unsigned i = 0; i < 2; i++) {
        char err[400];
        struct bt_addr *chosen = bt_dpdk_choose_ports(by[i], &cfg, err, sizeof err);
        assert_non_null(chosen);
        port[i] = chosen->port;
        free(chosen);
    }
    assert_int_equal(port[1], port[0] + 2 * BT_LINK_MAX_LOCALS);
}

/* --- sockets ----------------------------------------------------------------------------------------------------- */

static void found(uint16_t queues, const struct bt_dpdk_descriptors *before, unsigned n, const int *fds)
{
    struct bt_dpdk_device dev = {.n_queues = queues, .n_sockets = 99};
    bt_dpdk_sockets_after(&dev, before);
    assert_int_equal(dev.n_sockets, n);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(dev.socket[i], fds[i]);
    }
}

/* Whether this process may have a descriptor of this number. */
static bool may_have(int fd)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd < limit.rlim_cur;
}

/* One for each queue, or none. */
static void sockets_of_a_driver(void **state)
{
    (void)state;
    struct bt_dpdk_descriptors before, none;
    int fds[3], from = -1, earlier = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (earlier < 0) {
        assert_int_equal(errno, EPERM);
        skip();
    }
    bt_dpdk_sockets_before(&none);
    assert_true((none.there[earlier / 64] >> earlier % 64 & 1) != 0);
    assert_true((none.there[0] & 7) == 0); /* standard input and output are no such sockets */
    before = none;
    found(1, &before, 0, NULL);
    int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* another family's */
    found(1, &before, 0, NULL);
    for (unsigned i = 0; i < 2; i++) {
        fds[i] = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
        assert_true(fds[i] > from);
        from = fds[i];
        found(1, &before, i == 0 ? 1 : 0, fds);
    }
    found(2, &before, 2, fds);
    found(3, &before, 0, NULL);  /* one is missing */
    fds[2] = dup2(fds[1], 1023); /* the last that is looked at, and the first beyond */
    assert_int_equal(fds[2], 1023);
    found(3, &before, 3, fds);
    if (may_have(1024)) {
        assert_int_equal(dup2(fds[1], 1024), 1024);
        found(3, &before, 3, fds);
        close(1024);
    }
    close(1023);
    close(fds[0]);
    close(fds[1]);
    close(other);
    close(earlier);
}

/* The bell first, then the sockets of the queues, for who polls any; all, or nothing. */
static void what_is_watched(void **state)
{
    (void)state;
    struct bt_dpdk_device dev = {.n_sockets = 2, .socket = {30, 31}};
    struct bt_dpdk d = {.dev = &dev, .n_rx = 1, .bell = {.fd = 20}};
    int fds[3] = {0};
    assert_int_equal(bt_dpdk_watch(&d.io, fds, 2), 0);
    assert_false(atomic_load(&d.bell.asleep));
    assert_int_equal(bt_dpdk_watch(&d.io, fds, 3), 3);
    assert_memory_equal(fds, ((const int[]){20, 30, 31}), sizeof fds);
    assert_true(atomic_load(&d.bell.asleep));
    d.n_rx = 0;
    fds[1] = 7;
    assert_int_equal(bt_dpdk_watch(&d.io, fds, 1), 1);
    assert_int_equal(fds[0], 20);
    assert_int_equal(fds[1], 7);
    dev.n_sockets = 0; /* this driver is on none */
    assert_int_equal(bt_dpdk_watch(&d.io, fds, 3), 0);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, open_hosts, close_hosts)
    const struct CMUnitTest tests[] = {
        EACH(a_port_is_its_ios),
        EACH(what_is_nobodys_is_the_firsts),
        EACH(a_flow_is_its_ios),
        EACH(everybody_hears_of_neighbours),
        EACH(a_copy_needs_a_buffer),
        EACH(a_burst_is_told_apart),
        EACH(who_does_not_keep_up_loses_it),
        EACH(no_port_is_free),
        EACH(each_begins_elsewhere),
        cmocka_unit_test(sockets_of_a_driver),
        cmocka_unit_test(what_is_watched),
    };
    return cmocka_run_group_tests(tests, hosts_start, NULL);
}
