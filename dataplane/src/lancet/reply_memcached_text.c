// SPDX-License-Identifier: Apache-2.0
// memcached's text protocol: the replies to get and set of one key.
#include "lancet/reply_internal.h"

#include <string.h>

enum step { LINE, DATA, DATA_END, END };

static bool is(const struct bt_reply *r, const char *word)
{
    return strcmp(r->line.text, word) == 0 && bt_reply_line_kept(r);
}

static bool starts(const struct bt_reply *r, const char *word)
{
    return strncmp(r->line.text, word, strlen(word)) == 0;
}

// "VALUE <key> <flags> <bytes>[ <cas>]": the number of bytes.
static bool value_bytes(const struct bt_reply *r, uint64_t *out)
{
    const char *at = r->line.text + strlen("VALUE ");
    uint64_t ignored;
    size_t key = strcspn(at, " ");
    if (key == 0 || key > 250 || at[key] != ' ') {
        return false;
    }
    at += key + 1;
    size_t flags = strcspn(at, " ");
    if (!bt_reply_digits(at, flags, &ignored) || at[flags] != ' ') {
        return false;
    }
    at += flags + 1;
    size_t bytes = strcspn(at, " ");
    size_t cas = at[bytes] == ' ' ? strlen(at + bytes + 1) : 0;
    // A cas is a u64: up to 20 digits, of which we need none.
    bool cas_good = at[bytes] == '\0' || (cas > 0 && strspn(at + bytes + 1, "0123456789") == cas && cas <= 20);
    return bt_reply_digits(at, bytes, out) && cas_good && *out <= BT_VALUE_MAX;
}

static enum bt_reply_state get_line(struct bt_reply *r)
{
    if (is(r, "END")) {
        return bt_reply_done(r, r->u.text.found ? BT_VERDICT_OK : BT_VERDICT_MISS);
    }
    if (r->step == END) {
        return bt_reply_refuse(r, "a value without END behind it, or more values than keys");
    }
    if (!starts(r, "VALUE ") || !value_bytes(r, &r->left)) {
        return bt_reply_refuse(r, "a line that is neither VALUE key flags bytes nor END");
    }
    r->u.text.found = true;
    r->step = DATA;
    bt_reply_next_line(r);
    return BT_REPLY_MORE;
}

static enum bt_reply_state reply_line(struct bt_reply *r)
{
    if (is(r, "ERROR") || starts(r, "CLIENT_ERROR ") || starts(r, "SERVER_ERROR ")) {
        return bt_reply_done(r, BT_VERDICT_ERROR);
    }
    if (!bt_reply_line_kept(r)) {
        return bt_reply_refuse(r, "a line longer than any reply to get or set");
    }
    if (r->expect.opcode == 0) {
        return get_line(r);
    }
    if (is(r, "STORED")) {
        return bt_reply_done(r, BT_VERDICT_OK);
    }
    return is(r, "NOT_STORED") || is(r, "EXISTS") || is(r, "NOT_FOUND")
               ? bt_reply_done(r, BT_VERDICT_ERROR)
               : bt_reply_refuse(r, "a reply to set that is none of STORED, NOT_STORED, EXISTS, NOT_FOUND");
}

enum bt_reply_state bt_reply_memcached_text(struct bt_reply *r, struct bt_reply_in *in)
{
    enum bt_reply_state s = BT_REPLY_MORE;
    while (in->at < in->n && s == BT_REPLY_MORE) {
        switch ((enum step)r->step) {
        case LINE:
        case END:
            s = bt_reply_line(r, in, BT_HTTP_LINE);
            s = s == BT_REPLY_DONE ? reply_line(r) : s;
            break;
        case DATA:
            if (bt_reply_pass(r, in) == BT_REPLY_DONE) {
                r->step = DATA_END;
            }
            break;
        case DATA_END:
            s = bt_reply_line(r, in, 0);
            if (s == BT_REPLY_BAD) {
                return bt_reply_refuse(r, "a value not followed by CR LF");
            }
            if (s == BT_REPLY_DONE) {
                bt_reply_next_line(r);
                r->step = END;
                s = BT_REPLY_MORE;
            }
            break;
        }
    }
    return s;
}
