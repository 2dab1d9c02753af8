// SPDX-License-Identifier: Apache-2.0
// A server of bobtail/serve.h and a client of bobtail/r2p2.h on one loopback address, in one process.
#ifndef BT_TESTS_SERVE_BED_H
#define BT_TESTS_SERVE_BED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bobtail/r2p2.h"
#include "bobtail/serve.h"

#define BED_ADDRESS "127.0.0.1"

// Ports of this process: tests run beside one another, each in some ten thousand of its own.
static inline uint16_t bed_port(void)
{
    return (uint16_t)(20000 + (getpid() * 8) % 10000);
}

static inline uint64_t bed_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void bed_spin(uint64_t ns)
{
    uint64_t until = bed_now() + ns;
    while (bed_now() < until) {
    }
}

static inline struct bobtail_server *bed_serve(struct bobtail_server_config config, uint16_t *port)
{
    char why[256] = "";
    struct bobtail_server *server = NULL;
    config.size = sizeof config;
    for (unsigned tries = 0; server == NULL && tries < 64; tries++) { // another process may have the port
        config.port = (uint16_t)(bed_port() + tries * 16);
        server = bobtail_server_open(&config, why, sizeof why);
    }
    if (server == NULL) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    *port = config.port;
    return server;
}

// One client with any number of requests under way; each is a number, and its answer begins with that number.
struct bed_client {
    struct r2p2_endpoint *ep;
    uint64_t answered, refused, late, wrong;
    uint32_t under_way;
};

struct bed_call {
    struct r2p2_ctx ctx; // first
    struct bed_client *client;
    struct r2p2_host_tuple to;
    uint64_t serial;
};

static inline void bed_on_answer(r2p2_handle_t handle, void *arg, struct iovec *iov, int n)
{
    struct bed_call *call = arg;
    uint64_t serial = 0;
    if (n >= 1 && iov[0].iov_len >= sizeof serial) {
        memcpy(&serial, iov[0].iov_base, sizeof serial);
    }
    call->client->wrong += serial != call->serial;
    call->client->answered++;
    call->client->under_way--;
    r2p2_endpoint_recv_resp_done(call->client->ep, handle);
    free(call);
}

static inline void bed_on_error(void *arg, int code)
{
    struct bed_call *call = arg;
    call->client->refused += code == R2P2_ERR_DROPPED;
    call->client->late += code != R2P2_ERR_DROPPED;
    call->client->under_way--;
    free(call);
}

static inline void bed_on_timeout(void *arg)
{
    bed_on_error(arg, 0);
}

// fast: ids rest for 16 ms, so that there are enough for a stress; messages of several packets then give up soon.
static inline void bed_open(struct bed_client *c, bool fast)
{
    char why[256];
    struct r2p2_config config = {
        .size = sizeof config, .address = BED_ADDRESS, .fast_timers = fast, .max_pending = 4096};
    *c = (struct bed_client){0};
    c->ep = r2p2_endpoint_open(&config, NULL, why, sizeof why);
    if (c->ep == NULL) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
}

// False: no request id is free just now.
static inline bool bed_call(struct bed_client *c, uint16_t port, uint64_t serial, const void *rest, size_t len)
{
    struct bed_call *call = calloc(1, sizeof *call);
    struct iovec iov[2] = {{.iov_base = &call->serial, .iov_len = sizeof serial},
                           {.iov_base = (void *)(uintptr_t)rest, .iov_len = len}};
    *call = (struct bed_call){.client = c, .to = {.ip = 0x7f000001, .port = port}, .serial = serial};
    call->ctx = (struct r2p2_ctx){.success_cb = bed_on_answer,
                                  .error_cb = bed_on_error,
                                  .timeout_cb = bed_on_timeout,
                                  .arg = call,
                                  .timeout = 60000000,
                                  .destination = &call->to};
    if (r2p2_endpoint_send_req(c->ep, iov, len != 0 ? 2 : 1, &call->ctx) != 0) {
        free(call);
        return false;
    }
    c->under_way++;
    return true;
}

// Until no more than so many are under way.
static inline void bed_await(struct bed_client *c, uint32_t left)
{
    while (c->under_way > left) {
        r2p2_endpoint_wait(c->ep, 100000);
        r2p2_endpoint_poll(c->ep);
    }
}

#endif
