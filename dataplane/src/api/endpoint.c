// SPDX-License-Identifier: Apache-2.0
// Using an endpoint: poll, wait, requests and replies.
#include "api/endpoint.h"

#include <string.h>

static void flush(struct r2p2_endpoint *ep)
{
    if (!ep->in_poll) {
        bt_io_tx(ep->io, &ep->txq);
    }
}

int r2p2_endpoint_poll(struct r2p2_endpoint *ep)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    if (!ep->looked) {
        bt_io_wait(ep->io, 0); // looks which ports have something; does not sleep
    }
    ep->looked = false;
    unsigned n = bt_io_rx(ep->io, BT_IO_ANY, pkts, BT_IO_BATCH);
    uint64_t now = bt_io_now(ep->io);
    ep->in_poll = true;
    for (unsigned i = 0; i < n; i++) {
        if (pkts[i]->local == ep->client_local) {
            bt_client_rx(ep->client, now, pkts[i], &ep->txq);
        } else {
            bt_server_rx(ep->server, now, pkts[i], &ep->txq);
        }
    }
    if (bt_client_next(ep->client) <= now) {
        bt_client_tick(ep->client, now, &ep->txq);
    }
    if (ep->server && bt_server_next(ep->server) <= now) {
        bt_server_tick(ep->server, now, &ep->txq);
    }
    ep->in_poll = false;
    bt_io_tx(ep->io, &ep->txq);
    return (int)n;
}

void r2p2_endpoint_wait(struct r2p2_endpoint *ep, long max_us)
{
    uint64_t until = bt_client_next(ep->client);
    if (ep->server && bt_server_next(ep->server) < until) {
        until = bt_server_next(ep->server);
    }
    if (max_us >= 0) {
        uint64_t limit = bt_io_now(ep->io) + (uint64_t)max_us * 1000;
        until = limit < until ? limit : until;
    }
    bt_io_wait(ep->io, until);
    ep->looked = true;
}

// 0, or what is wrong with it.
static int read_ctx(struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx, struct bt_request *rq)
{
    *rq = (struct bt_request){.iov = iov, .iovcnt = iovcnt, .cookie = (uint64_t)(uintptr_t)ctx};
    if (!ctx || !ctx->success_cb || !ctx->error_cb || !ctx->timeout_cb || ctx->timeout <= 0) {
        return R2P2_ERR_BAD_ARGUMENT;
    }
    if (ctx->destination_text) {
        if (bt_addr_parse(ctx->destination_text, 8000, &rq->dst)) {
            return R2P2_ERR_BAD_ARGUMENT;
        }
    } else if (ctx->destination) {
        rq->dst = bt_addr_v4u(ctx->destination->ip, ctx->destination->port);
    }
    rq->timeout_ns = (uint64_t)ctx->timeout * 1000;
    rq->policy = (uint8_t)ctx->routing_policy;
    return 0;
}

int r2p2_endpoint_send_req(struct r2p2_endpoint *ep, struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx)
{
    struct bt_request rq;
    int wrong = read_ctx(iov, iovcnt, ctx, &rq);
    if (wrong) {
        return wrong;
    }
    int id = bt_client_send(ep->client, bt_io_now(ep->io), &rq, &ep->txq);
    flush(ep);
    return id < 0 ? id : 0;
}

static int try_any(struct r2p2_endpoint *ep, const struct bt_request *rq, const struct bt_replicas *replicas,
                   long *retry_after_us)
{
    uint64_t wait_ns = 0;
    int id = bt_client_try_any(ep->client, bt_io_now(ep->io), rq, replicas, &ep->txq, &wait_ns);
    flush(ep);
    *retry_after_us = (long)((wait_ns + 999) / 1000);
    return id < 0 ? id : 0;
}

int r2p2_endpoint_try_send(struct r2p2_endpoint *ep, struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx,
                           long *retry_after_us)
{
    struct bt_request rq;
    *retry_after_us = 0;
    int wrong = read_ctx(iov, iovcnt, ctx, &rq);
    if (wrong) {
        return wrong;
    }
    struct bt_replicas one = {.addr = &rq.dst, .n = 1};
    return try_any(ep, &rq, &one, retry_after_us);
}

int r2p2_endpoint_try_any(struct r2p2_endpoint *ep, struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx,
                          const struct r2p2_replicas *replicas, long *retry_after_us)
{
    struct bt_addr addr[R2P2_REPLICAS_MAX];
    struct bt_request rq;
    *retry_after_us = 0;
    int wrong = read_ctx(iov, iovcnt, ctx, &rq);
    if (wrong || !replicas || !replicas->at || replicas->n < 1 || replicas->n > R2P2_REPLICAS_MAX) {
        return R2P2_ERR_BAD_ARGUMENT;
    }
    for (int i = 0; i < replicas->n; i++) {
        addr[i] = bt_addr_v4u(replicas->at[i].ip, replicas->at[i].port);
    }
    struct bt_replicas all = {
        .addr = addr, .n = (uint32_t)replicas->n, .first = bt_rng_below(&ep->rng, (uint32_t)replicas->n)};
    return try_any(ep, &rq, &all, retry_after_us);
}

int r2p2_endpoint_send_response(struct r2p2_endpoint *ep, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    if (!ep->server) {
        return R2P2_ERR_NOT_READY;
    }
    int err = bt_server_reply(ep->server, bt_io_now(ep->io), handle, iov, iovcnt, &ep->txq);
    flush(ep);
    return err;
}

int r2p2_endpoint_cancelled(struct r2p2_endpoint *ep, r2p2_handle_t handle)
{
    return ep->server && bt_server_cancelled(ep->server, handle);
}

int r2p2_endpoint_abandon(struct r2p2_endpoint *ep, r2p2_handle_t handle)
{
    if (!ep->server) {
        return R2P2_ERR_NOT_READY;
    }
    int err = bt_server_abandon(ep->server, bt_io_now(ep->io), handle, &ep->txq);
    flush(ep);
    return err;
}

int r2p2_endpoint_recv_resp_done(struct r2p2_endpoint *ep, r2p2_handle_t handle)
{
    if (handle == 0 || handle > ep->max_pending || !ep->reply[handle - 1].packets) {
        return R2P2_ERR_BAD_ARGUMENT;
    }
    bt_client_done(ep->client, &ep->reply[handle - 1]);
    ep->reply_free[ep->reply_frees++] = (uint32_t)(handle - 1);
    return 0;
}
