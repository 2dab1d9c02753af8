// SPDX-License-Identifier: Apache-2.0
// See command.h.
#include "run/command.h"

#include <string.h>

#include "base/bytes.h"

enum { FLAG_SESSION = 1, FLAG_EXT = 2, REGISTER_BYTES = 16, ADDRESS_BYTES = 24 };

static uint32_t put_request(uint8_t *p, uint32_t room, const struct bt_command *c)
{
    uint32_t head = c->with_session ? BT_COMMAND_SESSION : 0;
    if (room < head + c->n) {
        return 0;
    }
    if (c->with_session) {
        bt_put64(p, c->session);
        bt_put64(p + 8, c->seq);
    }
    if (c->n != 0) {
        memcpy(p + head, c->body, c->n);
    }
    return head + c->n;
}

static uint32_t put_register(uint8_t *p, uint32_t room, const struct bt_command *c)
{
    if (room < REGISTER_BYTES) {
        return 0;
    }
    memset(p, 0, REGISTER_BYTES);
    bt_put16(p, c->id);
    bt_put64(p + 8, c->disk);
    return REGISTER_BYTES;
}

static uint32_t put_address(uint8_t *p, uint32_t room, const struct bt_command *c)
{
    uint32_t name = (uint32_t)strlen(c->name);
    if (room < ADDRESS_BYTES + name) {
        return 0;
    }
    bt_put16(p, c->id);
    bt_put16(p + 2, c->member.port);
    bt_put16(p + 4, c->client.port);
    bt_put16(p + 6, 0);
    memcpy(p + 8, c->member.ip, sizeof c->member.ip);
    memcpy(p + ADDRESS_BYTES, c->name, name);
    return ADDRESS_BYTES + name;
}

uint32_t bt_command_put(uint8_t *p, uint32_t room, const struct bt_command *c)
{
    uint32_t n = 0;
    if (room < BT_COMMAND_HEAD) {
        return 0;
    }
    memset(p, 0, BT_COMMAND_HEAD);
    p[0] = c->kind;
    p[1] = (uint8_t)((c->with_session ? FLAG_SESSION : 0) | (c->ext ? FLAG_EXT : 0));
    p += BT_COMMAND_HEAD;
    room -= BT_COMMAND_HEAD;
    switch (c->kind) {
    case BT_COMMAND_REGISTER:
        n = put_register(p, room, c);
        break;
    case BT_COMMAND_ADDRESS:
        n = put_address(p, room, c);
        break;
    case BT_COMMAND_FORMED:
        n = (uint32_t)bt_group_config_encode(p, room, &c->config);
        break;
    case BT_COMMAND_KEY:
        if (room >= BT_COMMAND_KEY_LEN) {
            memcpy(p, c->key, BT_COMMAND_KEY_LEN);
            n = BT_COMMAND_KEY_LEN;
        }
        break;
    default:
        n = put_request(p, room, c);
        return n == 0 && c->n + (c->with_session ? BT_COMMAND_SESSION : 0) != 0 ? 0 : BT_COMMAND_HEAD + n;
    }
    return n != 0 ? BT_COMMAND_HEAD + n : 0;
}

static bool get_request(const uint8_t *p, uint32_t n, struct bt_command *c)
{
    if (c->with_session) {
        if (n < BT_COMMAND_SESSION) {
            return false;
        }
        c->session = bt_get64(p);
        c->seq = bt_get64(p + 8);
        p += BT_COMMAND_SESSION;
        n -= BT_COMMAND_SESSION;
    }
    c->body = p;
    c->n = n;
    return true;
}

static bool get_register(const uint8_t *p, uint32_t n, struct bt_command *c)
{
    if (n != REGISTER_BYTES || bt_get16(p + 2) != 0 || bt_get32(p + 4) != 0) {
        return false;
    }
    c->id = bt_get16(p);
    c->disk = bt_get64(p + 8);
    return c->id != 0;
}

static bool get_address(const uint8_t *p, uint32_t n, struct bt_command *c)
{
    if (n < ADDRESS_BYTES || n - ADDRESS_BYTES >= BT_COMMAND_NAME || bt_get16(p + 6) != 0) {
        return false;
    }
    uint32_t name = n - ADDRESS_BYTES;
    c->id = bt_get16(p);
    memset(&c->member, 0, sizeof c->member);
    memcpy(c->member.ip, p + 8, sizeof c->member.ip);
    c->client = c->member;
    bt_addr_set_port(&c->member, bt_get16(p + 2));
    bt_addr_set_port(&c->client, bt_get16(p + 4));
    memcpy(c->name, p + ADDRESS_BYTES, name);
    return c->id != 0 && memchr(c->name, 0, name) == NULL && !bt_addr_bad_source(&c->member) &&
           !bt_addr_bad_source(&c->client);
}

static bool get_key(const uint8_t *p, uint32_t n, struct bt_command *c)
{
    static const uint8_t none[BT_COMMAND_KEY_LEN];
    if (n != BT_COMMAND_KEY_LEN) {
        return false;
    }
    memcpy(c->key, p, BT_COMMAND_KEY_LEN);
    return memcmp(c->key, none, BT_COMMAND_KEY_LEN) != 0;
}

bool bt_command_get(const uint8_t *p, uint32_t n, struct bt_command *c)
{
    memset(c, 0, sizeof *c);
    if (n < BT_COMMAND_HEAD || bt_get16(p + 2) != 0 || p[1] > (FLAG_SESSION | FLAG_EXT)) {
        return false;
    }
    c->kind = p[0];
    c->with_session = p[1] & FLAG_SESSION;
    c->ext = p[1] & FLAG_EXT;
    if ((c->with_session && c->kind != BT_COMMAND_WRITE) || (c->ext && c->kind > BT_COMMAND_READ)) {
        return false;
    }
    p += BT_COMMAND_HEAD;
    n -= BT_COMMAND_HEAD;
    switch (c->kind) {
    case BT_COMMAND_WRITE:
    case BT_COMMAND_READ:
        return get_request(p, n, c);
    case BT_COMMAND_REGISTER:
        return get_register(p, n, c);
    case BT_COMMAND_ADDRESS:
        return get_address(p, n, c);
    case BT_COMMAND_FORMED:
        return bt_group_config_decode(p, n, &c->config).error == BT_GROUP_OK;
    case BT_COMMAND_KEY:
        return get_key(p, n, c);
    default:
        return false;
    }
}
