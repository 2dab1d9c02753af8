// SPDX-License-Identifier: Apache-2.0
// Replies without a language: an echo, and those of the servers that spend a given time (L-§7: i64 in
// little endian).
#include "lancet/reply_internal.h"

#include <endian.h>
#include <string.h>

static uint64_t fixed64(const struct bt_reply *r)
{
    uint64_t v;
    memcpy(&v, r->fixed, sizeof v);
    return v;
}

enum bt_reply_state bt_reply_plain(struct bt_reply *r, struct bt_reply_in *in)
{
    const uint64_t bytes = r->protocol == BT_REPLY_ECHO ? r->expect.bytes : sizeof(uint64_t);
    enum { HEAD, BODY };
    if (r->step == HEAD) {
        uint32_t head = bytes < sizeof(uint64_t) ? (uint32_t)bytes : (uint32_t)sizeof(uint64_t);
        if (bt_reply_collect(r, in, head) != BT_REPLY_DONE) {
            return BT_REPLY_MORE;
        }
        r->step = BODY;
        r->left = bytes - head;
        if (r->protocol == BT_REPLY_ECHO && head == sizeof(uint64_t) && fixed64(r) != r->expect.first) {
            return bt_reply_refuse(r, "an echo that begins unlike its request: the server does not echo");
        }
        if (r->protocol == BT_REPLY_STSS) {
            if (le64toh(fixed64(r)) != r->expect.bytes) {
                return bt_reply_refuse(r, "a reply size unlike the one that was asked for");
            }
            r->left = r->expect.bytes;
        }
    }
    return bt_reply_pass(r, in) == BT_REPLY_DONE ? bt_reply_done(r, BT_VERDICT_OK) : BT_REPLY_MORE;
}
