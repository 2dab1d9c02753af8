// SPDX-License-Identifier: Apache-2.0
// The link against the host everybody else has: the Linux kernel's own stack, over a TAP device. What one side
// sends the other must accept, checksums and all. Without root or TAP each test is skipped and says so.
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>

#include "wire/checksum.h"

static uint8_t filling[9000];

static void fill(void)
{
    for (size_t i = 0; i < sizeof filling; i++) {
        filling[i] = (uint8_t)(i * 7 + 3);
    }
}

// Kernel to link and back, for lengths around every edge of the checksum loop and the MTU.
static void exchange(const char *at, const char *to, unsigned longest)
{
    const unsigned lengths[] = {0, 1, 2, 7, 8, 9, 31, 100, 777, longest - 1, longest};
    uint8_t buf[2048];
    int fd = wire_socket(at);
    wire_connect(fd, to);
    wire.echo = true;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(send(fd, filling, lengths[i], 0), lengths[i]);
        assert_int_equal(wire_recv(fd, buf, sizeof buf), lengths[i]);
        assert_memory_equal(buf, filling, lengths[i]);
    }
    wire.echo = false;
    close(fd);
}

static void e3_e5_e7_e11_e17_udp4_both_ways(void **state)
{
    (void)state;
    wire_needed();
    wire_run("ip neigh flush dev tap0");
    exchange("10.55.0.1:5000", "10.55.0.2:7000", 1472);
    assert_true(wire_says("ip neigh show dev tap0", "10.55.0.2 lladdr 02:00:00:00:00:02"));
}

static void e4_e5_e7_e12_e17_udp6_both_ways(void **state)
{
    (void)state;
    wire_needed();
    exchange("[fd55::1]:5000", "[fd55::2]:7001", 1452);
    exchange("[fd66::1]:5001", "[fd55::2]:7001", 1452); // back by the gateway
    exchange("[::]:5002", "[fe80::ff:fe00:2]:7001", 1452);
}

// A packet to a host nobody has talked to waits for its MAC, in order, and then goes.
static void first_contact(const char *at, uint16_t local)
{
    int fd = wire_socket(at);
    char buf[64];
    for (int i = 0; i < 5; i++) {
        char text[8];
        snprintf(text, sizeof text, "n%d", i);
        wire_send(local, at, text, 2);
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(wire_recv(fd, buf, sizeof buf), 2);
        assert_int_equal(buf[1], '0' + i);
    }
    close(fd);
}

static void e13_e14_the_kernel_is_found(void **state)
{
    (void)state;
    wire_needed();
    wire_run("ip addr add 10.55.0.77/24 dev tap0 && ip -6 addr add fd55::77/64 dev tap0 nodad");
    uint64_t created = wire_counter(BT_LINK_NEIGH_CREATED);
    first_contact("10.55.0.77:5000", 0);
    first_contact("[fd55::77]:5000", 1);
    first_contact("10.66.0.1:5000", 0); // behind the gateway, which is known
    assert_int_equal(wire_counter(BT_LINK_NEIGH_CREATED), created + 2);
}

struct ping {
    int fd;
    uint8_t reply[2048];
    long n;
};

// The reply that belongs to sequence 9, whatever else the raw socket hears.
static bool ponged(void *arg)
{
    struct ping *p = arg;
    p->n = recv(p->fd, p->reply, sizeof p->reply, MSG_DONTWAIT);
    return p->n > 0;
}

static void ping4(unsigned size)
{
    struct sockaddr_storage sa;
    unsigned len;
    uint8_t out[2048] = {ICMP_ECHO, [4] = 0x12, 0x34, 0, 9};
    memcpy(out + 8, filling, size);
    bt_csum_store(out + 2, bt_csum_bytes(0, out, size + 8));
    struct ping p = {.fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_ICMP)};
    wire_sockaddr("10.55.0.2:1", &sa, &len);
    assert_int_equal(sendto(p.fd, out, size + 8, 0, (struct sockaddr *)&sa, len), size + 8);
    assert_true(wire_until(ponged, &p));
    assert_int_equal(p.n, 20 + 8 + (long)size);
    assert_int_equal(p.reply[20], ICMP_ECHOREPLY);
    assert_true(bt_csum_ok(bt_csum_bytes(0, p.reply + 20, size + 8)));
    assert_memory_equal(p.reply + 24, out + 4, size + 4);
    close(p.fd);
}

static void ping6(unsigned size)
{
    struct sockaddr_storage sa;
    unsigned len;
    uint8_t out[2048] = {ICMP6_ECHO_REQUEST, [4] = 0x12, 0x34, 0, 9}; // the kernel computes this checksum
    memcpy(out + 8, filling, size);
    struct ping p = {.fd = socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_ICMPV6)};
    struct icmp6_filter only;
    ICMP6_FILTER_SETBLOCKALL(&only);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &only);
    setsockopt(p.fd, IPPROTO_ICMPV6, ICMP6_FILTER, &only, sizeof only);
    wire_sockaddr("[fd55::2]:1", &sa, &len);
    ((struct sockaddr_in6 *)&sa)->sin6_port = 0;
    assert_int_equal(sendto(p.fd, out, size + 8, 0, (struct sockaddr *)&sa, len), size + 8);
    assert_true(wire_until(ponged, &p)); // a raw ICMPv6 socket is given nothing with a wrong checksum
    assert_int_equal(p.n, 8 + (long)size);
    assert_memory_equal(p.reply + 4, out + 4, size + 4);
    close(p.fd);
}

static void e9_ping(void **state)
{
    (void)state;
    wire_needed();
    const unsigned sizes[] = {0, 1, 56, 1001, 1452};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ping4(sizes[i]);
        ping6(sizes[i]);
    }
}

static void expect_event(const char *peer, uint16_t local, int error)
{
    struct bt_link_event e;
    struct bt_addr a;
    assert_int_equal(bt_addr_parse(peer, 0, &a), 0);
    assert_true(wire_event(&e));
    assert_true(bt_addr_eq(&e.peer, &a));
    assert_int_equal(e.local, local);
    assert_int_equal(e.error, error);
}

static void e10_the_kernel_refuses_a_port(void **state)
{
    (void)state;
    wire_needed();
    wire_send(0, "10.55.0.1:9", filling, 40);
    expect_event("10.55.0.1:9", 0, ECONNREFUSED);
    wire_send(1, "[fd55::1]:9", filling, 40);
    expect_event("[fd55::1]:9", 1, ECONNREFUSED);
    wire_send(0, "10.55.0.1:9", filling, 1400); // quoted in part only
    expect_event("10.55.0.1:9", 0, ECONNREFUSED);
}

static void e8_the_link_refuses_a_port(void **state)
{
    (void)state;
    wire_needed();
    const char *pairs[][2] = {{"10.55.0.1:5000", "10.55.0.2:9"}, {"[fd55::1]:5000", "[fd55::2]:9"}};
    for (int i = 0; i < 2; i++) {
        const unsigned lengths[] = {0, 40, 1400};
        char buf[8];
        int fd = wire_socket(pairs[i][0]);
        wire_connect(fd, pairs[i][1]);
        for (int k = 0; k < 3; k++) {
            assert_true(send(fd, filling, lengths[k], 0) >= 0);
            assert_int_equal(wire_recv(fd, buf, sizeof buf), -ECONNREFUSED);
        }
        close(fd);
    }
}

static void e10_a_shorter_path_is_told(void **state)
{
    (void)state;
    wire_needed();
    struct bt_link_event e;
    wire_run("ip neigh replace 10.66.0.9 lladdr 02:00:00:00:00:09 dev far0 && "
             "ip neigh replace fd66::9 lladdr 02:00:00:00:00:09 dev far0");
    wire_send(0, "10.66.0.9:5000", filling, 1400);
    assert_true(wire_event(&e));
    assert_int_equal(e.error, EMSGSIZE);
    assert_int_equal(e.mtu, 1300);
    wire_send(1, "[fd66::9]:5000", filling, 1400);
    assert_true(wire_event(&e));
    assert_int_equal(e.error, EMSGSIZE);
    assert_int_equal(e.mtu, 1300);
    assert_int_equal(e.peer.port, 5000);
}

static void e10_the_kernel_has_no_route(void **state)
{
    (void)state;
    wire_needed();
    wire_send(0, "10.99.0.9:5000", filling, 10);
    expect_event("10.99.0.9:5000", 0, ENETUNREACH);
    wire_send(1, "[fd99::9]:5000", filling, 10);
    expect_event("[fd99::9]:5000", 1, ENETUNREACH);
}

static void e14_nobody_answers(void **state)
{
    (void)state;
    wire_needed();
    wire_send(0, "10.55.0.99:5000", filling, 10);
    expect_event("10.55.0.99:5000", 0, EHOSTUNREACH);
    wire_send(1, "[fd55::99]:5000", filling, 10);
    expect_event("[fd55::99]:5000", 1, EHOSTUNREACH);
}

static bool gratuitous_heard(void *before)
{
    return wire_counter(BT_LINK_NEIGH_CHANGED) > *(uint64_t *)before;
}

static void speak_to(const char *at, uint16_t local)
{
    int fd = wire_socket(at);
    char buf[8];
    wire_send(local, at, "hi", 2);
    assert_int_equal(wire_recv(fd, buf, sizeof buf), 2);
    close(fd);
}

static void e11_e13_another_mac_announced(void **state)
{
    (void)state;
    wire_needed();
    speak_to("10.55.0.1:5000", 0);
    uint64_t before = wire_counter(BT_LINK_NEIGH_CHANGED);
    wire_run("echo 1 >/proc/sys/net/ipv4/conf/tap0/arp_notify && ip link set tap0 address 02:00:00:00:00:a1");
    assert_true(wire_until(gratuitous_heard, &before));
    wire_run("echo 0 >/proc/sys/net/ipv4/conf/tap0/arp_notify");
    speak_to("10.55.0.1:5000", 0);
}

// Speaks until it is heard: an entry in use is probed, given up and asked for anew.
static void speak_until_heard(const char *at, uint16_t local)
{
    int fd = wire_socket(at);
    char buf[8];
    long got = -1;
    for (int i = 0; i < 60 && got < 0; i++) {
        wire_send(local, at, "hi", 2);
        wire_for(50);
        got = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
    }
    assert_int_equal(got, 2);
    close(fd);
}

static void e13_another_mac_found_out(void **state)
{
    (void)state;
    wire_needed();
    speak_until_heard("10.55.0.1:5000", 0);
    speak_until_heard("[fd55::1]:5000", 1);
    uint64_t failed = wire_counter(BT_LINK_NEIGH_FAILED);
    wire_run("ip link set tap0 address 02:00:00:00:00:a2");
    speak_until_heard("10.55.0.1:5000", 0);
    speak_until_heard("[fd55::1]:5000", 1);
    assert_true(wire_counter(BT_LINK_NEIGH_FAILED) > failed);
}

static void e13_an_entry_in_use_never_makes_a_packet_wait(void **state)
{
    (void)state;
    wire_needed();
    speak_to("10.55.0.1:5000", 0);
    uint64_t created = wire_counter(BT_LINK_NEIGH_CREATED), probes = wire_counter(BT_LINK_NEIGH_PROBES);
    int fd = wire_socket("10.55.0.1:5000");
    char buf[8];
    for (int i = 0; i < 30; i++) { // three times as long as an answer is good for
        wire_send(0, "10.55.0.1:5000", "hi", 2);
        assert_int_equal(recv(fd, buf, sizeof buf, 0), 2); // it left within tx
        wire_for(40);
    }
    assert_int_equal(wire_counter(BT_LINK_NEIGH_CREATED), created);
    assert_true(wire_counter(BT_LINK_NEIGH_PROBES) > probes);
    close(fd);
}

static void e12_e19_the_kernel_may_not_take_our_address(void **state)
{
    (void)state;
    wire_needed();
    wire_run("ip -6 addr add fd55::2/64 dev tap0");
    for (int i = 0; i < 60 && !wire_says("ip -6 addr show dev tap0", "dadfailed"); i++) {
        wire_for(50);
    }
    assert_true(wire_says("ip -6 addr show dev tap0", "dadfailed"));
    wire_run("ip -6 addr del fd55::2/64 dev tap0");
}

static void e17_somebody_elses_source(void **state)
{
    (void)state;
    wire_needed();
    wire_run("echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/tap0/rp_filter");
    int fd = wire_socket("10.55.0.1:5000"), on = 1;
    setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    wire_send_as("10.55.0.50:1234", 17, "10.55.0.1:5000", "hello", 5);
    char buf[64], control[256];
    struct sockaddr_in from;
    struct iovec iov = {.iov_base = buf, .iov_len = sizeof buf};
    struct msghdr h = {.msg_name = &from,
                       .msg_namelen = sizeof from,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    wire_for(20);
    assert_int_equal(recvmsg(fd, &h, 0), 5);
    assert_int_equal(ntohl(from.sin_addr.s_addr), 0x0a370032);
    assert_int_equal(ntohs(from.sin_port), 1234);
    assert_int_equal(*(int *)(void *)CMSG_DATA(CMSG_FIRSTHDR(&h)), 16);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e3_e5_e7_e11_e17_udp4_both_ways),
        cmocka_unit_test(e4_e5_e7_e12_e17_udp6_both_ways),
        cmocka_unit_test(e13_e14_the_kernel_is_found),
        cmocka_unit_test(e9_ping),
        cmocka_unit_test(e10_the_kernel_refuses_a_port),
        cmocka_unit_test(e8_the_link_refuses_a_port),
        cmocka_unit_test(e10_a_shorter_path_is_told),
        cmocka_unit_test(e10_the_kernel_has_no_route),
        cmocka_unit_test(e14_nobody_answers),
        cmocka_unit_test(e11_e13_another_mac_announced),
        cmocka_unit_test(e13_another_mac_found_out),
        cmocka_unit_test(e13_an_entry_in_use_never_makes_a_packet_wait),
        cmocka_unit_test(e12_e19_the_kernel_may_not_take_our_address),
        cmocka_unit_test(e17_somebody_elses_source),
    };
    fill();
    return cmocka_run_group_tests(tests, wire_open, wire_close);
}
