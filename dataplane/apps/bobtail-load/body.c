// SPDX-License-Identifier: Apache-2.0
// The bytes of a request. Each request has a serial number no other one has, and with --verify every
// byte depends on it: an echo that belongs to another request, or that was put together from the
// packets of two, is found out.
#include "load_app.h"

#include <string.h>

// Word i of the body of `serial`; the finalizer of splitmix64 (Steele et al., OOPSLA'14).
static uint64_t word(uint64_t serial, uint64_t i)
{
    uint64_t z = serial + i * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void load_body_fill(uint8_t *body, uint32_t n, uint64_t serial, bool pattern)
{
    uint64_t w = serial;
    uint32_t words = pattern ? n / 8 + 1 : 1; // the rest of the body stays as it is
    for (uint32_t i = 0; i < words && i * 8 < n; i++) {
        memcpy(body + (size_t)i * 8, &w, n - i * 8 < 8 ? n - i * 8 : 8);
        w = word(serial, i + 1);
    }
}

bool load_body_is(const uint8_t *reply, uint32_t n, uint64_t serial, uint8_t *scratch)
{
    load_body_fill(scratch, n, serial, true);
    return memcmp(reply, scratch, n) == 0;
}
