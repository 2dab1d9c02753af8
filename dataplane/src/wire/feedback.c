// SPDX-License-Identifier: Apache-2.0
// FEEDBACK payload codec; see feedback.h for how versions are told apart.
#include "wire/feedback.h"

#include "base/bytes.h"

// What follows the client address, the same in versions 1 and 2.
static void read_tail(const uint8_t *p, struct bt_feedback *fb)
{
    fb->version = p[0];
    fb->flags = p[1];
    fb->n = bt_get16(p + 2);
    fb->incarnation = bt_get32(p + 4);
    fb->received = bt_get64(p + 8);
    fb->served = bt_get64(p + 16);
}

// Of the versions laid out as version 1: those that are known have one length each (M-25).
static enum bt_mcase known_length(uint8_t version, size_t n)
{
    size_t want = version == 1 ? BT_FEEDBACK_V1_SIZE : BT_FEEDBACK_V3_SIZE;
    if (version > 3 || n == want) {
        return BT_M_OK;
    }
    return n > want ? BT_M25 : BT_M21;
}

enum bt_mcase bt_feedback_decode(const uint8_t *p, size_t n, struct bt_feedback *out)
{
    memset(out, 0, sizeof *out);
    if (n != BT_FEEDBACK_LEGACY_SIZE && n < BT_FEEDBACK_V1_SIZE) {
        return BT_M21;
    }
    out->req_id = bt_get16(p);
    uint16_t port = bt_get16(p + 2);
    if (n == BT_FEEDBACK_V2_SIZE && p[20] == 2) {
        memcpy(out->client.ip, p + 4, 16);
        out->client.port = port;
        read_tail(p + 20, out);
    } else {
        out->client = bt_addr_v4(p + 4, port);
        if (n == BT_FEEDBACK_LEGACY_SIZE) {
            out->flags = BT_FEEDBACK_PAIR;
            return BT_M_OK;
        }
        read_tail(p + 8, out);
        if (out->version == 0 || out->version == 2) {
            return BT_M21; // no such layout at this length
        }
        enum bt_mcase m = known_length(out->version, n);
        if (m) {
            return m;
        }
        out->signal = out->version == 3 ? bt_get16(p + BT_FEEDBACK_SIGNAL_AT) : 0;
    }
    return bt_feedback_contradicts(out->received, out->served) ? BT_M22 : BT_M_OK;
}

static void write_tail(uint8_t *p, const struct bt_feedback *fb)
{
    p[0] = fb->version;
    p[1] = fb->flags;
    bt_put16(p + 2, fb->n);
    bt_put32(p + 4, fb->incarnation);
    bt_put64(p + 8, fb->received);
    bt_put64(p + 16, fb->served);
}

size_t bt_feedback_encode(uint8_t *p, size_t room, const struct bt_feedback *fb)
{
    static const size_t size[] = {BT_FEEDBACK_LEGACY_SIZE, BT_FEEDBACK_V1_SIZE, BT_FEEDBACK_V2_SIZE,
                                  BT_FEEDBACK_V3_SIZE};
    static const uint8_t none[16];
    if (fb->version > 3 || room < size[fb->version]) {
        return 0;
    }
    // Without a pair the address bytes are zero in every version.
    const uint8_t *ip = fb->flags & BT_FEEDBACK_PAIR ? fb->client.ip : none;
    if (fb->version != 2 && ip != none && !bt_addr_is_v4(&fb->client)) {
        return 0;
    }
    bt_put16(p, ip == none ? 0 : fb->req_id);
    bt_put16(p + 2, ip == none ? 0 : fb->client.port);
    if (fb->version == 2) {
        memcpy(p + 4, ip, 16);
        write_tail(p + 20, fb);
    } else {
        memcpy(p + 4, ip + 12, 4);
        if (fb->version != 0) {
            write_tail(p + 8, fb);
        }
        if (fb->version == 3) {
            bt_put16(p + BT_FEEDBACK_SIGNAL_AT, fb->signal);
            bt_put16(p + BT_FEEDBACK_SIGNAL_AT + 2, 0);
        }
    }
    return size[fb->version];
}
