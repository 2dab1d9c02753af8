// SPDX-License-Identifier: Apache-2.0
#include "tcp/maglev.h"

#include <string.h>

// Where an entry's own order of slots stands: offset + turn × skip, as often as it looked.
struct walk {
    uint32_t at, skip;
    uint32_t credit; // towards its next turn, in weights
};

size_t bt_maglev_scratch_bytes(uint32_t n)
{
    return (n > 0 ? n : 1) * sizeof(struct walk);
}

static uint32_t heaviest(const struct bt_maglev_entry *entries, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        most = entries[i].weight > most ? entries[i].weight : most;
    }
    return most;
}

// The next free slot in the entry's order. There is one: the caller stops when all are taken.
static uint32_t next_free(const struct bt_maglev *m, struct walk *w)
{
    while (m->slots[w->at] != BT_MAGLEV_NOBODY) {
        w->at += w->skip;
        w->at -= w->at >= BT_MAGLEV_SLOTS ? BT_MAGLEV_SLOTS : 0;
    }
    return w->at;
}

void bt_maglev_build(struct bt_maglev *m, const struct bt_maglev_entry *entries, uint32_t n, uint64_t seed,
                     void *scratch)
{
    struct walk *walks = scratch;
    uint32_t most = heaviest(entries, n), taken = 0;
    memset(m->slots, 0xff, BT_MAGLEV_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t h = bt_maglev_mix(entries[i].name, seed);
        walks[i].at = (uint32_t)(h % BT_MAGLEV_SLOTS);
        walks[i].skip = (uint32_t)((h >> 32) % (BT_MAGLEV_SLOTS - 1)) + 1;
        walks[i].credit = 0;
    }
    while (most != 0) {
        for (uint32_t i = 0; i < n; i++) {
            walks[i].credit += entries[i].weight;
            if (walks[i].credit < most) {
                continue;
            }
            walks[i].credit -= most;
            m->slots[next_free(m, &walks[i])] = (uint16_t)i;
            if (++taken == BT_MAGLEV_SLOTS) {
                return;
            }
        }
    }
}
