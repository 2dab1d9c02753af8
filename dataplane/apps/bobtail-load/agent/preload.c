// SPDX-License-Identifier: Apache-2.0
// Before an experiment: every key is stored once, in batches over one blocking connection.
#include "agent/agent.h"

#include "shell/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64, PATIENCE_MS = 10000, LOOK_MS = 100 };

struct preload {
    const struct agent *agent;
    int fd;
    struct bt_flight flight;
    struct bt_flight_slot slots[BATCH];
    uint8_t *out, in[AGENT_READ_BYTES];
    uint64_t refused;
};

// Nobody waits for the keys any more.
static bool called_off(const struct agent *a)
{
    return atomic_load(&a->cancel) || bt_stop_count() > 0;
}

static bool wait_for(const struct preload *p, short events)
{
    struct pollfd fd = {.fd = p->fd, .events = events};
    for (int ms = 0; ms < PATIENCE_MS && !called_off(p->agent); ms += LOOK_MS) {
        if (poll(&fd, 1, LOOK_MS) == 1) {
            return true;
        }
    }
    return false;
}

static void on_reply(void *arg, const struct bt_flight_slot *s, uint64_t stamp, const struct bt_reply *reply)
{
    struct preload *p = arg;
    (void)s;
    (void)stamp;
    p->refused += reply->verdict == BT_VERDICT_ERROR;
}

// Reads replies until at most `left` are out; NULL or what went wrong.
static const char *drain(struct preload *p, uint32_t left)
{
    while (bt_flight_count(&p->flight) > left) {
        if (!wait_for(p, POLLIN)) {
            return "no reply for 10 s";
        }
        ssize_t n = recv(p->fd, p->in, sizeof p->in, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return n == 0 ? "the connection was closed" : strerror(errno);
        }
        const char *bad = n > 0 ? bt_flight_receive(&p->flight, p->in, (size_t)n, BT_NO_STAMP, on_reply, p) : NULL;
        if (bad != NULL) {
            return bad;
        }
    }
    return p->refused != 0 ? "the service refused to store a key" : NULL;
}

static const char *send_all(struct preload *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(p->fd, p->out + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return strerror(errno);
        }
        if (sent < 0 && !wait_for(p, POLLOUT)) {
            return "takes no bytes for 10 s";
        }
        at += sent > 0 ? (size_t)sent : 0;
    }
    return NULL;
}

static const char *store_all(struct agent *a, struct preload *p)
{
    struct bt_request_stream stream = {.workload = &a->config.workload};
    const char *why = NULL;
    bt_rng_seed(&stream.rng, a->config.seed);
    for (uint64_t key = 0; key < a->config.workload.keys.n && why == NULL; key++) {
        struct bt_expect expect;
        size_t n = bt_request_store(&stream, key, p->out, &expect);
        why = bt_flight_count(&p->flight) == BATCH ? drain(p, BATCH / 2) : NULL;
        if (why == NULL) {
            bt_flight_send(&p->flight, (uint32_t)n)->expect = expect;
            why = send_all(p, n);
        }
        if (why == NULL && called_off(a)) {
            why = "the coordinator is gone, or the agent was told to end";
        }
    }
    return why != NULL ? why : drain(p, 0);
}

bool agent_preload(struct agent *a, const struct bt_addr *target, struct bt_ctl_error *e)
{
    char text[BT_ADDR_TEXT];
    struct preload *p = calloc(1, sizeof *p);
    uint8_t *out = malloc(bt_request_max(&a->config.workload));
    bool ok = false;
    if (p == NULL || out == NULL) {
        bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
    } else if ((p->fd = agent_connect(target, e)) >= 0) {
        p->agent = a;
        p->out = out;
        bt_flight_init(&p->flight, (enum bt_reply_protocol)a->config.workload.protocol, p->slots, BATCH);
        const char *why = store_all(a, p);
        ok = why == NULL ||
             bt_ctl_refuse(e, AGENT_TARGET_FAILED, "preload", "%s: %s", bt_addr_format(target, text), why);
        close(p->fd);
    }
    free(out);
    free(p);
    return ok;
}
