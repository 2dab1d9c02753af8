// SPDX-License-Identifier: Apache-2.0
// Opening, waiting and closing of the UDP driver. One epoll set watches all ports, a timerfd
// (which, unlike an epoll timeout, is not rounded up by the kernel's timer slack) and an eventfd
// by which other threads wake the loop.
#include "io/udp.h"

#include "io/mtu.h"
#include "io/udp_internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { TAG_TIMER = 0x10000, TAG_WAKE = 0x10001 };

#define DEFAULT_RCVBUF (4u << 20)
#define DEFAULT_SNDBUF (1u << 20)
// Arming a timer for less than this costs more than looking again.
#define MIN_SLEEP_NS 2000u

static const struct bt_counter_desc udp_counter_descs[BT_UDP_COUNTERS] = {
    [BT_UDP_RX_PACKETS] = {"io_rx_packets_total", NULL, NULL},
    [BT_UDP_TX_PACKETS] = {"io_tx_packets_total", NULL, NULL},
    [BT_UDP_RX_KERNEL_DROPS] = {"io_rx_dropped_total", "reason", "kernel"},
    [BT_UDP_RX_TRUNCATED] = {"io_rx_dropped_total", "reason", "too_long"},
    [BT_UDP_RX_NO_BUFFER] = {"io_rx_dropped_total", "reason", "no_buffer"},
    [BT_UDP_RX_ERRORS] = {"io_rx_dropped_total", "reason", "error"},
    [BT_UDP_TX_TOO_LONG] = {"io_tx_dropped_total", "reason", "too_long"},
    [BT_UDP_TX_UNREACHABLE] = {"io_tx_dropped_total", "reason", "unreachable"},
    [BT_UDP_TX_NO_SPACE] = {"io_tx_dropped_total", "reason", "no_space"},
    [BT_UDP_TX_BAD_ADDRESS] = {"io_tx_dropped_total", "reason", "bad_address"},
    [BT_UDP_TX_NO_RAW] = {"io_tx_dropped_total", "reason", "no_raw_socket"},
    [BT_UDP_TX_TTL] = {"io_tx_dropped_total", "reason", "ttl"},
    [BT_UDP_TX_ERRORS] = {"io_tx_dropped_total", "reason", "error"},
    [BT_UDP_UNREACHABLE] = {"io_unreachable_total", NULL, NULL},
    [BT_UDP_WAKEUPS] = {"io_wakeups_total", NULL, NULL},
};

uint64_t bt_udp_now(struct bt_io *io)
{
    (void)io;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void arm(struct bt_udp *u, uint64_t until_ns)
{
    struct itimerspec t = {
        .it_value = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)}};
    timerfd_settime(u->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
    u->armed_ns = until_ns;
}

static bool anything_ready(const struct bt_udp *u)
{
    for (unsigned i = 0; i < u->n_ports; i++) {
        if (u->ports[i].readable) {
            return true;
        }
    }
    return false;
}

// Sees to it that a sleep ends at until_ns at the latest; false if it is not worth while.
static bool may_sleep(struct bt_udp *u, uint64_t until_ns)
{
    // A timer that fires too early only costs one empty turn; reading the clock and setting it cost more.
    if (u->armed_ns <= until_ns) {
        return true;
    }
    uint64_t now = bt_udp_now(&u->io);
    if (until_ns <= now || until_ns - now <= MIN_SLEEP_NS) {
        return false;
    }
    arm(u, until_ns);
    return true;
}

static void udp_wait(struct bt_io *io, uint64_t until_ns)
{
    struct bt_udp *u = (struct bt_udp *)io;
    struct epoll_event ev[BT_IO_BATCH];
    int timeout = 0;
    if (u->idle == BT_IDLE_BLOCK && !anything_ready(u)) {
        timeout = may_sleep(u, until_ns) ? -1 : 0;
    }
    int n = epoll_wait(u->epoll_fd, ev, BT_IO_BATCH, timeout);
    u->counters[BT_UDP_WAKEUPS]++;
    for (int i = 0; i < n; i++) {
        uint32_t tag = ev[i].data.u32;
        if (tag < u->n_ports) {
            u->ports[tag].readable |= (ev[i].events & EPOLLIN) != 0;
            if (ev[i].events & EPOLLERR) {
                bt_udp_read_errors(u, tag); // at once: an unread error queue would end every sleep
            }
        } else if (tag == TAG_TIMER) {
            u->armed_ns = BT_IO_FOREVER; // it has fired
        }
    }
    for (unsigned i = 0; u->n_quiet != 0 && i < u->n_ports; i++) {
        u->ports[i].readable |= u->ports[i].quiet; // nobody says; the next read finds out
    }
    if (n <= 0 && u->idle == BT_IDLE_YIELD) {
        sched_yield();
    }
}

static void udp_wake(struct bt_io *io)
{
    const struct bt_udp *u = (const struct bt_udp *)io;
    uint64_t one = 1;
    // Edge-triggered and never read: each write is one event, and 2^64 of them never come.
    ssize_t n = write(u->wake_fd, &one, sizeof one);
    (void)n;
}

static struct bt_addr udp_local(struct bt_io *io, uint32_t local)
{
    const struct bt_udp *u = (const struct bt_udp *)io;
    return local < u->n_ports ? u->ports[local].addr : (struct bt_addr){0};
}

static const uint64_t *udp_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    *desc = udp_counter_descs;
    *n = BT_UDP_COUNTERS;
    return ((struct bt_udp *)io)->counters;
}

static unsigned udp_watch(struct bt_io *io, int *fds, unsigned max)
{
    struct bt_udp *u = (struct bt_udp *)io;
    for (unsigned i = 0; i < u->n_ports; i++) {
        u->ports[i].watched = u->ports[i].readable = true;
        if (i < max) {
            fds[i] = u->ports[i].fd;
        }
    }
    return u->n_ports;
}

static void udp_close(struct bt_io *io)
{
    struct bt_udp *u = (struct bt_udp *)io;
    int fds[] = {u->epoll_fd, u->timer_fd, u->wake_fd, u->raw_fd[0], u->raw_fd[1]};
    for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    for (unsigned i = 0; i < u->n_ports; i++) {
        if (u->ports[i].fd >= 0) {
            close(u->ports[i].fd);
        }
    }
    for (unsigned i = 0; i < u->n_spare; i++) {
        if (u->spare[i] != NULL) {
            bt_pool_put(u->pool, u->spare[i]);
        }
    }
    free(u->ports);
    free(u);
}

static const struct bt_io_ops udp_ops = {
    .rx = bt_udp_rx,
    .tx = bt_udp_tx,
    .wait = udp_wait,
    .now = bt_udp_now,
    .wake = udp_wake,
    .events = bt_udp_take_events,
    .local = udp_local,
    .counters = udp_counters,
    .close = udp_close,
    .quiet = bt_udp_quiet,
    .watch = udp_watch,
};

// Options whose refusal costs information or comfort, not correctness, except DF, which
// every Linux grants.
static int set_options(int fd, sa_family_t family, const struct bt_udp_config *cfg)
{
    int on = 1;
    int rcv = (int)(cfg->rcvbuf_bytes != 0 ? cfg->rcvbuf_bytes : DEFAULT_RCVBUF);
    int snd = (int)(cfg->sndbuf_bytes != 0 ? cfg->sndbuf_bytes : DEFAULT_SNDBUF);
    // The FORCE forms pass net.core.rmem_max, but need CAP_NET_ADMIN.
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcv, sizeof rcv) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcv, sizeof rcv);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &snd, sizeof snd) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &snd, sizeof snd);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
    if (family == AF_INET6) {
        int df = IPV6_PMTUDISC_DO;
        if (cfg->report_unreachable) {
            (void)setsockopt(fd, SOL_IPV6, IPV6_RECVERR, &on, sizeof on);
        }
        (void)setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &on, sizeof on);
        return setsockopt(fd, SOL_IPV6, IPV6_MTU_DISCOVER, &df, sizeof df);
    }
    int df = IP_PMTUDISC_DO;
    if (cfg->report_unreachable) {
        (void)setsockopt(fd, SOL_IP, IP_RECVERR, &on, sizeof on);
    }
    return setsockopt(fd, SOL_IP, IP_MTU_DISCOVER, &df, sizeof df);
}

// A port of a multicast group is a member of it; others that share the host may be, too. What the others send to one
// leaves by the same interface.
static bool set_multicast(int fd, const struct bt_addr *local, const struct bt_addr *via)
{
    int on = 1;
    bool member = bt_addr_is_multicast(local);
    if (via == NULL) {
        errno = EINVAL; // nobody says which interface
        return !member;
    }
    unsigned interface = bt_interface_of(via);
    if (member && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
        return false;
    }
    if (bt_addr_is_v4(local)) {
        struct ip_mreqn m = {.imr_ifindex = (int)interface};
        memcpy(&m.imr_multiaddr, local->ip + 12, member ? sizeof m.imr_multiaddr : 0);
        return setsockopt(fd, SOL_IP, member ? IP_ADD_MEMBERSHIP : IP_MULTICAST_IF, &m, sizeof m) == 0;
    }
    if (!member) {
        return setsockopt(fd, SOL_IPV6, IPV6_MULTICAST_IF, &interface, sizeof interface) == 0;
    }
    struct ipv6_mreq m = {.ipv6mr_interface = interface};
    memcpy(&m.ipv6mr_multiaddr, local->ip, sizeof m.ipv6mr_multiaddr);
    return setsockopt(fd, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof m) == 0;
}

static int watch(int epoll_fd, int fd, uint32_t events, uint32_t tag)
{
    struct epoll_event e = {.events = events, .data = {.u32 = tag}};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static int open_port(struct bt_udp *u, unsigned i, const struct bt_udp_config *cfg)
{
    struct bt_udp_port *p = &u->ports[i];
    union bt_udp_sa sa;
    socklen_t len;
    p->family = bt_addr_is_v4(&cfg->locals[i]) ? AF_INET : AF_INET6;
    p->fd = socket(p->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0 || set_options(p->fd, p->family, cfg) != 0 ||
        !set_multicast(p->fd, &cfg->locals[i], cfg->multicast_via) ||
        bt_udp_to_sockaddr(&cfg->locals[i], p->family, &sa, &len) != 0 || bind(p->fd, &sa.sa, len) != 0) {
        return -1;
    }
    len = sizeof sa;
    if (getsockname(p->fd, &sa.sa, &len) != 0) {
        return -1;
    }
    p->addr = bt_udp_from_sockaddr(&sa);
    p->readable = u->idle == BT_IDLE_SPIN;
    return watch(u->epoll_fd, p->fd, EPOLLIN, i);
}

static const char *hint_for(int error)
{
    switch (error) {
    case EADDRINUSE:
        return "; another process has this port, choose another one";
    case EADDRNOTAVAIL:
        return "; this host does not have that address";
    case EACCES:
        return "; ports below 1024 need CAP_NET_BIND_SERVICE";
    case EMFILE:
        return "; raise the limit of open files (ulimit -n)";
    default:
        return "";
    }
}

static int open_all(struct bt_udp *u, const struct bt_udp_config *cfg, char *err, size_t errlen)
{
    u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    u->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    u->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (u->epoll_fd < 0 || u->timer_fd < 0 || u->wake_fd < 0 ||
        watch(u->epoll_fd, u->timer_fd, EPOLLIN | EPOLLET, TAG_TIMER) != 0 ||
        watch(u->epoll_fd, u->wake_fd, EPOLLIN | EPOLLET, TAG_WAKE) != 0) {
        snprintf(err, errlen, "cannot set up the event loop: %s%s", strerror(errno), hint_for(errno));
        return -1;
    }
    for (unsigned i = 0; i < cfg->n_locals; i++) {
        if (open_port(u, i, cfg) != 0) {
            char text[BT_ADDR_TEXT];
            snprintf(err, errlen, "cannot bind UDP %s: %s%s", bt_addr_format(&cfg->locals[i], text), strerror(errno),
                     hint_for(errno));
            return -1;
        }
    }
    return 0;
}

void bt_udp_batch_init(struct bt_udp_batch *b)
{
    for (unsigned i = 0; i < BT_IO_BATCH; i++) {
        b->msgs[i].msg_hdr = (struct msghdr){
            .msg_name = &b->names[i], .msg_namelen = sizeof b->names[i], .msg_iov = &b->iov[i], .msg_iovlen = 1};
    }
}

struct bt_io *bt_udp_open(const struct bt_udp_config *cfg, char *err, size_t errlen)
{
    if (cfg->n_locals == 0 || cfg->n_locals > BT_UDP_MAX_LOCALS) {
        snprintf(err, errlen, "needs 1..%u local ports; got %u", BT_UDP_MAX_LOCALS, cfg->n_locals);
        return NULL;
    }
    struct bt_udp *u = calloc(1, sizeof *u);
    struct bt_udp_port *ports = calloc(cfg->n_locals, sizeof *ports);
    if (u == NULL || ports == NULL) {
        free(u);
        free(ports);
        snprintf(err, errlen, "out of memory for %u ports", cfg->n_locals);
        return NULL;
    }
    u->io.ops = &udp_ops;
    u->pool = cfg->pool;
    u->idle = cfg->idle;
    u->ports = ports;
    u->n_ports = cfg->n_locals;
    u->epoll_fd = u->timer_fd = u->wake_fd = u->raw_fd[0] = u->raw_fd[1] = -1;
    u->armed_ns = BT_IO_FOREVER;
    bt_udp_batch_init(&u->rx);
    bt_udp_batch_init(&u->tx);
    for (unsigned i = 0; i < u->n_ports; i++) {
        ports[i].fd = -1;
    }
    if (open_all(u, cfg, err, errlen) != 0) {
        udp_close(&u->io);
        return NULL;
    }
    return &u->io;
}

// Opens the raw socket of a family, which sends headers as they are given (IPPROTO_RAW).
static int open_raw(sa_family_t family, int *raw, char *err, size_t errlen)
{
    if (*raw >= 0) {
        return 0;
    }
    int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
    if (fd < 0) {
        snprintf(err, errlen, "Transparent forwarding needs a raw socket: %s%s", strerror(errno),
                 errno == EPERM ? "; give the process CAP_NET_RAW or use Encapsulated forwarding" : "");
        return -1;
    }
    int snd = DEFAULT_SNDBUF;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &snd, sizeof snd);
    *raw = fd;
    return 0;
}

int bt_udp_allow_transparent(struct bt_io *io, char *err, size_t errlen)
{
    struct bt_udp *u = (struct bt_udp *)io;
    int on = 1;
    for (unsigned i = 0; i < u->n_ports; i++) {
        bool v6 = u->ports[i].family == AF_INET6;
        if (open_raw(u->ports[i].family, &u->raw_fd[v6], err, errlen) != 0) {
            return -1;
        }
        // Refused only by kernels that predate it; then every packet counts as one hop old.
        if (v6) {
            (void)setsockopt(u->ports[i].fd, SOL_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
        } else {
            (void)setsockopt(u->ports[i].fd, SOL_IP, IP_RECVTTL, &on, sizeof on);
        }
    }
    return 0;
}
