// SPDX-License-Identifier: Apache-2.0
// What a JBSQ decision and the FEEDBACK that frees its credit cost, without packets: one RPC each over the trace, with
// requests held while no worker has credit. bench/instructions.py counts the instructions of policy_decide and
// policy_feedback, or with fifo, which puts held requests into the central FIFO and takes them out within what is
// counted, of fifo_decide, fifo_feedback and fifo_pump; before that the pool comes to its load, uncounted. Alone the
// program only checks itself.
//   bench_policy [WORKERS [N [RPCS [WARM-UP [random|bursts [policy|fifo]]]]]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kept.h"
#include "router_bed.h"
#include "trace.h"

enum counted { NOTHING, POLICY, FIFO };

struct bench {
    struct router_bed bed;
    struct trace trace;
    enum counted counted;
    uint64_t was_held;
};

#define SAME __attribute__((always_inline)) static inline

/* to the end of the central FIFO. */
__attribute__((noinline)) static uint32_t hold(struct bt_router *r, struct bt_pkt *request)
{
    bt_txq_push(&r->held, request);
    return BT_NO_WORKER;
}

/* the least loaded worker with credit takes one more. fifo: what finds no credit, or others that wait for one,
 * is held. */
SAME uint32_t do_decide(struct bt_router *r, struct bt_pkt *request, bool fifo)
{
    if (fifo && __builtin_expect(r->held.n > 0, 0)) {
        return hold(r, request);
    }
    uint32_t w = bt_jbsq(&r->load);
    if (w == BT_NO_WORKER) {
        return fifo ? hold(r, request) : w;
    }
    router_count_sent(r, w);
    return bt_load_push(&r->load, w);
}

/* A request is held: as router_credit_held, apart from the packet. */
SAME uint32_t do_hand_over(struct bt_router *r, size_t w, uint64_t outstanding, bool fifo)
{
    if (router_sole_choice(r, w, outstanding)) {
        if (fifo) {
            bt_txq_pop(&r->held);
        }
        router_count_sent(r, w);
        router_hand_over(r, w);
        return BT_NO_WORKER;
    }
    return bt_load_move(&r->load, w, outstanding);
}

__attribute__((noinline)) static uint32_t hand_over(struct bt_router *r, size_t w, uint64_t outstanding)
{
    return do_hand_over(r, w, outstanding, false);
}

__attribute__((noinline)) static uint32_t hand_over_head(struct bt_router *r, size_t w, uint64_t outstanding)
{
    return do_hand_over(r, w, outstanding, true);
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
 * together with all else that must be as it was (take_steady in router/feedback.c), so it is none of the policy's.
 * BT_NO_WORKER: w was given what waits longest. */
SAME uint32_t do_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now, bool fifo)
{
    uint64_t outstanding;
    if (!bt_credit_in_order(&r->credit[w], report->received, report->served, router_sent(r, w), now, &outstanding)) {
        return look_back(r, w, report, now);
    }
    if (fifo) {
        return r->held.n > 0 ? hand_over_head(r, w, outstanding) : bt_load_move(&r->load, w, outstanding);
    }
    return r->held.n > 0 ? hand_over(r, w, outstanding) : bt_load_move(&r->load, w, outstanding);
}

/* There is credit again after a long look: the head of the FIFO goes to whom the policy says. */
SAME uint32_t do_pump(struct bt_router *r)
{
    uint32_t w = do_decide(r, NULL, false);
    if (w != BT_NO_WORKER) {
        bt_txq_pop(&r->held);
    }
    return w;
}

/* Callgrind counts by name: what runs uncounted has another. policy: the decision and the credit alone. */
KEPT uint32_t policy_decide(struct bt_router *r)
{
    return do_decide(r, NULL, false);
}

KEPT uint32_t policy_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    return do_feedback(r, w, report, now, false);
}

/* fifo: the central FIFO with it, what is put there and what is taken out. */
KEPT uint32_t fifo_decide(struct bt_router *r, struct bt_pkt *request)
{
    return do_decide(r, request, true);
}

KEPT uint32_t fifo_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    return do_feedback(r, w, report, now, true);
}

KEPT uint32_t fifo_pump(struct bt_router *r)
{
    return do_pump(r);
}

KEPT uint32_t warm_decide(struct bt_router *r, struct bt_pkt *request)
{
    return do_decide(r, request, true);
}

KEPT uint32_t warm_feedback(struct bt_router *r, size_t w, const struct bt_credit_report *report, uint64_t now)
{
    return do_feedback(r, w, report, now, true);
}

/* These three count what they are told to, and do the rest uncounted. */
static uint32_t decide(struct bench *b, struct bt_pkt *request)
{
    struct bt_router *r = b->bed.router;
    if (b->counted != POLICY) {
        return b->counted == FIFO ? fifo_decide(r, request) : warm_decide(r, request);
    }
    uint32_t w = r->held.n > 0 ? BT_NO_WORKER : policy_decide(r);
    return w == BT_NO_WORKER ? hold(r, request) : w;
}

static uint32_t feedback(struct bench *b, uint32_t w)
{
    struct bt_router *r = b->bed.router;
    struct bt_credit_report report = {router_sent(r, w), ++b->bed.served[w], 1, false};
    if (b->counted != POLICY) {
        return b->counted == FIFO ? fifo_feedback(r, w, &report, b->trace.now)
                                  : warm_feedback(r, w, &report, b->trace.now);
    }
    uint32_t left = policy_feedback(r, w, &report, b->trace.now);
    if (left == BT_NO_WORKER) {
        bt_txq_pop(&r->held);
    }
    return left;
}

static uint32_t pump(struct bench *b)
{
    struct bt_router *r = b->bed.router;
    if (b->counted != POLICY) {
        return b->counted == FIFO ? fifo_pump(r) : do_pump(r);
    }
    uint32_t w = policy_decide(r);
    if (w != BT_NO_WORKER) {
        bt_txq_pop(&r->held);
    }
    return w;
}

/* A request was given to w; its packet is of no more use. */
static void give(struct bench *b, uint32_t w, struct bt_pkt *request)
{
    trace_give(&b->trace, w);
    bt_pool_put(b->bed.pool, request);
}

static void arrive(struct bench *b)
{
    struct bt_pkt *request = bt_pool_get(b->bed.pool);
    if (request == NULL) {
        fprintf(stderr, "bench_policy: more requests are held than there are packets\n");
        exit(1);
    }
    uint32_t w = decide(b, request);
    if (w != BT_NO_WORKER) {
        give(b, w, request);
    } else {
        b->was_held++;
    }
}

static void finish(struct bench *b, uint32_t w)
{
    struct bt_pkt *head = b->bed.router->held.head;
    uint32_t to = w;
    if (feedback(b, w) == BT_NO_WORKER || (head != NULL && (to = pump(b)) != BT_NO_WORKER)) {
        give(b, to, head);
    }
}

static void run(struct bench *b, uint32_t rpcs, enum counted counted)
{
    uint32_t w;
    b->counted = counted;
    b->was_held = 0;
    for (uint32_t done = 0; done < rpcs;) {
        if (trace_next(&b->trace, &w)) {
            finish(b, w);
            done++;
        } else {
            arrive(b);
        }
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
    bool fifo = argc > 6 && strcmp(argv[6], "fifo") == 0;
    bool unknown = (argc > 5 && !bursts && strcmp(argv[5], "random") != 0) ||
                   (argc > 6 && !fifo && strcmp(argv[6], "policy") != 0);
    if (unknown || workers < 1 || workers > TRACE_WORKERS_MAX || n < 1 || n > BT_LOAD_LEVELS || rpcs < 1) {
        fprintf(stderr,
                "usage: bench_policy [WORKERS 1..1024 [N 1..64 [RPCS [WARM-UP [random|bursts [policy|fifo]]]]]]\n");
        return 2;
    }
    static struct bench b;
    trace_open(&b.trace, workers, bursts, 1);
    router_bed_open(&b.bed, workers, n, (struct router_bed_form){.threads = 1}, b.trace.now);
    b.bed.router->waits_for_credit = true; /* whatever is held here */
    run(&b, warm, NOTHING);
    run(&b, rpcs, fifo ? FIFO : POLICY);
    printf("{\"workers\": %u, \"n\": %u, \"rpcs\": %u, \"held\": %llu, \"outstanding\": %llu}\n", workers, n, rpcs,
           (unsigned long long)b.was_held, (unsigned long long)outstanding(&b, workers, n));
    return 0;
}
