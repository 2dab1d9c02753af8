// SPDX-License-Identifier: Apache-2.0
// Inside of a public endpoint, shared by endpoint*.c only.
#ifndef BT_API_ENDPOINT_H
#define BT_API_ENDPOINT_H

#include <stdbool.h>

#include "base/rng.h"
#include "bobtail/r2p2.h"
#include "io/udp.h"
#include "rpc/client.h"
#include "rpc/server.h"

struct r2p2_endpoint {
    struct bt_io *io;
    struct bt_pool_fixed pool;
    struct bt_client *client;
    struct bt_server *server; // NULL: client only
    struct r2p2_endpoint_ops ops;
    struct bt_txq txq;
    bool in_poll; // packets queued by callbacks leave at its end
    bool looked;  // a wait ended since the last poll, so the ports need not be looked at again
    uint16_t client_local;
    uint64_t now;      // of the poll in progress
    struct iovec *iov; // of the message handed to a callback
    int iov_max;
    struct bt_msg *reply; // replies not done yet, by handle
    uint32_t *reply_free;
    uint32_t reply_frees;
    uint32_t max_pending;
    struct bt_rng rng; // which replica is asked first
    void *pool_mem, *client_mem, *server_mem;
};

// Parses "a:p,b:p" into at most BT_SERVER_ROUTERS routers; their number, or -1
// with a sentence in err.
int bt_api_routers(const char *text, uint16_t feedback_port, struct bt_server_router *out, char *err, size_t errlen);

#endif
