// SPDX-License-Identifier: Apache-2.0
// The network between the nodes: delay, and every fault a scenario asks for, each one counted
// when it really happened.
#ifndef BOBTAIL_SIM_NET_H
#define BOBTAIL_SIM_NET_H

#include "base/bytes.h"
#include "base/pkt.h"
#include "buffers.h"
#include "event.h"
#include "fault_cut.h"
#include "fault_seen.h"
#include "scenario.h"

enum sim_role { SIM_CLIENT, SIM_ROUTER, SIM_SERVER, SIM_ROLES };

/* Marks a packet carries in flight (bt_pkt.mark). */
enum {
    SIM_MARK_DUPLICATE = 1,
    SIM_MARK_DELAYED = 2,
    SIM_MARK_CORRUPTED = 4,
    SIM_MARK_GARBAGE = 8,
    SIM_MARK_LATE = 16,
    SIM_MARK_COPY = 32,
    SIM_MARK_RESENT = 64
};

struct sim_path {
    uint64_t sent, newest; /* numbers of packets from one node to another */
    uint64_t last_ns;      /* arrival time no later packet may precede unless reordered */
};

struct sim_net {
    const struct sim_scenario *s;
    struct sim_agenda *agenda;
    struct sim_buffers *buffers;
    struct sim_holder wire;        /* packets in flight */
    struct sim_holder *holder;     /* one per node */
    uint32_t first[SIM_ROLES + 1]; /* node index of the first node of each role */
    uint8_t *role;                 /* per node: enum sim_role */
    struct sim_path *path;         /* between any two that talk */
    struct sim_cuts cuts;          /* partitions in force */
    uint8_t *link_of;              /* nodes × nodes: 1 + rule of sim_scenario.link, 0: none; NULL: no rules */
    uint64_t *busy_until;          /* per node: when its device has sent what it was given */
    struct bt_rng fault, jitter;
    uint64_t delay_ns[SIM_ROLES][SIM_ROLES]; /* without jitter */
    bool calm;                               /* faults are over */
    bool disturbed;                          /* the scenario has faults, events, jitter, link rules or checks */
    bool direct;  /* nor does anybody look at who holds how many packets: each stays its first holder's */
    bool instant; /* nor does any of them take time */
    uint64_t direct_ns[SIM_ROLES][SIM_ROLES]; /* then: delay from one role to another */
    uint64_t load_start_ns;
    uint16_t arrive_kind; /* event kind of an arrival */
    uint64_t late_ns;     /* packets slower than this carry SIM_MARK_LATE */
    /* Told of every packet a node sent and what becomes of it: arrives_ns, or UINT64_MAX when it dies here. */
    void (*watch)(void *ctx, uint32_t from, uint32_t to, struct bt_pkt *p, uint64_t arrives_ns);
    void *watch_ctx;
    struct sim_faults_seen seen;
    uint64_t packets; /* nodes sent */
    /* conservation: packets + made = received + every way to be lost + in flight */
    uint64_t made, received, lost, no_port;
};

void sim_net_init(struct sim_net *n, const struct sim_scenario *s, struct sim_agenda *agenda,
                  struct sim_buffers *buffers, uint16_t arrive_kind);
void sim_net_free(struct sim_net *n);
static inline uint32_t sim_net_nodes(const struct sim_net *n)
{
    return n->first[SIM_ROLES];
}

static inline enum sim_role sim_net_role(const struct sim_net *n, uint32_t node)
{
    return (enum sim_role)n->role[node];
}

/* Address of port `port` (0, or 1 = FEEDBACK port of a router) of a node. */
struct bt_addr sim_net_addr(const struct sim_net *n, uint32_t node, uint32_t port);
/* Node that has this address, UINT32_MAX for none. */
static inline uint32_t sim_net_node(const struct sim_net *n, const struct bt_addr *a)
{
    uint32_t low = bt_get32(a->ip + 12), role = (low >> 16) - (10u << 8) - 1, i = (low & 0xffff) - 1;
    if (role >= SIM_ROLES || !bt_addr_is_v4(a)) { /* ::ffff:10.role+1.number+1 */
        return UINT32_MAX;
    }
    return i < n->first[role + 1] - n->first[role] ? n->first[role] + i : UINT32_MAX;
}
enum sim_packet sim_packet_of(const struct bt_pkt *p);
/* A packet starts on its way to node `to` (UINT32_MAX: none has its address), disturbed or not. */
void sim_net_enter(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p);
/* bt_io_sim_net.send: takes the packet over; it arrives, or dies here. ctx is the sim_net. */
void sim_net_send(void *ctx, uint32_t from, struct bt_pkt *p);
/* The same, to be inlined. */
static inline void sim_net_pass(void *ctx, uint32_t from, struct bt_pkt *p)
{
    struct sim_net *n = ctx;
    uint32_t to = sim_net_node(n, &p->dst);
    struct sim_event ev = {.ptr = p, .node = to, .kind = n->arrive_kind, .arg = (uint16_t)from};
    n->packets++;
    if (n->instant && to != UINT32_MAX) {
        *sim_agenda_at_once(n->agenda) = ev;
        return;
    }
    if (!n->direct || to == UINT32_MAX) {
        sim_net_enter(n, from, to, p);
        return;
    }
    sim_agenda_push(n->agenda, n->agenda->now + n->direct_ns[sim_net_role(n, from)][sim_net_role(n, to)], ev);
}
/* A packet of somebody who is no node arrives at once. */
void sim_net_stranger(struct sim_net *n, uint32_t to, struct bt_pkt *p);
/* A packet from nowhere, marked as garbage, arrives at once. */
void sim_net_inject(struct sim_net *n, uint32_t to, struct bt_pkt *p);
void sim_net_note_arrival(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p);
/* To be called when an arrival event fires and the node is alive: counts realised faults and makes the
 * packet the node's. */
static inline void sim_net_arrived(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p)
{
    sim_buffer_give(p, &n->holder[to]);
    if (n->disturbed && from != UINT16_MAX) {
        sim_net_note_arrival(n, from, to, p);
    }
}
/* A copy of the same bytes and addresses, in flight, corrupted when p is; NULL when no buffer is left. */
struct bt_pkt *sim_net_copy(struct sim_net *n, const struct bt_pkt *p);
/* A packet in flight dies. */
void sim_net_bury(struct sim_net *n, struct bt_pkt *p);
/* fault_packet.c: what a rule does to a packet besides losing it. A damaged packet that a checksum or nobody would let
 * through is lost (true is returned); what only the cores can tell goes on. */
bool sim_damage(struct sim_net *n, struct bt_pkt *p, enum sim_fault_kind how, uint32_t to);
/* The same REQ0 once more, by way of another router; NULL when there is no other. */
struct bt_pkt *sim_resent(struct sim_net *n, const struct bt_pkt *p, uint32_t *to);
/* Every packet is accounted for; false with the numbers in text. Only when nothing is in flight. */
bool sim_net_conserved(const struct sim_net *n, char *text, size_t text_n);

#endif
