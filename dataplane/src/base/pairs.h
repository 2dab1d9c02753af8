// SPDX-License-Identifier: Apache-2.0
// Bounded hash table from a pair's identity <client ip, client port, req_id>
// to a 32-bit value of the owner's. No allocation after init; the hash
// is seeded, so that a sender cannot choose colliding identities.
#ifndef BT_BASE_PAIRS_H
#define BT_BASE_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

#define BT_PAIRS_NONE UINT32_MAX

__extension__ typedef unsigned __int128 bt_wide;

static inline uint64_t bt_pairs_mix(uint64_t a, uint64_t b)
{
    bt_wide m = (bt_wide)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

// Two random words to a seed fit for bt_pairs_hash.
static inline void bt_pairs_seed(uint64_t seed[2], const uint64_t from[2])
{
    seed[0] = from[0] | 1; // a zero factor would erase the address
    seed[1] = from[1] ^ 0xd1b54a32d192ed03u;
}

// Hash of a pair's identity under a secret seed: of the halves of the address, and of port and request id in one number
// (bt_pairs_id). The low half of the folded product
// depends on every bit of both factors.
static inline uint32_t bt_pairs_hash_words(const uint64_t seed[2], uint64_t half0, uint64_t half8, uint32_t id)
{
    return (uint32_t)bt_pairs_mix(half0 ^ id ^ seed[0], half8 ^ seed[1]);
}

static inline uint32_t bt_pairs_id(uint16_t port, uint16_t req_id)
{
    return (uint32_t)port << 16 | req_id;
}

static inline uint32_t bt_pairs_hash(const uint64_t seed[2], const struct bt_addr *addr, uint16_t req_id)
{
    return bt_pairs_hash_words(seed, bt_addr_half(addr, 0), bt_addr_half(addr, 8), bt_pairs_id(addr->port, req_id));
}

struct bt_pairs_slot {
    struct bt_addr addr;
    uint16_t req_id;
    uint16_t used;
    uint32_t hash;
    uint32_t value;
};

struct bt_pairs {
    struct bt_pairs_slot *slots;
    uint32_t mask;  // slots - 1
    uint32_t count; // entries now
    uint32_t limit; // most entries at once
    uint64_t seed[2];
};

size_t bt_pairs_bytes(uint32_t limit);

// mem: bt_pairs_bytes(limit) bytes, 8-byte aligned.
void bt_pairs_init(struct bt_pairs *t, void *mem, uint32_t limit, const uint64_t seed[2]);

// Value of the pair, or BT_PAIRS_NONE.
uint32_t bt_pairs_find(const struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id);

// Inserts, or replaces the value of a known pair. False when full.
bool bt_pairs_put(struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id, uint32_t value);

// Removes and returns the value, or BT_PAIRS_NONE when the pair is unknown.
uint32_t bt_pairs_del(struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id);

// For an owner that keeps the hash of each pair (bt_pairs_hash with the table's seed), and whose values name one pair
// each: nothing is hashed twice, and an entry is found again without its address.

static inline uint32_t bt_pairs_look(const struct bt_pairs *t, uint32_t hash, const struct bt_addr *addr,
                                     uint16_t req_id)
{
    for (uint32_t i = hash & t->mask;; i = (i + 1) & t->mask) {
        const struct bt_pairs_slot *s = &t->slots[i];
        if (!s->used) {
            return BT_PAIRS_NONE;
        }
        if (s->hash == hash && s->req_id == req_id && bt_addr_eq(&s->addr, addr)) {
            return s->value;
        }
    }
}

// For what is looked for a little later: has its place in the table come near, to be written to.
static inline void bt_pairs_ahead(const struct bt_pairs *t, uint32_t hash)
{
    __builtin_prefetch(&t->slots[hash & t->mask], 1);
}

// Inserts a pair that is not there. False when full.
static inline bool bt_pairs_add(struct bt_pairs *t, uint32_t hash, const struct bt_addr *addr, uint16_t req_id,
                                uint32_t value)
{
    if (t->count >= t->limit) {
        return false;
    }
    uint32_t i = hash & t->mask;
    while (t->slots[i].used) {
        i = (i + 1) & t->mask;
    }
    t->slots[i] = (struct bt_pairs_slot){.addr = *addr, .req_id = req_id, .used = 1, .hash = hash, .value = value};
    t->count++;
    return true;
}

// The entry with this value, NULL when there is none.
static inline struct bt_pairs_slot *bt_pairs_entry(const struct bt_pairs *t, uint32_t hash, uint32_t value)
{
    for (uint32_t i = hash & t->mask; t->slots[i].used; i = (i + 1) & t->mask) {
        if (t->slots[i].value == value) {
            return &t->slots[i];
        }
    }
    return NULL;
}

// Removes an entry that bt_pairs_entry found.
void bt_pairs_remove(struct bt_pairs *t, struct bt_pairs_slot *entry);

#endif
