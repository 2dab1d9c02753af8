// SPDX-License-Identifier: Apache-2.0
#include "lancet/reply_internal.h"

#include <string.h>

#define WORD(name, word, read, write, keys) word,
const char *const bt_lancet_protocol_words[] = {BT_LANCET_PROTOCOL_TABLE(WORD) "r2p2", NULL};

void bt_reply_begin(struct bt_reply *r, enum bt_reply_protocol protocol, const struct bt_expect *expect)
{
    // All but the line's text, which is written before it is read.
    memset(r, 0, offsetof(struct bt_reply, line));
    memset(&r->u, 0, sizeof r->u);
    bt_reply_next_line(r);
    r->line.text[0] = '\0';
    r->protocol = (uint8_t)protocol;
    r->expect = *expect;
}

enum bt_reply_state bt_reply_feed(struct bt_reply *r, const uint8_t *data, size_t n, size_t *used)
{
#define READER(name, word, read, write, keys) [BT_REPLY_##name] = read,
    static bt_reply_reader *const read[BT_REPLY_PROTOCOLS] = {BT_LANCET_PROTOCOL_TABLE(READER)};
    struct bt_reply_in in = {data, n, 0};
    enum bt_reply_state state = read[r->protocol](r, &in);
    *used = in.at;
    return state;
}

enum bt_reply_state bt_reply_pass(struct bt_reply *r, struct bt_reply_in *in)
{
    size_t here = in->n - in->at;
    size_t take = r->left < here ? (size_t)r->left : here;
    in->at += take;
    r->left -= take;
    return r->left == 0 ? BT_REPLY_DONE : BT_REPLY_MORE;
}

enum bt_reply_state bt_reply_collect(struct bt_reply *r, struct bt_reply_in *in, uint32_t want)
{
    size_t here = in->n - in->at;
    size_t take = want - r->fixed_have < here ? want - r->fixed_have : here;
    if (take > 0) {
        memcpy(r->fixed + r->fixed_have, in->data + in->at, take);
    }
    in->at += take;
    r->fixed_have += (uint32_t)take;
    return r->fixed_have == want ? BT_REPLY_DONE : BT_REPLY_MORE;
}

enum bt_reply_state bt_reply_line(struct bt_reply *r, struct bt_reply_in *in, uint32_t max)
{
    struct bt_line *l = &r->line;
    while (in->at < in->n) {
        uint8_t c = in->data[in->at++];
        if (l->cr) {
            return c == '\n' ? BT_REPLY_DONE : bt_reply_refuse(r, "a CR in a line without LF behind it");
        }
        if (c == '\r') {
            l->cr = true;
            l->text[l->len < BT_LINE_KEPT ? l->len : BT_LINE_KEPT - 1] = '\0';
            continue;
        }
        if (c == '\n') {
            return bt_reply_refuse(r, "a line that ends in LF without CR");
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return bt_reply_refuse(r, "a control character in a line");
        }
        if (l->len >= max) {
            return bt_reply_refuse(r, "a line longer than this protocol's lines may be");
        }
        if (l->len < BT_LINE_KEPT - 1) {
            l->text[l->len] = (char)c;
        }
        l->len++;
    }
    return BT_REPLY_MORE;
}

bool bt_reply_digits(const char *text, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (n == 0 || n > 18) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    *out = v;
    return true;
}
