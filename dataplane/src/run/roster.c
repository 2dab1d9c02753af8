// SPDX-License-Identifier: Apache-2.0
// See roster.h.
#include "run/roster.h"

#include <string.h>

#include "base/bytes.h"

// Snapshot: count u32, formed u8, keyed u8, 2 zeros, index of the last registration u64; keyed: 16 bytes; rows: id u16,
// flags u8, name's length u8, ports u16 u16, disk u64, index u64, address 16 bytes, name.
enum { HEAD = 16, ROW = 40, MEMBER = 1, REMOVED = 2, REGISTERED = 4, REACHED = 8, FLAGS = 15 };

static struct bt_roster_row *find(struct bt_roster *r, uint16_t id)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->row[i].id == id) {
            return &r->row[i];
        }
    }
    return NULL;
}

const struct bt_roster_row *bt_roster_find(const struct bt_roster *r, uint16_t id)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->row[i].id == id) {
            return &r->row[i];
        }
    }
    return NULL;
}

// The row of whoever was removed first; of nobody when all are members.
static struct bt_roster_row *oldest_removed(struct bt_roster *r)
{
    struct bt_roster_row *best = NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        struct bt_roster_row *row = &r->row[i];
        if (!row->member && (best == NULL || row->index < best->index)) {
            best = row;
        }
    }
    return best;
}

static struct bt_roster_row *take(struct bt_roster *r, uint16_t id)
{
    struct bt_roster_row *row = find(r, id);
    if (row != NULL) {
        return row;
    }
    row = r->count < BT_ROSTER_MAX ? &r->row[r->count++] : oldest_removed(r); // members are far fewer than rows
    if (row != NULL) {
        *row = (struct bt_roster_row){.id = id};
    }
    return row;
}

void bt_roster_register(struct bt_roster *r, uint64_t index, uint16_t id, uint64_t disk)
{
    struct bt_roster_row *row = take(r, id);
    if (row == NULL || row->registered || row->removed) {
        return;
    }
    row->registered = true;
    row->disk = disk;
    row->index = index;
    r->registered_at = index;
}

void bt_roster_address(struct bt_roster *r, uint64_t index, const struct bt_command *c)
{
    struct bt_roster_row *row = take(r, c->id);
    if (row == NULL || row->removed) {
        return;
    }
    row->reached = true;
    row->address = c->member;
    row->client = c->client;
    memcpy(row->name, c->name, sizeof row->name);
    row->index = row->index > index ? row->index : index;
}

static bool named(const struct bt_group_config *c, uint16_t id)
{
    for (uint16_t i = 0; i < c->count; i++) {
        if (c->member[i].id == id) {
            return true;
        }
    }
    return false;
}

void bt_roster_config(struct bt_roster *r, uint64_t index, const struct bt_group_config *c)
{
    for (uint32_t i = 0; i < r->count; i++) {
        struct bt_roster_row *row = &r->row[i];
        if (row->member && !named(c, row->id)) {
            row->member = false;
            row->removed = true;
            row->index = index;
        }
    }
    for (uint16_t i = 0; i < c->count; i++) {
        struct bt_roster_row *row = take(r, c->member[i].id);
        if (row != NULL) {
            row->member = true;
        }
    }
}

void bt_roster_key(struct bt_roster *r, const uint8_t key[BT_COMMAND_KEY_LEN])
{
    if (!r->keyed) {
        memcpy(r->body_key, key, sizeof r->body_key);
        r->keyed = true;
    }
}

static uint8_t *write_row(uint8_t *p, const struct bt_roster_row *row)
{
    size_t name = strlen(row->name);
    bt_put16(p, row->id);
    p[2] = (uint8_t)((row->member ? MEMBER : 0) | (row->removed ? REMOVED : 0) | (row->registered ? REGISTERED : 0) |
                     (row->reached ? REACHED : 0));
    p[3] = (uint8_t)name;
    bt_put16(p + 4, row->address.port);
    bt_put16(p + 6, row->client.port);
    bt_put64(p + 8, row->disk);
    bt_put64(p + 16, row->index);
    memcpy(p + 24, row->address.ip, 16);
    memcpy(p + ROW, row->name, name);
    return p + ROW + name;
}

size_t bt_roster_write(const struct bt_roster *r, uint8_t *p, size_t room)
{
    uint8_t *at = p + HEAD;
    if (room < HEAD + BT_COMMAND_KEY_LEN + (size_t)r->count * (ROW + BT_COMMAND_NAME)) {
        return 0;
    }
    memset(p, 0, HEAD);
    bt_put32(p, r->count);
    p[4] = r->formed;
    p[5] = r->keyed;
    bt_put64(p + 8, r->registered_at);
    if (r->keyed) {
        memcpy(at, r->body_key, sizeof r->body_key);
        at += sizeof r->body_key;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        at = write_row(at, &r->row[i]);
    }
    return (size_t)(at - p);
}

// One row at p[0..n): its bytes, 0: none.
static size_t read_row(struct bt_roster_row *row, const uint8_t *p, size_t n)
{
    if (n < ROW || p[2] > FLAGS || p[3] >= BT_COMMAND_NAME || n - ROW < p[3] || bt_get16(p) == 0) {
        return 0;
    }
    if (memchr(p + ROW, 0, p[3]) != NULL) {
        return 0; // it ends where its length says
    }
    memset(row, 0, sizeof *row);
    row->id = bt_get16(p);
    row->member = p[2] & MEMBER;
    row->removed = p[2] & REMOVED;
    row->registered = p[2] & REGISTERED;
    row->reached = p[2] & REACHED;
    row->disk = bt_get64(p + 8);
    row->index = bt_get64(p + 16);
    memcpy(row->address.ip, p + 24, 16);
    row->client = row->address;
    bt_addr_set_port(&row->address, bt_get16(p + 4));
    bt_addr_set_port(&row->client, bt_get16(p + 6));
    memcpy(row->name, p + ROW, p[3]);
    return ROW + (size_t)p[3];
}

size_t bt_roster_read(struct bt_roster *r, const uint8_t *p, size_t n)
{
    size_t at = HEAD;
    if (n < HEAD || bt_get32(p) > BT_ROSTER_MAX || p[4] > 1 || p[5] > 1 || n - HEAD < (p[5] ? BT_COMMAND_KEY_LEN : 0)) {
        return 0;
    }
    memset(r, 0, sizeof *r);
    r->keyed = p[5];
    if (r->keyed) {
        memcpy(r->body_key, p + at, sizeof r->body_key);
        at += sizeof r->body_key;
    }
    uint32_t count = bt_get32(p);
    r->formed = p[4];
    r->registered_at = bt_get64(p + 8);
    for (; r->count < count; r->count++) {
        size_t took = read_row(&r->row[r->count], p + at, n - at);
        if (took == 0) {
            return 0;
        }
        at += took;
    }
    return at;
}
