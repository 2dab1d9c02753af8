// SPDX-License-Identifier: Apache-2.0
// The UDP driver's ports: how their sockets are set up, groups they are members of, what is said when one cannot be
// opened, and what becomes of ICMP errors beyond those that are kept.
#include "descriptors.h"
#include "udp_bed.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static bool have_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)(void *)&sa, sizeof sa) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return have;
}

/* --- options ----------------------------------------------------------------------------------------------------- */

// What this kernel makes of so many bytes asked for, with or without the right to ask for more than it gives anybody.
static int granted(int forced, int name, int bytes)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0) {
        assert_int_equal(setsockopt(fd, SOL_SOCKET, name, &bytes, sizeof bytes), 0);
    }
    int got = option_of(fd, SOL_SOCKET, name);
    close(fd);
    return got;
}

static void check_options(const char *ip, bool report, unsigned rcvbuf, unsigned sndbuf)
{
    struct rig r;
    struct bt_addr local;
    char err[256];
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    assert_int_equal(bt_addr_parse(ip, 1, &local), 0);
    local.port = 0;
    struct bt_udp_config cfg = {.locals = &local,
                                .n_locals = 1,
                                .pool = r.pool,
                                .rcvbuf_bytes = rcvbuf,
                                .sndbuf_bytes = sndbuf,
                                .report_unreachable = report};
    struct bt_io *io = bt_udp_open(&cfg, err, sizeof err);
    assert_non_null(io);
    int fd = ((struct bt_udp *)io)->ports[0].fd;
    assert_int_equal(option_of(fd, SOL_SOCKET, SO_RXQ_OVFL), 1);
    assert_int_equal(option_of(fd, SOL_SOCKET, SO_RCVBUF),
                     granted(SO_RCVBUFFORCE, SO_RCVBUF, rcvbuf != 0 ? (int)rcvbuf : 4 << 20));
    assert_int_equal(option_of(fd, SOL_SOCKET, SO_SNDBUF),
                     granted(SO_SNDBUFFORCE, SO_SNDBUF, sndbuf != 0 ? (int)sndbuf : 1 << 20));
    if (bt_addr_is_v4(&local)) {
        assert_int_equal(option_of(fd, SOL_IP, IP_RECVERR), report);
        assert_int_equal(option_of(fd, SOL_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DO);
    } else {
        assert_int_equal(option_of(fd, SOL_IPV6, IPV6_RECVERR), report);
        assert_int_equal(option_of(fd, SOL_IPV6, IPV6_MTU_DISCOVER), IPV6_PMTUDISC_DO);
        assert_int_equal(option_of(fd, SOL_IPV6, IPV6_V6ONLY), 1);
    }
    io->ops->close(io);
    rig_close(&r);
}

// R-13 among them: no datagram is cut apart on its way.
static void ports_are_set_up(void **state)
{
    (void)state;
    check_options("127.0.0.1", true, 0, 0);
    check_options("127.0.0.1", false, 65536, 32768);
}

static void ipv6_ports_are_set_up(void **state)
{
    (void)state;
    if (!have_ipv6()) {
        skip();
    }
    check_options("[::1]", true, 0, 0);
    check_options("[::]", false, 65536, 32768); // where it would be IPv4's as well
}

// The sockets for headers as they are given, and what tells how many hops a packet has left.
static void check_transparent(const char *ip, unsigned v6)
{
    struct rig r;
    char err[256];
    rig_open(&r, 64, ip, BT_IDLE_BLOCK);
    const struct bt_udp *u = (const struct bt_udp *)r.a;
    assert_true(u->raw_fd[0] < 0 && u->raw_fd[1] < 0);
    if (bt_udp_allow_transparent(r.a, err, sizeof err) != 0) {
        assert_non_null(strstr(err, "CAP_NET_RAW"));
        rig_close(&r);
        skip();
    }
    int raw = u->raw_fd[v6], bytes = 1 << 20;
    assert_true(raw >= 0 && u->raw_fd[1 - v6] < 0);
    int like = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(like, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    assert_int_equal(option_of(raw, SOL_SOCKET, SO_SNDBUF), option_of(like, SOL_SOCKET, SO_SNDBUF));
    close(like);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(v6 ? option_of(u->ports[i].fd, SOL_IPV6, IPV6_RECVHOPLIMIT)
                            : option_of(u->ports[i].fd, SOL_IP, IP_RECVTTL),
                         1);
    }
    assert_int_equal(bt_udp_allow_transparent(r.a, err, sizeof err), 0);
    assert_int_equal(u->raw_fd[v6], raw);
    rig_close(&r);
}

static void transparent_ports(void **state)
{
    (void)state;
    check_transparent("127.0.0.1", 0);
}

static void transparent_ipv6_ports(void **state)
{
    (void)state;
    if (!have_ipv6()) {
        skip();
    }
    check_transparent("[::1]", 1);
}

/* --- multicast --------------------------------------------------------------------------------------------------- */

static struct bt_io *open_member(struct rig *r, const struct bt_addr *own, const struct bt_addr *group)
{
    char err[256];
    const struct bt_addr locals[] = {*own, *group};
    struct bt_udp_config cfg = {.locals = locals, .n_locals = 2, .pool = r->pool, .multicast_via = own};
    struct bt_io *io = bt_udp_open(&cfg, err, sizeof err);
    if (io == NULL) {
        fail_msg("%s", err);
    }
    return io;
}

// Two members on one host have the same port; each gets what the other, or a third, sends to the group.
static void group_of(const char *own_text, const char *group_text)
{
    struct rig r;
    struct bt_txq q;
    struct bt_addr own, group;
    struct bt_pkt *p;
    rig_open(&r, 512, own_text, BT_IDLE_BLOCK);
    assert_int_equal(bt_addr_parse(own_text, 1, &own), 0);
    assert_int_equal(bt_addr_parse(group_text, 1, &group), 0);
    own.port = group.port = 0;
    struct bt_io *one = open_member(&r, &own, &group);
    group.port = udp_local(one, 1).port;
    assert_int_not_equal(group.port, 0);
    struct bt_io *two = open_member(&r, &own, &group);
    bt_txq_init(&q);
    udp_queue(&r, &q, 0, group, "all", 3);
    bt_io_tx(one, &q);
    assert_int_equal(udp_counter(one, BT_UDP_TX_PACKETS), 1);
    struct bt_io *members[] = {one, two};
    struct bt_addr from = udp_local(one, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(udp_receive(members[i], BT_IO_ANY, &p, 1), 1);
        assert_int_equal(p->local, 1);
        assert_int_equal(p->len, 3);
        assert_true(bt_addr_eq(&p->src, &from));
        assert_true(bt_addr_eq(&p->dst, &group));
        bt_pool_put(r.pool, p);
    }
    one->ops->close(one);
    two->ops->close(two);
    rig_close(&r);
}

static void members_of_a_group(void **state)
{
    (void)state;
    group_of("127.0.0.1", "239.192.7.9");
}

// Where the loopback device has no route for groups nothing can be sent to one, but its members are known by it.
static void members_of_a_group_ipv6(void **state)
{
    struct rig r;
    struct bt_addr own, group;
    char line[256], device[32] = "", address[40] = "";
    int joined = 0;
    (void)state;
    if (!have_ipv6()) {
        skip();
    }
    rig_open(&r, 64, "[::1]", BT_IDLE_BLOCK);
    assert_int_equal(bt_addr_parse("[::1]", 1, &own), 0);
    assert_int_equal(bt_addr_parse("[ff15::709]", 1, &group), 0);
    own.port = group.port = 0;
    struct bt_io *one = open_member(&r, &own, &group);
    FILE *known = fopen("/proc/net/igmp6", "r");
    assert_non_null(known);
    while (fgets(line, sizeof line, known) != NULL) {
        joined += sscanf(line, "%*d %31s %39s", device, address) == 2 && strcmp(device, "lo") == 0 &&
                  strcmp(address, "ff150000000000000000000000000709") == 0;
    }
    fclose(known);
    assert_int_equal(joined, 1);
    one->ops->close(one);
    rig_close(&r);
}

static void a_group_needs_an_interface(void **state)
{
    struct rig r;
    char err[256];
    struct bt_addr locals[] = {bt_addr_v4u(0x7f000001, 0), bt_addr_v4u(0xefc00709, 0)};
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_udp_config cfg = {.locals = locals, .n_locals = 2, .pool = r.pool};
    assert_null(bt_udp_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "239.192.7.9"));
    assert_non_null(strstr(err, strerror(EINVAL)));
    cfg.n_locals = 1;
    struct bt_io *io = bt_udp_open(&cfg, err, sizeof err);
    assert_non_null(io);
    io->ops->close(io);
    rig_close(&r);
}

/* --- what cannot be opened --------------------------------------------------------------------------------------- */

static void one_to_1024_ports(void **state)
{
    static struct bt_addr locals[BT_UDP_MAX_LOCALS + 1];
    struct rig r;
    char err[256];
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_udp_config cfg = {.locals = locals, .n_locals = 0, .pool = r.pool};
    assert_null(bt_udp_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "got 0"));
    cfg.n_locals = BT_UDP_MAX_LOCALS + 1;
    assert_null(bt_udp_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "got 1025"));
    rig_close(&r);
}

// The limit of open files is met by the event loop's own, by the first socket, by the second one; all is closed again.
static void too_many_open_files(void **state)
{
    struct rig r;
    char err[256];
    struct rlimit limit, few;
    struct bt_addr locals[] = {bt_addr_v4u(0x7f000001, 0), bt_addr_v4u(0x7f000001, 0)};
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_udp_config cfg = {.locals = locals, .n_locals = 2, .pool = r.pool};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    int before = descriptors();
    for (int room = 0; room < 5; room++) {
        few = (struct rlimit){.rlim_cur = (rlim_t)(next + room), .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        assert_null(bt_udp_open(&cfg, err, sizeof err));
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_non_null(strstr(err, room < 3 ? "cannot set up the event loop" : "cannot bind UDP 127.0.0.1"));
        assert_non_null(strstr(err, "ulimit -n"));
        assert_int_equal(descriptors(), before);
    }
    struct bt_io *io = bt_udp_open(&cfg, err, sizeof err);
    assert_non_null(io);
    io->ops->close(io);
    assert_int_equal(descriptors(), before);
    rig_close(&r);
}

/* --- ports, seen from outside ------------------------------------------------------------------------------------ */

static void ports_that_are_watched(void **state)
{
    struct rig r;
    int fds[3] = {-1, -1, -1};
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    const struct bt_udp *u = (const struct bt_udp *)r.a;
    assert_int_equal(r.a->ops->watch(r.a, fds, 1), 2); // so many there are, whatever there is room for
    assert_int_equal(fds[0], u->ports[0].fd);
    assert_int_equal(fds[1], -1);
    assert_int_equal(r.a->ops->watch(r.a, fds, 3), 2);
    assert_int_equal(fds[1], u->ports[1].fd);
    assert_int_equal(fds[2], -1);
    assert_true(u->ports[0].readable && u->ports[1].readable);
    const struct bt_addr none = udp_local(r.a, 2);
    assert_int_equal(none.port, 0);
    assert_true(bt_addr_eq(&none, &(struct bt_addr){0}));
    rig_close(&r);
}

static void await_readable(const struct bt_io *io, uint32_t port)
{
    struct pollfd p = {.fd = ((const struct bt_udp *)io)->ports[port].fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
}

// A timer that was not waited for fires, and a packet comes after it: one wait hears of both.
static void a_timer_and_a_packet_at_once(void **state)
{
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *p;
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    for (unsigned turn = 0; turn < 2; turn++) {
        udp_queue(&r, &q, 0, udp_local(r.a, 0), "x", 1);
        bt_io_tx(r.b, &q);
        await_readable(r.a, 0);
        if (turn == 0) {
            do { // ended by the packet; the timer is still to come, if it was not late already
                bt_io_wait(r.a, bt_io_now(r.a) + 20 * MS);
            } while (((const struct bt_udp *)r.a)->armed_ns == BT_IO_FOREVER);
            struct pollfd timer = {.fd = ((const struct bt_udp *)r.a)->timer_fd, .events = POLLIN};
            assert_int_equal(poll(&timer, 1, 60000), 1);
        } else {
            bt_io_wait(r.a, BT_IO_FOREVER);
            assert_true(((const struct bt_udp *)r.a)->armed_ns == BT_IO_FOREVER);
        }
        assert_int_equal(bt_io_rx(r.a, 0, &p, 1), 1);
        bt_pool_put(r.pool, p);
    }
    rig_close(&r);
}

static void errors_are_handed_out_in_order(void **state)
{
    struct rig r;
    struct bt_io_event ev[4];
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_udp *u = (struct bt_udp *)r.a;
    for (uint16_t i = 0; i < 3; i++) {
        u->events[u->n_events++] = (struct bt_io_event){.local = i, .error = i + 10};
    }
    assert_int_equal(r.a->ops->events(r.a, ev, 0), 0);
    assert_int_equal(r.a->ops->events(r.a, ev, 1), 1);
    assert_int_equal(ev[0].error, 10);
    assert_int_equal(r.a->ops->events(r.a, ev, 4), 2);
    assert_int_equal(ev[0].error, 11);
    assert_int_equal(ev[1].error, 12);
    assert_int_equal(r.a->ops->events(r.a, ev, 4), 0);
    rig_close(&r);
}

// Where there is no room for an error it is counted all the same.
static void errors_beyond_those_kept_are_counted(void **state)
{
    struct rig r;
    struct bt_txq q;
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_udp *u = (struct bt_udp *)r.a;
    u->n_events = BT_UDP_EVENTS - 1;
    bt_txq_init(&q);
    for (unsigned i = 1; i <= 2; i++) {
        udp_queue(&r, &q, 1, bt_addr_v4u(0x7f000001, 1), "anyone?", 7); // tcpmux: nobody listens on UDP port 1
        bt_io_tx(r.a, &q);
        uint64_t until = bt_io_now(r.a) + 60000 * MS;
        while (udp_counter(r.a, BT_UDP_UNREACHABLE) < i && bt_io_now(r.a) < until) {
            bt_io_wait(r.a, until);
        }
        assert_int_equal(udp_counter(r.a, BT_UDP_UNREACHABLE), i);
        assert_int_equal(u->n_events, BT_UDP_EVENTS);
        assert_int_equal(u->events[BT_UDP_EVENTS - 1].error, ECONNREFUSED);
        assert_int_equal(u->events[BT_UDP_EVENTS - 1].local, 1);
    }
    rig_close(&r);
}

// What docs/reference/metrics.md calls each of them.
static void counters_stand_under_their_names(void **state)
{
    static const char *const names[BT_UDP_COUNTERS][2] = {
        [BT_UDP_RX_PACKETS] = {"io_rx_packets_total", NULL},
        [BT_UDP_TX_PACKETS] = {"io_tx_packets_total", NULL},
        [BT_UDP_RX_KERNEL_DROPS] = {"io_rx_dropped_total", "kernel"},
        [BT_UDP_RX_TRUNCATED] = {"io_rx_dropped_total", "too_long"},
        [BT_UDP_RX_NO_BUFFER] = {"io_rx_dropped_total", "no_buffer"},
        [BT_UDP_RX_ERRORS] = {"io_rx_dropped_total", "error"},
        [BT_UDP_TX_TOO_LONG] = {"io_tx_dropped_total", "too_long"},
        [BT_UDP_TX_UNREACHABLE] = {"io_tx_dropped_total", "unreachable"},
        [BT_UDP_TX_NO_SPACE] = {"io_tx_dropped_total", "no_space"},
        [BT_UDP_TX_BAD_ADDRESS] = {"io_tx_dropped_total", "bad_address"},
        [BT_UDP_TX_NO_RAW] = {"io_tx_dropped_total", "no_raw_socket"},
        [BT_UDP_TX_TTL] = {"io_tx_dropped_total", "ttl"},
        [BT_UDP_TX_ERRORS] = {"io_tx_dropped_total", "error"},
        [BT_UDP_UNREACHABLE] = {"io_unreachable_total", NULL},
        [BT_UDP_WAKEUPS] = {"io_wakeups_total", NULL},
    };
    struct rig r;
    const struct bt_counter_desc *desc;
    unsigned n;
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    (void)r.a->ops->counters(r.a, &desc, &n);
    assert_int_equal(n, BT_UDP_COUNTERS);
    for (unsigned i = 0; i < n; i++) {
        assert_string_equal(desc[i].name, names[i][0]);
        if (names[i][1] != NULL) {
            assert_string_equal(desc[i].label, "reason");
            assert_string_equal(desc[i].value, names[i][1]);
        } else {
            assert_null(desc[i].label);
            assert_null(desc[i].value);
        }
    }
    rig_close(&r);
}

static void wakeups_are_counted(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_SPIN);
    for (unsigned i = 1; i <= 3; i++) {
        bt_io_wait(r.a, BT_IO_FOREVER); // looks and returns
        assert_int_equal(udp_counter(r.a, BT_UDP_WAKEUPS), i);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_are_set_up),
        cmocka_unit_test(ipv6_ports_are_set_up),
        cmocka_unit_test(transparent_ports),
        cmocka_unit_test(transparent_ipv6_ports),
        cmocka_unit_test(members_of_a_group),
        cmocka_unit_test(members_of_a_group_ipv6),
        cmocka_unit_test(a_group_needs_an_interface),
        cmocka_unit_test(one_to_1024_ports),
        cmocka_unit_test(too_many_open_files),
        cmocka_unit_test(ports_that_are_watched),
        cmocka_unit_test(a_timer_and_a_packet_at_once),
        cmocka_unit_test(errors_are_handed_out_in_order),
        cmocka_unit_test(errors_beyond_those_kept_are_counted),
        cmocka_unit_test(counters_stand_under_their_names),
        cmocka_unit_test(wakeups_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
