// SPDX-License-Identifier: Apache-2.0
// Strings of the JSON reader, apart because escapes and UTF-8 are an art of their own.
#ifndef BT_CTL_JSON_STRING_H
#define BT_CTL_JSON_STRING_H

#include <stddef.h>

// Decodes the string whose opening quote stands before text[*at] and moves *at behind the closing
// one. Writes at most cap-1 bytes and a terminator; *len is the whole decoded length. Returns NULL
// or what is wrong, with *at at the byte at fault. cap must be at least 1.
const char *bt_json_string_body(const char *text, size_t n, size_t *at, char *buf, size_t cap, size_t *len);

#endif
