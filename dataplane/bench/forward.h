// SPDX-License-Identifier: Apache-2.0
// The parts of bench_forward: two ports of one process joined by rings or by memif, a generator thread on one of them
// and what is measured, the subject, on the other.
#ifndef BOBTAIL_BENCH_FORWARD_H
#define BOBTAIL_BENCH_FORWARD_H

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum {
    FORWARD_BATCH = 64, // of the router's driver, so of everybody
    FORWARD_WORKERS = 64,
    FORWARD_DEPTH = 8,   // no request waits for a credit
    FORWARD_RING = 1024, // slots of a ring and descriptors of a queue
    FORWARD_PAYLOAD = 64,
    FORWARD_PACKETS = 512, // in flight: through the router as half as many RPCs, each at most two packets on the way
};

// What is measured. It runs on the second processor until `over`, or, in lock step, whenever it has the baton.
struct forward_subject {
    const char *port;            // name or device text
    bool router;                 // the whole router, or a bare forwarder
    struct rte_mempool *buffers; // of both sides
    uint8_t mac[6];              // of its port, once it is ready
    atomic_bool ready, over;
    bool failed;
    bool huge;                         // buffers lie in hugepages
    uint64_t busy, idle;               // cycles of turns that found packets, and of those that did not
    struct forward_lockstep *lockstep; // NULL: both sides run freely
};

// One after the other opens it and takes turns, in one thread. A turn handles what there is; true if that was anything.
bool forward_subject_open(struct forward_subject *s);
bool forward_subject_turn(struct forward_subject *s);
// What was counted, on the standard error stream.
void forward_subject_explain(struct forward_subject *s);

struct forward_generator;

// Sends by `port` and takes what comes back; the first requests are on their way when it returns. An RPC is a request
// and the FEEDBACK for it, otherwise every frame is the same. One per process.
struct forward_generator *forward_generator_begin(uint16_t port, struct rte_mempool *buffers, const uint8_t to[6],
                                                  bool rpcs);
// Answers what came back with as much again; returns how many came.
unsigned forward_generator_turn(struct forward_generator *g);
// RPCs, or packets, that came back so far.
uint64_t forward_generator_count(const struct forward_generator *g);

// Lock step (forward_lockstep.c): the generator fills the transport and waits, the subject empties it and waits. What
// is timed is the subject alone, so that neither the load of the machine nor the generator is in the figure.
struct forward_lockstep {
    atomic_bool subjects; // the baton
    uint64_t spent;       // cycles the subject had it for, the last time
};

// The subject's side, once it has the baton: empties the transport, gives the baton back.
void forward_lockstep_subject(struct forward_subject *s);
// Gives the subject the baton, or, `together`, takes its turns in this thread; returns when it is done.
void forward_lockstep_turn(struct forward_subject *s, bool together);
// So many rounds; the median of the subject's cycles for an RPC or packet, 0 if nothing came back.
double forward_lockstep_run(struct forward_subject *s, struct forward_generator *g, unsigned rounds, bool together);

// Addresses both sides know: the router's two ports, and worker w's.
struct bt_addr forward_request_addr(void);
struct bt_addr forward_feedback_addr(void);
struct bt_addr forward_worker(uint32_t w);
struct bt_addr forward_client(void);
extern const uint8_t forward_generator_mac[6];

#endif
