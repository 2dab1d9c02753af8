/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What lies in the pinned maps: the contract between the programs and the Go
 * package operator/internal/redirect. Addresses and ports are in network order
 * everywhere, times are CLOCK_MONOTONIC nanoseconds. No implicit padding: a
 * hash key is compared byte by byte. A change of anything that is here raises
 * CRAB_LAYOUT_VERSION (one map more does not: who does not know it leaves it alone);
 * dataplane/tests/vectors/crab_layout.txt holds the bytes, crab_layout6.txt those of the IPv6 maps.
 */
#ifndef CRAB_LAYOUT_H
#define CRAB_LAYOUT_H

#include "crab_family.h"

#define CRAB_LAYOUT_VERSION 1
#define CRAB_LAYOUT_MAGIC   0x43524142 /* "CRAB" */

#define CRAB_MAX_VIPS       1024
#define CRAB_MAX_BACKENDS   4096
#define CRAB_MAX_LOADS      16384
#define CRAB_SCHEDULE_SLOTS 8192
#define CRAB_MAGLEV_SLOTS   65537
#define CRAB_NO_BACKEND     0xffff
#define CRAB_COUNTERS       128 /* room for reasons to come: the map keeps its size */

/* How the balancer chooses (C-60..C-63). */
enum crab_policy {
    CRAB_POLICY_ROUND_ROBIN = 0, /* one shared counter; weights by the order of the schedule */
    CRAB_POLICY_ROUND_ROBIN_PER_CPU = 1,
    CRAB_POLICY_RANDOM = 2,
    CRAB_POLICY_HASH = 3,
    CRAB_POLICY_POWER_OF_TWO = 4,
    CRAB_POLICY_LEAST = 5,
};

enum crab_vip_flag {
    CRAB_VIP_CLIENT = 1 << 0,         /* SYNs of this host's clients get a placeholder */
    CRAB_VIP_BALANCE = 1 << 1,        /* this host balances the VIP */
    CRAB_VIP_STACK_FALLBACK = 1 << 2, /* what is no CRAB SYN goes to the kernel (NodePort) */
    CRAB_VIP_TRUSTED_TIER = 1 << 3,   /* SYNs with a redirect are accepted: a tier before us (C-28) */
    CRAB_VIP_TUNNEL = 1 << 4,         /* the network lets nothing through with a client's address (C-80) */
    CRAB_VIP_KEEP_CLIENT = 1 << 5,    /* servers see their clients' addresses: nothing is relayed (C-42) */
};

enum crab_backend_state {
    CRAB_BACKEND_DOWN = 0,
    CRAB_BACKEND_UP_PLAIN = 1, /* answers, but does not echo: its connections are relayed */
    CRAB_BACKEND_UP_CRAB = 2,
    CRAB_BACKEND_DRAINING = 3, /* finishes what it has on the hash path, gets nothing new */
};

enum crab_reason {
#define CRAB_REASON(name, text, doc) CRAB_##name,
#include "crab_reasons.h"
#undef CRAB_REASON
    CRAB_REASONS,
};

/* crab_meta[0] */
struct crab_meta {
    __u32 magic;
    __u32 layout;
    __u64 dsr_seen_ns; /* last fall-back SYN of this host; 0: no reply needs a look-up */
    __u16 exid;        /* only with kind 253 or 254 (C-7), host order */
    __u8 kind;         /* 42 unless configured */
    __u8 pad[5];
};

/* crab_vips: what is dialled */
struct crab_vip_key {
    crab_addr addr;
    __be16 port;
    __u16 pad;
};

struct crab_vip {
    __u32 id; /* index in crab_pools, crab_rr; name in crab_prefixes */
    __u8 policy;
    __u8 flags;
    __u16 pad;
    __u64 report_life_ns; /* an older report counts as none (C-62) */
};

/* One server of a pool. Its place is kept while it is a member (C-25). */
struct crab_backend {
    crab_addr addr;
    __u16 load; /* index in crab_loads */
    __u16 weight;
    __u8 state;
    __u8 pad[3];
};

/*
 * One pool, immutable once it hangs in crab_pools: a change is a new map put in
 * the place of the old one (C-63).
 */
struct crab_pool {
    __u32 generation;
    __u32 backends;  /* used places of backend[] */
    __u32 scheduled; /* used places of schedule[]; 0: nobody takes redirects (C-43) */
    __u32 hashed;    /* 0: nobody is up, else CRAB_MAGLEV_SLOTS */
    struct crab_backend backend[CRAB_MAX_BACKENDS];
    __u16 schedule[CRAB_SCHEDULE_SLOTS]; /* places of up-crab servers, as often as they weigh, evenly mixed */
    __u16 maglev[CRAB_MAGLEV_SLOTS + 1]; /* places of all servers that are up; the last one pads */
    __u32 pad;
};

/* crab_loads: reports of servers */
struct crab_load {
    __u32 open;        /* connections the server told of */
    __u32 assigned;    /* SYNs sent there since */
    __u64 reported_ns; /* 0: never */
};

/* crab_prefixes (LPM): servers a VIP may be redirected to (C-91, C-95) */
struct crab_prefix_key {
    __u32 prefixlen; /* 32 + length of the prefix */
    __be32 vip_id;   /* network order, because LPM compares from the first byte */
    crab_addr addr;
};

/* crab_pending, crab_flows_out, crab_flows_in, crab_opening, crab_later, crab_dsr */
struct crab_tuple {
    crab_addr client;
    crab_addr server; /* VIP in pending and flows_out, DIP in the others */
    __be16 client_port;
    __be16 server_port;
};

struct crab_pending {
    __u64 first_ns;
    __u64 last_ns;
    __u32 iss;
    __u16 syns;  /* sent with this ISS */
    __u8 marked; /* one of them had the placeholder (C-101) */
    __u8 direct; /* past a VIP, from the port of a live connection through it */
};

/* crab_fallen: the connections that lately took the fall-back path, for events that name somebody */
#define CRAB_FALLEN_KEPT 16

struct crab_fell {
    __u64 at_ns;
    struct crab_tuple who;
    __u32 reason;
};

struct crab_fallen {
    struct crab_fell last[CRAB_FALLEN_KEPT];
    __u32 next; /* how many there were */
    __u32 pad;
};

/* crab_connects: how often a client waited so long for a connection (ll7) */
struct crab_connect_key {
    crab_addr addr;
    __be16 port;
    __u16 bucket;
};

enum crab_connect_bucket {
    CRAB_CONNECT_OVERFLOW = 3457,
    CRAB_CONNECT_NEVER = 0xfffe, /* SYNs that were not answered, written by the agent */
    CRAB_CONNECT_SUM = 0xffff,   /* nanoseconds of all that were */
};

/* Bits of crab_flow.ended. */
enum crab_ended {
    CRAB_ENDED_CLIENT_FIN = 1 << 0,
    CRAB_ENDED_SERVER_FIN = 1 << 1, /* the client has acknowledged it */
    CRAB_ENDED_RST = 1 << 2,        /* taken back when the client goes on: it did not believe the RST */
    CRAB_ENDED_CLIENT_RST = 1 << 3, /* the RST was the client's own */
    CRAB_ENDED_FIN_WAITS = 1 << 4,  /* for the client's acknowledgement: the server's, or a forged one */
    CRAB_FLOW_OWN_HOST = 1 << 5,    /* no end: both ends are of this host, crab_own_host.h */
};

#define CRAB_HOP_SHIFT 28 /* crab_flow.hop_seen counts in 2^28 ns, a quarter of a second */

/*
 * crab_flows_out: VIP to DIP. The first two words were one time in nanoseconds in a former version, of the same layout:
 * what it left shows a wrong age, and the next packet of its client puts ack right.
 */
struct crab_flow {
    __u32 created_s; /* seconds */
    __u32 ack;       /* the server's next byte as the client had it lately; with FIN_WAITS: behind that FIN */
    __u64 last_ns;
    crab_addr dip;
    __u32 iss;
    __u8 ended;
    __u8 hop_seen; /* when hop was looked up, CRAB_HOP_SHIFT; 0: never (C-103) */
    __u8 hop[6];   /* MAC address of the next hop to the DIP, on the device packets to the VIP leave by */
#ifdef CRAB_SIX
    __u32 pad;
#endif
};

/* crab_flows_in: DIP to VIP */
struct crab_reverse {
    crab_addr vip;
    __u32 pad;
};

/*
 * Who has ended a connection on the fall-back path, in the bits that no clock reaches within 70 years. A former version
 * leaves them 0 and takes what it finds there for a connection of just now.
 */
#define CRAB_ECHO_SERVER_FIN (1ULL << 61)
#define CRAB_ECHO_CLIENT_FIN (1ULL << 62)
#define CRAB_ECHO_RESET      (1ULL << 63) /* by the server; the client's may be forged */

/* crab_dsr: server host, clients on the fall-back path that finished their handshake */
struct crab_echo {
    __u64 last_ns; /* of the last reply, and CRAB_ECHO_... */
    crab_addr vip;
    __u32 iss;
#ifdef CRAB_SIX
    __u32 pad;
#endif
};

/* crab_opening, crab_later: server host, a handshake that goes on: to be echoed, or on the fall-back path */
struct crab_opening {
    __u64 last_ns;
    crab_addr vip;
    __u32 iss;
    __u32 isn;     /* of the SYN-ACK that was sent */
    __u8 fallback; /* no echo: what the server sends comes from the VIP */
    __u8 answered; /* the server's TCP has sent a SYN-ACK to this very SYN */
    __u8 pad[2];
#ifdef CRAB_SIX
    __u32 pad2;
#endif
};

/* crab_relays: a connection that the balancer stands in, by the client's side of it */
struct crab_relay {
    __u64 last_ns;
    crab_addr dip;
    __u32 next_out;  /* the client's next byte, as far as it was seen */
    __u32 next_back; /* the server's */
    __u16 place;     /* of the server in its pool */
    __be16 port;     /* of the VIP, towards the server */
    __u8 ended;      /* enum crab_ended, of segments that stood where they had to */
    __u8 opened;     /* the client has acknowledged the server's SYN-ACK */
    __u8 answered;   /* the server has acknowledged the client's SYN */
    __u8 pad[5];
#ifdef CRAB_SIX
    __u32 pad2;
#endif
};

/* crab_relays_back: by the server's side, whose client is the VIP */
struct crab_relay_back {
    crab_addr client;
    __be16 port;
    __u16 pad;
};

/* crab_tunnels: by server, both ends of the way to the host it is on */
struct crab_tunnel {
    crab_addr from; /* this host */
    crab_addr to;   /* the server's */
};

/* crab_tun_ends: what an address is to a host that opens tunnels; bits. */
enum crab_tunnel_end {
    CRAB_TUNNEL_PEER = 1 << 0,   /* another host, whose SYNs are let out */
    CRAB_TUNNEL_OWN = 1 << 1,    /* this host's own */
    CRAB_TUNNEL_SERVER = 1 << 2, /* a server here, which SYNs may be for */
};

/* crab_syns: a SYN the balancer has seen (C-25) */
struct crab_syn_key {
    struct crab_tuple tuple;
    __u32 iss;
};

struct crab_syn {
    __u64 seen_ns;
    crab_addr dip;
    __u16 place;
    __u8 undelivered; /* XDP chose, tc has still to send */
    __u8 pad;
#ifdef CRAB_SIX
    __u32 pad2;
#endif
};

#endif
