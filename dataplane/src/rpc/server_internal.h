// SPDX-License-Identifier: Apache-2.0
// The server's own structures, shared by server*.c only.
#ifndef BT_RPC_SERVER_INTERNAL_H
#define BT_RPC_SERVER_INTERNAL_H

#include "base/pairs.h"
#include "base/wheel.h"
#include "rpc/assembly.h"
#include "rpc/patience.h"
#include "rpc/port.h"
#include "rpc/server.h"
#include "rpc/train.h"
#include "wire/feedback.h"

enum bt_pair_state {
    BT_PAIR_FREE,
    BT_PAIR_RECEIVING, // some packets of a multi-packet request present
    BT_PAIR_EXECUTING, // handed to the application
    BT_PAIR_SENDING,   // reply leaving in bursts
    BT_PAIR_KEPT,      // reply sent, kept for SACK (X clients)
};

#define BT_NO_ROUTER 0xffu

struct bt_pair {
    struct bt_timer timer; // RTO, next burst, or end of keeping; by state
    struct bt_addr client;
    uint16_t req_id;
    uint8_t state;
    uint8_t policy;
    uint8_t router; // index or BT_NO_ROUTER
    bool ext;       // client set X
    uint8_t echo;   // of BT_ECHOED, BT_HAS_COPY and BT_HAS_SESSION, what the request had
    uint8_t class_id, class_flags;
    uint32_t generation; // upper half of the handle
    uint32_t hash;       // of client and req_id in the pair table
    uint32_t packets;    // of the request
    uint32_t content;    // of a client without X (bt_server_content); 0: not looked at
    uint32_t copy;       // with BT_HAS_COPY: which of its router's copies it is; 0: taken back
    uint32_t taken_back; // what copy was then
    uint64_t trace;
    uint64_t session, session_seq; // with BT_HAS_SESSION in echo
    uint64_t t_first_ns, t_handed_ns;
    uint64_t hold_until_ns; // RECEIVING: its credit is held so long; 0: it gave it back, or had none
    bool paid;              // its credit went back before its end
    bool begun;             // RECEIVING without a credit: more than its first packet is here
    struct bt_assembly *in;
    struct bt_msg msg;
    struct bt_train *out;
    struct bt_pair *next_free;
    struct bt_pair *kept_prev, *kept_next; // while KEPT, or RECEIVING without a credit
    uint32_t flow;                         // its client's number while it is under way (F-10); BT_FLOW_NONE
    uint16_t signal;                       // what its client is told; 0: nothing
    bool flow_asked, measured;
    struct bt_server_took took; // with `measured`
};

struct bt_pair_list {
    struct bt_pair *head, *tail;
};

#define BT_ECHOED (BT_HAS_CLASS | BT_HAS_TRACE) // options that a reply repeats

// A finished pair, remembered so that a late duplicate of its REQ0 does not run
// again. In the pair table its value carries BT_PAIR_DONE.
#define BT_PAIR_DONE 0x80000000u

struct bt_done {
    uint32_t hash;    // where its entry is to be looked for
    uint32_t content; // of its request, 0: not known
    uint32_t copy;    // that was taken back; 0: it was not, and its request never runs again
    uint64_t until_ns;
};

#define BT_ROUTER_SLOTS 40u // configured ones, known by tag, and removed ones still owed FEEDBACK

struct bt_router_slot {
    struct bt_server_router_state st;
    uint32_t id;          // option kind 5
    uint32_t incarnation; // cfg.incarnation, moved on until it was joined, and when a slot changes owner
    uint8_t used;
    uint8_t join_left; // FEEDBACK messages that still say JOIN
    uint8_t tag_only;  // never configured: its ports are a guess
};

struct bt_server {
    struct bt_server_cfg cfg;
    struct bt_port port;
    struct bt_wheel wheel;
    struct bt_timer period;
    struct bt_pairs pairs;
    struct bt_pair *pair;
    struct bt_pair *free;
    struct bt_pair_list kept;     // KEPT pairs, oldest first
    struct bt_pair_list loose[2]; // RECEIVING ones that hold no credit, oldest first: without, and with a part
    struct bt_patience patience;
    uint32_t holding; // RECEIVING ones that hold one
    uint32_t beyond;  // EXECUTING and SENDING ones without a credit
    uint32_t backlog;
    uint64_t free_ns;     // when the last execution ended
    struct bt_done *done; // ring, oldest at done_head
    uint32_t done_head, done_count;
    struct bt_assembly_pool assemblies;
    struct bt_train_pool trains;
    struct bt_pkt *held_head, *held_tail; // R-21, oldest first; t_rx_ns holds the time of holding
    uint32_t held;
    struct bt_router_slot router[BT_ROUTER_SLOTS];
    uint32_t router_top;                 // slots ever used
    uint32_t reclaimed;                  // slots that changed owner
    uint16_t share[BT_ROUTER_SLOTS + 1]; // max(1, n / routers) by number of routers
    bool leaving;
    struct bt_txq *txq; // of the call in progress, for timers
    uint64_t now, began;
    uint64_t counters[BT_SERVER_COUNTERS];
};

// Time never goes back inside the server, so that differences of times are
// never negative: a clock set back makes its timers late, nothing else.
static inline void bt_server_clock(struct bt_server *s, uint64_t now_ns)
{
    s->now = now_ns > s->now ? now_ns : s->now;
}

// A packet after parsing. kept: somebody owns it now.
struct bt_arrival {
    struct bt_pkt *pkt;
    struct bt_r2p2_hdr h;
    struct bt_txq *txq;
    struct bt_addr client; // identity of the pair
    uint32_t hash;         // of the pair, once client is known
    uint32_t flow;         // of its client, once it was asked for
    uint8_t router;
    bool kept;
};

// server_rx.c
void bt_server_refuse(struct bt_server *s, const struct bt_arrival *a, enum bt_server_counter why);

// server_message.c: requests of several packets
enum bt_mcase bt_server_open_message(struct bt_server *s, struct bt_arrival *a);
enum bt_mcase bt_server_message_part(struct bt_server *s, struct bt_arrival *a);
void bt_server_repair(struct bt_server *s, struct bt_pair *p);
void bt_server_expire_held(struct bt_server *s);

// server_hold.c: credits of requests that are not whole yet
void bt_server_hold(struct bt_server *s, struct bt_pair *p);
void bt_server_hold_due(struct bt_server *s, struct bt_pair *p);
void bt_server_hold_part(struct bt_server *s, struct bt_pair *p);
void bt_server_release(struct bt_server *s, struct bt_pair *p, bool whole);
bool bt_server_displace(struct bt_server *s, uint8_t router);
void bt_pair_list_add(struct bt_pair_list *l, struct bt_pair *p);
void bt_pair_list_remove(struct bt_pair_list *l, struct bt_pair *p);

// server.c: pairs
struct bt_pair *bt_server_new_pair(struct bt_server *s, const struct bt_arrival *a); // one is free
void bt_server_hand_over(struct bt_server *s, struct bt_pair *p);
void bt_server_free_pair(struct bt_server *s, struct bt_pair *p); // leaves it as done
void bt_server_remember_refused(struct bt_server *s, const struct bt_arrival *a);
void bt_server_forget_old(struct bt_server *s);

// server_restart.c
uint32_t bt_server_content(const struct bt_server *s, const struct bt_r2p2_hdr *h);
uint32_t bt_server_after_restart(struct bt_server *s, const struct bt_arrival *a, uint32_t known);

// server_reply.c
void bt_server_send_drop(struct bt_server *s, struct bt_pair *p, const struct bt_server_why *why, struct bt_txq *txq);
void bt_server_send_refusal(struct bt_server *s, const struct bt_arrival *a, uint16_t signal); // signal 0: none
void bt_server_next_burst(struct bt_server *s, struct bt_pair *p, struct bt_txq *txq);
enum bt_mcase bt_server_on_sack(struct bt_server *s, struct bt_arrival *a);

// server_cancel.c
enum bt_mcase bt_server_on_cancel(struct bt_server *s, struct bt_arrival *a);
uint32_t bt_server_after_cancel(struct bt_server *s, const struct bt_arrival *a, uint32_t known);

// server_routers.c
struct bt_finished {
    const struct bt_addr *client;
    uint64_t trace;
    uint16_t req_id;
    uint8_t fate; // 0: served; BT_FEEDBACK_DROPPED, with BT_FEEDBACK_CANCELLED when it was taken back
    bool with_trace;
};
uint8_t bt_server_router_of(struct bt_server *s, const struct bt_arrival *a, enum bt_mcase *why);
enum bt_mcase bt_server_canceller(struct bt_server *s, const struct bt_arrival *a, uint8_t *router);
void bt_server_received(struct bt_server *s, uint8_t router); // one more accepted from it
void bt_server_heard(struct bt_server *s, uint8_t router);    // one came, whatever becomes of it
void bt_server_served(struct bt_server *s, uint8_t router, const struct bt_finished *f, struct bt_txq *txq);
void bt_server_end_paid(struct bt_server *s, struct bt_pair *p, const struct bt_finished *f, struct bt_txq *txq);
void bt_server_pay_unwanted(struct bt_server *s, const struct bt_arrival *a);
void bt_server_pay_early(struct bt_server *s, const struct bt_pair *p, struct bt_txq *txq);
// A request is not under way any more, and will not be executed; nothing is told.
static inline void bt_server_flow_gone(struct bt_server *s, uint32_t *flow)
{
    if (__builtin_expect(*flow != BT_FLOW_NONE, 0)) {
        s->cfg.flow.left(s->cfg.flow.arg, *flow, NULL);
        *flow = BT_FLOW_NONE;
    }
}

// A pair ends; whose credit went back before is only named now.
static inline void bt_server_end(struct bt_server *s, struct bt_pair *p, uint8_t fate, struct bt_txq *txq)
{
    struct bt_finished f = {.client = &p->client, .req_id = p->req_id, .fate = fate, .trace = p->trace};
    f.with_trace = p->echo & BT_HAS_TRACE;
    s->backlog--;
    bt_server_flow_gone(s, &p->flow);
    if (__builtin_expect(!p->paid, 1)) {
        bt_server_served(s, p->router, &f, txq);
    } else {
        bt_server_end_paid(s, p, &f, txq);
    }
}
void bt_server_periodic(struct bt_server *s);
void bt_server_shares(struct bt_server *s);

#endif
