// SPDX-License-Identifier: Apache-2.0
// See json_out.h.
#include "ctl/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct bt_json_out *o, const char *bytes, size_t n)
{
    if (o->overflow) {
        return;
    }
    if (o->cap - o->len <= n) {
        size_t cap = (o->cap + n + 1) * 2;
        char *text = realloc(o->text, cap);
        if (text == NULL) {
            o->overflow = true;
            return;
        }
        o->text = text;
        o->cap = cap;
    }
    memcpy(o->text + o->len, bytes, n);
    o->len += n;
    o->text[o->len] = '\0';
}

static void quoted(struct bt_json_out *o, const char *s)
{
    append(o, "\"", 1);
    for (; *s != '\0'; s++) {
        char esc[8];
        if (*s == '"' || *s == '\\') {
            esc[0] = '\\';
            esc[1] = *s;
            append(o, esc, 2);
        } else if ((unsigned char)*s < 0x20) {
            snprintf(esc, sizeof esc, "\\u%04x", (unsigned)(unsigned char)*s);
            append(o, esc, 6);
        } else {
            append(o, s, 1);
        }
    }
    append(o, "\"", 1);
}

static void begin(struct bt_json_out *o, const char *key)
{
    if (o->comma) {
        append(o, ",", 1);
    }
    if (key != NULL) {
        quoted(o, key);
        append(o, ":", 1);
    }
    o->comma = true;
}

void bt_json_out_open(struct bt_json_out *o, const char *key, char bracket)
{
    begin(o, key);
    append(o, &bracket, 1);
    o->comma = false;
}

void bt_json_out_close(struct bt_json_out *o, char bracket)
{
    append(o, &bracket, 1);
    o->comma = true;
}

void bt_json_out_string(struct bt_json_out *o, const char *key, const char *value)
{
    begin(o, key);
    quoted(o, value);
}

void bt_json_out_u64(struct bt_json_out *o, const char *key, uint64_t value)
{
    char text[24];
    begin(o, key);
    append(o, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, value));
}

void bt_json_out_i64(struct bt_json_out *o, const char *key, int64_t value)
{
    char text[24];
    begin(o, key);
    append(o, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

void bt_json_out_double(struct bt_json_out *o, const char *key, double value)
{
    char text[400];
    begin(o, key);
    if (!isfinite(value)) {
        append(o, "null", 4);
        return;
    }
    append(o, text, (size_t)snprintf(text, sizeof text, "%.3f", value));
}

void bt_json_out_bool(struct bt_json_out *o, const char *key, bool value)
{
    begin(o, key);
    append(o, value ? "true" : "false", value ? 4 : 5);
}

void bt_json_out_free(struct bt_json_out *o)
{
    free(o->text);
    memset(o, 0, sizeof *o);
}
