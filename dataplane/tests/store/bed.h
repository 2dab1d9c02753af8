// SPDX-License-Identifier: Apache-2.0
// A store on a disk in memory, and operations in a line each. Operations that must be taken are asserted to be.
#ifndef BT_TESTS_STORE_BED_H
#define BT_TESTS_STORE_BED_H

#include "ram.h"
#include "store/store.h"

struct bed {
    struct ram ram;
    struct bt_store_config config;
    struct bt_store store;
    struct bt_image image;
    struct bt_recovery found; // of the last start
    void *memory;
    uint64_t generation;
    char text[240]; // of the last start that failed
};

void bed_init(struct bed *b);
void bed_free(struct bed *b);
// Another bed with the same disk and configuration, not started.
void bed_copy(struct bed *to, const struct bed *from);

bool bed_start(struct bed *b);
// The next operation; false when it is refused or the store has failed.
bool bed_take(struct bed *b, struct bt_store_op op);
// Entries first … last of a term; each body says its index.
bool bed_append(struct bed *b, uint64_t first, uint64_t last, uint64_t term);
bool bed_truncate(struct bed *b, uint64_t from);
bool bed_vote(struct bed *b, uint64_t term, uint16_t vote);
bool bed_snapshot(struct bed *b, uint64_t index, uint64_t term, uint32_t length);
bool bed_compact(struct bed *b, uint64_t to);
// Everything taken so far is durable; asserted.
void bed_commit(struct bed *b);

// What the last start found: entries first … last (none: last < first), their bodies, and the term of each.
void bed_expect(const struct bed *b, uint64_t first, uint64_t last, uint64_t term);

#endif
