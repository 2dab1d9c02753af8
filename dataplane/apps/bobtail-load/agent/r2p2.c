// SPDX-License-Identifier: Apache-2.0
// Requests over R2P2: a socket of its own and a client of the core per connection. Stamps belong to
// datagrams (L-55): a request's is that of its first one, a reply's that of the one that completed it.
#include "agent/agent.h"

#include "io/udp_internal.h" // socket addresses
#include "shell/pool.h"
#include "shell/start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READS_PER_EVENT = 64, ASSEMBLIES = 64, PORT_TRIES = 64 };
enum { PORT_BASE = 20000, PORT_RANGE = 8192 };

static struct agent_r2p2_slot *slot_of(struct agent_conn *c, uint64_t cookie)
{
    struct agent_r2p2_slot *s = &c->r2p2[cookie];
    s->in_flight = false;
    s->next_free = c->r2p2_free;
    c->r2p2_free = (uint32_t)cookie;
    agent_conn_free(c);
    return s;
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    struct agent_conn *c = arg;
    const struct agent_r2p2_slot *s = slot_of(c, cookie);
    bool stamped = c->rx_stamp_ns != BT_NO_STAMP && s->tx_stamp_ns != BT_NO_STAMP && c->rx_stamp_ns >= s->tx_stamp_ns;
    (void)info;
    bt_client_done(c->client, reply);
    agent_end(c->worker, &s->request, AGENT_ANSWERED, false, c->rx_ns,
              stamped ? c->rx_stamp_ns - s->tx_stamp_ns : AGENT_NEVER);
}

static void on_timeout(void *arg, uint64_t cookie)
{
    struct agent_conn *c = arg;
    agent_end(c->worker, &slot_of(c, cookie)->request, AGENT_TIMEOUT, false, AGENT_NEVER, AGENT_NEVER);
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    struct agent_conn *c = arg;
    enum agent_outcome outcome = code == BT_RPC_DROPPED            ? AGENT_DROPPED
                                 : code == BT_RPC_REPLY_INCOMPLETE ? AGENT_BAD_REPLY
                                                                   : AGENT_REFUSED;
    agent_end(c->worker, &slot_of(c, cookie)->request, outcome, false, AGENT_NEVER, AGENT_NEVER);
}

// Ports outside the range the kernel hands to anybody, from a random one on.
static int open_port(const struct bt_addr *target, struct bt_addr *local)
{
    bool v4 = bt_addr_is_v4(target);
    sa_family_t family = v4 ? AF_INET : AF_INET6;
    uint64_t random = bt_new_seed();
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const uint8_t any4[4] = {0};
    for (unsigned i = 0; fd >= 0 && i < PORT_TRIES; i++) {
        union bt_udp_sa sa;
        socklen_t len;
        uint16_t port = (uint16_t)(PORT_BASE + (random + i * 131) % PORT_RANGE);
        *local = v4 ? bt_addr_v4(any4, port) : (struct bt_addr){.port = port};
        if (bt_udp_to_sockaddr(local, family, &sa, &len) == 0 && bind(fd, &sa.sa, len) == 0) {
            return fd;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    if (fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return -1;
}

static bool make_client(struct agent_conn *c, const struct bt_addr *local)
{
    const struct agent_config *config = &c->worker->agent->config;
    struct bt_client_cfg cfg = {.local = *local,
                                .mtu = (uint16_t)c->worker->mtu,
                                .max_pending = config->outstanding,
                                .max_assemblies = ASSEMBLIES,
                                .max_message = BT_BODY_MAX,
                                .extensions = true,
                                .timers = bt_rpc_timers_for(BT_DEVICE_KERNEL),
                                .seed = bt_new_seed(),
                                .pool = c->worker->pool,
                                .ops = {on_success, on_timeout, on_error, c}};
    size_t bytes = (bt_client_bytes(&cfg) + 63) & ~(size_t)63;
    c->client_mem = bytes != 0 ? aligned_alloc(64, bytes) : NULL;
    c->r2p2 = calloc(config->outstanding, sizeof *c->r2p2);
    if (c->client_mem == NULL || c->r2p2 == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < config->outstanding; i++) {
        c->r2p2[i].next_free = i + 1;
    }
    c->client = bt_client_init(&cfg, c->client_mem, bytes, bt_monotonic_ns());
    return c->client != NULL;
}

static bool r2p2_open(struct agent_conn *c, struct bt_ctl_error *e)
{
    struct agent *a = c->worker->agent;
    struct bt_addr local;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    c->fd = open_port(&c->target, &local);
    if (c->fd < 0) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, "connections", "no port for socket %u: %s", c->index, strerror(errno));
    }
    agent_busy_poll(a, c->fd);
    if (!agent_stamps_enable(a, c->fd)) {
        return bt_ctl_refuse(e, AGENT_UNSUPPORTED, "timestamps", "a socket cannot be given stamps: %s",
                             strerror(errno));
    }
    if (!make_client(c, &local) || epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) != 0) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, "connections", "out of memory for socket %u", c->index);
    }
    c->state = AGENT_CONN_READY;
    agent_conn_free(c);
    return true;
}

// Sends what the client left in q. A datagram the network refuses is lost, as the protocol expects of
// networks; it has no number of its own then.
static void transmit(struct agent_conn *c, struct bt_txq *q)
{
    sa_family_t family = bt_addr_is_v4(&c->target) ? AF_INET : AF_INET6;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        union bt_udp_sa sa;
        socklen_t len;
        if (bt_udp_to_sockaddr(&p->dst, family, &sa, &len) == 0 &&
            sendto(c->fd, p->data, p->len, MSG_DONTWAIT | MSG_NOSIGNAL, &sa.sa, len) >= 0) {
            c->datagrams++;
        }
        bt_pool_put(c->worker->pool, p);
    }
}

// some of the samples carry a trace id, so that routers and servers tell what they saw of them.
static uint64_t trace_of(struct agent_worker *w, const struct agent_request *r)
{
    double share = w->agent->config.trace_share;
    if (share <= 0 || r->sample == AGENT_NO_SAMPLE || bt_rng_unit(&w->sampling) >= share) {
        return 0;
    }
    uint64_t id = bt_rng_next(&w->sampling) | 1u; // never 0
    w->agent->window.records[r->sample].trace = id;
    return id;
}

static int start_request(struct agent_conn *c, uint32_t cookie, size_t n, uint64_t intended_ns, uint64_t now,
                         struct bt_txq *q)
{
    const struct agent *a = c->worker->agent;
    struct iovec iov = {c->worker->out, n};
    uint64_t deadline = intended_ns + a->config.timeout_ns;
    struct bt_request rq = {.iov = &iov,
                            .iovcnt = 1,
                            .dst = c->target,
                            .timeout_ns = deadline > now ? deadline - now : 1,
                            .cookie = cookie};
    rq.trace = trace_of(c->worker, &c->r2p2[cookie].request);
    rq.with_trace = rq.trace != 0;
    return bt_client_send(c->client, a->start_ns + now, &rq, q);
}

static void r2p2_send(struct agent_conn *c, uint64_t intended_ns)
{
    struct agent_worker *w = c->worker;
    struct bt_expect expect;
    enum bt_operation op;
    struct bt_txq q;
    bt_txq_init(&q);
    size_t n = bt_request_next(&w->stream, w->out, &expect, &op);
    uint64_t now = agent_now(w->agent);
    uint32_t cookie = c->r2p2_free;
    struct agent_r2p2_slot *s = &c->r2p2[cookie];
    s->request = agent_window_take(w, intended_ns, now);
    s->request.operation = (uint8_t)op;
    w->last_sent_ns = now;
    if (s->request.sample != AGENT_NO_SAMPLE) {
        w->agent->window.records[s->request.sample].connection = (uint16_t)c->index;
    }
    int id = start_request(c, cookie, n, intended_ns, now, &q);
    if (id < 0) {
        agent_end(w, &s->request, AGENT_REFUSED, false, AGENT_NEVER, AGENT_NEVER);
        agent_conn_free(c);
        return;
    }
    c->r2p2_free = s->next_free;
    s->in_flight = true;
    s->tx_stamp_ns = BT_NO_STAMP;
    s->datagram = c->datagrams;
    transmit(c, &q);
    if (bt_client_pending(c->client) < w->agent->config.outstanding) {
        agent_conn_free(c);
    }
}

static void note_stamps(struct agent_conn *c)
{
    const struct agent *a = c->worker->agent;
    uint32_t id;
    uint64_t ns;
    while (agent_stamps_sent(a, c->fd, &id, &ns)) {
        for (uint32_t i = 0; i < a->config.outstanding; i++) {
            if (c->r2p2[i].in_flight && c->r2p2[i].datagram == id) {
                c->r2p2[i].tx_stamp_ns = ns;
            }
        }
    }
}

// One datagram; false when there is none.
static bool read_once(struct agent_conn *c, struct bt_txq *q)
{
    struct agent_worker *w = c->worker;
    struct bt_pkt *p = bt_pool_get(w->pool);
    if (p == NULL) {
        return false;
    }
    long n = agent_stamps_read(w->agent, c->fd, p->data, p->room_after, &p->src, &c->rx_stamp_ns);
    c->rx_ns = agent_now(w->agent);
    if (n < 0) {
        bt_pool_put(w->pool, p);
        return errno != EAGAIN && errno != EINTR; // an ICMP error of an earlier datagram
    }
    p->len = (uint32_t)n;
    p->room_after -= (uint32_t)n;
    p->t_rx_ns = w->agent->start_ns + c->rx_ns;
    bt_client_rx(c->client, p->t_rx_ns, p, q);
    return true;
}

static void r2p2_ready(struct agent_conn *c, uint32_t events)
{
    struct bt_txq q;
    bt_txq_init(&q);
    if ((events & EPOLLERR) != 0) {
        note_stamps(c);
    }
    for (unsigned i = 0; i < READS_PER_EVENT && read_once(c, &q); i++) {
    }
    transmit(c, &q);
}

static void r2p2_look(struct agent_conn *c, uint64_t now)
{
    struct bt_txq q;
    uint64_t at = c->worker->agent->start_ns + now;
    bt_txq_init(&q);
    if (bt_client_next(c->client) <= at) {
        bt_client_tick(c->client, at, &q);
        transmit(c, &q);
    }
}

static void r2p2_close(struct agent_conn *c)
{
    if (c->client != NULL) {
        bt_client_close(c->client, bt_monotonic_ns());
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    free(c->client_mem);
    free(c->r2p2);
}

const struct agent_transport agent_r2p2 = {r2p2_open, r2p2_send, r2p2_ready, r2p2_look, r2p2_close};
