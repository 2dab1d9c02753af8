// SPDX-License-Identifier: Apache-2.0
// See log.h. Bodies follow one another; one that does not fit before the end of the ring begins at its start.
#include "replica/log.h"

#include <string.h>

void replica_log_init(struct replica_log *l, struct replica_slot *slot, uint32_t slots, uint8_t *bytes, uint32_t room)
{
    *l = (struct replica_log){.slot = slot, .bytes = bytes, .mask = slots - 1, .room = room};
}

void replica_log_reset(struct replica_log *l, uint64_t base, uint64_t base_term)
{
    l->base = l->last = l->durable = base;
    l->base_term = base_term;
}

// Where a body of n bytes would begin; room when it has no place. The ring is never filled to its last byte, so that
// begin == end means empty.
static uint32_t place(const struct replica_log *l, uint32_t n)
{
    if (l->last == l->base) {
        return n < l->room ? 0 : l->room;
    }
    const struct replica_slot *first = replica_log_at(l, l->base + 1), *last = replica_log_at(l, l->last);
    uint32_t begin = first->at, end = last->at + last->length;
    if (end < begin) {
        return begin - end > n ? end : l->room;
    }
    if (l->room - end > n) {
        return end;
    }
    return begin > n ? 0 : l->room;
}

bool replica_log_fits(const struct replica_log *l, uint8_t kind, uint32_t length)
{
    bool own = kind == BT_ENTRY_NOOP || kind == BT_ENTRY_CONFIG; // of Raft, not of a client
    uint64_t slots = (uint64_t)l->mask + 1 - (own ? 0 : REPLICA_LOG_RESERVED);
    // Bodies of memberships are small: commands leave room for a few.
    uint32_t spare = own ? 0 : 4 * BT_GROUP_CONFIG_MAX + l->spare;
    return l->last - l->base < slots && place(l, length + spare) != l->room;
}

// Bytes from the first body to the end of the last one.
static uint32_t filled(const struct replica_log *l)
{
    if (l->last == l->base) {
        return 0;
    }
    const struct replica_slot *first = replica_log_at(l, l->base + 1), *last = replica_log_at(l, l->last);
    uint32_t end = last->at + last->length;
    return end >= first->at ? end - first->at : l->room - first->at + end;
}

bool replica_log_pressed(const struct replica_log *l)
{
    uint64_t slots = (uint64_t)l->mask + 1 - REPLICA_LOG_RESERVED;
    return 4 * (l->last - l->base) >= 3 * slots || filled(l) >= l->room / 4 * 3;
}

bool replica_log_append(struct replica_log *l, const struct bt_entry *e, uint64_t generation)
{
    uint32_t at = place(l, e->length);
    if (l->last - l->base > l->mask || at == l->room) {
        return false;
    }
    if (e->length > 0) {
        memcpy(l->bytes + at, e->body, e->length);
    }
    l->last++;
    l->slot[l->last & l->mask] = (struct replica_slot){
        .term = e->term, .generation = generation, .at = at, .length = e->length, .kind = e->kind};
    return true;
}

void replica_log_truncate(struct replica_log *l, uint64_t from)
{
    if (from <= l->last) {
        l->last = from - 1;
    }
    if (l->durable > l->last) {
        l->durable = l->last;
    }
}

void replica_log_compact(struct replica_log *l, uint64_t to)
{
    l->base_term = replica_log_term(l, to);
    l->base = to;
    if (l->durable < to) {
        l->durable = to;
    }
}

bool replica_log_settle(struct replica_log *l, uint64_t generation)
{
    uint64_t before = l->durable;
    while (l->durable < l->last && replica_log_at(l, l->durable + 1)->generation <= generation) {
        l->durable++;
    }
    return l->durable != before;
}

struct bt_entry replica_log_entry(const struct replica_log *l, uint64_t index)
{
    const struct replica_slot *s = replica_log_at(l, index);
    return (struct bt_entry){
        .index = index, .term = s->term, .body = l->bytes + s->at, .length = s->length, .kind = s->kind};
}
