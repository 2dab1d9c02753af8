// SPDX-License-Identifier: Apache-2.0
// Traced pairs: what became of each request that carried a trace id, the newest of them, in a ring that is
// written by one thread and read when that one stands still.
#ifndef BT_BASE_TRACE_H
#define BT_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

#define BT_TRACES 1024u

// One pair. A router's: REQ0 arrived, left, its FEEDBACK came. A server's: its first packet arrived, it was handed to
// the application, the last packet of its answer left. Times in ns of the dataplane's clock.
struct bt_trace {
    uint64_t id; // R-59, never 0
    uint64_t start_ns, middle_ns, end_ns;
    struct bt_addr client, worker;
    uint16_t req_id;
    bool routed;  // a server's: it came through a router
    bool dropped; // answered by DROP
};

struct bt_trace_ring {
    uint64_t written; // in all; the newest is at (written - 1) % BT_TRACES
    struct bt_trace trace[BT_TRACES];
};

// ring may be NULL: nobody wants to know.
void bt_trace_note(struct bt_trace_ring *ring, const struct bt_trace *t);

// Those after the first `after`, at most n of them, oldest first; returns how many. *next is to be given as `after` the
// next time, *lost how many of them the ring no longer held. An `after` from another life of the program counts as 0.
size_t bt_trace_read(const struct bt_trace_ring *ring, uint64_t after, struct bt_trace *out, size_t n, uint64_t *next,
                     uint64_t *lost);

#endif
