// SPDX-License-Identifier: Apache-2.0
// One member on a bench: what it sends and stores is kept, what it gets is made here.
#ifndef BT_TESTS_REPLICA_BED_H
#define BT_TESTS_REPLICA_BED_H

#include "unit.h"

#include "replica/replica.h"

#define BED_MS      UINT64_C(1000000)
#define BED_CLUSTER UINT64_C(0x1122334455667788)

enum { BED_GROUP = 9, BED_SENT = 512, BED_OPS = 1024, BED_MESSAGE = 1452 };

struct bed_sent {
    uint16_t to;
    uint32_t n;
    uint8_t bytes[BED_MESSAGE];
};

// An operation of the store, without what it points to.
struct bed_op {
    uint64_t generation, index; // index: first appended, truncated from, compacted to, or the snapshot's last
    enum bt_store_kind kind;
    uint32_t count;
    struct bt_hard_state hard_state;
    struct bt_group_config config;
};

struct bed {
    struct bt_replica *r;
    struct bt_replica_config c;
    void *mem;
    uint64_t now;
    struct bed_sent sent[BED_SENT];
    uint32_t sent_n;
    struct bed_op op[BED_OPS];
    uint32_t ops_n;
    uint64_t restored; // last index of the latest restore
    uint64_t restored_n;
};

// Member `id` of a new group of members 1…voters; nothing is durable until bed_done.
struct bed *bed_open(uint16_t id, uint16_t voters);
void bed_close(struct bed *b);

// The member starts anew from what is said to be on its disk.
enum bt_replica_result bed_restart(struct bed *b, const struct bt_recovery *found);
struct bt_group_config bed_voters(uint16_t n);

void bed_done(struct bed *b); // all operations are durable
void bed_done_to(struct bed *b, uint64_t generation);
void bed_wait(struct bed *b, uint64_t ns); // time goes by, with a tick each millisecond
void bed_forget(struct bed *b);            // what was sent and stored so far

// Fills version, group and cluster in.
void bed_deliver(struct bed *b, struct bt_group_message *m);
struct bt_group_message bed_message(enum bt_group_type type, uint16_t from, uint64_t term);

struct bed_place {
    uint64_t index, term;
};

// Commands of these terms, which end with 0, after an entry; commit says how far.
void bed_append_after(struct bed *b, uint16_t from, uint64_t term, struct bed_place prev, uint64_t commit,
                      const uint64_t *terms);
#define bed_append(b, from, term, prev_index, prev_term, commit, ...)                                                  \
    bed_append_after(b, from, term, (struct bed_place){prev_index, prev_term}, commit, __VA_ARGS__)
void bed_ack(struct bed *b, uint16_t from, uint64_t index);
// As many entries of term 1 as the log takes.
void bed_fill(struct bed *b, uint16_t from);

// The latest message of a type to a member, decoded; NULL when there is none.
const struct bt_group_message *bed_last(struct bed *b, enum bt_group_type type, uint16_t to);
uint32_t bed_count(struct bed *b, enum bt_group_type type);
const struct bed_op *bed_last_op(struct bed *b, enum bt_store_kind kind);

// Makes the member the leader of the next term, with its first entry durable here and acknowledged by all others.
void bed_lead(struct bed *b);
uint64_t bed_counter(const struct bed *b, enum bt_replica_counter c);

#define bed_status(b) bt_replica_status((b)->r)

#endif
