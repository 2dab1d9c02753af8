// SPDX-License-Identifier: Apache-2.0
// One Ethernet port as a thin IP host: Ethernet, ARP, neighbour discovery, IPv4, IPv6, UDP and the ICMP a good
// neighbour speaks. A driver that moves raw frames (dpdk.c) puts its packets through here and deals in UDP
// payloads from then on. Pure: no I/O, no clock, no allocation after init; one thread owns a link.
//
// A packet of a link is a bt_pkt whose data is a whole frame without FCS; behind rx() and in front of tx() it is
// one whose data is a UDP payload with src and dst filled in, as io.h wants it. Rules: docs/reference/protocol.md, E-1…
#ifndef BT_LINK_LINK_H
#define BT_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/pkt.h"

#define BT_LINK_MAX_ADDRS  16u   // own addresses, the derived link-local one not counted
#define BT_LINK_MAX_LOCALS 1024u // local UDP ports, as in udp.h
#define BT_LINK_HEADROOM   62u   // bytes tx() needs in front of a payload: Ethernet 14, IPv6 40, UDP 8
#define BT_LINK_MAC_TEXT   18u

struct bt_link;

// An address of this port and how many of its leading bits it shares with its on-link neighbours.
struct bt_link_prefix {
    struct bt_addr addr; // port 0
    uint8_t bits;        // IPv4 1..32, IPv6 1..128
};

// A neighbour that is never asked for, never replaced and never forgotten.
struct bt_link_static {
    struct bt_addr ip; // port 0
    uint8_t mac[6];
};

struct bt_link_config {
    uint8_t mac[6]; // unicast
    uint16_t mtu;   // largest IP packet sent, 576..9000 (1280.. if there is an IPv6 address); 0: 1500
    const struct bt_link_prefix *addrs;
    unsigned n_addrs;   // 1..BT_LINK_MAX_ADDRS
    bool no_link_local; // do not add fe80::/64 derived from the MAC (added when there is an IPv6 address)
    struct bt_addr gateway4, gateway6; // next hop off-link; zeroed: none. On-link or link-local
    const struct bt_link_static *statics;
    unsigned n_statics;

    // Local UDP ports, index = bt_pkt.local. An unspecified IP (0.0.0.0 or ::) means every own address of that
    // family; port 0 chooses a free one above 49151.
    const struct bt_addr *locals;
    unsigned n_locals;

    // A device may complete outgoing checksums (then bt_pkt.offload says so per packet). rx_trusted takes
    // incoming ones for right unless the device said BAD: memory transports that never compute them.
    bool tx_ip_sum, tx_udp_sum, rx_trusted;
    // Take a checksum that is the pseudo-header's alone for a whole one: behind a kernel's interface (E-23).
    bool rx_unfinished;
    bool tx_no_udp_sum; // send none over IPv4, unless tx_udp_sum; over IPv6 there must be one

    // TCP packets for own addresses are handed up whole, as packets of local port n_locals (E-22): for a balancer,
    // which reads and changes the IP header itself, or for a stack (tcp/stack.h). BT_PKT_RX_L4_OK says that the
    // checksum need not be looked at again.
    bool takes_tcp;

    // One of several links of one port, fed by queues: it learns from ARP, discovery and ICMP errors but does
    // not answer; the one link that is not secondary does.
    bool secondary;

    uint32_t max_neighbours;      // 0: 1024; statics and gateways included
    uint32_t queue_per_neighbour; // packets that wait for its MAC; 0: 16
    uint32_t icmp_errors_per_s;   // 0: 100, burst 32
    uint32_t icmp_echo_per_s;     // 0: 10,000, burst 256
    uint64_t retry_ns;            // between two requests for a MAC; 0: 1 s
    uint32_t tries;               // requests before it counts as unreachable; 0: 3
    uint64_t reachable_ns;        // how long an answer is good for; 0: 30 s (drawn from 0.5..1.5 of it)
    uint64_t forget_ns;           // an entry not used for so long goes; 0: 10 min
    uint32_t announcements;       // gratuitous ARP / unsolicited NA per address after start; 0: 2, UINT32_MAX: none
    uint64_t seed;
    struct bt_pool *pool; // where packets are given back to, and those the link makes come from
};

// What is wrong with a configuration: a field of struct bt_link_config, which element of it (or 0), and why.
struct bt_link_error {
    const char *field;
    unsigned index;
    const char *problem;
};

// A datagram sent from port `local` did not or will not reach `peer`. `error` is the errno value Linux gives for
// the same news: ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EACCES, EPROTO; EMSGSIZE with the MTU of the path.
struct bt_link_event {
    struct bt_addr peer;
    uint16_t local;
    uint16_t mtu; // EMSGSIZE only
    int error;
};

enum bt_link_counter {
    BT_LINK_RX_FRAMES,
    BT_LINK_RX_UNFINISHED, // of what is handed up: came without a whole checksum (E-23)
    // What became of each frame.
    BT_LINK_RX_UDP, // handed up
    BT_LINK_RX_TCP, // handed up
    BT_LINK_RX_ARP,
    BT_LINK_RX_NDP,
    BT_LINK_RX_ECHO,       // answered
    BT_LINK_RX_ICMP_ERROR, // about packets of ours
    // Dropped on the way in, by reason.
    BT_LINK_DROP_TRUNCATED,  // shorter than its headers or its IP length say
    BT_LINK_DROP_MAC,        // frame for another station, or from a group address
    BT_LINK_DROP_VLAN,       // tagged
    BT_LINK_DROP_ETHERTYPE,  // neither ARP, IPv4 nor IPv6
    BT_LINK_DROP_IP_HEADER,  // version, header length
    BT_LINK_DROP_IP_OPTIONS, // IPv4 options, IPv6 extension headers
    BT_LINK_DROP_IP_SUM,
    BT_LINK_DROP_FRAGMENT,
    BT_LINK_DROP_ADDRESS,  // unicast address that is not ours
    BT_LINK_DROP_GROUP,    // broadcast or multicast where only unicast is served
    BT_LINK_DROP_MARTIAN,  // a source no honest peer has: ours, loopback, group, unspecified, port 0
    BT_LINK_DROP_PROTOCOL, // neither UDP nor ICMP, nor TCP where that is wanted
    BT_LINK_DROP_UDP_LENGTH,
    BT_LINK_DROP_UDP_SUM,
    BT_LINK_DROP_UDP_PORT,     // nobody listens
    BT_LINK_DROP_ARP,          // malformed ARP
    BT_LINK_DROP_NDP,          // fails the checks of RFC 4861
    BT_LINK_DROP_ICMP,         // malformed, checksum, or a kind not spoken
    BT_LINK_DROP_ICMP_FOREIGN, // an error about a packet we did not send
    BT_LINK_DROP_RATE,         // echo over the rate
    // Sent.
    BT_LINK_TX_FRAMES, // all of them
    BT_LINK_TX_UDP,
    BT_LINK_TX_TCP,
    BT_LINK_TX_ARP,
    BT_LINK_TX_NDP,
    BT_LINK_TX_ICMP_ERROR,
    // Not sent, by reason.
    BT_LINK_TXDROP_TOO_LONG,
    BT_LINK_TXDROP_BAD_ADDRESS, // family, group, port 0, unknown local port, or our own address
    BT_LINK_TXDROP_NO_ROUTE,    // off-link and no gateway, or no own address of the family
    BT_LINK_TXDROP_TTL,         // Transparent packet that arrived with TTL 1
    BT_LINK_TXDROP_NO_ROOM,     // less than the headers need in front
    BT_LINK_TXDROP_QUEUE_FULL,  // waiting for a MAC, pushed out by younger ones
    BT_LINK_TXDROP_UNREACHABLE, // nobody answered for the next hop
    BT_LINK_TXDROP_TABLE_FULL,  // no neighbour entry to be had
    BT_LINK_TX_NO_BUFFER,       // pool empty: a request or an answer was not made
    BT_LINK_ICMP_LIMITED,       // ICMP errors not sent because of their rate
    // Neighbours.
    BT_LINK_NEIGH_CREATED,
    BT_LINK_NEIGH_CHANGED, // another MAC for a known address
    BT_LINK_NEIGH_PROBES,  // unicast requests for an entry in use
    BT_LINK_NEIGH_FAILED,
    BT_LINK_NEIGH_EVICTED, // for lack of room
    BT_LINK_NEIGH_REFUSED, // not learned: strangers hold their share of the table
    BT_LINK_CONFLICTS,     // somebody else claims an address of ours
    BT_LINK_EVENTS_LOST,   // events nobody fetched in time
    BT_LINK_COUNTERS
};

enum bt_link_verdict {
    BT_LINK_UDP,   // the packet is a UDP payload for us (or a TCP packet, takes_tcp) and the caller's: src, dst,
                   // local and ttl are set
    BT_LINK_TAKEN, // the link has it: answered, kept or given back to the pool
};

// Bytes bt_link_init needs for this configuration.
size_t bt_link_bytes(const struct bt_link_config *cfg);

// mem: bt_link_bytes(cfg) bytes, aligned to 64. The configuration is copied. Announces its addresses at the first
// tick. NULL: see *err (which may be NULL).
struct bt_link *bt_link_init(void *mem, size_t bytes, const struct bt_link_config *cfg, uint64_t now_ns,
                             struct bt_link_error *err);

// Gives back every packet the link holds. It must not be used afterwards.
void bt_link_close(struct bt_link *l);

// Takes one received frame. Frames to send in answer, and those that waited for what it said, are pushed to `out`.
enum bt_link_verdict bt_link_rx(struct bt_link *l, uint64_t now_ns, struct bt_pkt *frame, struct bt_txq *out);

// The same for a burst in order of arrival, each frame at its own t_rx_ns. Those that became UDP payloads for us move
// to the front of frames[]; returns how many they are.
unsigned bt_link_rx_burst(struct bt_link *l, struct bt_pkt **frames, unsigned n, struct bt_txq *out);

// A packet of local port n_locals is an IP packet as it shall be sent, to next hop dst (E-22); all others are UDP.
// Takes one UDP payload for dst. The source is that of pkt->local, or src as given when tx_as_src is set (R-4
// Transparent). Pushes the finished frame to `out`; or keeps the packet until the neighbour is known, then rx()
// or tick() pushes it; or counts, reports and gives it back.
void bt_link_tx(struct bt_link *l, uint64_t now_ns, struct bt_pkt *pkt, struct bt_txq *out);

// The same for all of `q` in order; it is empty afterwards.
void bt_link_tx_burst(struct bt_link *l, uint64_t now_ns, struct bt_txq *q, struct bt_txq *out);

// Runs what is due. Call when bt_link_next() has come; frames to send are pushed to `out`.
void bt_link_tick(struct bt_link *l, uint64_t now_ns, struct bt_txq *out);

// When tick must be called, UINT64_MAX if nothing is pending.
uint64_t bt_link_next(const struct bt_link *l);

// Announces all addresses anew: after the carrier came back or the port moved.
void bt_link_announce(struct bt_link *l, uint64_t now_ns);

// Takes up to `max` events, oldest first.
unsigned bt_link_events(struct bt_link *l, struct bt_link_event *ev, unsigned max);

// The address of local port `local` as bound (port 0 resolved); zeroed if there is no such port.
struct bt_addr bt_link_local(const struct bt_link *l, uint32_t local);

// Multicast MACs a device that filters must let in; returns how many there are, writes up to `max`.
unsigned bt_link_groups(const struct bt_link *l, uint8_t (*macs)[6], unsigned max);

const uint64_t *bt_link_counters(const struct bt_link *l, const struct bt_counter_desc **desc, unsigned *n);

// Of a frame not looked at yet, for a port with several queues and no steering in hardware: which link it
// belongs to.
enum bt_link_steer {
    BT_LINK_STEER_PORT,  // UDP: by *udp_port
    BT_LINK_STEER_EVERY, // ARP, ICMP, discovery: a copy to each link, since any may wait for it
    BT_LINK_STEER_FIRST, // everything else: the link that is not secondary counts it
};
enum bt_link_steer bt_link_steer(const uint8_t *frame, uint32_t len, uint16_t *udp_port);
// Of such a frame, whether it is TCP, and the hash of its flow (Z-09).
bool bt_link_tcp_flow(const uint8_t *frame, uint32_t len, uint32_t *hash);

// "02:00:00:00:00:01"; returns 0, or -1 with *mac untouched.
int bt_link_mac_parse(const char *text, uint8_t mac[6]);
char *bt_link_mac_format(const uint8_t mac[6], char text[BT_LINK_MAC_TEXT]);

// "10.0.0.1/24" or "fd00::1/64"; returns 0, or -1 with *out untouched.
int bt_link_prefix_parse(const char *text, struct bt_link_prefix *out);

#endif
