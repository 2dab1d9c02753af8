// SPDX-License-Identifier: Apache-2.0
// memcached's binary protocol: a header of 24 bytes in network order, then extras, key and value.
#include "lancet/reply_internal.h"

#include "base/bytes.h"

enum { HEADER = 24, MAGIC_REPLY = 0x81, STATUS_OK = 0, STATUS_NOT_FOUND = 1 };
enum step { HEAD, BODY };

static enum bt_reply_state header(struct bt_reply *r)
{
    const uint8_t *h = r->fixed;
    uint32_t body = bt_get32(h + 8);
    if (h[0] != MAGIC_REPLY) {
        return bt_reply_refuse(r, "a header whose magic is not 0x81");
    }
    if (h[1] != r->expect.opcode) {
        return bt_reply_refuse(r, "a reply to another operation than the one that was asked for");
    }
    if (h[5] != 0) {
        return bt_reply_refuse(r, "a data type that is not 0");
    }
    if (bt_get32(h + 12) != r->expect.opaque) {
        return bt_reply_refuse(r, "an opaque value that is not the request's: replies out of order");
    }
    if (body > BT_VALUE_MAX || (uint32_t)bt_get16(h + 2) + h[4] > body) {
        return bt_reply_refuse(r, "a body shorter than its key and extras, or longer than 128 MiB");
    }
    uint16_t status = bt_get16(h + 6);
    r->verdict = status == STATUS_OK ? BT_VERDICT_OK : status == STATUS_NOT_FOUND ? BT_VERDICT_MISS : BT_VERDICT_ERROR;
    r->left = body;
    r->step = BODY;
    return BT_REPLY_MORE;
}

enum bt_reply_state bt_reply_memcached_binary(struct bt_reply *r, struct bt_reply_in *in)
{
    if (r->step == HEAD) {
        enum bt_reply_state s = bt_reply_collect(r, in, HEADER);
        if (s != BT_REPLY_DONE || header(r) == BT_REPLY_BAD) {
            return r->bad != NULL ? BT_REPLY_BAD : BT_REPLY_MORE;
        }
    }
    return bt_reply_pass(r, in);
}
