// SPDX-License-Identifier: Apache-2.0
// A router that hedges, on the bench, and workers that answer in any order.
#ifndef BOBTAIL_TESTS_ROUTER_HEDGING_BED_H
#define BOBTAIL_TESTS_ROUTER_HEDGING_BED_H

#include "router/bed.h"

struct hedging_bed {
    struct bed b;
    uint64_t received[BED_WORKERS], served[BED_WORKERS];
    uint32_t n;
};

static inline void hedging_open(struct hedging_bed *h, uint32_t workers, uint32_t n, enum bt_hedging_mode mode)
{
    memset(h->received, 0, sizeof h->received);
    memset(h->served, 0, sizeof h->served);
    h->n = n;
    bed_defaults(&h->b, workers, n);
    h->b.config.hedging =
        (struct bt_hedging_config){.mode = mode, .busy_percent = 100, .budget_percent = 100, .per_100k = 95000};
    bed_build(&h->b);
    bed_join_all(&h->b, n);
}

/* Sends a request and returns how many packets it made the router send; workers in *to, which has room for two. */
static inline unsigned hedging_send(struct hedging_bed *h, uint16_t id, int to[2])
{
    to[0] = to[1] = -1;
    bed_send(&h->b, id);
    unsigned n = h->b.out.n;
    for (unsigned i = 0; i < n; i++) {
        int w = bed_take(&h->b);
        if (i < 2) {
            to[i] = w;
        }
        if (w >= 0) {
            h->received[w]++;
        }
    }
    return n;
}

/* Worker w has finished request id. What the router sends upon it stays in b.out. */
static inline void hedging_finish(struct hedging_bed *h, int w, uint16_t id, bool dropped)
{
    h->served[w]++;
    bed_feedback(&h->b, (uint32_t)w,
                 &(struct bed_report){.received = h->received[w],
                                      .served = h->served[w],
                                      .n = h->n,
                                      .incarnation = 1,
                                      .req_id = id,
                                      .flags = (uint8_t)(BT_FEEDBACK_PAIR | (dropped ? BT_FEEDBACK_DROPPED : 0))});
}

/* All workers report, as they do when nothing happens. */
static inline void hedging_report(struct hedging_bed *h)
{
    for (uint32_t w = 0; w < h->b.config.members_n; w++) {
        bed_feedback(
            &h->b, w,
            &(struct bed_report){.received = h->received[w], .served = h->served[w], .n = h->n, .incarnation = 1});
    }
}

/* The copy that a completion caused: its worker, or -1. */
static inline int hedging_copy(struct hedging_bed *h)
{
    int w = bed_take(&h->b);
    if (w >= 0) {
        h->received[w]++;
    }
    return w;
}

static inline struct bt_router_stats hedging_stats(const struct hedging_bed *h)
{
    struct bt_router_stats s;
    bt_router_read_stats(h->b.r, h->b.now, &s);
    return s;
}

#endif
