// SPDX-License-Identifier: Apache-2.0
// What really happened in a run, by kind of fault. "Asked for" would count faults on packets that died earlier.
#ifndef BOBTAIL_SIM_FAULT_SEEN_H
#define BOBTAIL_SIM_FAULT_SEEN_H

#include "scenario.h"

/* Tables and stores that were found full; each has a counter in the core it belongs to. */
enum sim_full {
    SIM_FULL_CLIENT_CALLS,    /* in-flight table: bt_client_send refused */
    SIM_FULL_CLIENT_IDS,      /* every request id tried is pending or in quarantine */
    SIM_FULL_CLIENT_REPLIES,  /* a multi-packet reply found no assembly (M-24) */
    SIM_FULL_CLIENT_BUFFERS,  /* no packet buffer to send with */
    SIM_FULL_SERVER_PAIRS,    /* pair table or assemblies: DROP */
    SIM_FULL_SERVER_HELD,     /* holding list of packets before their first (M-16) */
    SIM_FULL_SERVER_BUFFERS,  /* no packet buffer to send with */
    SIM_FULL_ROUTER_PAIRS,    /* forwarded, not watched */
    SIM_FULL_ROUTER_QUEUE,    /* central queue: DROP */
    SIM_FULL_ROUTER_NOTES,    /* between the threads of a router: sent, not watched */
    SIM_FULL_ROUTER_CREDITS,  /* likewise: every worker is looked at */
    SIM_FULL_RECEIVE_BUFFERS, /* a driver had no buffer for a packet that arrived */
    SIM_FULLS
};

/* Counters only: summed by word. */
struct sim_faults_seen {
    uint64_t lost[SIM_PKTS], duplicated[SIM_PKTS], reordered[SIM_PKTS], delayed[SIM_PKTS], corrupted[SIM_PKTS];
    uint64_t resent;                   /* REQ0 that came again by way of another router */
    uint64_t damaged[SIM_FAULTS];      /* corrupted, by rule: one bit, a burst, cut short */
    uint64_t caught;                   /* corrupted, and the UDP checksum saw it */
    uint64_t cut_off;                  /* lost in a partition */
    uint64_t to_the_dead;              /* arrived at a crashed node */
    uint64_t icmp_router, icmp_client; /* unreachable events told */
    uint64_t to_nowhere;               /* no node has this address */
    uint64_t refused;                  /* requests the application of a refusing worker dropped */
    uint64_t postponed;                /* events that waited for a frozen process */
    uint64_t failovers;                /* a client moved on to the next router */
    uint64_t id_wraps;                 /* a client's request ids came round */
    uint64_t ejected;                  /* black holes (R-139a) */
    uint64_t older_refused;            /* FEEDBACK of an incarnation before the known one (M-22) */
    uint64_t happened[SIM_EV_KINDS];   /* events of the scenario that took effect */
    uint64_t copies, copies_won;       /* hedged requests, and those answered first */
    uint64_t cancelled, preempted;     /* copies taken back, and asked for to make room */
    uint64_t cancels_ignored;          /* by applications */
    uint64_t admission_refused, degraded;
    uint64_t threads_late;    /* turns of a router's thread that began later than they might */
    uint64_t threads_between; /* turns of one amid a burst of the other's */
    uint64_t restarts, garbage;
    uint64_t half_opened; /* requests that strangers began */
    uint64_t full[SIM_FULLS];
};

/* One kind of fault that a sweep must have seen. */
struct sim_fault_count {
    const char *name;
    uint64_t times;
};

enum { SIM_FAULT_COUNTS_MAX = 64 };

void sim_faults_add(struct sim_faults_seen *a, const struct sim_faults_seen *b);
/* Total of all faults seen; malformed packets and packets to the dead are no faults of the network and count apart. */
uint64_t sim_faults_total(const struct sim_faults_seen *f);
/* Every kind of the fault model and how often it happened; returns how many there are. */
uint32_t sim_faults_by_kind(const struct sim_faults_seen *f, struct sim_fault_count out[SIM_FAULT_COUNTS_MAX]);

#endif
