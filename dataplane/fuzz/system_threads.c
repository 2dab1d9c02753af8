// SPDX-License-Identifier: Apache-2.0
// A router of fuzz_system on two threads: each half reads its own port when the input says so or time passes,
// unless the input let it sleep. The queues between them are so short that they overflow.
#include "system.h"

static struct node_router *at(uint32_t node)
{
    return &w.router[node - FIRST_ROUTER];
}

void sys_threads_start(uint32_t node)
{
    bt_txq_init(&at(node)->inbox[0]);
    bt_txq_init(&at(node)->inbox[1]);
}

static unsigned take(struct bt_txq *inbox, struct bt_pkt **pkts, unsigned most)
{
    unsigned n = 0;
    while (n < most && inbox->n > 0) {
        pkts[n++] = bt_txq_pop(inbox);
    }
    return n;
}

static void request_turn(uint32_t node, unsigned most)
{
    struct node_router *r = at(node);
    struct bt_pkt *pkts[PACKETS];
    struct bt_txq q;
    bt_txq_init(&q);
    bt_router_requests(r->core, pkts, take(&r->inbox[0], pkts, most), &q);
    bt_router_tick(r->core, sys_clock(node), &q);
    CHECK(!bt_router_credit_waits(r->core));
    sys_out(node, &q);
}

void sys_threads_turn(uint32_t node, bool feedback, unsigned most)
{
    struct node_router *r = at(node);
    struct bt_pkt *pkts[PACKETS];
    if (!feedback) {
        request_turn(node, most);
    } else {
        bt_router_feedbacks(r->core, pkts, take(&r->inbox[1], pkts, most), NULL);
        bt_router_feedback_tick(r->core, sys_clock(node));
    }
}

// What is awake runs until it has nothing to do at this time.
void sys_threads_tick(uint32_t node)
{
    struct node_router *r = at(node);
    for (uint32_t half = 0; half < 2; half++) {
        if ((r->asleep >> half & 1) == 0) {
            sys_threads_turn(node, half == 1, PACKETS);
        }
    }
    if ((r->asleep & 1) == 0) {
        request_turn(node, 0); // the FEEDBACK half wakes it
    }
}

uint64_t sys_threads_next(uint32_t node)
{
    struct node_router *r = at(node);
    uint64_t q = (r->asleep & 1) != 0 ? UINT64_MAX : bt_router_next(r->core);
    uint64_t f = (r->asleep & 2) != 0 ? UINT64_MAX : bt_router_feedback_next(r->core);
    return q < f ? q : f;
}
