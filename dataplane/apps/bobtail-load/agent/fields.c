// SPDX-License-Identifier: Apache-2.0
#include "agent/fields.h"

#include "ctl/json.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 48, NUMBER_MAX_BYTES = 48 };

static bool not_json(const struct bt_json *j, struct bt_ctl_error *e)
{
    return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, NULL, "is not a JSON object: %s at byte %zu",
                         j->failed != NULL ? j->failed : "unexpected text", j->at);
}

static bool wrong_kind(struct bt_json *j, const struct agent_field *f, const char *must, struct bt_ctl_error *e)
{
    const char *got = bt_json_kind_name(bt_json_peek(j));
    return j->failed != NULL ? not_json(j, e)
                             : bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, f->name, "must be %s; got %s", must, got);
}

static bool read_text(struct bt_json *j, const struct agent_field *f, char *out, size_t cap, struct bt_ctl_error *e)
{
    size_t len;
    if (bt_json_peek(j) != BT_JSON_STRING) {
        return wrong_kind(j, f, "a string", e);
    }
    if (!bt_json_string(j, out, cap, &len)) {
        return not_json(j, e);
    }
    if (strlen(out) != len) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, f->name,
                             "must have at most %zu bytes and no NUL; got %zu bytes", cap - 1, len);
    }
    return true;
}

static bool read_number(struct bt_json *j, const struct agent_field *f, bool whole, double *out, struct bt_ctl_error *e)
{
    const char *text;
    size_t len;
    int64_t integer;
    char copy[NUMBER_MAX_BYTES];
    if (bt_json_peek(j) != BT_JSON_NUMBER) {
        return wrong_kind(j, f, "a number", e);
    }
    if (!bt_json_number(j, &text, &len)) {
        return not_json(j, e);
    }
    if (len >= sizeof copy || (whole && !bt_json_to_int(text, len, &integer))) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, f->name, "must be a %snumber; got %.40s", whole ? "whole " : "",
                             text);
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    *out = strtod(copy, NULL);
    if (!(*out >= f->min && *out <= f->max)) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, f->name, "must be between %.15g and %.15g; got %s", f->min,
                             f->max, copy);
    }
    return true;
}

static bool read_choice(struct bt_json *j, const struct agent_field *f, struct bt_ctl_error *e)
{
    char text[NAME_MAX_BYTES];
    if (!read_text(j, f, text, sizeof text, e)) {
        return false;
    }
    int i = 0;
    for (const char *at = f->choices;; i++) {
        size_t n = strcspn(at, "|");
        if (strlen(text) == n && memcmp(at, text, n) == 0) {
            *(int *)f->to = i;
            return true;
        }
        if (at[n] == '\0') {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, f->name, "must be one of %s; got \"%s\"", f->choices, text);
        }
        at += n + 1;
    }
}

// Numbers of a list are bounded by min and 2^53; max says how many there may be.
static bool read_list(struct bt_json *j, const struct agent_field *f, struct bt_ctl_error *e)
{
    struct agent_field item = *f;
    int more;
    item.max = 0x1p53;
    *f->count = 0;
    if (bt_json_peek(j) != BT_JSON_LIST) {
        return wrong_kind(j, f, "a list", e);
    }
    if (!bt_json_enter(j)) {
        return not_json(j, e);
    }
    while ((more = bt_json_item(j)) == 1) {
        double v;
        if (*f->count >= (uint32_t)f->max) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, f->name, "must have at most %.0f entries", f->max);
        }
        if (f->kind == FIELD_TEXTS) {
            if (!read_text(j, f, (char *)f->to + *f->count * f->cap, f->cap, e)) {
                return false;
            }
        } else {
            if (!read_number(j, &item, true, &v, e)) {
                return false;
            }
            ((uint64_t *)f->to)[*f->count] = (uint64_t)v;
        }
        ++*f->count;
    }
    return more == 0 || not_json(j, e);
}

static bool read_value(struct bt_json *j, const struct agent_field *f, struct bt_ctl_error *e)
{
    double v = 0;
    switch (f->kind) {
    case FIELD_TEXT:
        return read_text(j, f, f->to, f->cap, e);
    case FIELD_U32:
    case FIELD_U64:
        if (!read_number(j, f, true, &v, e)) {
            return false;
        }
        if (f->kind == FIELD_U32) {
            *(uint32_t *)f->to = (uint32_t)v;
        } else {
            *(uint64_t *)f->to = (uint64_t)v;
        }
        return true;
    case FIELD_DOUBLE:
        return read_number(j, f, false, f->to, e);
    case FIELD_BOOL:
        return bt_json_peek(j) == BT_JSON_BOOLEAN ? bt_json_boolean(j, f->to) || not_json(j, e)
                                                  : wrong_kind(j, f, "true or false", e);
    case FIELD_CHOICE:
        return read_choice(j, f, e);
    case FIELD_TEXTS:
    case FIELD_NUMBERS:
        break;
    }
    return read_list(j, f, e);
}

static struct agent_field *find(struct agent_field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

bool agent_field_seen(const struct agent_field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return fields[i].seen;
        }
    }
    return false;
}

bool agent_read_fields(const char *line, size_t len, struct agent_field *fields, size_t n, struct bt_ctl_error *e)
{
    struct bt_json j;
    char key[NAME_MAX_BYTES];
    int more;
    bt_json_init(&j, line, len);
    if (bt_json_peek(&j) != BT_JSON_OBJECT || !bt_json_enter(&j)) {
        return not_json(&j, e);
    }
    while ((more = bt_json_key(&j, key, sizeof key)) == 1) {
        struct agent_field *f = find(fields, n, key);
        if (strcmp(key, "op") == 0) {
            if (!bt_json_skip(&j, NULL, NULL)) {
                return not_json(&j, e);
            }
            continue;
        }
        if (f == NULL) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, key, "unknown field; remove it");
        }
        if (f->seen) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, key, "occurs twice; keep one");
        }
        f->seen = true;
        if (!read_value(&j, f, e)) {
            return false;
        }
    }
    return (more == 0 && bt_json_end(&j)) || not_json(&j, e);
}

bool agent_read_op(const char *line, size_t len, char *op, size_t cap, struct bt_ctl_error *e)
{
    const struct agent_field f = {.name = "op"};
    struct bt_json j;
    char key[NAME_MAX_BYTES];
    int more;
    bool found = false;
    bt_json_init(&j, line, len);
    if (bt_json_peek(&j) != BT_JSON_OBJECT || !bt_json_enter(&j)) {
        return not_json(&j, e);
    }
    while ((more = bt_json_key(&j, key, sizeof key)) == 1) {
        if (strcmp(key, "op") == 0) {
            if (found) {
                return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "op", "occurs twice; keep one");
            }
            found = true;
            if (!read_text(&j, &f, op, cap, e)) {
                return false;
            }
        } else if (!bt_json_skip(&j, NULL, NULL)) {
            return not_json(&j, e);
        }
    }
    if (more != 0 || !bt_json_end(&j)) {
        return not_json(&j, e);
    }
    return found || bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "op", "is required");
}
