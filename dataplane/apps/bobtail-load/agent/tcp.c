// SPDX-License-Identifier: Apache-2.0
// Requests over TCP: one connection carries up to `outstanding` of them and their replies come in order.
#include "agent/agent.h"

#include "base/ring.h"
#include "io/udp_internal.h" // socket addresses
#include "shell/log.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_MS = 5000, READS_PER_EVENT = 16, BAD_REPLIES_LOGGED = 10 };

#define RETRY_NS UINT64_C(100000000)

static int open_socket(const struct bt_addr *target, union bt_udp_sa *sa, socklen_t *len)
{
    sa_family_t family = bt_addr_is_v4(target) ? AF_INET : AF_INET6;
    const int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bt_udp_to_sockaddr(target, family, sa, len) != 0 ||
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// The outcome of a connect that has ended: an errno value.
static int connect_error(int fd)
{
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : errno;
}

int agent_connect(const struct bt_addr *target, struct bt_ctl_error *e)
{
    union bt_udp_sa sa;
    socklen_t len;
    char text[BT_ADDR_TEXT];
    int fd = open_socket(target, &sa, &len);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0 && connect(fd, &sa.sa, len) != 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        error = errno != EINPROGRESS ? errno : poll(&p, 1, CONNECT_MS) != 1 ? ETIMEDOUT : connect_error(fd);
    }
    if (error == 0) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    bt_ctl_refuse(e, AGENT_TARGET_FAILED, "targets", "%s: %s", bt_addr_format(target, text), strerror(error));
    return -1;
}

// A connected socket becomes the connection; false when the kernel refuses what it must have.
static bool adopt(struct agent_conn *c, int fd)
{
    struct agent *a = c->worker->agent;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    agent_busy_poll(a, fd);
    if (!agent_stamps_enable(a, fd) || epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        return false;
    }
    c->fd = fd;
    c->state = AGENT_CONN_READY;
    bt_flight_init(&c->flight, (enum bt_reply_protocol)a->config.workload.protocol, c->slots, a->config.outstanding);
    c->unsent_len = 0;
    agent_conn_free(c);
    return true;
}

static bool tcp_open(struct agent_conn *c, struct bt_ctl_error *e)
{
    c->slots = calloc(bt_pow2_at_least(c->worker->agent->config.outstanding), sizeof *c->slots);
    if (c->slots == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
    }
    int fd = agent_connect(&c->target, e);
    if (fd < 0) {
        return false;
    }
    if (!adopt(c, fd)) {
        close(fd);
        return bt_ctl_refuse(e, AGENT_UNSUPPORTED, "timestamps", "a socket cannot be given stamps: %s",
                             strerror(errno));
    }
    return true;
}

static struct agent_request request_of(const struct bt_flight_slot *s)
{
    return (struct agent_request){s->intended_ns, s->sent_ns, s->window, s->sample, s->operation};
}

// Everything on the connection ends; it is opened again a little later.
static void lose(struct agent_conn *c, enum agent_outcome first, uint64_t now)
{
    struct agent_worker *w = c->worker;
    enum agent_outcome outcome = first; // of the request whose reply was being read, the others were merely behind it
    for (struct bt_flight_slot *s; (s = bt_flight_oldest(&c->flight)) != NULL; outcome = AGENT_DISCONNECTED) {
        struct agent_request r = request_of(s);
        bt_flight_give_up(&c->flight);
        agent_end(w, &r, outcome, false, AGENT_NEVER, AGENT_NEVER);
    }
    atomic_fetch_add(&w->stamps_discarded, c->flight.split_stamps);
    close(c->fd);
    c->fd = -1;
    c->state = AGENT_CONN_CLOSED;
    c->flight.head = c->flight.tail = c->flight.unstamped = c->flight.overdue = 0;
    c->flight.split_stamps = 0;
    c->retry_ns = now + RETRY_NS;
}

static void reopen(struct agent_conn *c, uint64_t now)
{
    union bt_udp_sa sa;
    socklen_t len;
    struct epoll_event ev = {.events = EPOLLOUT, .data.ptr = c};
    c->retry_ns = now + RETRY_NS;
    c->fd = open_socket(&c->target, &sa, &len);
    if (c->fd < 0) {
        return;
    }
    agent_count(&c->worker->reconnects);
    if ((connect(c->fd, &sa.sa, len) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) != 0) {
        close(c->fd);
        c->fd = -1;
        return;
    }
    c->state = AGENT_CONN_CONNECTING;
    c->retry_ns = now + CONNECT_MS * UINT64_C(1000000);
}

static void connected(struct agent_conn *c, uint64_t now)
{
    int fd = c->fd;
    c->state = AGENT_CONN_CLOSED;
    c->fd = -1;
    c->retry_ns = now + RETRY_NS;
    if (connect_error(fd) != 0 || epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_DEL, fd, NULL) != 0 || !adopt(c, fd)) {
        close(fd);
    }
}

// Keeps the part of a request that the socket did not take; false when there is no memory for it.
static bool keep_rest(struct agent_conn *c, const uint8_t *rest, size_t n)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    free(c->unsent); // as much as there is, not as there might be: a thousand connections may stall at once
    c->unsent = malloc(n);
    if (c->unsent == NULL) {
        return false;
    }
    memcpy(c->unsent, rest, n);
    c->unsent_len = n;
    c->unsent_at = 0;
    return epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev) == 0;
}

static void send_rest(struct agent_conn *c, uint64_t now)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    ssize_t n = send(c->fd, c->unsent + c->unsent_at, c->unsent_len - c->unsent_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            lose(c, AGENT_DISCONNECTED, now);
        }
        return;
    }
    c->unsent_at += (size_t)n;
    if (c->unsent_at == c->unsent_len) {
        c->unsent_len = 0;
        (void)epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
        if (bt_flight_count(&c->flight) < c->flight.limit) {
            agent_conn_free(c);
        }
    }
}

static void tcp_send(struct agent_conn *c, uint64_t intended_ns)
{
    struct agent_worker *w = c->worker;
    struct bt_expect expect;
    enum bt_operation op;
    size_t n = bt_request_next(&w->stream, w->out, &expect, &op);
    struct bt_flight_slot *s = bt_flight_send(&c->flight, (uint32_t)n); // a listed connection has room
    uint64_t now = agent_now(w->agent);
    struct agent_request r = agent_window_take(w, intended_ns, now);
    w->last_sent_ns = now;
    s->intended_ns = intended_ns;
    s->sent_ns = now;
    s->window = r.window;
    s->sample = r.sample;
    s->operation = (uint8_t)op;
    s->expect = expect;
    if (r.sample != AGENT_NO_SAMPLE) {
        w->agent->window.records[r.sample].connection = (uint16_t)c->index;
    }
    ssize_t sent = send(c->fd, w->out, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        sent = 0;
    }
    if (sent < 0 || ((size_t)sent < n && !keep_rest(c, w->out + sent, n - (size_t)sent))) {
        lose(c, AGENT_DISCONNECTED, now);
    } else if (c->unsent_len == 0 && bt_flight_count(&c->flight) < c->flight.limit) {
        agent_conn_free(c);
    }
}

struct arrival {
    struct agent_conn *c;
    uint64_t now;
};

static void on_reply(void *arg, const struct bt_flight_slot *s, uint64_t rx_stamp_ns, const struct bt_reply *reply)
{
    const struct arrival *at = arg;
    struct agent_request r = request_of(s);
    bool stamped = rx_stamp_ns != BT_NO_STAMP && s->tx_stamp_ns != BT_NO_STAMP && rx_stamp_ns >= s->tx_stamp_ns;
    if (!s->over) {
        agent_end(at->c->worker, &r, reply->verdict == BT_VERDICT_ERROR ? AGENT_ERROR_REPLY : AGENT_ANSWERED,
                  reply->verdict == BT_VERDICT_MISS, at->now, stamped ? rx_stamp_ns - s->tx_stamp_ns : AGENT_NEVER);
    }
}

static void bad_reply(struct agent_conn *c, const char *why, uint64_t now)
{
    char text[BT_ADDR_TEXT];
    if (atomic_fetch_add(&c->worker->agent->bad_replies_logged, 1) < BAD_REPLIES_LOGGED) {
        bt_log_warn("agent: %s sent %s; the connection is replaced", bt_addr_format(&c->target, text), why);
    }
    lose(c, AGENT_BAD_REPLY, now);
}

// One read; false when there is no more, or no connection any more.
static bool read_once(struct agent_conn *c)
{
    struct agent_worker *w = c->worker;
    uint64_t stamp;
    long n = agent_stamps_read(w->agent, c->fd, w->in, AGENT_READ_BYTES, NULL, &stamp);
    struct arrival at = {c, agent_now(w->agent)};
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        lose(c, AGENT_DISCONNECTED, at.now);
        return false;
    }
    const char *bad = bt_flight_receive(&c->flight, w->in, (size_t)n, stamp, on_reply, &at);
    if (bad != NULL) {
        bad_reply(c, bad, at.now);
        return false;
    }
    if (c->flight.reply.closes && bt_flight_count(&c->flight) == 0 && !c->flight.reading) {
        lose(c, AGENT_DISCONNECTED, at.now); // nothing is on it: the server wants a new one
        c->retry_ns = at.now;
        return false;
    }
    if (c->unsent_len == 0 && bt_flight_count(&c->flight) < c->flight.limit) {
        agent_conn_free(c);
    }
    return (size_t)n == AGENT_READ_BYTES;
}

// Transmission stamps first: a request's own is there before its reply.
static void tcp_ready(struct agent_conn *c, uint32_t events)
{
    uint32_t id;
    uint64_t ns;
    uint64_t now = agent_now(c->worker->agent);
    if (c->state == AGENT_CONN_CONNECTING) {
        connected(c, now);
        return;
    }
    if (c->state != AGENT_CONN_READY) {
        return;
    }
    while ((events & EPOLLERR) != 0 && agent_stamps_sent(c->worker->agent, c->fd, &id, &ns)) {
        bt_flight_tx_stamp(&c->flight, id, ns);
    }
    for (unsigned i = 0; i < READS_PER_EVENT && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0; i++) {
        if (!read_once(c)) {
            break;
        }
    }
    if ((events & EPOLLOUT) != 0 && c->state == AGENT_CONN_READY && c->unsent_len != 0) {
        send_rest(c, now);
    }
}

static void tcp_look(struct agent_conn *c, uint64_t now)
{
    struct agent_worker *w = c->worker;
    if (c->state != AGENT_CONN_READY) {
        if (now >= c->retry_ns) {
            if (c->fd >= 0) {
                close(c->fd);
            }
            reopen(c, now);
        }
        return;
    }
    for (struct bt_flight_slot *s; (s = bt_flight_oldest(&c->flight)) != NULL;) {
        struct agent_request r = request_of(s);
        if (now < s->intended_ns + w->agent->config.timeout_ns) {
            break;
        }
        bt_flight_give_up(&c->flight);
        agent_end(w, &r, AGENT_TIMEOUT, false, AGENT_NEVER, AGENT_NEVER);
    }
    // A connection on which nothing but given-up requests is left and no room either is of no use.
    if (bt_flight_count(&c->flight) == c->flight.limit && bt_flight_oldest(&c->flight) == NULL) {
        lose(c, AGENT_DISCONNECTED, now);
        c->retry_ns = now;
    }
    atomic_fetch_add(&w->stamps_discarded, c->flight.split_stamps);
    c->flight.split_stamps = 0;
}

static void tcp_close(struct agent_conn *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    free(c->slots);
    free(c->unsent);
}

const struct agent_transport agent_tcp = {tcp_open, tcp_send, tcp_ready, tcp_look, tcp_close};
