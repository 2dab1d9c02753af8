// SPDX-License-Identifier: Apache-2.0
// Which descriptors are the sockets of a port, and what a thread that sleeps on them watches. The linker puts ours in
// front of the kernel's word on what a descriptor is (--wrap).
#include "unit.h"

#include "io/dpdk_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { XDP = 44, MOST = 1100 };

static int domain_of[MOST]; // 0: no socket

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len);

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    assert_true(level == SOL_SOCKET && option == SO_DOMAIN && *len == sizeof(int) && fd >= 0 && fd < MOST);
    memcpy(value, &domain_of[fd], sizeof(int));
    errno = ENOTSOCK;
    return domain_of[fd] != 0 ? 0 : -1;
}

// The sockets of drivers that came in between, if they are as many as the queues.
static void those_that_came_are_the_ports(void **state)
{
    static const struct {
        int there[3], came[5], domain;
        uint16_t queues;
        unsigned n;
    } rows[] = {
        {{3, 63}, {64}, AF_PACKET, 1, 1},     {{3, 63}, {4, 127}, XDP, 2, 2},
        {{64, 65}, {0}, AF_PACKET, 1, 1},  // also the first descriptor there is
        {{3}, {1023}, AF_PACKET, 1, 1},    // and the last that is looked at
        {{3}, {1024}, AF_PACKET, 1, 0},    // beyond, nobody looks
        {{3}, {4}, AF_PACKET, 2, 0},       // too few
        {{3}, {4, 5, 6}, AF_PACKET, 2, 0}, // too many: whose are they?
        {{3}, {4, 5, 6, 9}, AF_PACKET, 2, 0}, {{3}, {4}, AF_INET, 1, 0},
        {{3}, {-1}, AF_PACKET, 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_dpdk_descriptors before;
        struct bt_dpdk_device dev = {.n_queues = rows[i].queues};
        memset(&before, 0xff, sizeof before);
        memset(domain_of, 0, sizeof domain_of);
        for (unsigned k = 0; k < 3; k++) {
            domain_of[rows[i].there[k]] = rows[i].there[k] != 0 ? AF_PACKET : 0;
        }
        bt_dpdk_sockets_before(&before);
        for (unsigned k = 0; k < 5 && (k == 0 || rows[i].came[k] != 0) && rows[i].came[k] >= 0; k++) {
            domain_of[rows[i].came[k]] = rows[i].domain;
        }
        bt_dpdk_sockets_after(&dev, &before);
        assert_int_equal(dev.n_sockets, rows[i].n);
        for (unsigned k = 0; k < rows[i].n; k++) {
            assert_int_equal(dev.socket[k], rows[i].came[k]);
        }
    }
}

// As many as there can be, and one more than there is room for.
static void sixteen_queues_are_the_most(void **state)
{
    (void)state;
    for (unsigned n = BT_DPDK_MAX_QUEUES; n <= BT_DPDK_MAX_QUEUES + 1; n++) {
        struct bt_dpdk_descriptors before;
        struct bt_dpdk_device dev = {.n_queues = BT_DPDK_MAX_QUEUES};
        memset(domain_of, 0, sizeof domain_of);
        bt_dpdk_sockets_before(&before);
        for (unsigned i = 0; i < n; i++) {
            domain_of[100 + i] = XDP;
        }
        bt_dpdk_sockets_after(&dev, &before);
        assert_int_equal(dev.n_sockets, n == BT_DPDK_MAX_QUEUES ? n : 0);
        assert_int_equal(dev.socket[BT_DPDK_MAX_QUEUES - 1], 100 + BT_DPDK_MAX_QUEUES - 1);
    }
}

// The bell and the sockets; the bell alone for a thread that polls no queue; nothing where there is no room for all, or
// no socket.
static void a_thread_watches_its_bell_and_the_sockets(void **state)
{
    static const struct {
        unsigned sockets, queues, room, n;
    } rows[] = {{2, 2, 3, 3}, {2, 2, 16, 3}, {2, 2, 2, 0}, {2, 0, 1, 1}, {2, 0, 0, 0}, {0, 2, 9, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_dpdk_device dev = {.n_sockets = rows[i].sockets, .socket = {31, 32}};
        struct bt_dpdk d = {.dev = &dev, .n_rx = rows[i].queues, .bell = {.fd = 30}};
        int fds[16] = {0};
        atomic_init(&d.bell.asleep, false);
        assert_int_equal(bt_dpdk_watch(&d.io, fds, rows[i].room), rows[i].n);
        assert_int_equal(atomic_load(&d.bell.asleep), rows[i].n != 0); // from now on it is rung each time
        for (unsigned k = 0; k < 16; k++) {
            assert_int_equal(fds[k], k < rows[i].n ? 30 + (int)k : 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_came_are_the_ports),
        cmocka_unit_test(sixteen_queues_are_the_most),
        cmocka_unit_test(a_thread_watches_its_bell_and_the_sockets),
    };
    return cmocka_run_group_tests_name("sockets", tests, NULL, NULL);
}
