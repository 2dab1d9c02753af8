// SPDX-License-Identifier: Apache-2.0
// Fuzz bytes as a stream of small numbers, and a check that stays on whatever
// NDEBUG says.
#ifndef BT_FUZZ_INPUT_H
#define BT_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pkt.h"

#define CHECK(x) ((x) ? (void)0 : broken(#x, __FILE__, __LINE__))

_Noreturn static inline void broken(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t left;
};

// Next byte, 0 when the input has run out.
static inline uint8_t in8(struct input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->p++;
}

static inline uint16_t in16(struct input *in)
{
    uint8_t hi = in8(in);
    return (uint16_t)(hi << 8 | in8(in));
}

// Payload lengths around every edge the protocol has.
static inline uint32_t in_length(struct input *in)
{
    static const uint32_t edges[] = {0, 1, 3, 4, 6, 14, 1400, 1431, 1432, 1433, 1443, 1444, 1463, 1464, 1465, 1479};
    uint8_t b = in8(in);
    return b < 128 ? edges[b & 15] : (uint32_t)(b - 128) * 12;
}

// Appends up to max raw bytes of the input to the packet.
static inline void in_raw(struct input *in, struct bt_pkt *pkt, size_t max)
{
    size_t n = in->left < max ? in->left : max;
    if (n) {
        memcpy(bt_pkt_append(pkt, (uint32_t)n), in->p, n);
    }
    in->p += n;
    in->left -= n;
}

// A well-formed fixed header over n bytes of filling, so that fuzzing starts
// behind the codec: type and policy, flags, a small request id, count or index.
static inline void in_packet(struct input *in, struct bt_pkt *pkt, uint16_t req_id)
{
    uint8_t type = in8(in), flags = in8(in), index = in8(in), fill = in8(in);
    uint32_t n = in_length(in);
    uint8_t *p = bt_pkt_append(pkt, 8 + n);
    uint8_t h[8] = {0xcc, 8, type, flags, (uint8_t)(req_id >> 8), (uint8_t)req_id, 0, index};
    CHECK(p);
    memcpy(p, h, 8);
    memset(p + 8, fill, n);
    for (uint32_t i = 0; i < n && i < 8; i++) { // control payloads need some sense
        p[8 + i] = i < (fill & 7u) ? in8(in) : p[8 + i];
    }
}

#endif
