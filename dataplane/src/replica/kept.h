// SPDX-License-Identifier: Apache-2.0
// Requests that came by themselves and stand in no log yet: the unordered set, by pair, with the order in which
// they came. And the pairs that were ordered lately, so that a late copy is not ordered again. Both bounded;
// the oldest goes first, which costs a recovery and no more.
#ifndef BT_REPLICA_KEPT_H
#define BT_REPLICA_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pairs.h"
#include "wire/group.h"

#define REPLICA_NOBODY UINT32_MAX

struct replica_request {
    struct bt_group_meta meta; // without a replier
    uint64_t arrived_ns;
    uint32_t older, newer; // REPLICA_NOBODY at the ends
    uint8_t kind;          // WRITE or READ
};

struct replica_kept {
    struct bt_pairs pairs;
    struct replica_request *request;
    uint8_t *bytes; // cell of them each
    uint32_t cell, oldest, newest, free;
    uint32_t count;
};

struct replica_ordered {
    struct bt_group_meta meta;
    uint64_t at_ns;
    bool is;
};

struct replica_recent {
    struct bt_pairs pairs;
    struct replica_ordered *ordered;
    uint32_t slots, next;
};

size_t replica_kept_bytes(uint32_t slots, uint32_t cell);
void replica_kept_init(struct replica_kept *k, void *mem, uint32_t slots, uint32_t cell, uint64_t seed);

// The request of this very pair and hash, or REPLICA_NOBODY.
uint32_t replica_kept_find(const struct replica_kept *k, const struct bt_group_meta *m);

// Copies the body, as the newest. One of the same pair and another hash goes, and the oldest one when there is no room,
// which returns true. Precondition: m->length <= cell.
bool replica_kept_put(struct replica_kept *k, const struct replica_request *r, const uint8_t *body);
void replica_kept_remove(struct replica_kept *k, uint32_t at);

// Requests that came before `since` go; returns how many.
uint32_t replica_kept_expire(struct replica_kept *k, uint64_t since);

static inline const uint8_t *replica_kept_body(const struct replica_kept *k, uint32_t at)
{
    return k->bytes + (size_t)at * k->cell;
}

size_t replica_recent_bytes(uint32_t slots);
void replica_recent_init(struct replica_recent *r, void *mem, uint32_t slots, uint64_t seed);
void replica_recent_add(struct replica_recent *r, const struct bt_group_meta *m, uint64_t now);
void replica_recent_forget(struct replica_recent *r, const struct bt_group_meta *m);

// When the pair was ordered last; false when it is not known to have been.
bool replica_recent_find(const struct replica_recent *r, const struct bt_group_meta *m, uint64_t *at_ns);

#endif
