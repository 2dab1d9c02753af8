// SPDX-License-Identifier: Apache-2.0
// Ends of HTTP/1.1 requests (RFC 9112). Of what could let two readers see two different ends nothing is taken: both
// Content-Length and Transfer-Encoding, either of them twice, codings other than chunked, folded lines, bare LF.
#include "wire/requests_internal.h"

#include <string.h>

enum { START_LINE, HEADERS, CHUNKS, TRAILERS };
#define NO_LENGTH UINT32_MAX
#define CHUNKED   (UINT32_MAX - 1u)

/* Is this line the header of that name? Then *value is what stands behind it, without blanks around it. */
static bool header(const uint8_t *line, uint32_t n, const char *name, const uint8_t **value, uint32_t *len)
{
    uint32_t i = (uint32_t)strlen(name);
    if (n <= i || line[i] != ':') {
        return false;
    }
    for (uint32_t k = 0; k < i; k++) {
        uint8_t c = line[k] >= 'A' && line[k] <= 'Z' ? (uint8_t)(line[k] + 32) : line[k];
        if (c != (uint8_t)name[k]) {
            return false;
        }
    }
    for (i++; i < n && (line[i] == ' ' || line[i] == '\t'); i++) {
    }
    for (; n > i && (line[n - 1] == ' ' || line[n - 1] == '\t'); n--) {
    }
    *value = line + i;
    *len = n - i;
    return true;
}

/* METHOD TARGET HTTP/1.x */
static bool start_line(const uint8_t *line, uint32_t n)
{
    const uint8_t *first = memchr(line, ' ', n);
    if (first == NULL || first == line || n < 12) {
        return false;
    }
    const uint8_t *version = line + n - 9;
    return version > first + 1 && memcmp(version, " HTTP/1.", 8) == 0 && (version[8] == '0' || version[8] == '1');
}

static bool named(const uint8_t *line, uint32_t n)
{
    const uint8_t *colon = memchr(line, ':', n);
    if (colon == NULL || colon == line) {
        return false;
    }
    for (const uint8_t *c = line; c < colon; c++) {
        if (*c <= ' ' || *c >= 127) {
            return false;
        }
    }
    return true;
}

/* Takes what a header line says of the body's length. */
static bool take_header(struct bt_framer *f, const uint8_t *line, uint32_t n)
{
    const uint8_t *value;
    uint32_t len, number;
    if (!named(line, n)) {
        return false;
    }
    if (header(line, n, "content-length", &value, &len)) {
        bool ok = f->left == NO_LENGTH && bt_framer_number(value, len, &number) && number < CHUNKED;
        f->left = ok ? number : f->left;
        return ok;
    }
    if (header(line, n, "transfer-encoding", &value, &len)) {
        bool ok = f->left == NO_LENGTH && len == 7 && memcmp(value, "chunked", 7) == 0;
        f->left = CHUNKED;
        return ok;
    }
    return true;
}

static bool hex(const uint8_t *text, uint32_t n, uint32_t *value)
{
    uint32_t v = 0, i = 0;
    for (; i < n && text[i] != ';'; i++) {
        uint8_t c = text[i] | 0x20;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) || i == 7) {
            return false;
        }
        v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *value = v;
    return i != 0;
}

/* A chunk's line and its bytes; the last one is empty. */
static enum bt_framed chunk(struct bt_framer *f, const struct bt_stream *s, uint32_t end)
{
    uint32_t size, line = f->at;
    if (!hex(s->bytes + line, end - 2 - line, &size)) {
        return BT_FRAMED_MALFORMED;
    }
    f->at = end;
    if (size == 0) {
        f->stage = TRAILERS;
        return BT_FRAMED_WHOLE;
    }
    enum bt_framed r = bt_framer_block(f, s, size + 2);
    f->at = r == BT_FRAMED_MORE ? line : f->at;
    return r;
}

static enum bt_framed body(struct bt_framer *f, const struct bt_stream *s, uint32_t end)
{
    if (f->left == CHUNKED) {
        f->stage = CHUNKS;
        f->at = end;
        return BT_FRAMED_WHOLE;
    }
    uint32_t len = f->left == NO_LENGTH ? 0 : f->left;
    if (len > f->max - end) {
        return BT_FRAMED_TOO_LONG;
    }
    if (s->n - end < len) {
        return BT_FRAMED_MORE; // with `at` still before the empty line
    }
    f->at = end + len;
    return BT_FRAMED_WHOLE;
}

/* One line; *over: the request ends at f->at. */
static enum bt_framed take_line(struct bt_framer *f, const struct bt_stream *s, uint32_t end, bool *over)
{
    const uint8_t *line = s->bytes + f->at;
    uint32_t n = end - 2 - f->at;
    bool good = true;
    switch (f->stage) {
    case START_LINE:
        good = start_line(line, n);
        f->left = NO_LENGTH;
        f->stage = HEADERS;
        break;
    case CHUNKS:
        return chunk(f, s, end);
    case HEADERS:
        if (n == 0) {
            enum bt_framed r = body(f, s, end);
            *over = r == BT_FRAMED_WHOLE && f->stage == HEADERS;
            return r;
        }
        good = take_header(f, line, n);
        break;
    default: // trailers, which say nothing of any length here
        *over = n == 0;
        good = n == 0 || named(line, n);
        break;
    }
    f->at = end;
    return good ? BT_FRAMED_WHOLE : BT_FRAMED_MALFORMED;
}

enum bt_framed bt_framer_http(struct bt_framer *f, const struct bt_stream *s)
{
    bool over = false;
    while (!over) {
        uint32_t end = 0;
        enum bt_framed r = bt_framer_line(f, s, &end);
        r = r == BT_FRAMED_WHOLE ? take_line(f, s, end, &over) : r;
        if (r != BT_FRAMED_WHOLE) {
            return r;
        }
    }
    return BT_FRAMED_WHOLE;
}
