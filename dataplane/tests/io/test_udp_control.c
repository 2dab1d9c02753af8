// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a datagram besides its bytes: how many were lost before it, when it came, how many hops it
// had left. The linker puts these in front of the kernel's answer and of its clocks (--wrap).
#include "udp_bed.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define NOW  UINT64_C(50000000000) // ours
#define WALL UINT64_C(1700000000123456789)

static struct {
    bool on;
    uint64_t wall;
    int flags;
    unsigned read; // datagrams that one read finds; then none
    uint8_t control[200];
    size_t len;
} kernel;

static struct rig rig;
static struct bt_udp *u;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __real_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!kernel.on) {
        return __real_clock_gettime(clock, t);
    }
    uint64_t ns = clock == CLOCK_REALTIME ? kernel.wall : NOW;
    *t = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t)
{
    if (!kernel.on) {
        return __real_recvmmsg(fd, m, n, flags, t);
    }
    unsigned got = kernel.read < n ? kernel.read : n;
    for (unsigned i = 0; i < got; i++) {
        assert_true(m[i].msg_hdr.msg_controllen >= kernel.len);
        memcpy(m[i].msg_hdr.msg_control, kernel.control, kernel.len);
        m[i].msg_hdr.msg_controllen = kernel.len;
        m[i].msg_hdr.msg_flags = kernel.flags;
        m[i].msg_len = 1;
    }
    kernel.read = 0;
    errno = EAGAIN;
    return got != 0 ? (int)got : -1;
}

static void says(int level, int type, const void *data, size_t len)
{
    struct cmsghdr *c = (struct cmsghdr *)(void *)(kernel.control + kernel.len);
    memset(c, 0, CMSG_SPACE(len));
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    kernel.len += CMSG_SPACE(len);
}

static void says_lost(uint32_t total)
{
    kernel.len = 0;
    says(SOL_SOCKET, SO_RXQ_OVFL, &total, sizeof total);
}

static void says_came(uint64_t wall)
{
    struct timespec t = {.tv_sec = (time_t)(wall / 1000000000u), .tv_nsec = (long)(wall % 1000000000u)};
    kernel.len = 0;
    says(SOL_SOCKET, SO_TIMESTAMPNS, &t, sizeof t);
}

// One datagram as it is handed up; its buffer is given back at once.
static struct bt_pkt receive(void)
{
    struct bt_pkt *pkts[4];
    kernel.read = 1;
    u->ports[0].readable = true;
    assert_int_equal(bt_io_rx(rig.a, 0, pkts, 4), 1);
    struct bt_pkt got = *pkts[0];
    bt_pool_put(rig.pool, pkts[0]);
    return got;
}

static int open_rig(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    rig_open(&rig, 128, "127.0.0.1", BT_IDLE_BLOCK);
    u = (struct bt_udp *)rig.a;
    kernel.wall = WALL;
    kernel.on = true;
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    kernel.on = false;
    rig_close(&rig);
    return 0;
}

// The kernel tells how many there were in all, in 32 bits that come round.
static void losses_are_counted_by_their_difference(void **state)
{
    static const struct {
        uint32_t total;
        uint64_t lost;
    } rows[] = {{3, 3}, {3, 3}, {UINT32_MAX, UINT32_MAX}, {1, UINT64_C(1) + UINT32_MAX + 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        says_lost(rows[i].total);
        struct bt_pkt got = receive();
        assert_int_equal(udp_counter(rig.a, BT_UDP_RX_KERNEL_DROPS), rows[i].lost);
        assert_int_equal(got.t_rx_ns, NOW); // nobody said when it came
        assert_int_equal(got.ttl, 0);       // nor this
    }
}

// A datagram came when the kernel says, but not before its socket was last empty, nor after now, however the wall clock
// was set meanwhile.
static void a_datagram_came_when_the_kernel_says(void **state)
{
    static const struct {
        uint64_t emptied, stamp, came;
    } rows[] = {
        {0, WALL - 700, NOW - 700},
        {NOW - 700, WALL - 700, NOW - 700},
        {NOW - 699, WALL - 700, NOW - 699},
        {NOW, WALL - 700, NOW},
        {0, WALL, NOW},
        {0, WALL + 1, NOW},
        {0, 0, 0}, // long before anything
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        u->ports[0].stamped = true;
        u->ports[0].emptied_ns = rows[i].emptied;
        says_came(rows[i].stamp);
        struct bt_pkt got = receive();
        assert_int_equal(got.t_rx_ns, rows[i].came);
        assert_int_equal(u->ports[0].emptied_ns, NOW); // it was read until it was empty
    }
    u->ports[0].watched = true; // and here it may not have been
    u->ports[0].emptied_ns = 5;
    (void)receive();
    assert_int_equal(u->ports[0].emptied_ns, 5);
}

// The hops it has left, by either family's word, among whatever else is said.
static void hops_are_read(void **state)
{
    static const struct {
        int level, type, hops;
        uint8_t ttl;
    } rows[] = {{SOL_IP, IP_TTL, 63, 63}, {SOL_IPV6, IPV6_HOPLIMIT, 255, 255},
                {SOL_IP, IP_TTL, 1, 1},   {SOL_IP, IPV6_HOPLIMIT + 1, 7, 0},
                {SOL_IPV6, IP_TTL, 7, 0}, {SOL_SOCKET, IP_TTL, 7, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        says_lost(9);
        says(rows[i].level, rows[i].type, &rows[i].hops, sizeof rows[i].hops);
        assert_int_equal(receive().ttl, rows[i].ttl);
        assert_int_equal(udp_counter(rig.a, BT_UDP_RX_KERNEL_DROPS), 9);
    }
}

// What was longer than its buffer is dropped, and what the kernel says of it is heard all the same.
static void what_was_too_long_is_dropped_and_heard(void **state)
{
    struct bt_pkt *pkts[4];
    (void)state;
    says_lost(4);
    kernel.flags = MSG_TRUNC;
    kernel.read = 2;
    u->ports[0].readable = true;
    assert_int_equal(bt_io_rx(rig.a, 0, pkts, 4), 0);
    assert_int_equal(udp_counter(rig.a, BT_UDP_RX_TRUNCATED), 2);
    assert_int_equal(udp_counter(rig.a, BT_UDP_RX_PACKETS), 0);
    assert_int_equal(udp_counter(rig.a, BT_UDP_RX_KERNEL_DROPS), 4);
    kernel.flags = 0;
    struct bt_pkt got = receive(); // its buffer serves the next
    assert_true(got.len == 1 && got.local == 0 && got.tx_as_src == 0);
    assert_int_equal(got.room_before + 1 + got.room_after, BT_PKT_BUFFER);
    struct bt_addr here = udp_local(rig.a, 0);
    assert_true(bt_addr_eq(&got.dst, &here));
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(losses_are_counted_by_their_difference),
        WITH_RIG(a_datagram_came_when_the_kernel_says),
        WITH_RIG(hops_are_read),
        WITH_RIG(what_was_too_long_is_dropped_and_heard),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
