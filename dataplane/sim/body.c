// SPDX-License-Identifier: Apache-2.0
// What simulated messages carry: number, its complement, one more number, and a pattern to the end,
// so that any byte out of place in reassembly is seen.
#include "world.h"

#include <string.h>

enum { HEAD = 16 };

/* Depends on both numbers of the head, so that parts of two replies to one request do not match. */
static uint8_t pattern(uint32_t request, uint64_t extra, uint32_t i)
{
    return (uint8_t)(request * 31u + (uint32_t)extra * 101u + i * 7u + (i >> 8) * 13u);
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

uint32_t sim_body_write(uint8_t *out, uint32_t len, uint32_t request, uint64_t extra)
{
    put32(out, request);
    put32(out + 4, ~request);
    put32(out + 8, (uint32_t)(extra >> 32));
    put32(out + 12, (uint32_t)extra);
    for (uint32_t i = HEAD; i < len; i++)
        out[i] = pattern(request, extra, i);
    return len;
}

uint32_t sim_body_read(const uint8_t *p, uint32_t len, uint64_t *extra)
{
    if (len < HEAD)
        return UINT32_MAX;
    uint32_t request = get32(p);
    if (get32(p + 4) != ~request)
        return UINT32_MAX;
    uint64_t value = (uint64_t)get32(p + 8) << 32 | get32(p + 12);
    if (extra != NULL)
        *extra = value;
    for (uint32_t i = HEAD; i < len; i++) {
        if (p[i] != pattern(request, value, i))
            return UINT32_MAX;
    }
    return request;
}
