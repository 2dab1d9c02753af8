// SPDX-License-Identifier: Apache-2.0
// HovercRaft++: the aggregator. It passes a leader's entries on to the followers, gathers their
// answers, and tells all members at once how far a quorum is. Soft state only, that which a switch would hold: it may
// lose all of it at any time, and may stand anywhere in the network. Pure: no clock, no I/O, no allocation.
//
// A leader's probe names the members, as a controller writes a switch's tables: with it everything before is
// forgotten. Without a table of this very term and epoch nothing is passed on, and the leader goes on without.
#ifndef BT_REPLICA_AGGREGATOR_H
#define BT_REPLICA_AGGREGATOR_H

#include "wire/group.h"

struct bt_aggregator_config {
    uint64_t cluster;
    uint32_t group;
    bool as_switch; // W-11: low halves alone; what an answer itself says is announced, once a quorum holds it
};

struct bt_aggregator_ops {
    void (*send)(void *ctx, uint16_t to, const uint8_t *message, size_t n);
};

// X(NAME, word, what): why something was dropped, or what happened; each a counter.
#define BT_AGGREGATOR_COUNTER_LIST(ROW)                                                                                \
    ROW(MALFORMED, "malformed")     /* no message, see bt_group_decode */                                              \
    ROW(FOREIGN, "foreign")         /* of another cluster or group */                                                  \
    ROW(UNKNOWN, "unknown")         /* of a type that is not for an aggregator */                                      \
    ROW(STALE, "stale")             /* of an earlier term */                                                           \
    ROW(EPOCH, "epoch")             /* of another membership, or none is known */                                      \
    ROW(STRANGER, "stranger")       /* of somebody who is no follower, or does not lead */                             \
    ROW(LOW, "low")                 /* begins before what the leader had committed (R-336) */                          \
    ROW(HIGH, "high")               /* other high halves than the registers stand for (W-11) */                        \
    ROW(REFUSALS, "refusals")       /* an answer that is none: it goes to the leader */                                \
    ROW(FLUSHES, "flushes")         /* a new term, a new membership */                                                 \
    ROW(PROBES, "probes")           /* answered */                                                                     \
    ROW(PASSED, "passed")           /* messages of a leader, each to all its followers */                              \
    ROW(ANSWERS, "answers")         /* of followers, counted */                                                        \
    ROW(ANNOUNCED, "announced")     /* commits told to all */                                                          \
    ROW(NOTHING_NEW, "nothing_new") /* answers that changed nothing */
#define BT_AGGREGATOR_COUNTER_VALUE(name, word) BT_AGGREGATOR_##name##_TOTAL,
enum bt_aggregator_counter { BT_AGGREGATOR_COUNTER_LIST(BT_AGGREGATOR_COUNTER_VALUE) BT_AGGREGATOR_COUNTERS };

// What is known of the group, and its registers. For whoever holds one; to be read through the functions below.
struct bt_aggregator {
    struct bt_aggregator_config conf;
    struct bt_aggregator_ops ops;
    void *ctx;
    // the table: of one probe
    bool known;
    uint16_t leader;
    uint64_t table_term, floor;
    uint32_t quorum; // followers whose answer commits
    uint64_t epoch;
    struct bt_group_config config;
    // the registers
    uint64_t term, last, commit;
    bool pending; // announce at the next answer, even without progress
    uint64_t match[BT_GROUP_MEMBERS_MAX], completed[BT_GROUP_MEMBERS_MAX];
    bool heard[BT_GROUP_MEMBERS_MAX], told[BT_GROUP_MEMBERS_MAX]; // the two above are this member's word

    uint64_t counter[BT_AGGREGATOR_COUNTERS];
    struct bt_group_message in, out;
    uint8_t message[BT_GROUP_HEADER + 20 + 12 * BT_GROUP_MEMBERS_MAX];
};

// Empty: it knows no group yet.
void bt_aggregator_start(struct bt_aggregator *a, const struct bt_aggregator_config *c,
                         const struct bt_aggregator_ops *ops, void *ctx);

// A message of a member.
void bt_aggregator_receive(struct bt_aggregator *a, const uint8_t *message, size_t n);

// The registers are lost and the table is not, as when a switch is programmed anew.
void bt_aggregator_flush(struct bt_aggregator *a);

struct bt_aggregator_status {
    bool known;
    uint16_t leader;
    uint64_t term, epoch, floor, last, commit;
};
struct bt_aggregator_status bt_aggregator_status(const struct bt_aggregator *a);
const char *bt_aggregator_counter_name(enum bt_aggregator_counter c);

#endif
