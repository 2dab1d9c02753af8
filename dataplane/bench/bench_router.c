// SPDX-License-Identifier: Apache-2.0
// What the router spends on one RPC: its REQ0 (parse, decide, rewrite, forward) and its FEEDBACK (parse, credit, pair
// and latency), packets in and packets out, over the trace. bench/instructions.py counts the instructions of
// route_request, route_feedback and route_tick; alone the program prints ns per RPC of each.
//   bench_router WORKERS transparent|encapsulated|split|split-bursts [RPCS [BURST]]
// split: transparent, the router as two halves that run in turn, a packet at a time: the dearest way to run them, since
// what a half does once a burst is done for every packet. split-bursts: each half is handed BURST of its packets at
// once, as it has them under load; requests and FEEDBACK wait until so many have come.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kept.h"
#include "router_bed.h"
#include "trace.h"

#define N       3u  // the default depth of a service
#define CLIENTS 64u // sockets that send
#define BATCH   32u // packets between two ticks, as a busy loop has them
#define BURST   64u // the most that a half is handed at once

struct call {
    struct bt_addr client;
    uint16_t req_id;
};

/* Packets that came and were not handed over yet. */
struct burst {
    struct bt_pkt *pkts[BURST];
    unsigned n;
};

struct bench {
    struct router_bed bed;
    unsigned at_once; /* packets that a half is handed at once; 0: on one thread */
    struct burst requests, feedback;
    struct trace trace;
    struct call at[TRACE_WORKERS_MAX][N]; // requests at each worker, oldest first
    uint32_t sent;
    uint64_t spent_request, spent_feedback;
};

KEPT void route_request(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out)
{
    bt_router_request(r, now, pkt, out);
}

KEPT void route_feedback(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out)
{
    bt_router_feedback(r, now, pkt, out);
}

/* The same by halves. The REQ0 thread looks for credit as it goes round, which sends what is held. */
KEPT void split_request(struct bt_router *r, const struct burst *in, struct bt_txq *out)
{
    bt_router_requests(r, in->pkts, in->n, out);
}

KEPT void split_feedback(struct bt_router *r, const struct burst *in, struct bt_txq *out)
{
    bt_router_feedbacks(r, in->pkts, in->n, out);
    bt_router_requests(r, NULL, 0, out);
}

KEPT void route_tick(struct bt_router *r, uint64_t now, struct bt_txq *out)
{
    bt_router_tick(r, now, out);
}

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* What left the router arrives at its worker at once. */
static void deliver(struct bench *b, struct bt_txq *out)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(out)) != NULL) {
        struct bt_r2p2_hdr hdr;
        uint32_t w = router_bed_worker(&pkt->dst);
        if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr) != BT_M_OK || w >= b->trace.workers ||
            b->trace.queued[w] == N) {
            fprintf(stderr, "bench_router: a packet went astray\n");
            exit(1);
        }
        bool forwarded = (hdr.opt.present & BT_HAS_FORWARDED) != 0;
        b->at[w][b->trace.queued[w]] = (struct call){forwarded ? hdr.opt.forwarded : pkt->src, hdr.req_id};
        b->bed.received[w]++;
        trace_give(&b->trace, w);
        bt_pool_put(b->bed.pool, pkt);
    }
}

/* A half is handed its packet once there are enough of them. */
static void hand_over(struct bench *b, struct burst *in, struct bt_pkt *pkt, struct bt_txq *out)
{
    in->pkts[in->n++] = pkt;
    if (in->n < b->at_once) {
        return;
    }
    if (in == &b->requests) {
        split_request(b->bed.router, in, out);
    } else {
        split_feedback(b->bed.router, in, out);
    }
    in->n = 0;
}

static void arrive(struct bench *b, struct bt_txq *out)
{
    struct bt_addr client = bt_addr_v4u(0x0a020000 + b->sent % CLIENTS, (uint16_t)(33000 + b->sent % CLIENTS));
    struct bt_pkt *pkt = router_bed_request(&b->bed, &client, (uint16_t)(b->sent / CLIENTS), b->trace.now);
    b->sent++;
    uint64_t start = nanoseconds();
    if (b->at_once > 0) {
        hand_over(b, &b->requests, pkt, out);
    } else {
        route_request(b->bed.router, b->trace.now, pkt, out);
    }
    b->spent_request += nanoseconds() - start;
}

static void finish(struct bench *b, uint32_t w, struct bt_txq *out)
{
    struct call call = b->at[w][0];
    memmove(&b->at[w][0], &b->at[w][1], (N - 1) * sizeof call);
    b->bed.served[w]++;
    struct bt_pkt *pkt = router_bed_feedback(&b->bed, w, BT_FEEDBACK_PAIR, &call.client, call.req_id, b->trace.now);
    uint64_t start = nanoseconds();
    if (b->at_once > 0) {
        hand_over(b, &b->feedback, pkt, out);
    } else {
        route_feedback(b->bed.router, b->trace.now, pkt, out);
    }
    b->spent_feedback += nanoseconds() - start;
}

static void tick(struct bench *b, struct bt_txq *out)
{
    bt_router_feedback_tick(b->bed.router, b->trace.now);
    route_tick(b->bed.router, b->trace.now, out);
}

static void run(struct bench *b, uint32_t rpcs)
{
    struct bt_txq out;
    bt_txq_init(&out);
    for (uint32_t done = 0, packets = 1; done < rpcs; packets++) {
        uint32_t w;
        if (trace_next(&b->trace, &w)) {
            finish(b, w, &out);
            done++;
        } else {
            arrive(b, &out);
        }
        if (packets % BATCH == 0) {
            tick(b, &out);
        }
        deliver(b, &out);
    }
    if (b->feedback.n + b->requests.n > 0) { /* less than a burst is left: not counted */
        bt_router_feedbacks(b->bed.router, b->feedback.pkts, b->feedback.n, &out);
        bt_router_requests(b->bed.router, b->requests.pkts, b->requests.n, &out);
        deliver(b, &out);
    }
}

/* Everything that was sent was forwarded or is held, and nearly all that was finished was measured. */
static int check(const struct bench *b, uint32_t rpcs)
{
    struct bt_router_stats s;
    bt_router_read_stats(b->bed.router, b->trace.now, &s);
    uint64_t measured = s.counter[BT_RC_PAIRS_FINISHED];
    if (s.counter[BT_RC_FORWARDED] + s.held != b->sent || measured != rpcs) {
        fprintf(stderr, "bench_router: %u sent, %llu forwarded, %llu held; %u finished, %llu measured\n", b->sent,
                (unsigned long long)s.counter[BT_RC_FORWARDED], (unsigned long long)s.held, rpcs,
                (unsigned long long)measured);
        return 1;
    }
    printf("{\"workers\": %u, \"rpcs\": %u, \"requests\": %u, \"held\": %llu, \"request_ns\": %.1f, "
           "\"feedback_ns\": %.1f}\n",
           b->trace.workers, rpcs, b->sent, (unsigned long long)s.counter[BT_RC_HELD],
           (double)b->spent_request / b->sent, (double)b->spent_feedback / rpcs);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_router [WORKERS 1..1024] [transparent|encapsulated|split|split-bursts] [RPCS] "
                    "[BURST 1..64]\n");
    return 2;
}

/* What the command line may ask for. at_once: packets a call, unless it says another number; 0: packet by packet,
 * without the door for bursts; most: what it may say. */
static const struct form {
    const char *name;
    struct router_bed_form bed;
    unsigned at_once, most;
} forms[] = {
    {"transparent", {.threads = 1}, 0, 1},
    {"encapsulated", {.keyed = true, .threads = 1}, 0, 1},
    {"split", {.threads = 2}, 1, 1},
    {"split-bursts", {.threads = 2}, BURST, BURST},
};

static const struct form *form_named(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)atoi(argv[1]) : 16;
    const struct form *form = form_named(argc > 2 ? argv[2] : "transparent");
    uint32_t rpcs = argc > 3 ? (uint32_t)atoi(argv[3]) : 20000;
    if (form == NULL || workers < 1 || workers > TRACE_WORKERS_MAX || rpcs < 1) {
        return usage();
    }
    unsigned asked = argc > 4 ? (unsigned)atoi(argv[4]) : form->most;
    if (asked < 1 || asked > form->most) {
        return usage();
    }
    static struct bench b;
    b.at_once = form->at_once == 0 ? 0 : asked;
    trace_open(&b.trace, workers, false, 1);
    router_bed_open(&b.bed, workers, N, form->bed, b.trace.now);
    run(&b, rpcs);
    return check(&b, rpcs);
}
