// SPDX-License-Identifier: Apache-2.0
// See resp.h.
#include "wire/resp.h"

#include <stddef.h>

enum { DIGITS = 7 }; // of a count or a length

struct reader {
    const uint8_t *p;
    uint32_t n, at;
    const char *why; // NULL: all is well
};

static bool refuse(struct reader *r, const char *why)
{
    r->why = why;
    return false;
}

static bool line_end(struct reader *r)
{
    if (r->n - r->at < 2 || r->p[r->at] != '\r' || r->p[r->at + 1] != '\n') {
        return refuse(r, "the end of a line");
    }
    r->at += 2;
    return true;
}

// A type byte, a number without a sign and with nothing before its first digit, and the end of the line.
static bool number(struct reader *r, uint8_t type, const char *what, uint32_t *out)
{
    if (r->at == r->n || r->p[r->at] != type) {
        return refuse(r, what);
    }
    r->at++;
    uint32_t from = r->at, v = 0;
    while (r->at < r->n && r->at - from < DIGITS && r->p[r->at] >= '0' && r->p[r->at] <= '9') {
        v = 10 * v + (r->p[r->at++] - (uint32_t)'0');
    }
    if (r->at == from || (r->at - from > 1 && r->p[from] == '0')) {
        return refuse(r, "a number");
    }
    *out = v;
    return line_end(r);
}

static bool read_word(struct reader *r, struct bt_resp_word *w)
{
    uint32_t n;
    if (!number(r, '$', "'$' and a length", &n)) {
        return false;
    }
    if (n > r->n - r->at) {
        return refuse(r, "as many bytes as the length says");
    }
    *w = (struct bt_resp_word){r->p + r->at, n};
    r->at += n;
    return line_end(r);
}

static bool read_command(struct reader *r, struct bt_resp *out)
{
    uint32_t count;
    if (!number(r, '*', "'*' and the number of words", &count)) {
        return false;
    }
    if (count == 0) {
        return refuse(r, "at least one word");
    }
    if (out->commands == BT_RESP_COMMANDS || count > BT_RESP_WORDS - out->words) {
        return refuse(r, "at most 64 commands of 1024 words together");
    }
    out->command[out->commands++] = (struct bt_resp_command){out->words, count};
    for (uint32_t i = 0; i < count; i++) {
        if (!read_word(r, &out->word[out->words + i])) {
            return false;
        }
    }
    out->words += count;
    return true;
}

bool bt_resp_read(const uint8_t *p, uint32_t n, struct bt_resp *out)
{
    struct reader r = {.p = p, .n = n};
    out->words = out->commands = 0;
    do {
        if (!read_command(&r, out)) {
            out->at = r.at;
            out->why = r.why;
            return false;
        }
    } while (r.at < n);
    out->at = n;
    out->why = NULL;
    return true;
}
