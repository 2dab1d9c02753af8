// SPDX-License-Identifier: Apache-2.0
#include "tcp/crab_recent.h"

enum { WAYS = 4 };

size_t bt_crab_recent_bytes(uint32_t sets)
{
    return (size_t)sets * WAYS * sizeof(struct bt_crab_recent_entry);
}

void bt_crab_recent_init(struct bt_crab_recent *r, void *mem, uint32_t sets)
{
    r->entries = mem;
    r->mask = sets - 1;
}

static uint64_t ports_seq(const struct bt_crab_segment *s)
{
    return (uint64_t)s->sport << 48 | (uint64_t)s->dport << 32 | s->seq;
}

static uint64_t addresses(const struct bt_crab_segment *s)
{
    return (uint64_t)s->src << 32 | s->dst;
}

uint32_t bt_crab_recent_find(struct bt_crab_recent *r, const struct bt_crab_segment *s, uint64_t hash, uint64_t now)
{
    struct bt_crab_recent_entry *set = &r->entries[(hash & r->mask) * WAYS];
    for (unsigned i = 0; i < WAYS; i++) {
        struct bt_crab_recent_entry *e = &set[i];
        if (e->at_ns != 0 && e->ports_seq == ports_seq(s) && e->addresses == addresses(s))
            return now - e->at_ns <= BT_CRAB_RECENT_NS ? e->dip : 0;
    }
    return 0;
}

void bt_crab_recent_keep(struct bt_crab_recent *r, const struct bt_crab_segment *s, uint64_t hash, uint32_t dip,
                         uint64_t now)
{
    struct bt_crab_recent_entry *set = &r->entries[(hash & r->mask) * WAYS], *place = &set[0];
    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].ports_seq == ports_seq(s) && set[i].addresses == addresses(s)) {
            place = &set[i];
            break;
        }
        place = set[i].at_ns < place->at_ns ? &set[i] : place;
    }
    *place = (struct bt_crab_recent_entry){ports_seq(s), addresses(s), now != 0 ? now : 1, dip};
}
