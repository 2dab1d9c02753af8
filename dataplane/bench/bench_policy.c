// SPDX-License-Identifier: Apache-2.0
// What a JBSQ decision and the FEEDBACK that frees its credit cost, without packets: one RPC each over the trace, with
// requests held while no worker has credit. bench/instructions.py counts the instructions of policy_decide and
// policy_feedback; before that the pool comes to its load, uncounted. Alone the program only checks itself.
//   bench_policy [WORKERS [N [RPCS [WARM-UP [random|bursts]]]]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kept.h"
#include "router_bed.h"
#include "trace.h"

struct bench {
    struct router_bed bed;
    struct trace trace;
    uint64_t was_held;
};

#define SAME __attribute__((always_inline)) static inline

/* the least loaded worker with credit takes one more. */
SAME uint32_t do_decide(struct bt_router *r)
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
SAME uint32_t do_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    uint64_t outstanding;
    if (!bt_credit_in_order(&r->credit[w], report->received, report->served, router_sent(r, w), now, &outstanding)) {
        return look_back(r, w, report, now);
    }
    return r->held.n > 0 ? hand_over(r, w, outstanding) : bt_load_move(&r->load, w, outstanding);
}

/* Callgrind counts by name: what runs uncounted has another. */
KEPT uint32_t policy_decide(struct bt_router *r)
{
    return do_decide(r);
}

KEPT uint32_t policy_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    return do_feedback(r, w, report, now);
}

KEPT uint32_t warm_decide(struct bt_router *r)
{
    return do_decide(r);
}

KEPT uint32_t warm_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    return do_feedback(r, w, report, now);
}

static bool decide(struct bench *b, bool counted)
{
    uint32_t w = counted ? policy_decide(b->bed.router) : warm_decide(b->bed.router);
    if (w != BT_NO_WORKER) {
        trace_give(&b->trace, w);
    }
    return w != BT_NO_WORKER;
}

static uint32_t feedback(struct bench *b, uint32_t w, bool counted)
{
    struct bt_credit_report report = {router_sent(b->bed.router, w), ++b->bed.served[w], 1, false};
    return counted ? policy_feedback(b->bed.router, w, &report, b->trace.now)
                   : warm_feedback(b->bed.router, w, &report, b->trace.now);
}

static void run(struct bench *b, uint32_t rpcs, bool counted)
{
    uint32_t w;
    for (uint32_t done = 0; done < rpcs;) {
        if (!trace_next(&b->trace, &w)) {
            bool waits = b->bed.router->held.n > 0 || !decide(b, counted);
            b->bed.router->held.n += waits ? 1u : 0u;
            b->was_held += waits && counted ? 1u : 0u;
            continue;
        }
        if (feedback(b, w, counted) == BT_NO_WORKER) {
            trace_give(&b->trace, w);
            b->bed.router->held.n--;
        } else if (b->bed.router->held.n > 0 && decide(b, counted)) {
            b->bed.router->held.n--;
        }
        done++;
    }
}

/* What the index knows is what the trace knows. Returns the requests at the workers; ends the program if they differ.
 */
static uint64_t outstanding(const struct bench *b, uint32_t workers, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t w = 0; w < workers; w++) {
        uint32_t known = bt_load_outstanding(&b->bed.router->load, w);
        if (known != b->trace.queued[w] || known > n) {
            fprintf(stderr, "bench_policy: worker %u has %u requests, the index says %u, n is %u\n", w,
                    b->trace.queued[w], known, n);
            exit(1);
        }
        sum += known;
    }
    return sum;
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
    return argc > i ? (uint32_t)atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    uint32_t workers = number(argc, argv, 1, 16), n = number(argc, argv, 2, 3);
    uint32_t rpcs = number(argc, argv, 3, 20000), warm = number(argc, argv, 4, 0);
    bool bursts = argc > 5 && strcmp(argv[5], "bursts") == 0;
    bool unknown = argc > 5 && !bursts && strcmp(argv[5], "random") != 0;
    if (unknown || workers < 1 || workers > TRACE_WORKERS_MAX || n < 1 || n > BT_LOAD_LEVELS || rpcs < 1) {
        fprintf(stderr, "usage: bench_policy [WORKERS 1..1024 [N 1..64 [RPCS [WARM-UP [random|bursts]]]]]\n");
        return 2;
    }
    static struct bench b;
    trace_open(&b.trace, workers, bursts, 1);
    router_bed_open(&b.bed, workers, n, false, b.trace.now);
    b.bed.router->waits_for_credit = true; /* only the count of what is held is kept here, not the packets */
    run(&b, warm, false);
    run(&b, rpcs, true);
    printf("{\"workers\": %u, \"n\": %u, \"rpcs\": %u, \"held\": %llu, \"outstanding\": %llu}\n", workers, n, rpcs,
           (unsigned long long)b.was_held, (unsigned long long)outstanding(&b, workers, n));
    return 0;
}
