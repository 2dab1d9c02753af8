// SPDX-License-Identifier: Apache-2.0
// What a group under load consists of, and what its machines cost: the input of replica_load.h.
#ifndef BOBTAIL_SIM_REPLICA_LOAD_MODEL_H
#define BOBTAIL_SIM_REPLICA_LOAD_MODEL_H

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

#endif
