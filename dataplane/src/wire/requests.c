// SPDX-License-Identifier: Apache-2.0
// See requests.h. Lines end with CR LF and nothing else.
#include "wire/requests.h"

#include "wire/requests_internal.h"

#include <string.h>

void bt_framer_init(struct bt_framer *f, enum bt_framing framing, uint32_t max)
{
    *f = (struct bt_framer){.framing = framing, .max = max};
}

enum bt_framed bt_framer_line(const struct bt_framer *f, const struct bt_stream *s, uint32_t *end)
{
    const uint8_t *from = s->bytes + f->at;
    uint32_t there = s->n - f->at;
    const uint8_t *cr = there != 0 ? memchr(from, '\r', there) : NULL;
    const uint8_t *lf = there != 0 ? memchr(from, '\n', cr != NULL ? (size_t)(cr - from) : there) : NULL;
    if (lf != NULL) {
        return BT_FRAMED_MALFORMED;
    }
    if (cr == NULL || cr + 1 == s->bytes + s->n) {
        return s->n >= f->max ? BT_FRAMED_TOO_LONG : BT_FRAMED_MORE;
    }
    if (cr[1] != '\n') {
        return BT_FRAMED_MALFORMED;
    }
    *end = (uint32_t)(cr - s->bytes) + 2u;
    return *end > f->max ? BT_FRAMED_TOO_LONG : BT_FRAMED_WHOLE;
}

bool bt_framer_number(const uint8_t *text, uint32_t n, uint32_t *value)
{
    uint64_t v = 0;
    if (n == 0 || n > 10) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        v = v * 10 + (uint32_t)(text[i] - '0');
    }
    *value = (uint32_t)v;
    return v <= UINT32_MAX;
}

/* `more` bytes from f->at on, of which the last two are CR LF; then f->at is behind them. */
enum bt_framed bt_framer_block(struct bt_framer *f, const struct bt_stream *s, uint32_t more)
{
    if (more > f->max - f->at) {
        return BT_FRAMED_TOO_LONG;
    }
    if (s->n - f->at < more) {
        return BT_FRAMED_MORE;
    }
    f->at += more;
    return s->bytes[f->at - 2] == '\r' && s->bytes[f->at - 1] == '\n' ? BT_FRAMED_WHOLE : BT_FRAMED_MALFORMED;
}

static enum bt_framed next_u32(struct bt_framer *f, const struct bt_stream *s)
{
    const uint8_t *b = s->bytes;
    if (s->n < 4) {
        return BT_FRAMED_MORE;
    }
    uint32_t len = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    if (f->max < 4 || len > f->max - 4) {
        return BT_FRAMED_TOO_LONG;
    }
    f->at = len + 4;
    return s->n >= f->at ? BT_FRAMED_WHOLE : BT_FRAMED_MORE;
}

enum { RESP_COUNT, RESP_LENGTH };

/* The number of a line that begins with this mark. */
static enum bt_framed marked(const struct bt_framer *f, const struct bt_stream *s, uint32_t *end, uint32_t *value)
{
    enum bt_framed r = bt_framer_line(f, s, end);
    if (r != BT_FRAMED_WHOLE) {
        return r;
    }
    const uint8_t *line = s->bytes + f->at;
    uint32_t text = *end - 2 - f->at;
    bool good =
        text >= 2 && line[0] == (f->stage == RESP_COUNT ? '*' : '$') && bt_framer_number(line + 1, text - 1, value);
    return good ? BT_FRAMED_WHOLE : BT_FRAMED_MALFORMED;
}

static enum bt_framed resp_count(struct bt_framer *f, const struct bt_stream *s)
{
    uint32_t end, value;
    enum bt_framed r = marked(f, s, &end, &value);
    if (r != BT_FRAMED_WHOLE) {
        return r;
    }
    if (value == 0 || value > f->max / 4) {
        return value == 0 ? BT_FRAMED_MALFORMED : BT_FRAMED_TOO_LONG;
    }
    f->left = value;
    f->stage = RESP_LENGTH;
    f->at = end;
    return BT_FRAMED_WHOLE;
}

static enum bt_framed resp_element(struct bt_framer *f, const struct bt_stream *s)
{
    uint32_t end, value, line = f->at;
    enum bt_framed r = marked(f, s, &end, &value);
    if (r != BT_FRAMED_WHOLE) {
        return r;
    }
    f->at = end;
    r = value > f->max ? BT_FRAMED_TOO_LONG : bt_framer_block(f, s, value + 2);
    if (r != BT_FRAMED_WHOLE) {
        f->at = line;
        return r;
    }
    f->left--;
    return BT_FRAMED_WHOLE;
}

/* "*N", then N times "$LEN" and so many bytes. */
static enum bt_framed next_resp(struct bt_framer *f, const struct bt_stream *s)
{
    enum bt_framed r = f->stage == RESP_COUNT ? resp_count(f, s) : BT_FRAMED_WHOLE;
    while (r == BT_FRAMED_WHOLE && f->left != 0) {
        r = resp_element(f, s);
    }
    return r;
}

/* The n-th word of a line, counted from 0, in *word; its length, 0: there is none. */
static uint32_t word_of(const uint8_t *line, uint32_t n, uint32_t index, const uint8_t **word)
{
    uint32_t i = 0;
    for (;; index--) {
        while (i < n && line[i] == ' ') {
            i++;
        }
        uint32_t from = i;
        while (i < n && line[i] != ' ') {
            i++;
        }
        if (index == 0 || from == i) {
            *word = line + from;
            return i - from;
        }
    }
}

/* Those that carry data have its length as their fifth word. */
static bool carries_data(const uint8_t *word, uint32_t n)
{
    static const char *const names[] = {"set", "add", "replace", "append", "prepend", "cas"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (n == strlen(names[i]) && memcmp(word, names[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static enum bt_framed next_memcached(struct bt_framer *f, const struct bt_stream *s)
{
    uint32_t end = 0, bytes = 0;
    const uint8_t *word;
    enum bt_framed r = bt_framer_line(f, s, &end);
    if (r != BT_FRAMED_WHOLE) {
        return r;
    }
    uint32_t n = word_of(s->bytes, end - 2, 0, &word);
    if (n == 0) {
        return BT_FRAMED_MALFORMED;
    }
    if (!carries_data(word, n)) {
        f->at = end;
        return BT_FRAMED_WHOLE;
    }
    n = word_of(s->bytes, end - 2, 4, &word);
    if (!bt_framer_number(word, n, &bytes)) {
        return BT_FRAMED_MALFORMED;
    }
    if (bytes > f->max) {
        return BT_FRAMED_TOO_LONG;
    }
    f->at = end;
    r = bt_framer_block(f, s, bytes + 2);
    f->at = r == BT_FRAMED_MORE ? 0 : f->at;
    return r;
}

enum bt_framed bt_framer_next(struct bt_framer *f, const uint8_t *bytes, uint32_t n, uint32_t *len)
{
    static enum bt_framed (*const next[BT_FRAMINGS])(struct bt_framer *, const struct bt_stream *) = {
        next_resp, bt_framer_http, next_memcached, next_u32};
    struct bt_stream s = {bytes, n};
    if (n == 0) {
        return BT_FRAMED_MORE;
    }
    enum bt_framed r = next[f->framing](f, &s);
    if (r == BT_FRAMED_WHOLE) {
        *len = f->at;
        bt_framer_init(f, f->framing, f->max);
    }
    return r;
}
