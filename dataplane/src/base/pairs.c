// SPDX-License-Identifier: Apache-2.0
// Linear probing at a load of at most one half, deletion by shifting back:
// no tombstones, so look-ups stay short however long the process runs.
#include "base/pairs.h"

static uint32_t hash_of(const struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id)
{
    return bt_pairs_hash(t->seed, addr, req_id);
}

static uint32_t slots_for(uint32_t limit)
{
    uint32_t n = 2;
    while (n < 2 * (uint64_t)limit && n < 0x80000000u) {
        n <<= 1;
    }
    return n;
}

size_t bt_pairs_bytes(uint32_t limit)
{
    return (size_t)slots_for(limit) * sizeof(struct bt_pairs_slot);
}

void bt_pairs_init(struct bt_pairs *t, void *mem, uint32_t limit, const uint64_t seed[2])
{
    t->slots = mem;
    t->mask = slots_for(limit) - 1;
    t->count = 0;
    t->limit = limit;
    bt_pairs_seed(t->seed, seed);
    memset(mem, 0, bt_pairs_bytes(limit));
}

// Slot of the pair, or of the free place where it belongs.
static uint32_t probe(const struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id, uint32_t hash)
{
    uint32_t i = hash & t->mask;
    for (;; i = (i + 1) & t->mask) {
        const struct bt_pairs_slot *s = &t->slots[i];
        if (!s->used || (s->hash == hash && s->req_id == req_id && bt_addr_eq(&s->addr, addr))) {
            return i;
        }
    }
}

uint32_t bt_pairs_find(const struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id)
{
    const struct bt_pairs_slot *s = &t->slots[probe(t, addr, req_id, hash_of(t, addr, req_id))];
    return s->used ? s->value : BT_PAIRS_NONE;
}

bool bt_pairs_put(struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id, uint32_t value)
{
    uint32_t hash = hash_of(t, addr, req_id);
    struct bt_pairs_slot *s = &t->slots[probe(t, addr, req_id, hash)];
    if (!s->used) {
        if (t->count >= t->limit) {
            return false;
        }
        t->count++;
        s->addr = *addr;
        s->req_id = req_id;
        s->hash = hash;
        s->used = 1;
    }
    s->value = value;
    return true;
}

uint32_t bt_pairs_del(struct bt_pairs *t, const struct bt_addr *addr, uint16_t req_id)
{
    struct bt_pairs_slot *s = &t->slots[probe(t, addr, req_id, hash_of(t, addr, req_id))];
    if (!s->used) {
        return BT_PAIRS_NONE;
    }
    uint32_t value = s->value;
    bt_pairs_remove(t, s);
    return value;
}

void bt_pairs_remove(struct bt_pairs *t, struct bt_pairs_slot *entry)
{
    uint32_t hole = (uint32_t)(entry - t->slots);
    // Close the gap: pull back every follower whose home is not behind the hole.
    for (uint32_t i = (hole + 1) & t->mask; t->slots[i].used; i = (i + 1) & t->mask) {
        uint32_t home = t->slots[i].hash & t->mask;
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->slots[hole] = t->slots[i];
            hole = i;
        }
    }
    memset(&t->slots[hole], 0, sizeof t->slots[hole]);
    t->count--;
}
