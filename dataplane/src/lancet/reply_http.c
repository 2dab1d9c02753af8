// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 replies to GET (RFC 9112): status line, header fields, a body of known length or in chunks.
// Strict where leniency would lose the place in the stream: lengths that contradict each other, a
// body that only the connection's end would end, obsolete line folding.
#include "lancet/reply_internal.h"

#include <string.h>
#include <strings.h>

enum step { STATUS, FIELD, BODY, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER };

static enum bt_reply_state status_line(struct bt_reply *r)
{
    const char *t = r->line.text;
    uint64_t status;
    if (strncmp(t, "HTTP/1.", 7) != 0 || (t[7] != '0' && t[7] != '1') || t[8] != ' ') {
        return bt_reply_refuse(r, "a status line that does not start with HTTP/1.0 or HTTP/1.1");
    }
    if (r->line.len < 12 || !bt_reply_digits(t + 9, 3, &status) || status < 100 || status > 599 ||
        (t[12] != ' ' && t[12] != '\0')) {
        return bt_reply_refuse(r, "a status line without a status from 100 to 599");
    }
    r->u.http.status = (uint32_t)status;
    r->u.http.minor = (uint32_t)(t[7] - '0');
    r->u.http.has_length = r->u.http.chunked = r->u.http.keep_alive = false;
    r->step = FIELD;
    return BT_REPLY_MORE;
}

// The characters of a field's name (RFC 9110 §5.6.2).
static bool is_token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return n > 0;
}

static bool named(const char *text, size_t n, const char *name)
{
    return n == strlen(name) && strncasecmp(text, name, n) == 0;
}

static enum bt_reply_state content_length(struct bt_reply *r, const char *value, size_t n)
{
    uint64_t length;
    if (!bt_reply_digits(value, n, &length)) {
        return bt_reply_refuse(r, "a Content-Length that is no number");
    }
    if (r->u.http.has_length && r->u.http.length != length) {
        return bt_reply_refuse(r, "two Content-Lengths that differ");
    }
    r->u.http.has_length = true;
    r->u.http.length = length;
    return BT_REPLY_MORE;
}

// A comma-separated list that holds a word.
static bool lists(const char *value, size_t n, const char *word)
{
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && value[end] != ',') {
            end++;
        }
        size_t from = at + strspn(value + at, " \t");
        size_t to = end;
        while (to > from && (value[to - 1] == ' ' || value[to - 1] == '\t')) {
            to--;
        }
        if (from < to && named(value + from, to - from, word)) {
            return true;
        }
        at = end + 1;
    }
    return false;
}

static enum bt_reply_state meaningful(struct bt_reply *r, size_t name, const char *value, size_t n)
{
    const char *t = r->line.text;
    if (named(t, name, "content-length")) {
        return content_length(r, value, n);
    }
    if (named(t, name, "transfer-encoding")) {
        if (r->u.http.chunked || !named(value, n, "chunked")) {
            return bt_reply_refuse(r, "a Transfer-Encoding other than chunked");
        }
        r->u.http.chunked = true;
    }
    if (named(t, name, "connection")) {
        r->closes = r->closes || lists(value, n, "close");
        r->u.http.keep_alive = r->u.http.keep_alive || lists(value, n, "keep-alive");
    }
    return BT_REPLY_MORE;
}

static enum bt_reply_state field_line(struct bt_reply *r)
{
    const char *t = r->line.text;
    const char *colon = strchr(t, ':');
    if (colon == NULL || !is_token(t, (size_t)(colon - t))) {
        return bt_reply_refuse(r, "a header line that is not name: value");
    }
    size_t name = (size_t)(colon - t);
    bool matters =
        named(t, name, "content-length") || named(t, name, "transfer-encoding") || named(t, name, "connection");
    if (!matters) {
        return BT_REPLY_MORE;
    }
    if (!bt_reply_line_kept(r)) {
        return bt_reply_refuse(r, "a Content-Length, Transfer-Encoding or Connection of more than 319 bytes");
    }
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t n = strlen(value);
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t')) {
        n--;
    }
    return meaningful(r, name, value, n);
}

static enum bt_reply_state whole(struct bt_reply *r)
{
    return bt_reply_done(r, r->u.http.status >= 400 ? BT_VERDICT_ERROR : BT_VERDICT_OK);
}

// The empty line: what follows?
static enum bt_reply_state head_end(struct bt_reply *r)
{
    uint32_t status = r->u.http.status;
    r->closes = r->closes || (r->u.http.minor == 0 && !r->u.http.keep_alive);
    if (status < 200) {
        if (status == 101) {
            return bt_reply_refuse(r, "a switch of protocols nobody asked for");
        }
        r->step = STATUS; // interim; its lines count on
        return BT_REPLY_MORE;
    }
    if (r->u.http.chunked && r->u.http.has_length) {
        return bt_reply_refuse(r, "both a Content-Length and a Transfer-Encoding");
    }
    if (status == 204 || status == 304) {
        return whole(r);
    }
    if (!r->u.http.chunked && !r->u.http.has_length) {
        return bt_reply_refuse(r, "neither Content-Length nor chunks: only the connection's end would end the body");
    }
    r->step = r->u.http.chunked ? CHUNK_SIZE : BODY;
    r->left = r->u.http.length;
    return r->step == BODY && r->left == 0 ? whole(r) : BT_REPLY_MORE;
}

static enum bt_reply_state chunk_size(struct bt_reply *r)
{
    const char *t = r->line.text;
    size_t digits = strspn(t, "0123456789abcdefABCDEF");
    uint64_t size = 0;
    if (digits == 0 || digits > 8 || (t[digits] != '\0' && t[digits] != ';' && t[digits] != ' ')) {
        return bt_reply_refuse(r, "a chunk whose size is no hexadecimal number of up to 8 digits");
    }
    for (size_t i = 0; i < digits; i++) {
        int c = t[i] | 0x20;
        size = size * 16 + (uint64_t)(c >= 'a' ? c - 'a' + 10 : t[i] - '0');
    }
    if (size > BT_VALUE_MAX) {
        return bt_reply_refuse(r, "a chunk of more than 128 MiB");
    }
    r->left = size;
    r->step = size == 0 ? TRAILER : CHUNK;
    r->u.http.lines = 0; // there may be many chunks, but not many trailers
    return BT_REPLY_MORE;
}

static enum bt_reply_state line(struct bt_reply *r)
{
    bool empty = r->line.len == 0;
    if (++r->u.http.lines > BT_HTTP_LINES) {
        return bt_reply_refuse(r, "more than 256 lines before the body or behind it");
    }
    switch ((enum step)r->step) {
    case STATUS:
        return status_line(r);
    case FIELD:
        return empty ? head_end(r) : field_line(r);
    case CHUNK_SIZE:
        return chunk_size(r);
    case CHUNK_END:
        r->step = CHUNK_SIZE;
        return BT_REPLY_MORE;
    case TRAILER:
        return empty ? whole(r) : BT_REPLY_MORE;
    case BODY:
    case CHUNK:
        break;
    }
    return BT_REPLY_MORE;
}

enum bt_reply_state bt_reply_http(struct bt_reply *r, struct bt_reply_in *in)
{
    enum bt_reply_state s = BT_REPLY_MORE;
    while (in->at < in->n && s == BT_REPLY_MORE) {
        if (r->step == BODY || r->step == CHUNK) {
            if (bt_reply_pass(r, in) == BT_REPLY_DONE && r->step == BODY) {
                return whole(r);
            }
            r->step = r->step == CHUNK && r->left == 0 ? CHUNK_END : r->step;
            continue;
        }
        s = bt_reply_line(r, in, r->step == CHUNK_END ? 0 : BT_HTTP_LINE);
        if (s == BT_REPLY_DONE) {
            s = line(r);
            bt_reply_next_line(r);
        }
    }
    return s;
}
