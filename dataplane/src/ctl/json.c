// SPDX-License-Identifier: Apache-2.0
// Objects, lists, numbers and literals of the pull reader; strings are in json_string.c.
#include "ctl/json.h"

#include <string.h>

#include "ctl/json_string.h"

static bool fail(struct bt_json *j, const char *why)
{
    if (j->failed == NULL) {
        j->failed = why;
    }
    return false;
}

void bt_json_init(struct bt_json *j, const char *text, size_t len)
{
    memset(j, 0, sizeof *j);
    j->text = text;
    j->len = len;
}

// The next byte that is no white space, or -1 at the end. It stays unread.
static int look(struct bt_json *j)
{
    while (j->at < j->len) {
        char c = j->text[j->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return (unsigned char)c;
        }
        j->at++;
    }
    return -1;
}

static bool ended(struct bt_json *j)
{
    return fail(j, j->at >= j->len ? "the text ends early" : "unexpected character");
}

enum bt_json_kind bt_json_peek(struct bt_json *j)
{
    int c = j->failed != NULL ? -1 : look(j);
    switch (c) {
    case '{':
        return BT_JSON_OBJECT;
    case '[':
        return BT_JSON_LIST;
    case '"':
        return BT_JSON_STRING;
    case 't':
    case 'f':
        return BT_JSON_BOOLEAN;
    case 'n':
        return BT_JSON_NULL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? BT_JSON_NUMBER : BT_JSON_BAD;
    }
}

const char *bt_json_kind_name(enum bt_json_kind kind)
{
    static const char *const names[] = {"nothing", "an object", "a list", "a string", "a number", "a boolean", "null"};
    return names[kind];
}

bool bt_json_enter(struct bt_json *j)
{
    enum bt_json_kind kind = bt_json_peek(j);
    if (kind != BT_JSON_OBJECT && kind != BT_JSON_LIST) {
        return ended(j);
    }
    if (j->depth == BT_JSON_DEPTH) {
        return fail(j, "nested too deeply");
    }
    j->fresh[j->depth++] = true;
    j->at++;
    return true;
}

// After one member of a container: 1 another follows, 0 the container ended with `close`, -1.
static int next_member(struct bt_json *j, char close)
{
    if (j->failed != NULL || j->depth == 0) {
        return -1;
    }
    int c = look(j);
    bool first = j->fresh[j->depth - 1];
    if (c == close) {
        j->at++;
        j->depth--;
        return 0;
    }
    j->fresh[j->depth - 1] = false;
    if (first) {
        return 1;
    }
    if (c != ',') {
        ended(j);
        return -1;
    }
    j->at++;
    return 1;
}

int bt_json_key(struct bt_json *j, char *buf, size_t cap)
{
    int more = next_member(j, '}');
    size_t len;
    if (more != 1) {
        return more;
    }
    if (look(j) != '"') {
        ended(j);
        return -1;
    }
    if (!bt_json_string(j, buf, cap, &len)) {
        return -1;
    }
    if (look(j) != ':') {
        ended(j);
        return -1;
    }
    j->at++;
    return 1;
}

int bt_json_item(struct bt_json *j)
{
    int more = next_member(j, ']');
    if (more == 1 && bt_json_peek(j) == BT_JSON_BAD) {
        ended(j);
        return -1;
    }
    return more;
}

bool bt_json_string(struct bt_json *j, char *buf, size_t cap, size_t *len)
{
    if (bt_json_peek(j) != BT_JSON_STRING) {
        return ended(j);
    }
    j->at++;
    const char *why = bt_json_string_body(j->text, j->len, &j->at, buf, cap, len);
    return why == NULL || fail(j, why);
}

static size_t digits(struct bt_json *j)
{
    size_t from = j->at;
    while (j->at < j->len && j->text[j->at] >= '0' && j->text[j->at] <= '9') {
        j->at++;
    }
    return j->at - from;
}

static bool accept(struct bt_json *j, const char *any)
{
    if (j->at < j->len && j->text[j->at] != '\0' && strchr(any, j->text[j->at]) != NULL) {
        j->at++;
        return true;
    }
    return false;
}

bool bt_json_number(struct bt_json *j, const char **text, size_t *len)
{
    if (bt_json_peek(j) != BT_JSON_NUMBER) {
        return ended(j);
    }
    size_t from = j->at;
    (void)accept(j, "-");
    bool zero = j->at < j->len && j->text[j->at] == '0';
    size_t whole = digits(j);
    if (whole == 0 || (zero && whole > 1)) {
        return fail(j, "malformed number");
    }
    if (accept(j, ".") && digits(j) == 0) {
        return fail(j, "malformed number");
    }
    if (accept(j, "eE")) {
        (void)accept(j, "+-");
        if (digits(j) == 0) {
            return fail(j, "malformed number");
        }
    }
    *text = j->text + from;
    *len = j->at - from;
    return true;
}

static bool literal(struct bt_json *j, const char *word)
{
    size_t n = strlen(word);
    if (j->len - j->at < n || memcmp(j->text + j->at, word, n) != 0) {
        return fail(j, "unexpected character");
    }
    j->at += n;
    return true;
}

bool bt_json_boolean(struct bt_json *j, bool *out)
{
    if (bt_json_peek(j) != BT_JSON_BOOLEAN) {
        return ended(j);
    }
    *out = j->text[j->at] == 't';
    return literal(j, *out ? "true" : "false");
}

static bool skip_scalar(struct bt_json *j)
{
    const char *text;
    size_t len;
    bool truth;
    char none[1];
    switch (bt_json_peek(j)) {
    case BT_JSON_STRING:
        return bt_json_string(j, none, sizeof none, &len);
    case BT_JSON_NUMBER:
        return bt_json_number(j, &text, &len);
    case BT_JSON_BOOLEAN:
        return bt_json_boolean(j, &truth);
    case BT_JSON_NULL:
        return literal(j, "null");
    default:
        return ended(j);
    }
}

bool bt_json_skip(struct bt_json *j, const char **from, size_t *len)
{
    bool object[BT_JSON_DEPTH + 1];
    unsigned base = j->depth;
    enum bt_json_kind kind = bt_json_peek(j); // also moves over white space
    size_t start = j->at;
    char none[1];
    do {
        kind = bt_json_peek(j);
        bool nested = kind == BT_JSON_OBJECT || kind == BT_JSON_LIST;
        if (nested ? !bt_json_enter(j) : !skip_scalar(j)) {
            return false;
        }
        if (nested) {
            object[j->depth] = kind == BT_JSON_OBJECT;
        }
        int more = 0;
        while (j->depth > base && more == 0) { // close everything that ends here
            more = object[j->depth] ? bt_json_key(j, none, sizeof none) : bt_json_item(j);
            if (more < 0) {
                return false;
            }
        }
    } while (j->depth > base);
    if (from != NULL) {
        *from = j->text + start;
        *len = j->at - start;
    }
    return true;
}

bool bt_json_end(struct bt_json *j)
{
    return j->failed == NULL && look(j) == -1;
}

bool bt_json_to_int(const char *text, size_t len, int64_t *out)
{
    bool minus = len > 0 && text[0] == '-';
    uint64_t v = 0;
    for (size_t i = minus ? 1 : 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (text[i] < '0' || text[i] > '9' || v > (UINT64_C(0x7fffffffffffffff) - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    *out = minus ? -(int64_t)v : (int64_t)v;
    return len > (minus ? 1u : 0u);
}
