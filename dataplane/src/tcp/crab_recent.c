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

static bool is_of(const struct bt_crab_recent_entry *e, const struct bt_crab_segment *s, uint16_t vip)
{
    return e->seq == s->seq && e->vip == vip && bt_addr_eq(&e->client, &s->src);
}

const struct bt_addr *bt_crab_recent_find(const struct bt_crab_recent *r, const struct bt_crab_segment *s, uint16_t vip,
                                          uint64_t hash, uint64_t now)
{
    const struct bt_crab_recent_entry *set = &r->entries[(hash & r->mask) * WAYS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].at_ns != 0 && is_of(&set[i], s, vip)) {
            return now - set[i].at_ns <= BT_CRAB_RECENT_NS ? &set[i].dip : NULL;
        }
    }
    return NULL;
}

void bt_crab_recent_keep(struct bt_crab_recent *r, const struct bt_crab_segment *s, uint16_t vip, uint64_t hash,
                         const struct bt_addr *dip, uint64_t now)
{
    struct bt_crab_recent_entry *set = &r->entries[(hash & r->mask) * WAYS], *place = &set[0];
    for (unsigned i = 0; i < WAYS; i++) {
        if (is_of(&set[i], s, vip)) {
            place = &set[i];
            break;
        }
        place = set[i].at_ns < place->at_ns ? &set[i] : place;
    }
    *place = (struct bt_crab_recent_entry){
        .client = s->src, .seq = s->seq, .at_ns = now != 0 ? now : 1, .dip = *dip, .vip = vip};
}
