// SPDX-License-Identifier: Apache-2.0
// See record.h.
#include "store/record.h"

#include <string.h>

#include "base/bytes.h"

enum { HEAD_FIXED = 128, SNAPSHOT_FIXED = 40, CONFIG_FIXED = 8, CONFIG_MEMBER = 4 };

uint32_t bt_record_put(uint8_t *p, const struct bt_record *r)
{
    uint32_t whole = bt_record_bytes(r->length);
    p[0] = r->type;
    p[1] = r->kind;
    bt_put16(p + 2, 0);
    bt_put32(p + 4, r->length);
    bt_put64(p + 8, r->a);
    bt_put64(p + 16, r->b);
    if (r->length > 0) {
        memcpy(p + BT_RECORD_BYTES, r->body, r->length);
    }
    memset(p + BT_RECORD_BYTES + r->length, 0, whole - BT_RECORD_BYTES - r->length);
    return whole;
}

static bool zeros(const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

uint32_t bt_record_get(const uint8_t *p, uint32_t n, struct bt_record *r)
{
    if (n < BT_RECORD_BYTES) {
        return 0;
    }
    *r = (struct bt_record){.type = p[0],
                            .kind = p[1],
                            .length = bt_get32(p + 4),
                            .a = bt_get64(p + 8),
                            .b = bt_get64(p + 16),
                            .body = p + BT_RECORD_BYTES};
    if (bt_get16(p + 2) != 0 || r->length > n - BT_RECORD_BYTES) {
        return 0;
    }
    uint32_t whole = bt_record_bytes(r->length);
    if (whole > n || !zeros(r->body + r->length, whole - BT_RECORD_BYTES - r->length)) {
        return 0;
    }
    return whole;
}

// count u16, 6 zeros; count members: id u16, role u8, zero u8. Into zeros. Of the disk alone: releases that speak
// another wire format still read it.
static uint32_t put_config(uint8_t *p, const struct bt_group_config *c)
{
    bt_put16(p, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        uint8_t *m = p + CONFIG_FIXED + i * CONFIG_MEMBER;
        bt_put16(m, c->member[i].id);
        m[2] = c->member[i].role;
    }
    return CONFIG_FIXED + c->count * (uint32_t)CONFIG_MEMBER;
}

// Exactly n bytes; ids rise.
static bool get_config(const uint8_t *p, uint32_t n, struct bt_group_config *c)
{
    memset(c, 0, sizeof *c);
    uint16_t count = bt_get16(p), before = 0;
    if (count > BT_GROUP_MEMBERS_MAX || n != CONFIG_FIXED + count * (uint32_t)CONFIG_MEMBER || !zeros(p + 2, 6)) {
        return false;
    }
    for (; c->count < count; c->count++) {
        const uint8_t *m = p + CONFIG_FIXED + c->count * CONFIG_MEMBER;
        struct bt_group_member found = {.id = bt_get16(m), .role = m[2]};
        if (found.id <= before || m[3] != 0 || (found.role != BT_GROUP_VOTER && found.role != BT_GROUP_LEARNER)) {
            return false;
        }
        c->member[c->count] = found;
        before = found.id;
    }
    return true;
}

uint32_t bt_segment_head_put(uint8_t *p, const struct bt_segment_head *h)
{
    uint8_t b[HEAD_FIXED + BT_STORE_CONFIG_MAX] = {0};
    memcpy(b, h->ids.cluster, 16);
    memcpy(b + 16, h->ids.member, 16);
    bt_put64(b + 32, h->previous);
    bt_put64(b + 40, h->first);
    bt_put32(b + 48, h->previous_end);
    bt_put16(b + 54, h->log.hard.vote);
    bt_put64(b + 56, h->log.hard.term);
    bt_put64(b + 64, h->log.base);
    bt_put64(b + 72, h->log.last);
    bt_put64(b + 80, h->log.snapshot);
    bt_put64(b + 88, h->snapshot.number);
    bt_put64(b + 96, h->snapshot.last_index);
    bt_put64(b + 104, h->snapshot.last_term);
    bt_put64(b + 112, h->snapshot.length);
    uint32_t length = HEAD_FIXED + put_config(b + HEAD_FIXED, &h->snapshot.config);
    return bt_record_put(p, &(struct bt_record){.type = BT_RECORD_HEAD, .length = length, .a = h->number, .body = b});
}

// Numbers of a head that no writer could have put together.
static bool contradicts(const struct bt_segment_head *h)
{
    const struct bt_log *l = &h->log;
    bool alone = h->first == h->number;
    bool chain =
        h->first == 0 || h->first > h->number || h->previous >= h->number || (!alone && h->previous < h->first);
    bool log = l->base > l->last || l->snapshot > l->last || l->base > l->snapshot;
    bool mark = h->snapshot.last_index != l->snapshot || (h->snapshot.number == 0 && l->snapshot != 0);
    return chain || log || mark || h->snapshot.number >= h->number;
}

bool bt_segment_head_get(const struct bt_record *r, struct bt_segment_head *h)
{
    const uint8_t *b = r->body;
    if (r->type != BT_RECORD_HEAD || r->kind != 0 || r->b != 0 || r->length < HEAD_FIXED + CONFIG_FIXED) {
        return false;
    }
    memset(h, 0, sizeof *h);
    memcpy(h->ids.cluster, b, 16);
    memcpy(h->ids.member, b + 16, 16);
    h->number = r->a;
    h->previous = bt_get64(b + 32);
    h->first = bt_get64(b + 40);
    h->previous_end = bt_get32(b + 48);
    h->log = (struct bt_log){.hard = {.term = bt_get64(b + 56), .vote = bt_get16(b + 54)},
                             .base = bt_get64(b + 64),
                             .last = bt_get64(b + 72),
                             .snapshot = bt_get64(b + 80)};
    h->snapshot = (struct bt_snapshot_mark){.number = bt_get64(b + 88),
                                            .last_index = bt_get64(b + 96),
                                            .last_term = bt_get64(b + 104),
                                            .length = bt_get64(b + 112)};
    return zeros(b + 52, 2) && zeros(b + 120, 8) &&
           get_config(b + HEAD_FIXED, r->length - HEAD_FIXED, &h->snapshot.config) && !contradicts(h);
}

uint32_t bt_snapshot_head_put(uint8_t *p, const struct bt_store_ids *ids, const struct bt_snapshot *s)
{
    uint8_t b[SNAPSHOT_FIXED + BT_STORE_CONFIG_MAX] = {0};
    memcpy(b, ids->cluster, 16);
    memcpy(b + 16, ids->member, 16);
    bt_put64(b + 32, s->length);
    uint32_t length = SNAPSHOT_FIXED + put_config(b + SNAPSHOT_FIXED, &s->config);
    return bt_record_put(
        p, &(struct bt_record){
               .type = BT_RECORD_SNAPSHOT, .length = length, .a = s->last_index, .b = s->last_term, .body = b});
}

bool bt_snapshot_head_get(const struct bt_record *r, struct bt_store_ids *ids, struct bt_snapshot *s)
{
    if (r->type != BT_RECORD_SNAPSHOT || r->kind != 0 || r->length < SNAPSHOT_FIXED + CONFIG_FIXED) {
        return false;
    }
    memcpy(ids->cluster, r->body, 16);
    memcpy(ids->member, r->body + 16, 16);
    *s = (struct bt_snapshot){.last_index = r->a, .last_term = r->b, .length = bt_get64(r->body + 32)};
    return get_config(r->body + SNAPSHOT_FIXED, r->length - SNAPSHOT_FIXED, &s->config);
}
