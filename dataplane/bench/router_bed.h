// SPDX-License-Identifier: Apache-2.0
// A router as deployed for the benchmarks to measure: k workers that have joined, 65,536 watched pairs, histograms on.
#ifndef BOBTAIL_BENCH_ROUTER_BED_H
#define BOBTAIL_BENCH_ROUTER_BED_H

#include "router/feedback.h"
#include "router/queue.h"
#include "router/state.h"
#include "router/workers.h"
#include "router/router.h"

#define BED_PACKETS 8192u

struct router_bed {
    struct bt_router *router;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    struct bt_keyring keys; // empty: FEEDBACK carries no tag
    struct bt_addr requests, feedback;
    struct bt_addr workers[BT_ROUTER_MEMBERS_MAX];
    uint64_t received[BT_ROUTER_MEMBERS_MAX], served[BT_ROUTER_MEMBERS_MAX]; // what each worker reports
    uint16_t n;
};

struct router_bed_form {
    bool keyed;
    unsigned threads; // 2: the caller takes their turns
};

// k workers, JBSQ(n). With a key, requests are forwarded Encapsulated and tagged and FEEDBACK is tagged, as on pod
// networks; without one, Transparent and untagged. Ends the program if anything does not fit.
void router_bed_open(struct router_bed *b, uint32_t k, uint32_t n, struct router_bed_form form, uint64_t now);

// A packet that has just arrived: a single-packet REQ0 of 8 bytes, or worker w's FEEDBACK about the pair.
struct bt_pkt *router_bed_request(struct router_bed *b, const struct bt_addr *client, uint16_t req_id, uint64_t now);
struct bt_pkt *router_bed_feedback(struct router_bed *b, uint32_t w, uint8_t flags, const struct bt_addr *client,
                                   uint16_t req_id, uint64_t now);

// Which worker has this address.
uint32_t router_bed_worker(const struct bt_addr *addr);

#endif
