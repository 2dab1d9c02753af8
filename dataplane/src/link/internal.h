// SPDX-License-Identifier: Apache-2.0
// What the files of the link share: link.c sets up, rx.c takes frames apart, arp.c, ndp.c and icmp.c answer, tx.c
// routes and writes, plain.c does both for what is plain, neigh.c keeps the neighbours, announce.c tells the network
// about us.
#ifndef BT_LINK_INTERNAL_H
#define BT_LINK_INTERNAL_H

#include "base/pairs.h"
#include "base/rng.h"
#include "base/wheel.h"
#include "link/link.h"
#include "wire/frame.h"
#include "wire/frame_arp.h"
#include "wire/frame_icmp.h"

#define LINK_SECOND UINT64_C(1000000000)
#define LINK_EVENTS 256u
#define LINK_NONE   UINT32_MAX

enum neigh_state {
    NEIGH_FREE,
    NEIGH_INCOMPLETE, // asked for, packets wait
    NEIGH_REACHABLE,  // confirmed not long ago
    NEIGH_STALE,      // known, not confirmed; the first packet to it starts a probe
    NEIGH_PROBE,      // in use while it is asked whether it is still there
    NEIGH_FAILED,     // did not answer: for one retry time packets to it are refused at once
    NEIGH_STATIC,
};

enum link_timer { TIMER_NEIGH, TIMER_ANNOUNCE, TIMER_REPORT };

struct neigh {
    struct bt_timer timer; // first: the wheel gives it back
    struct bt_addr ip;
    uint8_t mac[6];
    uint8_t state; // enum neigh_state
    uint8_t tries; // requests sent in this state
    bool stranger; // learned from a request of its own, and we never sent to it
    uint64_t used_ns;
    uint64_t confirmed_ns;
    struct bt_txq waiting; // finished frames but for the destination MAC
    uint32_t next_free;
};

// An own address, with the prefix as two words in memory order to compare with.
struct own_addr {
    struct bt_addr addr;
    uint64_t net[2], mask[2];
    struct bt_addr broadcast; // of an IPv4 prefix of up to 30 bits; zeroed otherwise
    bool link_local;
};

struct local_port {
    struct bt_addr addr;
    bool any;                      // every own address of the family
    bool takes_plain, sends_plain; // for and from our one IPv4 address, see plain.c
    uint16_t next;                 // in its bucket, plus 1
};

// At most `burst` at once and one every cost_ns in the long run.
struct bucket {
    uint64_t cost_ns, most_ns, credit_ns, since_ns;
};

// What was found out about an IPv4 destination: it may be sent to, by that neighbour. Good as long as no neighbour is
// forgotten, since all else follows from the configuration.
struct link_route {
    uint32_t dst, neigh;
    uint64_t epoch;
};

#define LINK_ROUTE_BITS 8u

struct link_plain {
    bool on; // there is one IPv4 address
    struct bt_addr own;
    uint32_t broadcast;        // of its network, 0 if it has none
    uint64_t want[3], mask[3]; // of the first bytes of a plain frame
    uint64_t mac_mask;         // of a MAC in eight bytes
    uint64_t epoch;
    uint8_t head[10]; // of what we send: own MAC, EtherType, IP version, header length and service
    struct link_route routes[1u << LINK_ROUTE_BITS];
};

struct bt_link {
    // Settings.
    uint8_t mac[6];
    uint16_t mtu;
    bool tx_ip_sum, tx_udp_sum, tx_no_udp_sum, rx_trusted, rx_unfinished, takes_tcp, secondary;
    uint8_t tx_offload4; // enum bt_pkt_offload of an IPv4 packet we send
    unsigned n_own;
    struct own_addr own[BT_LINK_MAX_ADDRS + 1];
    struct bt_addr gateway4, gateway6;
    bool has_gateway4, has_gateway6, has_v6;
    uint32_t tries, queue_limit, announcements;
    uint64_t retry_ns, reachable_ns, forget_ns;
    struct bt_pool *pool;

    struct local_port *locals;
    unsigned n_locals;
    uint16_t *port_buckets; // by the low bits of the port: index of the first local port plus 1
    uint32_t port_mask;

    struct link_plain plain;

    // Neighbours.
    struct neigh *neigh;
    uint32_t neigh_max, neigh_free, neigh_strangers, neigh_incomplete, neigh_hand;
    struct bt_pairs neigh_table; // IP → index
    struct bt_wheel wheel;
    struct bt_timer announce_timer, report_timer;
    uint32_t announced;
    uint64_t defended_ns;
    struct bt_rng rng;

    struct bucket errors, echoes;
    uint32_t events_first, n_events;
    struct bt_link_event events[LINK_EVENTS];
    uint64_t counters[BT_LINK_COUNTERS];
};

// --- link.c

// Counts and gives the packet back.
void link_drop(struct bt_link *l, struct bt_pkt *pkt, enum bt_link_counter why);
void link_event(struct bt_link *l, const struct bt_addr *peer, uint16_t local, int error, uint16_t mtu);
// The own address equal to `a` (ports aside), or NULL.
const struct own_addr *link_own(const struct bt_link *l, const struct bt_addr *a);
// The own address whose prefix covers `a`, or NULL when a is off-link.
const struct own_addr *link_on_link(const struct bt_link *l, const struct bt_addr *a);
// The local port that a datagram to dst goes to, or LINK_NONE.
uint32_t link_find_local(const struct bt_link *l, const struct bt_addr *dst);
// Takes one from the bucket if it holds one.
bool link_allowed(struct bucket *b, uint64_t now);
// An empty frame of n bytes to fill, from the pool; NULL: counted.
struct bt_pkt *link_make(struct bt_link *l, uint32_t n);
// Gives pkt the length n, whatever it was. False: the buffer is too short.
bool link_resize(struct bt_pkt *pkt, uint32_t n);
void link_push(struct bt_link *l, struct bt_txq *out, struct bt_pkt *frame);

// --- arp.c, ndp.c, icmp.c: each takes the packet.

void link_arp_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, bool broadcast, struct bt_txq *out);
// to_mac NULL: broadcast.
void link_arp_ask(struct bt_link *l, const struct bt_addr *sender, const struct bt_addr *target, const uint8_t *to_mac,
                  struct bt_txq *out);
void link_ndp_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out);
// to_mac NULL: the solicited-node group.
void link_ndp_ask(struct bt_link *l, const struct bt_addr *source, const struct bt_addr *target, const uint8_t *to_mac,
                  struct bt_txq *out);
// An advertisement that nobody asked for.
void link_ndp_announce(struct bt_link *l, const struct bt_addr *own, struct bt_txq *out);
void link_icmp_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out);
// Turns a UDP packet nobody listens for into a port unreachable.
void link_refuse_port(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out);

// --- tx.c

// The TTL of a Transparent packet that came with `ttl`, 0 if unknown; 0: it may not be forwarded.
static inline uint8_t link_ttl_after_hop(uint8_t ttl)
{
    return (uint8_t)(ttl != 0 ? ttl - 1 : BT_TTL - 1);
}

// --- plain.c: false, nothing touched: it must go the long way.

void link_plain_init(struct bt_link *l);
bool link_plain_rx(struct bt_link *l, struct bt_pkt *pkt);
bool link_plain_tx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out);
// The long way found that dst may be sent to and n leads there.
void link_plain_remember(struct bt_link *l, const struct bt_addr *dst, const struct neigh *n);
// A neighbour is no more what it was.
void link_plain_forget(struct bt_link *l);

// --- neigh.c

struct neigh *link_neigh_find(const struct bt_link *l, const struct bt_addr *ip);
// An entry for an address we want to send to; NULL: counted, no room.
struct neigh *link_neigh_want(struct bt_link *l, uint64_t now, const struct bt_addr *ip);
// Sends a finished frame to n, or keeps it, or drops it.
void link_neigh_send(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_pkt *frame, struct bt_txq *out);
// n answered us: its MAC is good for another while.
void link_neigh_confirm(struct bt_link *l, uint64_t now, struct neigh *n, const uint8_t mac[6], struct bt_txq *out);
// Somebody said that n has this MAC; we did not ask.
void link_neigh_hear(struct bt_link *l, uint64_t now, struct neigh *n, const uint8_t mac[6], struct bt_txq *out);
// A host on our link asked for us and will expect an answer from whatever it sends next.
void link_neigh_stranger(struct bt_link *l, uint64_t now, const struct bt_addr *ip, const uint8_t mac[6]);
// Somebody contradicted what we know of n, without the right to change it.
void link_neigh_doubt(struct bt_link *l, uint64_t now, struct neigh *n);
void link_neigh_timer(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_txq *out);
void link_neigh_init(struct bt_link *l, const struct bt_link_config *cfg);

// --- announce.c

void link_announce_timer(struct bt_link *l, uint64_t now, struct bt_txq *out);
// A router asked which groups are wanted here.
void link_report_soon(struct bt_link *l, uint64_t now);
void link_report_timer(struct bt_link *l, struct bt_txq *out);
// Somebody else uses an own address: counted, and contradicted now and then (RFC 5227 §2.4).
void link_conflict(struct bt_link *l, uint64_t now);

#endif
