// SPDX-License-Identifier: Apache-2.0
// The MTU that is read, in a network namespace whose interfaces and routes have chosen ones.
// Needs the right to make such a namespace; without it those tests are skipped by name.
#include "unit.h"

#include "io/mtu.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *no_namespace; // why there is none

static struct bt_addr address(const char *text)
{
    struct bt_addr a;
    assert_int_equal(bt_addr_parse(text, 9, &a), 0);
    return a;
}

static unsigned of(const char *local)
{
    struct bt_addr a = address(local);
    return bt_mtu_of(&a);
}

static unsigned toward(const char *local, const char *target)
{
    struct bt_addr a = address(local);
    struct bt_addr b = address(target);
    return bt_mtu_toward(&a, &b);
}

static bool run(const char *command)
{
    return system(command) == 0; // NOLINT: fixed commands of this file
}

static void set_mtu(const char *name, int mtu)
{
    struct ifreq r = {.ifr_mtu = mtu};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    strncpy(r.ifr_name, name, sizeof r.ifr_name - 1);
    assert_int_equal(ioctl(fd, SIOCSIFMTU, &r), 0);
    close(fd);
}

// eth0 10.7.0.2/24 with MTU 1400 and the default route, net1 10.8.0.2/24 with 1300.
static int make_network(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNET) != 0) {
        no_namespace = strerror(errno);
        return 0;
    }
    if (!run("exec 2>/dev/null; ip link set lo up && ip link add eth0 type veth peer name far0 && "
             "ip link add net1 type veth peer name far1 && ip link set eth0 mtu 1400 up && ip link set far0 up && "
             "ip link set net1 mtu 1300 up && ip link set far1 up && ip addr add 10.7.0.2/24 dev eth0 && "
             "ip addr add 10.8.0.2/24 dev net1 && ip route add default via 10.7.0.1")) {
        no_namespace = "ip(8) cannot make a pair of interfaces";
    }
    return 0;
}

static void need_network(void)
{
    if (no_namespace != NULL) {
        print_message("skipped: a network namespace of its own is needed: %s\n", no_namespace);
        skip();
    }
}

static void r13_loopback_counts_as_1500(void **state)
{
    (void)state;
    assert_int_equal(of("127.0.0.1"), 1500);
    assert_int_equal(of("127.45.6.7"), 1500);
    assert_int_equal(toward("0.0.0.0", "127.0.0.1"), 1500);
}

static void r13_unknown_addresses_count_as_1500(void **state)
{
    (void)state;
    assert_int_equal(of("192.0.2.77"), 1500);
    assert_int_equal(of("2001:db8::77"), 1500);
    assert_int_equal(toward("192.0.2.77", "127.0.0.1"), 1500); // cannot be bound
}

static void r13_a_server_takes_the_mtu_of_its_interface(void **state)
{
    (void)state;
    need_network();
    assert_int_equal(of("10.7.0.2"), 1400);
    assert_int_equal(of("10.8.0.2"), 1300);
    assert_int_equal(of("0.0.0.0"), 1400); // by the default route
    set_mtu("lo", 1234);
    assert_int_equal(of("127.0.0.1"), 1234);
    assert_int_equal(of("127.200.1.2"), 1234); // all of 127.0.0.0/8
    set_mtu("lo", 65536);
}

static void r13_a_client_takes_the_mtu_of_its_route(void **state)
{
    (void)state;
    need_network();
    assert_int_equal(toward("0.0.0.0", "10.7.0.9"), 1400);
    assert_int_equal(toward("0.0.0.0", "10.8.0.9"), 1300);
    assert_int_equal(toward("10.8.0.2", "10.8.0.9"), 1300);
    // Its own address is reached over loopback, whose MTU says nothing about the other pods.
    assert_int_equal(toward("0.0.0.0", "10.7.0.2"), 1400);
    assert_true(run("ip route add 10.9.0.0/16 via 10.7.0.1 mtu 1350"));
    assert_int_equal(toward("0.0.0.0", "10.9.1.1"), 1350);
    assert_int_equal(toward("0.0.0.0", "10.7.0.9"), 1400);
}

static void r13_a_default_route_may_take_less_than_its_interface(void **state)
{
    (void)state;
    need_network();
    assert_true(run("ip route change default via 10.7.0.1 mtu 1376"));
    assert_int_equal(of("10.7.0.2"), 1376);
    assert_int_equal(of("10.8.0.2"), 1300); // not its route
    assert_true(run("ip route change default via 10.7.0.1 mtu 900"));
    assert_int_equal(of("10.8.0.2"), 1300);
    assert_true(run("ip route change default via 10.7.0.1"));
    assert_int_equal(of("10.7.0.2"), 1400);
}

static void r13_ipv6_alike(void **state)
{
    (void)state;
    need_network();
    if (!run("ip -6 addr add fd00:7::2/64 dev eth0 nodad 2>/dev/null")) {
        print_message("skipped: no IPv6 here\n");
        skip();
    }
    assert_int_equal(of("fd00:7::2"), 1400);
    assert_int_equal(toward("::", "fd00:7::9"), 1400);
    assert_true(run("ip -6 route add default via fd00:7::1 mtu 1320"));
    assert_int_equal(of("fd00:7::2"), 1320);
    assert_int_equal(toward("::", "2001:db8::5"), 1320);
    assert_int_equal(of("::"), 1320);
}

static void r13_results_are_kept_in_bounds(void **state)
{
    (void)state;
    need_network();
    set_mtu("eth0", 300);
    assert_int_equal(of("10.7.0.2"), 576);
    set_mtu("eth0", 9000);
    assert_int_equal(of("10.7.0.2"), 1500);
    assert_int_equal(toward("0.0.0.0", "10.7.0.9"), 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r13_loopback_counts_as_1500),
        cmocka_unit_test(r13_unknown_addresses_count_as_1500),
        cmocka_unit_test(r13_a_server_takes_the_mtu_of_its_interface),
        cmocka_unit_test(r13_a_client_takes_the_mtu_of_its_route),
        cmocka_unit_test(r13_a_default_route_may_take_less_than_its_interface),
        cmocka_unit_test(r13_ipv6_alike),
        cmocka_unit_test(r13_results_are_kept_in_bounds),
    };
    return cmocka_run_group_tests(tests, make_network, NULL);
}
