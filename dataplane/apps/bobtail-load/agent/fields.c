// SPDX-License-Identifier: Apache-2.0
#include "agent/fields.h"

struct named {
    char op[AGENT_OP_BYTES];
};

static const struct bt_shape_field op_field = {
    .name = "op", .kind = BT_SHAPE_TEXT, .required = true, .to = BT_SHAPE_AT(struct named, op)};

bool agent_read_op(const char *line, size_t len, char op[AGENT_OP_BYTES], struct bt_ctl_error *e)
{
    static const struct bt_shape shape = {.fields = &op_field, .n = 1, .open = true};
    return bt_shape_read(&shape, op, line, len, BT_CTL_INVALID_REQUEST, e);
}

bool agent_read_fields(const char *line, size_t len, const struct bt_shape *shape, void *into, struct bt_ctl_error *e)
{
    static const struct bt_shape_field bare_fields[] = {AGENT_OP_FIELD};
    static const struct bt_shape bare = AGENT_SHAPE(bare_fields);
    return bt_shape_read(shape != NULL ? shape : &bare, into, line, len, BT_CTL_INVALID_REQUEST, e);
}
