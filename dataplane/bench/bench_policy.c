// SPDX-License-Identifier: Apache-2.0
// What a JBSQ decision and the FEEDBACK that frees its credit cost, without packets: one RPC each over the trace, with
// requests held while no worker has credit. bench/instructions.py counts the instructions of policy_decide and
// policy_feedback; alone the program only checks itself.
//   bench_policy WORKERS N [RPCS]
#include <stdio.h>
#include <stdlib.h>

#include "kept.h"
#include "router_bed.h"
#include "trace.h"

struct bench {
    struct router_bed bed;
    struct trace trace;
    uint64_t was_held;
};

/* the least loaded worker with credit takes one more. */
KEPT uint32_t policy_decide(struct bt_router *r)
{
    uint32_t w = bt_jbsq(&r->load);
    if (w == BT_NO_WORKER) {
        return w;
    }
    router_count_sent(r, w);
    return bt_load_push(&r->load, w);
}

/* A request is held: as router_credit_held, apart from the packet. */
__attribute__((noinline)) static uint32_t hand_over(struct bt_router *r, size_t w, uint64_t outstanding)
{
    if (router_sole_choice(r, w, outstanding)) {
        router_count_sent(r, w);
        router_hand_over(r, w);
        return BT_NO_WORKER;
    }
    return bt_load_move(&r->load, w, outstanding);
}

__attribute__((noinline, cold)) static uint32_t look_back(struct bt_router *r, size_t i,
                                                          const struct bt_credit_report *report, uint64_t now)
{
    uint32_t w = (uint32_t)i;
    bt_credit_report(&r->credit[w], report, router_sent(r, w), now, r->timers.loss_ns);
    bt_credit_settle(&r->credit[w], router_sent(r, w));
    router_refresh(r, w);
    return w;
}

/* counters in, credit out, the index told. That the incarnation is the known one is read from the packet
 * together with all else that must be as it was (take_steady in router/feedback.c), so it is none of the policy's. */
KEPT uint32_t policy_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    uint64_t outstanding;
    if (!bt_credit_in_order(&r->credit[w], report->received, report->served, router_sent(r, w), now, &outstanding)) {
        return look_back(r, w, report, now);
    }
    return r->held.n > 0 ? hand_over(r, w, outstanding) : bt_load_move(&r->load, w, outstanding);
}

static bool decide(struct bench *b)
{
    uint32_t w = policy_decide(b->bed.router);
    if (w != BT_NO_WORKER) {
        trace_give(&b->trace, w);
    }
    return w != BT_NO_WORKER;
}

static void run(struct bench *b, uint32_t rpcs)
{
    uint32_t w;
    for (uint32_t done = 0; done < rpcs;) {
        if (!trace_next(&b->trace, &w)) {
            bool waits = b->bed.router->held.n > 0 || !decide(b);
            b->bed.router->held.n += waits ? 1u : 0u;
            b->was_held += waits ? 1u : 0u;
            continue;
        }
        struct bt_credit_report report = {router_sent(b->bed.router, w), ++b->bed.served[w], 1, false};
        if (policy_feedback(b->bed.router, w, &report, b->trace.now) == BT_NO_WORKER) {
            trace_give(&b->trace, w);
            b->bed.router->held.n--;
        } else if (b->bed.router->held.n > 0 && decide(b)) {
            b->bed.router->held.n--;
        }
        done++;
    }
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)atoi(argv[1]) : 16, n = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
    uint32_t rpcs = argc > 3 ? (uint32_t)atoi(argv[3]) : 20000;
    if (workers < 1 || workers > TRACE_WORKERS_MAX || n < 1 || n > BT_LOAD_LEVELS || rpcs < 1) {
        fprintf(stderr, "usage: bench_policy [WORKERS 1..1024] [N 1..64] [RPCS]\n");
        return 2;
    }
    static struct bench b;
    trace_open(&b.trace, workers, 1);
    router_bed_open(&b.bed, workers, n, false, b.trace.now);
    b.bed.router->waits_for_credit = true; /* only the count of what is held is kept here, not the packets */
    run(&b, rpcs);
    uint64_t outstanding = 0;
    for (uint32_t w = 0; w < workers; w++) {
        if (bt_load_outstanding(&b.bed.router->load, w) != b.trace.queued[w] ||
            bt_load_outstanding(&b.bed.router->load, w) > n) {
            fprintf(stderr, "bench_policy: worker %u has %u requests, the index says %u, n is %u\n", w,
                    b.trace.queued[w], bt_load_outstanding(&b.bed.router->load, w), n);
            return 1;
        }
        outstanding += bt_load_outstanding(&b.bed.router->load, w);
    }
    printf("{\"workers\": %u, \"n\": %u, \"rpcs\": %u, \"held\": %llu, \"outstanding\": %llu}\n", workers, n, rpcs,
           (unsigned long long)b.was_held, (unsigned long long)outstanding);
    return 0;
}
