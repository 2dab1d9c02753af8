// SPDX-License-Identifier: Apache-2.0
// Requests are flat JSON objects; a table per operation says which fields it has (ctl/shape.h).
#ifndef BT_APPS_AGENT_FIELDS_H
#define BT_APPS_AGENT_FIELDS_H

#include "ctl/shape.h"

// In every table: the operation itself, which agent_read_op has read.
#define AGENT_OP_FIELD    {.name = "op", .kind = BT_SHAPE_SKIPPED}
#define AGENT_SHAPE(rows) {.fields = rows, .n = sizeof rows / sizeof rows[0]}

enum { AGENT_OP_BYTES = 32 };

// Reads the value of "op"; false with e when the line is no JSON object or has none.
bool agent_read_op(const char *line, size_t len, char op[AGENT_OP_BYTES], struct bt_ctl_error *e);

// Reads every field of the line into `into`, which holds the defaults; shape NULL: an operation without fields.
bool agent_read_fields(const char *line, size_t len, const struct bt_shape *shape, void *into, struct bt_ctl_error *e);

#endif
