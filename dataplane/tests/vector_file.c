// SPDX-License-Identifier: Apache-2.0
// See vector_file.h.
#include "vector_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

cJSON *vector_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", BT_VECTORS, name);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fail_msg("cannot open %s", path);
    }
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, n, f), n);
    text[n] = 0;
    fclose(f);
    cJSON *doc = cJSON_Parse(text);
    free(text);
    if (!doc) {
        fail_msg("%s is not JSON", path);
    }
    return doc;
}

const cJSON *vector_get(const cJSON *object, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!v) {
        fail_msg("vector lacks \"%s\"", key);
    }
    return v;
}

const char *vector_text(const cJSON *object, const char *key)
{
    const cJSON *v = vector_get(object, key);
    assert_true(cJSON_IsString(v));
    return v->valuestring;
}

unsigned vector_uint(const cJSON *object, const char *key)
{
    const cJSON *v = vector_get(object, key);
    assert_true(cJSON_IsNumber(v));
    return (unsigned)v->valuedouble;
}

uint64_t vector_u64(const cJSON *object, const char *key)
{
    return strtoull(vector_text(object, key), NULL, 10);
}

static unsigned digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = strchr(digits, c);
    if (!c || !at) {
        fail_msg("bad hex digit '%c'", c);
    }
    return (unsigned)(at - digits);
}

size_t vector_hex(const char *hex, uint8_t *out, size_t max)
{
    size_t n = strlen(hex) / 2;
    assert_true(n <= max && strlen(hex) % 2 == 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    }
    return n;
}
