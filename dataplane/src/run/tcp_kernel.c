// SPDX-License-Identifier: Apache-2.0
// Connections of the kernel: a listener and an epoll set for each home.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/tcp_wire.h"

enum { EVENTS = 64, BACKLOG = 1024 };
#define LISTENER UINT32_MAX

static void ask(struct run_tcp *t, struct run_conn *c, bool reads)
{
    uint32_t events = (reads ? (uint32_t)EPOLLIN : 0) | (c->out.from != c->out.len ? (uint32_t)EPOLLOUT : 0);
    if (events != c->asked) {
        struct epoll_event e = {.events = events, .data = {.u32 = c->index}};
        c->asked = events;
        (void)epoll_ctl(t->set, EPOLL_CTL_MOD, c->fd, &e);
    }
}

/* Nobody is there any more. It may have requests yet, and epoll would tell of it until they are over. */
static void lose(struct run_tcp *t, struct run_conn *c)
{
    c->dead = true;
    run_tcp_count(t, BT_RUN_TCP_RESET);
    (void)epoll_ctl(t->set, EPOLL_CTL_DEL, c->fd, NULL);
}

static void write_out(struct run_tcp *t, struct run_conn *c)
{
    while (!c->dead && c->out.from != c->out.len) {
        ssize_t n = send(c->fd, c->out.at + c->out.from, c->out.len - c->out.from, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            c->out.from += (uint32_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            lose(t, c);
        }
    }
}

/* A close with bytes unread would be a reset, which takes replies back that are under way. */
static void end(struct run_tcp *t, struct run_conn *c)
{
    uint8_t unread[RUN_TCP_IN_FIRST];
    (void)t;
    if (c->broken && !c->dead) {
        shutdown(c->fd, SHUT_WR);
        for (unsigned i = 0; i < RUN_TCP_PER_TURN && recv(c->fd, unread, sizeof unread, MSG_DONTWAIT) > 0; i++) {
        }
    }
    close(c->fd);
    c->fd = -1;
}

static void read_in(struct run_tcp *t, struct run_conn *c)
{
    uint32_t waits = c->in.len - c->in.from, want = waits < RUN_TCP_IN_FIRST / 2 ? RUN_TCP_IN_FIRST : waits;
    if (!run_bytes_grow(&c->in, want)) {
        run_conn_break(t, c, BT_RUN_TCP_MEMORY);
        return;
    }
    ssize_t n = recv(c->fd, c->in.at + c->in.len, c->in.room - c->in.len, MSG_DONTWAIT);
    if (n > 0) {
        c->in.len += (uint32_t)n;
    } else if (n == 0) {
        c->ended = true;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        lose(t, c);
    }
    run_conn_came(t, c);
}

static void on_event(struct run_tcp *t, struct run_conn *c, uint32_t events)
{
    if (!c->used) {
        return; // over since the events were asked for
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        lose(t, c);
    } else if ((events & EPOLLIN) != 0 && (c->asked & EPOLLIN) != 0) {
        read_in(t, c);
    }
    run_conn_serve(t, c);
}

static void take_connections(struct run_tcp *t)
{
    for (unsigned i = 0; i < RUN_TCP_PER_TURN; i++) {
        int one = 1, fd = accept4(t->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        if (t->free == NULL) {
            run_tcp_count(t, BT_RUN_TCP_FULL);
            close(fd);
            continue;
        }
        struct epoll_event e = {.events = EPOLLIN, .data = {.u32 = t->free->index}};
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (epoll_ctl(t->set, EPOLL_CTL_ADD, fd, &e) != 0) {
            run_tcp_count(t, BT_RUN_TCP_FULL);
            close(fd);
            continue;
        }
        struct run_conn *c = run_conn_begin(t);
        c->fd = fd;
        c->asked = EPOLLIN;
    }
}

static bool take_events(struct run_tcp *t)
{
    struct epoll_event ev[EVENTS];
    int most = (int)bt_sched_batch(t->home->run->setup.batch, EVENTS);
    int n = epoll_wait(t->set, ev, most, 0);
    for (int i = 0; i < n; i++) {
        if (ev[i].data.u32 == LISTENER) {
            take_connections(t);
        } else {
            on_event(t, &t->conn[ev[i].data.u32], ev[i].events);
        }
    }
    return n > 0; // a connection may have more than was read, and nobody is told of that again
}

static bool listen_at(struct run_tcp *t, char *err, size_t errlen)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {0};
    const struct bt_addr *a = &t->setup.local;
    bool v4 = bt_addr_is_v4(a);
    int on = 1;
    if (v4) {
        at.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(a->port)};
        memcpy(&at.v4.sin_addr, a->ip + 12, 4);
    } else {
        at.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
        memcpy(&at.v6.sin6_addr, a->ip, 16);
    }
    struct epoll_event e = {.events = EPOLLIN, .data = {.u32 = LISTENER}};
    t->listener = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    t->set = epoll_create1(EPOLL_CLOEXEC);
    bool ok = t->listener >= 0 && t->set >= 0 &&
              setsockopt(t->listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
              setsockopt(t->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(t->listener, &at.sa, v4 ? sizeof at.v4 : sizeof at.v6) == 0 && listen(t->listener, BACKLOG) == 0 &&
              epoll_ctl(t->set, EPOLL_CTL_ADD, t->listener, &e) == 0;
    if (!ok) {
        char text[BT_ADDR_TEXT];
        snprintf(err, errlen, "cannot listen on TCP %s: %s", bt_addr_format(a, text), strerror(errno));
    }
    return ok;
}

static void end_listening(struct run_tcp *t)
{
    if (t->listener >= 0) {
        close(t->listener);
        t->listener = -1;
    }
}

static void close_all(struct run_tcp *t)
{
    end_listening(t);
    for (uint32_t i = 0; t->conn != NULL && i < t->setup.connections; i++) {
        if (t->conn[i].used) {
            close(t->conn[i].fd);
        }
    }
    if (t->set >= 0) {
        close(t->set);
    }
}

static unsigned watch(const struct run_tcp *t, int *fds, unsigned max)
{
    fds[0] = t->set;
    return t->set >= 0 && max != 0 ? 1 : 0;
}

const struct bt_run_wire run_tcp_kernel = {.open = listen_at,
                                           .close = close_all,
                                           .end_listening = end_listening,
                                           .poll = take_events,
                                           .write = write_out,
                                           .ask = ask,
                                           .end = end,
                                           .watch = watch};
