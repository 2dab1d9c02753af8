// SPDX-License-Identifier: Apache-2.0
// What a router is told: once at start (setup) and at every apply (config). Kept apart from router.h so that the
// control code which builds these structures from JSON needs nothing else of the router.
#ifndef BOBTAIL_ROUTER_CONFIG_H
#define BOBTAIL_ROUTER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/device.h"
#include "base/addr.h"
#include "base/pkt.h"
#include "router/admission_config.h"
#include "router/hedging_config.h"

struct bt_keyring;    /* wire/tag.h */
struct bt_trace_ring; /* base/trace.h */

#define BT_ROUTER_MEMBERS_MAX 1024u /* workers of one service */
#define BT_ROUTER_DEPTH_MAX   64u   /* cap of n */

/* bt_pkt.local: the port a packet came in on or must leave by. */
enum bt_router_port { BT_ROUTER_PORT_REQUEST = 0, BT_ROUTER_PORT_FEEDBACK = 1 };

/* Load-balancing policies (spec/jbsq-router.md §1), the one table of them in C: the name here, the word of documents
   and options, whether it waits for a worker with outstanding < n (else it pushes to any worker that is up), whether it
   takes a least loaded worker (an idle one, if there is any), and its function in policies/. New ones stand last. */
#define BT_ROUTER_POLICY_TABLE(ROW)                                                                                    \
    /* fewest outstanding with a free slot, else the central FIFO (R-101, R-102) */                                    \
    ROW(JBSQ, "JBSQ", true, true, bt_pick_jbsq)                                                                        \
    /* fewest outstanding, no bound */                                                                                 \
    ROW(JSQ, "JSQ", false, true, bt_pick_jsq)                                                                          \
    /* two distinct random workers, the shorter queue (Q-31) */                                                        \
    ROW(POWER_OF_TWO, "PowerOfTwo", false, false, bt_pick_power_of_two)                                                \
    /* next in the ring */                                                                                             \
    ROW(ROUND_ROBIN, "RoundRobin", false, false, bt_pick_round_robin)                                                  \
    /* uniform */                                                                                                      \
    ROW(RANDOM, "Random", false, false, bt_pick_random)

#define BT_ROUTER_POLICY_VALUE(name, word, bounded, least, pick)    BT_ROUTER_##name,
#define BT_ROUTER_POLICY_AND_WORD(name, word, bounded, least, pick) " " word
#define BT_ROUTER_POLICY_WORDS                                      BT_ROUTER_POLICY_TABLE(BT_ROUTER_POLICY_AND_WORD) /* " JBSQ JSQ …", for messages */
enum bt_router_policy { BT_ROUTER_POLICY_TABLE(BT_ROUTER_POLICY_VALUE) BT_ROUTER_POLICIES };

/* How a forwarded request keeps the client's identity. */
enum bt_router_forwarding {
    BT_FORWARD_ENCAPSULATED = 0, /* router's own source address + option kind 1 */
    BT_FORWARD_TRANSPARENT = 1,  /* client's source address, the driver must be able to send it */
    BT_ROUTER_FORWARDINGS
};

/* Timers in ns; 0 anywhere = the default of the device profile. */
struct bt_router_timers {
    uint64_t loss_ns; /* T_loss: 200 ms Kernel/AFXDP, 2 ms SRIOV */
    uint64_t leak_ns; /* T_leak floor: 100 ms; the router raises it to 20× the observed p99 */
    uint64_t dead_ns; /* T_dead: 1 s Kernel/AFXDP, 30 ms SRIOV */
};

/* One configuration, applied whole or not at all. Pointers need to live only during the call. */
struct bt_router_config {
    enum bt_router_policy policy;
    enum bt_router_forwarding forwarding;
    enum bt_device device;
    bool legacy_peers;           /* legacyPeers: Allow */
    uint32_t depth;              /* workerQueueDepth 1..64: ceiling of every worker's n */
    uint32_t central_limit;      /* centralQueueLimit 1..1048576 requests held */
    uint64_t max_queue_ns;       /* maxQueueMilliseconds: longest hold before DROP */
    uint64_t request_timeout_ns; /* T_max: unanswered pairs count as +inf; also the drain time-out of a worker */
    uint32_t hold_back_packets;  /* 0 = off; refused with policies other than JBSQ */
    uint64_t hold_back_ns;       /* 0 = off */
    struct bt_router_timers timers;
    struct bt_admission_config admission; /* zeroes: off */
    struct bt_hedging_config hedging;     /* likewise; needs policy JBSQ and a router on one thread */
    uint32_t max_payload; /* largest UDP payload of a request, in and out; 0 = that of a 1500 B MTU */

    /* Allowed workers, at most 1024, sorted by (name, port) by the caller: members[0] is the sticky master. */
    const struct bt_addr *members;
    size_t members_n;

    const struct bt_keyring *keys; /* NULL or empty = the service has no key; copied */
};

/* Fixed at start: sizes the memory, names the router's own addresses. */
struct bt_router_setup {
    uint32_t threads;             /* 1, which 0 means too, or 2 */
    uint32_t max_members;         /* 1..1024 worker slots; 0 = 1024 */
    uint32_t max_pairs;           /* REQ0→FEEDBACK pairs watched for latency, 1..1<<20; 0 = 65536 */
    uint32_t max_hedges;          /* requests kept to be sent again, 1..65535; 0 = 1024 */
    bool no_histograms;           /* spare their 17 MB (simulator, fuzzers) */
    bool no_latency, no_hold;     /* or one of the two */
    uint64_t seed;                /* policies' random numbers and hash seeds */
    struct bt_trace_ring *traces; /* of pairs with a trace id; NULL: not kept */
    struct bt_pool *pool;         /* where consumed packets go back */
    /* on two threads */
    struct bt_pool *feedback_pool; /* where consumed FEEDBACK goes back; NULL: pool, if it may be shared */
    uint32_t credits, notes;       /* entries of the two queues, powers of two up to 65536; 0 = 2048 and 4096 */
    /* its own addresses */
    struct bt_addr request_addr; /* own source in Encapsulated mode and of DROP; names the router in kind 5 */
    struct bt_addr feedback_addr;
};

/* Why a configuration was refused. field is the path in the configuration document. */
struct bt_router_refusal {
    const char *field;  /* "service.workerQueueDepth", "members", … (static storage) */
    const char *reason; /* "must be 1..64" … (static storage) */
    size_t index;       /* which member, when field is "members" */
};

#endif
