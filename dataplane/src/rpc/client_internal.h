// SPDX-License-Identifier: Apache-2.0
// The client's own structures, shared by client*.c only.
#ifndef BT_RPC_CLIENT_INTERNAL_H
#define BT_RPC_CLIENT_INTERNAL_H

#include "base/wheel.h"
#include "rpc/assembly.h"
#include "rpc/client.h"
#include "rpc/fc_target.h"
#include "rpc/port.h"
#include "rpc/train.h"

// Life of a request. A single-packet one goes from SENT to REPLYING or its end.
enum bt_call_state {
    BT_CALL_FREE,
    BT_CALL_SENT,     // single packet, waiting for the reply
    BT_CALL_OFFERED,  // REQ0 of several, waiting for REQRDY
    BT_CALL_SENDING,  // REQRDY seen, train leaving or left
    BT_CALL_REPLYING, // first reply packet seen
};

struct bt_call {
    struct bt_timer deadline;
    struct bt_timer repair;   // next burst while SENDING, RTO while REPLYING
    uint64_t cookie;
    struct bt_addr peer; // the only one who may answer, once peer_known
    uint16_t req_id;
    uint8_t state;
    uint8_t policy;
    bool peer_known;
    bool peer_ext;                 // peer set X: may get SACK
    bool multi;                    // request of several packets
    uint8_t class_id, class_flags; // of the reply's F packet
    uint64_t trace;                // likewise
    struct bt_train *train;
    struct bt_assembly *reply;
    struct bt_call *next_free;
    struct bt_fc_target *flow; // whose token it has; NULL: none
    uint32_t flow_voice;       // and whom of them it was charged to
    bool signalled;            // the reply's F packet carried `signal`
    uint16_t signal;
};

// What became of a req_id, remembered while it is in quarantine.
enum bt_id_end { BT_ID_FAILED = 0, BT_ID_ANSWERED = 1, BT_ID_ANSWERED_HEDGEABLE = 2 };

// Per id: pending bit and slot, or end and coarse time of release, or 0.
#define BT_ID_PENDING   0x80000000u
#define BT_ID_END_SHIFT 29
#define BT_ID_TIME_MASK 0x1fffffffu
#define BT_ID_SCAN      1024u // ids tried by one send

struct bt_client {
    struct bt_client_cfg cfg;
    struct bt_port port;
    struct bt_wheel wheel;
    struct bt_call *calls;
    struct bt_call *free;
    uint32_t pending;
    uint16_t next_id;
    uint32_t unit_shift; // ns per unit of release time, as a power of two
    uint32_t quarantine; // in those units
    bool closed;         // starts nothing any more
    uint32_t *ids;       // 65,536 of them
    struct bt_assembly_pool assemblies;
    struct bt_train_pool trains;
    struct bt_fc_target *target; // cfg.flow_targets of them, the first `targets` in use
    uint32_t targets;
    struct bt_txq *txq; // of the call in progress, for timers
    uint64_t now;
    uint64_t counters[BT_CLIENT_COUNTERS];
};

// Time never goes back inside the client, so that differences of times are
// never negative: a clock set back makes its timers late, nothing else.
static inline void bt_client_clock(struct bt_client *c, uint64_t now_ns)
{
    c->now = now_ns > c->now ? now_ns : c->now;
}

struct bt_call *bt_client_find(struct bt_client *c, uint16_t req_id);

// Frees everything the call holds and puts its id into quarantine. The caller
// then runs the one callback, from copies.
void bt_client_finish(struct bt_client *c, struct bt_call *call, enum bt_id_end end);

// It names somebody, a time and a policy: else it cannot be sent.
bool bt_request_sound(const struct bt_request *rq);

// client_flow.c. Gives the call's token back; then what the server said with its end, if there is a reply or a DROP.
static inline void bt_client_flow_end(struct bt_call *call)
{
    if (__builtin_expect(call->flow != NULL, 0)) {
        bt_fc_target_ended(call->flow, call->flow_voice);
        call->flow = NULL;
    }
}
void bt_client_flow_replied(struct bt_client *c, struct bt_call *call, const struct bt_addr *from);
void bt_client_flow_dropped(struct bt_client *c, struct bt_call *call, const struct bt_addr *from,
                            const struct bt_options *o);
// A request whose token is taken; rq as bt_client_send has it.
int bt_client_send_charged(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq,
                           struct bt_fc_target *flow, uint32_t voice);

// finish plus the error callback and its counter.
void bt_client_fail(struct bt_client *c, struct bt_call *call, enum bt_rpc_error code);

// Sends the next burst of a request's train and arms the one after.
void bt_client_burst(struct bt_client *c, struct bt_call *call, struct bt_txq *txq);

#endif
