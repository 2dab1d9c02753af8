// SPDX-License-Identifier: Apache-2.0
// Opening an endpoint: defaults, memory, sockets, routers; and closing it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "api/endpoint.h"
#include "io/mtu.h"

static struct r2p2_config with_defaults(const struct r2p2_config *cfg)
{
    struct r2p2_config c = {0};
    memcpy(&c, cfg, cfg->size && cfg->size < sizeof c ? cfg->size : sizeof c); // callers built against an older header
    c.address = c.address ? c.address : "127.0.0.1";
    c.feedback_port = c.feedback_port ? c.feedback_port : 9000;
    c.queue_depth = c.queue_depth ? c.queue_depth : 3;
    c.max_pending = c.max_pending ? c.max_pending : 1024;
    c.max_message = c.max_message ? c.max_message : 1u << 20;
    c.packets = c.packets ? c.packets : 8192;
    return c;
}

int bt_api_routers(const char *text, uint16_t feedback_port, struct bt_server_router *out, char *err, size_t errlen)
{
    int n = 0;
    while (text && *text) {
        char one[BT_ADDR_TEXT + 8];
        size_t len = strcspn(text, ",");
        if (n == BT_SERVER_ROUTERS) {
            snprintf(err, errlen, "routers: more than %d", BT_SERVER_ROUTERS);
            return -1;
        }
        snprintf(one, sizeof one, "%.*s", (int)(len < sizeof one ? len : sizeof one - 1), text);
        out[n] = (struct bt_server_router){0};
        if (bt_addr_parse(one, 8000, &out[n].request)) {
            snprintf(err, errlen, "routers: \"%s\" is not an address; write 10.0.0.1:8000,[fd00::1]:8000", one);
            return -1;
        }
        out[n].feedback = out[n].request;
        out[n++].feedback.port = feedback_port;
        text += len + (text[len] == ',');
    }
    return n;
}

static void *zeroed(size_t bytes)
{
    void *p = bytes ? aligned_alloc(64, (bytes + 63) & ~(size_t)63) : NULL;
    return p ? memset(p, 0, bytes) : NULL;
}

// An address that cannot be read is open_sockets' to report.
static uint16_t mtu_of(const char *address)
{
    struct bt_addr a;
    return bt_addr_parse(address, 1, &a) ? BT_MTU_MAX : bt_mtu_of(&a);
}

static bool open_sockets(struct r2p2_endpoint *ep, const struct r2p2_config *c, char *err, size_t errlen)
{
    struct bt_addr locals[2], any;
    unsigned n = 0;
    if (bt_addr_parse(c->address, 1, &any)) {
        snprintf(err, errlen, "address: \"%s\" is not an IP address", c->address);
        return false;
    }
    if (c->port && c->key && bt_addr_bad_source(&any)) { // it covers our address: no router could check it
        snprintf(err, errlen,
                 "address: a tag covers it, so a server with a key must name the one it is reached at; got %s",
                 c->address);
        return false;
    }
    if (c->port) {
        locals[n] = any;
        locals[n++].port = c->port;
    }
    locals[n] = any;
    locals[n].port = c->client_port;
    ep->client_local = (uint16_t)n++;
    struct bt_udp_config u = {
        .locals = locals, .n_locals = n, .pool = &ep->pool.pool, .idle = c->spin ? BT_IDLE_SPIN : BT_IDLE_BLOCK};
    ep->io = bt_udp_open(&u, err, errlen);
    return ep->io != NULL;
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    struct r2p2_endpoint *ep = arg;
    struct r2p2_ctx *ctx = (struct r2p2_ctx *)(uintptr_t)cookie;
    (void)info;
    int n = bt_msg_iov(reply, ep->iov, ep->iov_max);
    if (ep->reply_frees == 0) { // more replies held than requests allowed
        bt_client_done(ep->client, reply);
        ctx->error_cb(ctx->arg, R2P2_ERR_NO_BUFFER);
        return;
    }
    uint32_t slot = ep->reply_free[--ep->reply_frees];
    ep->reply[slot] = *reply;
    ctx->success_cb((r2p2_handle_t)slot + 1, ctx->arg, ep->iov, n < ep->iov_max ? n : ep->iov_max);
}

static void on_timeout(void *arg, uint64_t cookie)
{
    struct r2p2_ctx *ctx = (struct r2p2_ctx *)(uintptr_t)cookie;
    (void)arg;
    ctx->timeout_cb(ctx->arg);
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    struct r2p2_ctx *ctx = (struct r2p2_ctx *)(uintptr_t)cookie;
    (void)arg;
    ctx->error_cb(ctx->arg, code);
}

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct r2p2_endpoint *ep = arg;
    (void)txq;
    int n = bt_msg_iov(&rq->msg, ep->iov, ep->iov_max);
    ep->ops.recv(ep->ops.arg, rq->handle, ep->iov, n < ep->iov_max ? n : ep->iov_max);
}

static bool on_admit(void *arg)
{
    struct r2p2_endpoint *ep = arg;
    return !ep->ops.flow_control || ep->ops.flow_control(ep->ops.arg) != 0;
}

static bool make_client(struct r2p2_endpoint *ep, const struct r2p2_config *c, const uint64_t seed[2])
{
    struct bt_client_cfg cfg = {
        .local = ep->io->ops->local(ep->io, ep->client_local),
        .local_index = ep->client_local,
        .mtu = c->mtu,
        .max_pending = c->max_pending,
        .max_assemblies = 64,
        .max_message = c->max_message,
        .extensions = !c->no_extensions,
        .timers = bt_rpc_timers_for(c->fast_timers ? BT_DEVICE_SRIOV : BT_DEVICE_KERNEL),
        .seed = seed[0],
        .pool = &ep->pool.pool,
        .ops = {on_success, on_timeout, on_error, ep},
        .flow_targets = c->no_extensions ? 0 : R2P2_REPLICAS_MAX,
    };
    bt_rng_seed(&ep->rng, seed[1]);
    size_t bytes = bt_client_bytes(&cfg);
    ep->client_mem = zeroed(bytes);
    ep->client = ep->client_mem ? bt_client_init(&cfg, ep->client_mem, bytes, bt_io_now(ep->io)) : NULL;
    return ep->client != NULL;
}

// Grows with every start (15 a second), in step with bobtail-serve: routers
// tell a new life from a late packet by serial arithmetic, so a random
// number would lock half of all restarted servers out.
static uint32_t new_incarnation(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return (uint32_t)(ns >> BT_INCARNATION_SHIFT);
}

static bool make_server(struct r2p2_endpoint *ep, const struct r2p2_config *c, const uint64_t seed[2])
{
    struct bt_server_cfg cfg = {
        .local = ep->io->ops->local(ep->io, 0),
        .local_index = 0,
        .mtu = c->mtu,
        .n = c->queue_depth,
        .feedback_port = c->feedback_port,
        .max_pending = c->max_pending,
        .max_assemblies = 64,
        .max_done = 16384,
        .max_held = 64,
        .max_message = c->max_message,
        .incarnation = new_incarnation(),
        .incarnation_shift = BT_INCARNATION_SHIFT,
        .timers = bt_rpc_timers_for(c->fast_timers ? BT_DEVICE_SRIOV : BT_DEVICE_KERNEL),
        .seed = {seed[0], seed[1]},
        .pool = &ep->pool.pool,
        .ops = {on_request, on_admit, ep},
    };
    if (c->key) {
        cfg.keys.key[0].id = c->key_id;
        memcpy(cfg.keys.key[0].bytes, c->key, 16);
    }
    size_t bytes = bt_server_bytes(&cfg);
    ep->server_mem = zeroed(bytes);
    ep->server = ep->server_mem ? bt_server_init(&cfg, ep->server_mem, bytes, bt_io_now(ep->io)) : NULL;
    return ep->server != NULL;
}

static bool make_buffers(struct r2p2_endpoint *ep, const struct r2p2_config *c)
{
    ep->max_pending = c->max_pending;
    // Full packets (M-13) behind a short first and before a short last one.
    ep->iov_max = (int)(c->max_message / (bt_r2p2_datagram_max(c->mtu, false) - BT_R2P2_HEADER) + 4);
    ep->pool_mem = zeroed(bt_pool_fixed_bytes(c->packets));
    ep->iov = calloc((size_t)ep->iov_max, sizeof *ep->iov);
    ep->reply = calloc(c->max_pending, sizeof *ep->reply);
    ep->reply_free = calloc(c->max_pending, sizeof *ep->reply_free);
    if (!ep->pool_mem || !ep->iov || !ep->reply || !ep->reply_free) {
        return false;
    }
    bt_pool_fixed_init(&ep->pool, ep->pool_mem, c->packets);
    for (uint32_t i = 0; i < c->max_pending; i++) {
        ep->reply_free[ep->reply_frees++] = i;
    }
    bt_txq_init(&ep->txq);
    return true;
}

static bool check(const struct r2p2_config *c, const struct r2p2_endpoint_ops *ops, char *err, size_t errlen)
{
    if (c->port && (!ops || !ops->recv)) {
        snprintf(err, errlen, "port %u is to be served but there is no receive callback", c->port);
    } else if (c->queue_depth > 64) {
        snprintf(err, errlen, "queue_depth: must be 1..64; got %u", c->queue_depth);
    } else if (c->max_pending > 65535) {
        snprintf(err, errlen, "max_pending: must be 1..65535; got %u", c->max_pending);
    } else if (c->max_message > 1u << 26) {
        snprintf(err, errlen, "max_message: must be at most 64 MiB; got %u", c->max_message);
    } else if (c->mtu && (c->mtu < BT_MTU_MIN || c->mtu > BT_MTU_MAX)) {
        snprintf(err, errlen, "mtu: must be 0 (read it from the interface) or %u..%u; got %u", BT_MTU_MIN, BT_MTU_MAX,
                 c->mtu);
    } else if (c->key && c->key_id == 0) {
        snprintf(err, errlen, "key_id: must be 1..255 when a key is given");
    } else {
        return true;
    }
    return false;
}

struct r2p2_endpoint *r2p2_endpoint_open(const struct r2p2_config *cfg, const struct r2p2_endpoint_ops *ops, char *err,
                                         size_t errlen)
{
    struct bt_server_router routers[BT_SERVER_ROUTERS];
    struct r2p2_config c = with_defaults(cfg);
    uint64_t seed[2];
    int n = bt_api_routers(c.routers, c.feedback_port, routers, err, errlen);
    if (n < 0 || !check(&c, ops, err, errlen)) {
        return NULL;
    }
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        snprintf(err, errlen, "the kernel gave no random numbers");
        return NULL;
    }
    c.mtu = c.mtu ? c.mtu : mtu_of(c.address);
    struct r2p2_endpoint *ep = calloc(1, sizeof *ep);
    if (ep && ops) {
        ep->ops = *ops;
    }
    snprintf(err, errlen, "out of memory; lower packets, max_pending or max_message");
    bool ok = ep && make_buffers(ep, &c) && open_sockets(ep, &c, err, errlen) && make_client(ep, &c, seed) &&
              (!c.port || make_server(ep, &c, seed));
    if (!ok) {
        r2p2_endpoint_close(ep);
        return NULL;
    }
    if (ep->server && n) {
        bt_server_set_routers(ep->server, bt_io_now(ep->io), routers, n, &ep->txq);
    }
    bt_io_tx(ep->io, &ep->txq);
    return ep;
}

void r2p2_endpoint_close(struct r2p2_endpoint *ep)
{
    if (!ep) {
        return;
    }
    if (ep->server) {
        bt_server_leave(ep->server, bt_io_now(ep->io), &ep->txq);
        bt_io_tx(ep->io, &ep->txq);
    }
    if (ep->client) {
        bt_client_close(ep->client, bt_io_now(ep->io));
    }
    if (ep->io) {
        ep->io->ops->close(ep->io);
    }
    free(ep->client_mem);
    free(ep->server_mem);
    free(ep->pool_mem);
    free(ep->iov);
    free(ep->reply);
    free(ep->reply_free);
    free(ep);
}
