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

// One subject thread: runs until `over`, then says how much of its time it had something to do.
struct forward_subject {
    const char *port;            // name or device text
    struct rte_mempool *buffers; // NULL: its own
    uint8_t mac[6];              // of its port, once it is ready
    atomic_bool ready, over;
    bool failed;
    bool huge;           // buffers lie in hugepages
    uint64_t busy, idle; // cycles of turns that found packets, and of those that did not
};

// Started on a processor of its own; arg: struct forward_subject.
int forward_l2fwd(void *arg);
int forward_router(void *arg);

struct forward_result {
    uint64_t count; // RPCs, or packets that came back
    double seconds;
};

// Sends by `port` and takes what comes back, for so long after a warm-up of a fifth of it. 0, or -1 when nothing came.
int forward_generate(uint16_t port, struct rte_mempool *buffers, const struct forward_subject *to, bool rpcs,
                     double seconds, struct forward_result *out);

// Addresses both sides know: the router's two ports, and worker w's.
struct bt_addr forward_request_addr(void);
struct bt_addr forward_feedback_addr(void);
struct bt_addr forward_worker(uint32_t w);
struct bt_addr forward_client(void);
extern const uint8_t forward_generator_mac[6];

#endif
