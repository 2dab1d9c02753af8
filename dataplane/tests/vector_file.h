// SPDX-License-Identifier: Apache-2.0
// Reading the shared vectors (vectors/*.json) in tests.
#ifndef BT_TESTS_VECTOR_FILE_H
#define BT_TESTS_VECTOR_FILE_H

#include <cjson/cJSON.h>
#include <stdint.h>

// Parses vectors/<name>; fails the running test when it cannot.
cJSON *vector_file(const char *name);

// Member that must exist, of any type.
const cJSON *vector_get(const cJSON *object, const char *key);
const char *vector_text(const cJSON *object, const char *key);
unsigned vector_uint(const cJSON *object, const char *key);
uint64_t vector_u64(const cJSON *object, const char *key); // from a decimal string

// Hex to bytes; returns the number of bytes, fails beyond max.
size_t vector_hex(const char *hex, uint8_t *out, size_t max);

#endif
