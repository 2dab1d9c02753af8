// SPDX-License-Identifier: Apache-2.0
// Redis serialization protocol, version 2: simple strings, errors, integers, bulk strings and
// arrays of these. Version 3 is spoken only after HELLO 3, which we never send.
#include "lancet/reply_internal.h"

enum step { TYPE, BULK, BULK_END };

// The line behind a type byte as a number; -1 is the only negative one with a meaning here.
static bool count_of(const struct bt_reply *r, uint64_t *out, bool *nil)
{
    const char *text = r->line.text + 1;
    *out = 0;
    *nil = r->line.len == 3 && text[0] == '-' && text[1] == '1';
    return *nil || (bt_reply_line_kept(r) && bt_reply_digits(text, r->line.len - 1, out));
}

static bool is_integer(const struct bt_reply *r)
{
    uint64_t v;
    const char *text = r->line.text + 1;
    size_t n = r->line.len - 1;
    if (n > 0 && (text[0] == '-' || text[0] == '+')) {
        text++;
        n--;
    }
    // i64 has up to 19 digits.
    return bt_reply_line_kept(r) && (bt_reply_digits(text, n, &v) || (n == 19 && bt_reply_digits(text + 1, 18, &v) &&
                                                                      text[0] >= '1' && text[0] <= '9'));
}

// A value is complete: so may be the arrays around it.
static enum bt_reply_state value_done(struct bt_reply *r, enum bt_reply_verdict verdict)
{
    r->step = TYPE;
    bt_reply_next_line(r);
    if (verdict == BT_VERDICT_ERROR || r->u.resp.depth == 0) {
        r->verdict = (uint8_t)verdict;
    }
    while (r->u.resp.depth > 0 && --r->u.resp.open[r->u.resp.depth - 1] == 0) {
        r->u.resp.depth--;
    }
    return r->u.resp.depth == 0 ? BT_REPLY_DONE : BT_REPLY_MORE;
}

static enum bt_reply_state array(struct bt_reply *r)
{
    uint64_t n;
    bool nil;
    if (!count_of(r, &n, &nil)) {
        return bt_reply_refuse(r, "an array whose count is no number");
    }
    if (nil || n == 0) {
        return value_done(r, nil ? BT_VERDICT_MISS : BT_VERDICT_OK);
    }
    if (n > BT_RESP_ITEMS) {
        return bt_reply_refuse(r, "an array of more than 1,048,576 values");
    }
    if (r->u.resp.depth == BT_RESP_DEPTH) {
        return bt_reply_refuse(r, "arrays within arrays deeper than 8");
    }
    r->u.resp.open[r->u.resp.depth++] = (uint32_t)n;
    bt_reply_next_line(r);
    return BT_REPLY_MORE;
}

static enum bt_reply_state bulk(struct bt_reply *r)
{
    uint64_t n;
    bool nil;
    if (!count_of(r, &n, &nil) || n > BT_RESP_BULK) {
        return bt_reply_refuse(r, "a bulk string whose length is no number up to 536,870,912");
    }
    if (nil) {
        return value_done(r, BT_VERDICT_MISS);
    }
    r->left = n;
    r->step = BULK;
    bt_reply_next_line(r);
    return BT_REPLY_MORE;
}

static enum bt_reply_state type_line(struct bt_reply *r)
{
    if (++r->u.resp.items > BT_RESP_ITEMS) {
        return bt_reply_refuse(r, "more than 1,048,576 values in one reply");
    }
    switch (r->line.len > 0 ? r->line.text[0] : '\0') {
    case '+':
        return value_done(r, BT_VERDICT_OK);
    case '-':
        return value_done(r, BT_VERDICT_ERROR);
    case ':':
        return is_integer(r) ? value_done(r, BT_VERDICT_OK) : bt_reply_refuse(r, "an integer that is no number");
    case '$':
        return bulk(r);
    case '*':
        return array(r);
    default:
        return bt_reply_refuse(r, "a line that starts with none of + - : $ *");
    }
}

static enum bt_reply_state bulk_end(struct bt_reply *r, struct bt_reply_in *in)
{
    enum bt_reply_state s = bt_reply_line(r, in, 0);
    if (s == BT_REPLY_BAD) {
        return bt_reply_refuse(r, "a bulk string not followed by CR LF");
    }
    return s == BT_REPLY_DONE ? value_done(r, BT_VERDICT_OK) : BT_REPLY_MORE;
}

enum bt_reply_state bt_reply_redis(struct bt_reply *r, struct bt_reply_in *in)
{
    enum bt_reply_state s = BT_REPLY_MORE;
    while (in->at < in->n && s == BT_REPLY_MORE) {
        switch ((enum step)r->step) {
        case TYPE:
            s = bt_reply_line(r, in, BT_HTTP_LINE);
            s = s == BT_REPLY_DONE ? type_line(r) : s;
            break;
        case BULK:
            if (bt_reply_pass(r, in) == BT_REPLY_DONE) {
                r->step = BULK_END;
            }
            break;
        case BULK_END:
            s = bulk_end(r, in);
            break;
        }
    }
    return s;
}
