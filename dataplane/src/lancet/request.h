// SPDX-License-Identifier: Apache-2.0
// Requests of the protocols an agent measures: what the workload says, as bytes.
#ifndef BT_LANCET_REQUEST_H
#define BT_LANCET_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "lancet/dist.h"
#include "lancet/keys.h"
#include "lancet/reply.h"

#define BT_BODY_MAX 1048576u // bytes of a body, a value or an asked-for reply

enum bt_operation { BT_OP_READ, BT_OP_WRITE, BT_OP_SCAN, BT_OP_INSERT };

struct bt_workload {
    uint8_t protocol; // enum bt_reply_protocol; R2P2 carries the body of ECHO
    bool scans;       // YCSB-E: scans and inserts on one sorted set instead of get and set
    double read_ratio;
    struct bt_keys keys;
    struct bt_dist value_bytes, scan_length;
    struct bt_dist request_bytes, reply_bytes, service_ns;
    char path[1024], host[256]; // of HTTP
};

// One stream of requests of a workload.
struct bt_request_stream {
    const struct bt_workload *workload;
    struct bt_rng rng;
    uint64_t serial;                                 // of the next request
    uint64_t key_turn, value_turn, scan_turn;        // of rr
    uint64_t request_turn, reply_turn, service_turn; // likewise
};

bool bt_workload_has_keys(const struct bt_workload *w);

// The order of keys where none is asked for. YCSB-E's is Zipfian: that of the keys its scans start at.
const char *bt_workload_key_order(bool scans);

// Bytes the largest request of a workload may have.
size_t bt_request_max(const struct bt_workload *w);

// Writes the next request; `out` has room for bt_request_max bytes. Returns its length.
size_t bt_request_next(struct bt_request_stream *s, uint8_t *out, struct bt_expect *expect, enum bt_operation *op);

// Writes the request that stores a key before an experiment; 0 for protocols without keys.
size_t bt_request_store(struct bt_request_stream *s, uint64_t key, uint8_t *out, struct bt_expect *expect);

#endif
