// SPDX-License-Identifier: Apache-2.0
// R2P2 server: one object is one worker, that is one UDP port.
// A pure state machine. Every request accepted from the network is counted once
// in `received` and once in `served` of the router it came through, whatever
// its fate, so that no router credit is ever lost.
#ifndef BT_RPC_SERVER_H
#define BT_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/histogram.h"
#include "base/pkt.h"
#include "base/trace.h"
#include "rpc/error.h"
#include "rpc/msg.h"
#include "rpc/profile.h"
#include "wire/mcase.h"
#include "wire/tag.h"

#define BT_SERVER_ROUTERS 16 // configured at once

struct bt_server_request {
    uint64_t handle;
    struct bt_msg msg; // valid until bt_server_reply or bt_server_drop
    struct bt_addr client;
    uint16_t req_id;
    uint8_t policy;
    uint8_t class_id, class_flags; // 0 when none
    int router;                    // index of the router it came through, -1: none
    uint64_t trace;                // 0 when none
    uint64_t session, session_seq; // of a replicated write that may be asked for again; 0: none
    uint64_t t_first_ns;           // arrival of its first packet
};

// What the application makes of a CANCEL. After REMOVED and STOPPED the request is gone: its bytes are freed, its
// handle means nothing, and nobody gets a reply. KEPT: it is answered as ever, or given up later (bt_server_abandon).
enum bt_server_cancel {
    BT_CANCEL_KEPT,
    BT_CANCEL_REMOVED, // it waited, and never runs
    BT_CANCEL_STOPPED, // it was being executed
};

struct bt_server_ops {
    // A whole request is present. May call bt_server_reply or bt_server_drop
    // at once with the same txq, or later.
    void (*on_request)(void *arg, const struct bt_server_request *rq, struct bt_txq *txq);
    // Asked when the first packet of a request arrives; false means DROP.
    // NULL: always true.
    bool (*admit)(void *arg);
    void *arg;
    // Its router does not need the request that was handed over as `handle` any more. NULL: always KEPT.
    enum bt_server_cancel (*on_cancel)(void *arg, uint64_t handle);
};

// Flow control by waiting time (F-10 to F-18): who measures and decides is the owner's; the server says what comes and
// goes, and puts on packets what is to be told. Clients are numbered by the owner.
#define BT_FLOW_NONE    0x7fffffffu // no number: nothing is kept of this client
#define BT_FLOW_REFUSED 0x80000000u // with a number: the request is past every token, and gets DROP

struct bt_server_took {
    uint64_t began_ns, ended_ns; // ended 0: nobody said so (F-10)
};

struct bt_server_came {
    bool asked;  // its client wants to be told (option 8)
    bool routed; // a router sent it here
};

struct bt_server_flow {
    // A request is here. The number of its client.
    uint32_t (*arrived)(void *arg, const struct bt_addr *client, struct bt_server_came came, uint64_t now_ns);
    // It is being answered. took NULL: it was not executed.
    void (*left)(void *arg, uint32_t number, const struct bt_server_took *took);
    // The 16 bits for a packet to that client; BT_FLOW_NONE: for one that nobody knows. 0: flow control is off.
    uint16_t (*signal)(void *arg, uint32_t number, uint64_t now_ns);
    void *arg;
};

// A router this worker gives credit to.
struct bt_server_router {
    struct bt_addr request;  // where it takes requests; its packets carry this address
    struct bt_addr feedback; // where FEEDBACK goes
    bool legacy;             // 16-byte FEEDBACK; requests without any router mark count as its own
};

// An incarnation is a wall clock at its start in ticks of 2^26 ns, 15 a second.
#define BT_INCARNATION_SHIFT 26

struct bt_server_cfg {
    struct bt_addr local;      // worker identity
    uint16_t local_index;      // bt_pkt.local of what we send
    uint16_t mtu;              // IP MTU, default 1500
    uint16_t n;                // requests queued and executing granted in all, 1…64
    uint16_t feedback_port;    // of a router known only by its valid tag, default 9000
    uint32_t max_pending;      // pairs receiving, executing or kept for repair
    uint32_t max_assemblies;   // multi-packet requests being received at once
    uint32_t max_done;         // finished pairs remembered against duplicates
    uint32_t max_held;         // packets held that overtook their F packet
    uint32_t max_message;      // bytes, default 1 MiB
    uint32_t incarnation;      // changes at every start
    uint8_t incarnation_shift; // it grows every 2^this ns for routers that are joined later; 0: it does not
    bool replicated;           // policies 2 and 3 are handed over like the others; else they are refused
    struct bt_rpc_timers timers;
    struct bt_keyring keys;
    uint64_t seed[2]; // of the pair tables' hashes
    struct bt_pool *pool;
    struct bt_server_ops ops;
    struct bt_hist_slices *latency; // first packet in → last packet out; NULL: not kept
    struct bt_hist_slices *service; // execution: hand-off, or the end of the one before, → reply; NULL: not kept
    struct bt_trace_ring *traces;   // of requests with a trace id; NULL: not kept
    struct bt_server_flow flow;     // arrived NULL: no flow control
};

enum bt_server_counter {
    BT_SERVER_REQUESTS = BT_M_COUNT, // requests accepted from the network
    BT_SERVER_REPLIES,
    BT_SERVER_DROP_ADMIT,     // DROP: the application's flow control said no
    BT_SERVER_DROP_APP,       // DROP: bt_server_drop
    BT_SERVER_DROP_TABLE,     // DROP: pair table or assemblies full (M-24)
    BT_SERVER_DROP_POLICY,    // DROP: policy known but not implemented here
    BT_SERVER_DROP_MALFORMED, // DROP: REQUEST of unknown policy, critical option or too large
    BT_SERVER_COLLECTED,      // incomplete requests freed
    BT_SERVER_DUPLICATE,      // identical packet again
    BT_SERVER_FEEDBACK_SENT,
    BT_SERVER_REQRDY_SENT,
    BT_SERVER_SACK_SENT,
    BT_SERVER_SACK_RECEIVED,
    BT_SERVER_RESENT,
    BT_SERVER_PACKETS_SENT,
    BT_SERVER_NO_BUFFER,         // a packet could not be sent: pool empty
    BT_SERVER_CREDITS_EARLY,     // credits given back before their request was whole
    BT_SERVER_CREDITS_UNWANTED,  // and of first packets that made no pair
    BT_SERVER_DISPLACED,         // DROP: incomplete, gave way to another one
    BT_SERVER_HELD,              // packets that waited in the holding list
    BT_SERVER_CANCELS_REMOVED,   // CANCEL: the request waited, and is gone
    BT_SERVER_CANCELS_STOPPED,   // its execution ended without a reply
    BT_SERVER_CANCELS_KEPT,      // the application goes on
    BT_SERVER_FORGOTTEN,         // ended without an answer: nobody knows whether it was executed
    BT_SERVER_CANCELS_UNMATCHED, // no such copy here: it came too late, too early, twice or from another router
    BT_SERVER_DROP_FLOW,         // DROP: past every token (F-18)
    BT_SERVER_FLOW_SIGNALS,      // replies and DROPs that carried a signal
    BT_SERVER_COUNTERS
};
extern const struct bt_counter_desc bt_server_counter_desc[BT_SERVER_COUNTERS];

struct bt_server_router_state {
    struct bt_server_router router;
    uint64_t received, served;
    uint64_t heard_ns;    // last request that came through it, 0: never
    uint64_t feedback_ns; // last FEEDBACK sent, 0: never
    uint16_t granted;     // n told last
    bool configured;      // false: known by tag only, or removed and draining
};

struct bt_server;

size_t bt_server_bytes(const struct bt_server_cfg *cfg); // 0: invalid configuration
struct bt_server *bt_server_init(const struct bt_server_cfg *cfg, void *mem, size_t bytes, uint64_t now_ns);

// Takes a received packet; consumes it or gives it back to the pool.
void bt_server_rx(struct bt_server *s, uint64_t now_ns, struct bt_pkt *pkt, struct bt_txq *txq);
// The same for several, each at the time it arrived (t_rx_ns). What the table has of so many is asked for before the
// first is looked at: one by one, each would wait for it.
enum { BT_SERVER_AHEAD = 16 };
void bt_server_rx_burst(struct bt_server *s, struct bt_pkt **pkts, unsigned n, struct bt_txq *txq);
void bt_server_tick(struct bt_server *s, uint64_t now_ns, struct bt_txq *txq);
uint64_t bt_server_next(const struct bt_server *s);

// When a request's execution began and ended, of which the server knows only that it lies between hand-over and answer
// (F-10). Before its reply; ended_ns 0: nobody knows. An unknown handle is ignored.
void bt_server_measured(struct bt_server *s, uint64_t handle, uint64_t began_ns, uint64_t ended_ns);

// Answers. 0; BT_RPC_NO_BUFFER: pool empty, state unchanged, call again later
// (and drop the request when that does not help: those waiting may hold every packet);
// BT_RPC_TOO_LARGE: the pair stays open; BT_RPC_BAD_ARGUMENT: unknown handle
// (answered before). FEEDBACK follows the last reply packet in txq.
int bt_server_reply(struct bt_server *s, uint64_t now_ns, uint64_t handle, const struct iovec *iov, int iovcnt,
                    struct bt_txq *txq);

// A request that came another way than to this worker's port, and is answered from here: its handle in *handle.
// 0; BT_RPC_BAD_ARGUMENT: this pair is here, or was answered or refused from here lately; BT_RPC_NO_BUFFER: no room.
struct bt_server_adopted {
    struct bt_addr client;
    uint16_t req_id;
    uint8_t policy;
    bool ext;            // its client understands extensions
    uint64_t t_first_ns; // arrival of its first packet; 0: not known
};
int bt_server_adopt(struct bt_server *s, uint64_t now_ns, const struct bt_server_adopted *a, uint64_t *handle,
                    struct bt_txq *txq);

// Refuses a request that was handed over but not executed. 0 or BT_RPC_BAD_ARGUMENT.
int bt_server_drop(struct bt_server *s, uint64_t now_ns, uint64_t handle, struct bt_txq *txq);

// The same with bytes that say why, behind the word DROP.
#define BT_SERVER_WHY_MAX 32u
struct bt_server_why {
    uint8_t bytes[BT_SERVER_WHY_MAX];
    uint32_t n;
};
int bt_server_drop_why(struct bt_server *s, uint64_t now_ns, uint64_t handle, const struct bt_server_why *why,
                       struct bt_txq *txq);

// Ends a request that was handed over and may or may not have been executed: nobody gets an answer, its client times
// out. 0 or BT_RPC_BAD_ARGUMENT.
int bt_server_forget(struct bt_server *s, uint64_t now_ns, uint64_t handle, struct bt_txq *txq);

// Its router took the request back. False for an unknown handle.
bool bt_server_cancelled(const struct bt_server *s, uint64_t handle);
// Ends a request that was taken back: no reply, and its router learns it. 0; BT_RPC_BAD_ARGUMENT: it was not.
int bt_server_abandon(struct bt_server *s, uint64_t now_ns, uint64_t handle, struct bt_txq *txq);

// Replaces the list of routers (at most BT_SERVER_ROUTERS). Counters of those
// that stay are kept; new ones get a JOIN. 0 or BT_RPC_BAD_ARGUMENT.
int bt_server_set_routers(struct bt_server *s, uint64_t now_ns, const struct bt_server_router *routers, int count,
                          struct bt_txq *txq);
void bt_server_set_keys(struct bt_server *s, const struct bt_keyring *keys);
// n 1…64, or 0: send nothing (not ready). Told to every router at once.
void bt_server_set_n(struct bt_server *s, uint64_t now_ns, uint16_t n, struct bt_txq *txq);
// From the next time each timer is set. 0 or BT_RPC_BAD_ARGUMENT.
int bt_server_set_timers(struct bt_server *s, const struct bt_rpc_timers *timers);

// LEAVE to every router, repeated with each FEEDBACK; requests that still come
// are served. join takes it back.
void bt_server_leave(struct bt_server *s, uint64_t now_ns, struct bt_txq *txq);
void bt_server_join(struct bt_server *s, uint64_t now_ns, struct bt_txq *txq);

// Requests receiving, executing or with reply packets still to be sent.
uint32_t bt_server_backlog(const struct bt_server *s);

// State of router i, false when there is no such one.
bool bt_server_router_state(const struct bt_server *s, int i, struct bt_server_router_state *out);
const uint64_t *bt_server_counters(const struct bt_server *s);

#endif
