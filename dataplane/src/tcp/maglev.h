// SPDX-License-Identifier: Apache-2.0
// Consistent hashing by a filled table (Maglev, NSDI'16 §3.4): every balancer with the same servers and seed builds the
// same table, and a server that comes or goes moves little but its own share.
#ifndef BT_TCP_MAGLEV_H
#define BT_TCP_MAGLEV_H

#include <stddef.h>
#include <stdint.h>

#define BT_MAGLEV_SLOTS  65537u // prime (C-41)
#define BT_MAGLEV_NOBODY UINT16_MAX

struct bt_maglev {
    uint16_t *slots; // index of the entry; all BT_MAGLEV_NOBODY if there is none
};

struct bt_maglev_entry {
    uint64_t name;   // tells it from the others, the same everywhere
    uint32_t weight; // 0: gets nothing
};

// Bytes of slots, and of the scratch memory that building takes, for n entries (n < BT_MAGLEV_NOBODY).
#define BT_MAGLEV_BYTES (BT_MAGLEV_SLOTS * sizeof(uint16_t))
size_t bt_maglev_scratch_bytes(uint32_t n);

void bt_maglev_build(struct bt_maglev *m, const struct bt_maglev_entry *entries, uint32_t n, uint64_t seed,
                     void *scratch);

static inline uint16_t bt_maglev_find(const struct bt_maglev *m, uint64_t hash)
{
    return m->slots[(uint32_t)(((hash >> 32) * BT_MAGLEV_SLOTS) >> 32)];
}

// A well mixed 64-bit hash of two words (the finisher of splitmix64, once for each).
static inline uint64_t bt_maglev_mix(uint64_t a, uint64_t b)
{
    uint64_t h = a + UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 2; i++) {
        h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
        h ^= h >> 31;
        h += i == 0 ? b : 0;
    }
    return h;
}

#endif
