// SPDX-License-Identifier: Apache-2.0
// Writes JSON into a buffer that grows. Commas are its business, nesting is the caller's.
#ifndef BT_CTL_JSON_OUT_H
#define BT_CTL_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bt_json_out {
    char *text; // terminated; NULL when nothing was written
    size_t len;
    size_t cap;
    bool comma;    // a value stands before the next one
    bool overflow; // out of memory: the text is useless
};

// key NULL: an item of a list or the outermost value.
void bt_json_out_open(struct bt_json_out *o, const char *key, char bracket);
void bt_json_out_close(struct bt_json_out *o, char bracket);
void bt_json_out_string(struct bt_json_out *o, const char *key, const char *value);
void bt_json_out_u64(struct bt_json_out *o, const char *key, uint64_t value);
void bt_json_out_i64(struct bt_json_out *o, const char *key, int64_t value);
// Three decimals; not-a-number and infinities become null.
void bt_json_out_double(struct bt_json_out *o, const char *key, double value);
void bt_json_out_bool(struct bt_json_out *o, const char *key, bool value);
void bt_json_out_free(struct bt_json_out *o);

#endif
