// SPDX-License-Identifier: Apache-2.0
// R2P2 client: one object is one UDP port with many requests outstanding.
// A pure state machine: bytes and `now` in, packets and callbacks out. Every
// started request ends in exactly one of success, timeout, error.
#ifndef BT_RPC_CLIENT_H
#define BT_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/pkt.h"
#include "rpc/error.h"
#include "rpc/msg.h"
#include "rpc/profile.h"
#include "wire/mcase.h"

struct bt_reply_info {
    struct bt_addr from; // worker that answered
    uint16_t req_id;
    uint8_t class_id, class_flags; // echoed class, 0 when none
    uint64_t trace;                // echoed trace id, 0 when none
    uint64_t t_rx_ns;              // arrival of the packet that completed the reply
};

struct bt_client_ops {
    // reply belongs to the callee until bt_client_done.
    void (*success)(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info);
    void (*timeout)(void *arg, uint64_t cookie);
    void (*error)(void *arg, uint64_t cookie, int code); // enum bt_rpc_error
    void *arg;
};

struct bt_client_cfg {
    struct bt_addr local;    // our address and port
    uint16_t local_index;    // bt_pkt.local of what we send
    uint16_t mtu;            // IP MTU, default 1500
    uint32_t max_pending;    // requests outstanding at once, 1…65535
    uint32_t max_assemblies; // multi-packet replies being received at once
    uint32_t max_message;    // bytes, default 1 MiB
    bool extensions;         // set X (SACK, options); off to talk to peers that predate it
    struct bt_rpc_timers timers;
    uint64_t seed; // of the first request id
    struct bt_pool *pool;
    struct bt_client_ops ops;
    uint32_t flow_targets; // addresses that flow control is kept for (bt_client_try_send); 0: none, at most 1,024
};

struct bt_request {
    const struct iovec *iov; // copied before the call returns
    int iovcnt;
    struct bt_addr dst;  // router or server
    uint64_t timeout_ns; // from now to the whole reply
    uint64_t cookie;
    uint8_t policy;  // enum bt_policy
    bool with_class; // send option 3 (extensions only)
    bool with_trace; // send option 4 (extensions only)
    uint8_t class_id, class_flags;
    uint64_t trace;
};

// What a client counts: index 0…BT_M_COUNT-1 by M-case (0: accepted packets),
// then these.
enum bt_client_counter {
    BT_CLIENT_STARTED = BT_M_COUNT,
    BT_CLIENT_SUCCEEDED,
    BT_CLIENT_TIMED_OUT,
    BT_CLIENT_DROPPED,
    BT_CLIENT_INCOMPLETE,
    BT_CLIENT_NO_BUFFER,
    BT_CLIENT_CANCELLED,
    BT_CLIENT_REFUSED_TABLE, // sends refused: table full
    BT_CLIENT_REFUSED_ID,    // sends refused: no free id
    BT_CLIENT_LATE_REPLY,    // reply to a pair that timed out or failed
    BT_CLIENT_HEDGE_LATE,    // second reply to an answered single-packet policy-0 pair
    BT_CLIENT_FOREIGN_REPLY, // reply from another server than the REQRDY's
    BT_CLIENT_DUPLICATE,     // identical packet again
    BT_CLIENT_SACK_SENT,
    BT_CLIENT_SACK_RECEIVED,
    BT_CLIENT_RESENT, // packets sent again
    BT_CLIENT_PACKETS_SENT,
    BT_CLIENT_REFUSED_FLOW, // sends refused: no token (F-40)
    BT_CLIENT_FLOW_SILENCE, // signals that asked for silence
    BT_CLIENT_COUNTERS
};
extern const struct bt_counter_desc bt_client_counter_desc[BT_CLIENT_COUNTERS];

struct bt_client;

// Memory bt_client_init wants, 0 when the configuration is invalid.
size_t bt_client_bytes(const struct bt_client_cfg *cfg);

// Lays the client out in mem (64-byte aligned); NULL when mem is too small or
// the configuration invalid. cfg is copied.
struct bt_client *bt_client_init(const struct bt_client_cfg *cfg, void *mem, size_t bytes, uint64_t now_ns);

// Starts a request: its request id (0…65535), or an enum bt_rpc_error and no
// callback. Packets to send are appended to txq.
int bt_client_send(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq);

// The same under flow control (F-40): the request says that it wants to be told, and leaves only if it would probably
// be served in time. BT_RPC_AGAIN: it would not, nothing was sent, and *retry_after_ns is when asking again makes
// sense. Needs extensions; BT_RPC_BAD_ARGUMENT without flow_targets.
int bt_client_try_send(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq,
                       uint64_t *retry_after_ns);

// F-48: to the first of n replicas that can take it, from number `first` on, which the caller draws; rq->dst is not
// looked at. *retry_after_ns is the shortest of all.
struct bt_replicas {
    const struct bt_addr *addr;
    uint32_t n, first;
};
int bt_client_try_any(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq,
                      const struct bt_replicas *replicas, struct bt_txq *txq, uint64_t *retry_after_ns);

// Takes a received packet; consumes it or gives it back to the pool.
void bt_client_rx(struct bt_client *c, uint64_t now_ns, struct bt_pkt *pkt, struct bt_txq *txq);

// Runs timers that are due.
void bt_client_tick(struct bt_client *c, uint64_t now_ns, struct bt_txq *txq);

// When tick must run next (ns), UINT64_MAX when nothing is pending.
uint64_t bt_client_next(const struct bt_client *c);

// Returns a reply's packets to the pool (r2p2_recv_resp_done).
void bt_client_done(struct bt_client *c, struct bt_msg *reply);

// Ends every outstanding request with BT_RPC_CANCELLED, which is also what
// bt_client_send returns from then on, inside those callbacks too.
void bt_client_close(struct bt_client *c, uint64_t now_ns);

uint32_t bt_client_pending(const struct bt_client *c);
const uint64_t *bt_client_counters(const struct bt_client *c); // BT_CLIENT_COUNTERS of them

#endif
