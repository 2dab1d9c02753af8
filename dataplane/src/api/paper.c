// SPDX-License-Identifier: Apache-2.0
// The calls of the R2P2 paper: each thread has one endpoint, found without
// being named. The only state of the library that is not in an object, and it
// is private to this file.
#include <stdio.h>
#include <string.h>

#include "bobtail/r2p2.h"

static struct r2p2_config process_config;
static r2p2_recv_fn recv_fn;
static r2p2_flow_control_fn flow_fn;

static _Thread_local struct r2p2_endpoint *mine;
static _Thread_local char why[256];

int r2p2_init_config(const struct r2p2_config *cfg)
{
    memset(&process_config, 0, sizeof process_config);
    memcpy(&process_config, cfg, cfg->size && cfg->size < sizeof *cfg ? cfg->size : sizeof *cfg);
    process_config.size = sizeof process_config;
    return 0;
}

int r2p2_init(int listen_port)
{
    if (listen_port < 0 || listen_port > 65535) {
        return R2P2_ERR_BAD_ARGUMENT;
    }
    struct r2p2_config cfg = {.size = sizeof cfg, .port = (uint16_t)listen_port};
    return r2p2_init_config(&cfg);
}

static void on_recv(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    (void)arg;
    recv_fn(handle, iov, iovcnt);
}

static int on_flow(void *arg)
{
    (void)arg;
    return flow_fn ? flow_fn() : 1;
}

int r2p2_init_per_core(int core_id, int core_count)
{
    struct r2p2_config cfg = process_config;
    struct r2p2_endpoint_ops ops = {recv_fn ? on_recv : NULL, on_flow, NULL};
    if (core_id < 0 || core_id >= core_count || (cfg.port && cfg.port + core_id > 65535)) {
        snprintf(why, sizeof why, "core %d of %d with listen port %u: no such worker", core_id, core_count, cfg.port);
        return R2P2_ERR_BAD_ARGUMENT;
    }
    if (cfg.client_port && cfg.client_port + core_id > 65535) {
        snprintf(why, sizeof why, "core %d of %d with client port %u: no such port", core_id, core_count,
                 cfg.client_port);
        return R2P2_ERR_BAD_ARGUMENT;
    }
    if (mine) {
        snprintf(why, sizeof why, "this thread was initialised before");
        return R2P2_ERR_BAD_ARGUMENT;
    }
    cfg.port = (uint16_t)(cfg.port ? cfg.port + core_id : 0);
    cfg.client_port = (uint16_t)(cfg.client_port ? cfg.client_port + core_id : 0);
    mine = r2p2_endpoint_open(&cfg, &ops, why, sizeof why);
    return mine ? 0 : R2P2_ERR_NOT_READY;
}

const char *r2p2_init_error(void)
{
    return why;
}

void r2p2_exit_per_core(void)
{
    r2p2_endpoint_close(mine);
    mine = NULL;
}

int r2p2_poll(void)
{
    return mine ? r2p2_endpoint_poll(mine) : R2P2_ERR_NOT_READY;
}

int r2p2_send_req(struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx)
{
    return mine ? r2p2_endpoint_send_req(mine, iov, iovcnt, ctx) : R2P2_ERR_NOT_READY;
}

int r2p2_try_send(struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx, long *retry_after_us)
{
    return mine ? r2p2_endpoint_try_send(mine, iov, iovcnt, ctx, retry_after_us) : R2P2_ERR_NOT_READY;
}

int r2p2_send_response(r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    return mine ? r2p2_endpoint_send_response(mine, handle, iov, iovcnt) : R2P2_ERR_NOT_READY;
}

int r2p2_cancelled(r2p2_handle_t handle)
{
    return mine && r2p2_endpoint_cancelled(mine, handle);
}

int r2p2_abandon(r2p2_handle_t handle)
{
    return mine ? r2p2_endpoint_abandon(mine, handle) : R2P2_ERR_NOT_READY;
}

int r2p2_recv_resp_done(r2p2_handle_t handle)
{
    return mine ? r2p2_endpoint_recv_resp_done(mine, handle) : R2P2_ERR_NOT_READY;
}

void r2p2_set_recv_cb(r2p2_recv_fn fn)
{
    recv_fn = fn;
}

void r2p2_set_app_flow_control_fn(r2p2_flow_control_fn fn)
{
    flow_fn = fn;
}
