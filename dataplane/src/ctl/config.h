// SPDX-License-Identifier: Apache-2.0
// The dataplane configuration document: one JSON text per RpcService that tells every router and
// server who belongs to it and how requests are balanced. It is accepted whole or refused with
// the first field at fault. clients/go/r2p2/config is its Go twin; both read the vectors in
// tests/vectors/config and must agree on every one.
#ifndef BT_CTL_CONFIG_H
#define BT_CTL_CONFIG_H

#include "base/addr.h"
#include "ctl/error.h"
#include "router/router_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_CONFIG_API_VERSION "dataplane.bobtail.dev/v1"
#define BT_CONFIG_TEXT        254u // any string with its end; Kubernetes names have 253 bytes at most
#define BT_CONFIG_BYTES_MAX   (1u << 20)
#define BT_CONFIG_WORKERS_MAX 1024u // over all members; also the longest list
#define BT_CONFIG_ROUTERS_MAX 16u
#define BT_CONFIG_SOURCES_MAX 64u
#define BT_CONFIG_KEYS_MAX    2u

enum bt_config_placement { BT_PLACE_SOFTWARE, BT_PLACE_NONE };

struct bt_config_source {
    char kind[BT_CONFIG_TEXT], namespace[BT_CONFIG_TEXT], name[BT_CONFIG_TEXT], uid[BT_CONFIG_TEXT];
    int64_t generation;
};

// Admission control of a service; absent: none. Mode Observe is never written.
struct bt_config_admission {
    bool given; // the document has it
    enum bt_admission_mode mode;
    enum bt_admission_controller controller;
    int64_t latency_us; // 1..100000000
    int64_t per_100k;   // 50000..99990: percentile × 1,000
    int64_t *droppable; // classes 0..7 that may be refused
    size_t n_droppable;
};

// Hedged requests; absent: none. Mode Off is never written.
struct bt_config_hedging {
    bool given; // the document has it
    enum bt_hedging_mode mode;
    enum bt_hedging_cancellation cancellation; // absent: both copies run to their end
    int64_t busy_percent, budget_percent;      // 1..100
    int64_t per_100k;                          // 50000..99990
    int64_t probe_per_million;                 // 0..1000000
};

// Flow control by waiting time (F-…); absent: none.
enum bt_config_wait_model { BT_WAIT_REFINED, BT_WAIT_PAPER };
struct bt_config_flow {
    bool given;       // the document has it
    int64_t wait_us;  // 1..10000000
    int64_t per_100k; // 50000..99990
    enum bt_config_wait_model model;
};

// Threads that serve (D-3, D-4, D-6); absent: the server's own options.
enum bt_config_scheduling_mode { BT_SCHEDULE_RUN_TO_COMPLETION, BT_SCHEDULE_WORK_STEALING };
enum bt_config_ordering { BT_ORDER_PER_REQUEST, BT_ORDER_PER_CLIENT };
extern const char *const bt_scheduling_mode_words[]; // the modes', NULL at the end
struct bt_config_scheduling {
    bool given; // the document has it
    enum bt_config_scheduling_mode mode;
    int64_t batch;     // 1..1024
    int64_t min_cores; // 1..64
    int64_t max_cores; // min_cores..64
    enum bt_config_ordering ordering;
};

struct bt_config_service {
    char name[BT_CONFIG_TEXT], namespace[BT_CONFIG_TEXT];
    enum bt_config_placement placement;
    enum bt_router_policy policy;
    enum bt_router_forwarding forwarding;
    enum bt_device device;
    bool legacy_peers;           // legacyPeers: Allow
    int64_t worker_queue_depth;  // 1..64
    int64_t central_queue_limit; // 1..1048576 requests
    int64_t max_queue_ms;        // 1..600000
    int64_t request_timeout_ms;  // 1..600000
    int64_t workers_per_replica; // 1..64
    int64_t hold_back_packets;   // 0..1024
    int64_t hold_back_us;        // 0..1000000
    struct bt_config_admission admission;
    struct bt_config_hedging hedging;
    struct bt_config_flow flow;
    struct bt_config_scheduling scheduling;
};

// One server pod: `workers` consecutive UDP ports from first_port, each one worker.
struct bt_config_member {
    char name[BT_CONFIG_TEXT];
    int64_t first_port, workers;
    struct bt_addr addr; // of the first worker
};

struct bt_config_router {
    char name[BT_CONFIG_TEXT];
    int64_t request_port, feedback_port;
    struct bt_addr request, feedback;
};

struct bt_config {
    struct bt_config_source *sources;
    size_t n_sources;
    struct bt_config_service service;
    struct bt_config_member *members; // sorted by name, then port: the order the sticky policy needs
    size_t n_members;
    size_t n_workers; // over all members
    struct bt_config_router *routers;
    size_t n_routers;
    int64_t *key_ids;
    size_t n_key_ids;
};

// Reads and checks a document. NULL with *e filled in when it is refused; free with bt_config_free.
struct bt_config *bt_config_parse(const char *text, size_t len, struct bt_ctl_error *e);
void bt_config_free(struct bt_config *c);

// Lowercase hexadecimal SHA-256 of a document's exact text.
#define BT_CONFIG_HASH 65
void bt_config_hash(const char *text, size_t len, char out[BT_CONFIG_HASH]);

#endif
