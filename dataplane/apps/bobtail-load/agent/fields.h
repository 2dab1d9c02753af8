// SPDX-License-Identifier: Apache-2.0
// Requests are flat JSON objects; a table per operation says which fields it has.
#ifndef BT_APPS_AGENT_FIELDS_H
#define BT_APPS_AGENT_FIELDS_H

#include "ctl/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum agent_field_kind {
    FIELD_TEXT,    // char[cap]
    FIELD_U32,     // uint32_t, min…max
    FIELD_U64,     // uint64_t, min…max
    FIELD_DOUBLE,  // double, min…max
    FIELD_BOOL,    // bool
    FIELD_CHOICE,  // int: index into `choices`
    FIELD_TEXTS,   // char[][cap]: up to max of them, their number in *count
    FIELD_NUMBERS, // uint64_t[]: likewise
};

struct agent_field {
    const char *name;
    enum agent_field_kind kind;
    void *to;
    double min, max;
    const char *choices; // "a|b|c"
    size_t cap;
    uint32_t *count;
    bool seen; // written by the reader
};

// Reads the value of "op"; false with e when the line is no JSON object or has none.
bool agent_read_op(const char *line, size_t len, char *op, size_t cap, struct bt_ctl_error *e);

// Reads every field of the line but "op"; unknown, repeated and wrong ones are refused by name.
bool agent_read_fields(const char *line, size_t len, struct agent_field *fields, size_t n, struct bt_ctl_error *e);

// The field of that name was there.
bool agent_field_seen(const struct agent_field *fields, size_t n, const char *name);

#endif
