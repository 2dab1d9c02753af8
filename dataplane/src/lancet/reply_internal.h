// SPDX-License-Identifier: Apache-2.0
// What the readers of the protocols share: lines, bytes to pass over, headers of fixed size.
#ifndef BT_LANCET_REPLY_INTERNAL_H
#define BT_LANCET_REPLY_INTERNAL_H

#include "lancet/reply.h"

// The bytes a reader has before it.
struct bt_reply_in {
    const uint8_t *data;
    size_t n, at;
};

// One protocol's reader: goes on until the bytes end, the reply ends or is bad. Several may share one.
typedef enum bt_reply_state bt_reply_reader(struct bt_reply *r, struct bt_reply_in *in);
#define BT_LANCET_PROTOCOL_READER(name, word, read, write, keys) bt_reply_reader read;
BT_LANCET_PROTOCOL_TABLE(BT_LANCET_PROTOCOL_READER)

static inline enum bt_reply_state bt_reply_refuse(struct bt_reply *r, const char *why)
{
    r->bad = why;
    return BT_REPLY_BAD;
}

static inline enum bt_reply_state bt_reply_done(struct bt_reply *r, enum bt_reply_verdict verdict)
{
    r->verdict = (uint8_t)verdict;
    return BT_REPLY_DONE;
}

// Passes over r->left bytes: DONE when all were there.
enum bt_reply_state bt_reply_pass(struct bt_reply *r, struct bt_reply_in *in);

// Collects the first `want` bytes (at most 24) into r->fixed.
enum bt_reply_state bt_reply_collect(struct bt_reply *r, struct bt_reply_in *in, uint32_t want);

// Reads a line of at most max bytes into r->line, without its end. DONE: it is whole and stays there
// until bt_reply_next_line.
enum bt_reply_state bt_reply_line(struct bt_reply *r, struct bt_reply_in *in, uint32_t max);

static inline void bt_reply_next_line(struct bt_reply *r)
{
    r->line.len = 0;
    r->line.cr = false;
}

// True when the whole line is kept, so that its text is all of it.
static inline bool bt_reply_line_kept(const struct bt_reply *r)
{
    return r->line.len < BT_LINE_KEPT;
}

// One to 18 decimal digits and nothing else.
bool bt_reply_digits(const char *text, size_t n, uint64_t *out);

#endif
