// SPDX-License-Identifier: Apache-2.0
// A replication group under load in virtual time, without faults: how many requests it answers, and how late. Members
// are the shipped core with the shipped box and aggregator; what a packet, an entry and a request cost is an input.
#ifndef BOBTAIL_SIM_REPLICA_LOAD_H
#define BOBTAIL_SIM_REPLICA_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "stream.h"

enum sim_load_group { SIM_LOAD_UNREPLICATED, SIM_LOAD_RAFT, SIM_LOAD_HOVERCRAFT, SIM_LOAD_HOVERCRAFTPP };

/* What the processor and the network of one machine cost. */
struct sim_load_costs {
    double packet_ns;     /* one packet in, or one out, on the thread of the network and the consensus */
    double entry_ns;      /* one entry into a message to one member */
    double entry_byte_ns; /* a byte of it */
    double link_bits_ns;  /* of the link, in each direction */
    uint32_t header;      /* bytes that a packet has on the wire besides its payload */
    uint64_t hop_ns;      /* from one machine's link to another's, a switch between */
    uint64_t ring_ns;     /* what replies may wait for the link before the thread that makes them does */
    uint16_t pipeline;    /* messages with entries under way to a member */
};

struct sim_load_model {
    enum sim_load_group group;
    uint32_t members;
    uint32_t request_bytes, reply_bytes;
    struct sim_dist write, read; /* service times */
    double read_share;
    uint32_t bound; /* B */
    bool random;    /* repliers; else JBSQ */
    bool balance;   /* else the leader answers everything */
    double rps;     /* offered, Poisson */
    uint32_t limit; /* of the box */
    uint64_t requests, seed;
    double kill_at; /* the leader dies after this share of the requests; 0: nobody dies */
    struct sim_load_costs costs;
};

struct sim_load_result {
    double p50_ns, p99_ns, answered_rps; /* of what came after the first tenth of the requests */
    uint64_t dropped, lost;              /* refused by the box; never answered */
    /* with kill_at: of the last third of the requests, long after the death */
    double after_p99_ns, after_answered_rps, after_dropped_rps;
};

/* False: no leader was elected, or memory is missing. */
bool sim_load_run(const struct sim_load_model *m, struct sim_load_result *out);

/* Highest load whose p99 is within slo_ns, between low and high [requests/s], to one percent. */
double sim_load_within(const struct sim_load_model *m, double slo_ns, double low, double high);

#endif
