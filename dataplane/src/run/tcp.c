// SPDX-License-Identifier: Apache-2.0
// See tcp.h. A connection is read while it has fewer than so many requests that are not answered; then it waits, and
// its client's window with it. So one client cannot fill a turn, and memory has a bound.
#include "run/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/memory.h"

enum {
    PER_TURN = 16, // requests of one connection at once
    IN_FIRST = 4096,
    PACKETS = 4096,
    JOBS = 2048,
    EVENTS = 64,
    BACKLOG = 1024,
    PIECE = BT_PKT_BUFFER - BT_PKT_HEADROOM,
};
#define LISTENER UINT32_MAX

struct bytes {
    uint8_t *at;
    uint32_t from, len, room; // of len bytes, the first `from` are done with
};

struct conn {
    int fd;                         // -1: free
    uint32_t index, pending, asked; // asked: what epoll was told
    bool ended;                     // nothing more comes
    bool broken;                    // nothing more is taken: what was executed before is still answered
    bool dead;                      // nobody is there
    bool held;                      // a request of it found no memory
    struct bt_framer framer;
    struct bytes in, out;
    struct conn *next;
};

struct run_tcp {
    struct run_home *home;
    struct bt_run_tcp setup;
    struct bt_run_memory memory;
    int listener, set;
    struct conn *conn, *free;
    struct bobtail_request *jobs, *free_jobs;
    uint32_t held, open;
    _Atomic uint64_t counters[BT_RUN_TCP_COUNTERS];
};

static void count(struct run_tcp *t, enum bt_run_tcp_counter which)
{
    run_count(&t->counters[which], 1);
}

/* Room for n more bytes. */
static bool grow(struct bytes *b, uint32_t n)
{
    if (b->from != 0) {
        memmove(b->at, b->at + b->from, b->len - b->from);
        b->len -= b->from;
        b->from = 0;
    }
    if (b->room - b->len >= n) {
        return true;
    }
    uint32_t room = b->room * 2 > b->len + n ? b->room * 2 : b->len + n;
    uint8_t *at = realloc(b->at, room);
    if (at != NULL) {
        b->at = at;
        b->room = room;
    }
    return at != NULL;
}

static void ask(struct run_tcp *t, struct conn *c)
{
    bool reads = !c->ended && !c->broken && !c->dead && !c->held && c->pending < PER_TURN;
    uint32_t events = (reads ? (uint32_t)EPOLLIN : 0) | (c->out.from != c->out.len ? (uint32_t)EPOLLOUT : 0);
    if (events != c->asked) {
        struct epoll_event e = {.events = events, .data = {.u32 = c->index}};
        c->asked = events;
        (void)epoll_ctl(t->set, EPOLL_CTL_MOD, c->fd, &e);
    }
}

static void break_off(struct run_tcp *t, struct conn *c, enum bt_run_tcp_counter why)
{
    if (!c->broken) {
        count(t, why);
    }
    c->broken = true;
}

static void write_out(struct run_tcp *t, struct conn *c)
{
    while (!c->dead && c->out.from != c->out.len) {
        ssize_t n = send(c->fd, c->out.at + c->out.from, c->out.len - c->out.from, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            c->out.from += (uint32_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            c->dead = true;
            count(t, BT_RUN_TCP_RESET);
        }
    }
    c->out.from = c->out.len = 0;
}

/* A close with bytes unread would be a reset, which takes replies back that are under way. */
static void close_softly(const struct conn *c)
{
    uint8_t unread[IN_FIRST];
    if (c->broken && !c->dead) {
        shutdown(c->fd, SHUT_WR);
        for (unsigned i = 0; i < PER_TURN && recv(c->fd, unread, sizeof unread, MSG_DONTWAIT) > 0; i++) {
        }
    }
    close(c->fd);
}

/* Gone when nothing of it is left to do. */
static bool over(struct run_tcp *t, struct conn *c)
{
    bool done = c->dead || ((c->ended || c->broken) && c->out.from == c->out.len);
    if (!done || c->pending != 0) {
        return false;
    }
    close_softly(c);
    c->fd = -1;
    t->held -= c->held;
    t->open--;
    c->next = t->free;
    t->free = c;
    return true;
}

static void free_job(struct run_tcp *t, struct bobtail_request *job)
{
    bt_msg_free(&job->msg, &t->memory.pool.pool);
    free(job->heap);
    job->heap = NULL;
    job->next = t->free_jobs;
    t->free_jobs = job;
}

/* A request's bytes in packets of their own; false: there are too few. */
static bool fill(struct run_tcp *t, struct bobtail_request *job, const uint8_t *bytes, uint32_t n)
{
    struct bt_pkt *last = NULL;
    job->msg = (struct bt_msg){.len = n};
    do {
        struct bt_pkt *p = bt_pool_get(&t->memory.pool.pool);
        uint32_t take = n < PIECE ? n : PIECE;
        if (p == NULL) {
            bt_msg_free(&job->msg, &t->memory.pool.pool);
            return false;
        }
        memcpy(bt_pkt_append(p, take), bytes, take);
        *(last != NULL ? &last->next : &job->msg.head) = p;
        last = p;
        job->msg.packets++;
        bytes += take;
        n -= take;
    } while (n != 0);
    return true;
}

static bool take_request(struct run_tcp *t, struct conn *c, uint32_t len)
{
    struct bobtail_request *job = t->free_jobs;
    struct run_home *home = t->home;
    if (job == NULL || !fill(t, job, c->in.at + c->in.from, len)) {
        return false;
    }
    t->free_jobs = job->next;
    job->reply = NULL;
    job->one.len = 0;
    job->class_flags = 0;
    atomic_store_explicit(&job->stage, RUN_WAITING, memory_order_relaxed);
    job->event.flow = home->first_flow + c->index;
    c->in.from += len;
    c->pending++;
    count(t, BT_RUN_TCP_REQUESTS);
    (void)bt_sched_deliver(home->lane->sched, home->core, &job->event); // a flow that is at home here
    return true;
}

static void take_requests(struct run_tcp *t, struct conn *c)
{
    enum bt_framed r = BT_FRAMED_WHOLE;
    t->held -= c->held;
    c->held = false;
    while (r == BT_FRAMED_WHOLE && c->pending < PER_TURN && !c->broken && !c->dead) {
        uint32_t len = 0;
        r = bt_framer_next(&c->framer, c->in.at + c->in.from, c->in.len - c->in.from, &len);
        if (r == BT_FRAMED_WHOLE && !take_request(t, c, len)) {
            c->held = true;
            t->held++;
            return;
        }
    }
    if (r == BT_FRAMED_MALFORMED || r == BT_FRAMED_TOO_LONG) {
        break_off(t, c, r == BT_FRAMED_MALFORMED ? BT_RUN_TCP_MALFORMED : BT_RUN_TCP_TOO_LONG);
    } else if (r == BT_FRAMED_MORE && c->ended && c->in.from != c->in.len) {
        break_off(t, c, BT_RUN_TCP_CUT);
    }
}

static void read_in(struct run_tcp *t, struct conn *c)
{
    uint32_t want = c->in.len - c->in.from < IN_FIRST / 2 ? IN_FIRST : c->in.len - c->in.from;
    if (!grow(&c->in, want)) {
        break_off(t, c, BT_RUN_TCP_MEMORY);
        return;
    }
    ssize_t n = recv(c->fd, c->in.at + c->in.len, c->in.room - c->in.len, MSG_DONTWAIT);
    if (n > 0) {
        c->in.len += (uint32_t)n;
    } else if (n == 0) {
        c->ended = true;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        c->dead = true;
        count(t, BT_RUN_TCP_RESET);
    }
    take_requests(t, c);
}

static void serve(struct run_tcp *t, struct conn *c)
{
    write_out(t, c);
    if (!over(t, c)) {
        ask(t, c);
    }
}

static void on_event(struct run_tcp *t, struct conn *c, uint32_t events)
{
    if (c->fd < 0) {
        return; // over since the events were asked for
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        c->dead = true;
        count(t, BT_RUN_TCP_RESET);
    } else if ((events & EPOLLIN) != 0 && (c->asked & EPOLLIN) != 0) {
        read_in(t, c);
    }
    serve(t, c);
}

static void take_connections(struct run_tcp *t)
{
    for (unsigned i = 0; i < PER_TURN; i++) {
        int one = 1, fd = accept4(t->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct conn *c = t->free;
        if (fd < 0) {
            return;
        }
        if (c == NULL) {
            count(t, BT_RUN_TCP_FULL);
            close(fd);
            continue;
        }
        struct epoll_event e = {.events = EPOLLIN, .data = {.u32 = c->index}};
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (epoll_ctl(t->set, EPOLL_CTL_ADD, fd, &e) != 0) {
            count(t, BT_RUN_TCP_FULL);
            close(fd);
            continue;
        }
        t->free = c->next;
        t->open++;
        struct bytes in = c->in, out = c->out;
        in.from = in.len = out.from = out.len = 0;
        *c = (struct conn){.fd = fd, .index = c->index, .asked = EPOLLIN, .in = in, .out = out};
        bt_framer_init(&c->framer, t->setup.framing, t->setup.max_message);
        count(t, BT_RUN_TCP_ACCEPTED);
    }
}

/* Memory came back: those that waited for some go on. */
static void resume(struct run_tcp *t)
{
    for (uint32_t i = 0; t->held != 0 && t->free_jobs != NULL && i < t->setup.connections; i++) {
        if (t->conn[i].fd >= 0 && t->conn[i].held) {
            take_requests(t, &t->conn[i]);
            serve(t, &t->conn[i]);
        }
    }
}

bool run_tcp_poll(struct run_home *home)
{
    struct run_tcp *t = home->tcp;
    struct epoll_event ev[EVENTS];
    int most = (int)bt_sched_batch(home->run->setup.batch, EVENTS);
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

/* A handler without a reply leaves its client nothing to wait for but the end. */
static void add_reply(struct run_tcp *t, struct conn *c, const struct bobtail_request *job)
{
    if (c->dead || (c->broken && job->reply == NULL)) {
        return;
    }
    if (job->reply == NULL) {
        break_off(t, c, BT_RUN_TCP_REFUSED);
    } else if (!grow(&c->out, job->reply_len)) {
        break_off(t, c, BT_RUN_TCP_MEMORY);
    } else {
        memcpy(c->out.at + c->out.len, job->reply, job->reply_len);
        c->out.len += job->reply_len;
    }
}

void run_tcp_answer(struct run_home *home, uint32_t flow)
{
    struct run_tcp *t = home->tcp;
    struct conn *c = &t->conn[flow - home->first_flow];
    struct bobtail_request **left = &home->left[c->index], *next = NULL;
    for (struct bobtail_request *job = *left; job != NULL; job = next) {
        next = run_job_of(job->event.next);
        add_reply(t, c, job);
        free_job(t, job);
        c->pending--;
    }
    *left = NULL;
    bt_sched_replied(home->lane->sched, home->core, flow);
    take_requests(t, c);
    serve(t, c);
    if (t->held != 0) {
        resume(t);
    }
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

bool run_tcp_open(struct run_home *home, const struct bt_run_tcp *setup, char *err, size_t errlen)
{
    struct run_tcp *t = calloc(1, sizeof *t);
    home->tcp = t;
    if (t == NULL) {
        return false;
    }
    t->home = home;
    t->setup = *setup;
    t->listener = t->set = -1;
    t->conn = calloc(setup->connections, sizeof *t->conn);
    t->jobs = calloc(JOBS, sizeof *t->jobs);
    home->left = calloc(setup->connections, sizeof(struct bobtail_request *));
    uint32_t packets = PACKETS + 2 * (setup->max_message / PIECE + 1);
    if (t->conn == NULL || t->jobs == NULL || home->left == NULL || !bt_run_memory_open(&t->memory, packets)) {
        return false;
    }
    home->read_only = t->memory.read_only;
    home->max_message = setup->max_message;
    for (uint32_t i = setup->connections; i-- > 0;) {
        t->conn[i] = (struct conn){.fd = -1, .index = i, .next = t->free};
        t->free = &t->conn[i];
    }
    for (uint32_t i = JOBS; i-- > 0;) {
        t->jobs[i].home = home;
        t->jobs[i].next = t->free_jobs;
        t->free_jobs = &t->jobs[i];
    }
    return listen_at(t, err, errlen);
}

void run_tcp_end_listening(struct run_home *home)
{
    if (home->tcp->listener >= 0) {
        close(home->tcp->listener);
        home->tcp->listener = -1;
    }
}

void run_tcp_close(struct run_home *home)
{
    struct run_tcp *t = home->tcp;
    run_tcp_end_listening(home);
    for (uint32_t i = 0; t->conn != NULL && i < t->setup.connections; i++) {
        if (t->conn[i].fd >= 0) {
            close(t->conn[i].fd);
        }
        free(t->conn[i].in.at);
        free(t->conn[i].out.at);
    }
    for (uint32_t i = 0; t->jobs != NULL && i < JOBS; i++) {
        free(t->jobs[i].heap);
    }
    if (t->set >= 0) {
        close(t->set);
    }
    bt_run_memory_close(&t->memory);
    free(t->conn);
    free(t->jobs);
    free(t);
}

int run_tcp_set(const struct run_home *home)
{
    return home->tcp->set;
}

uint32_t run_tcp_backlog(const struct run_home *home)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < home->tcp->setup.connections; i++) {
        const struct conn *c = &home->tcp->conn[i];
        n += c->fd >= 0 ? c->pending + (c->out.from != c->out.len) : 0;
    }
    return n;
}

const _Atomic uint64_t *run_tcp_counters(const struct run_home *home)
{
    return home->tcp->counters;
}
