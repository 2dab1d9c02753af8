// SPDX-License-Identifier: Apache-2.0
// See error.h.
#include "ctl/error.h"

#include "ctl/json_out.h"

#include <stdarg.h>
#include <stdio.h>

bool bt_ctl_refuse(struct bt_ctl_error *e, const char *code, const char *field, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    e->code = code;
    snprintf(e->field, sizeof e->field, "%s", field != NULL ? field : "");
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    return false;
}

void bt_ctl_put_error(struct bt_json_out *o, const struct bt_ctl_error *e)
{
    bt_json_out_open(o, "error", '{');
    bt_json_out_string(o, "code", e->code);
    bt_json_out_string(o, "field", e->field);
    bt_json_out_string(o, "message", e->message);
    bt_json_out_close(o, '}');
}
