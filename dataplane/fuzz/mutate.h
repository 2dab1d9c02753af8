// SPDX-License-Identifier: Apache-2.0
// Structured mutations of a valid packet: what a bit error, a middlebox or an attacker makes of it while it still
// looks like R2P2. Used by every state-machine target.
#ifndef BT_FUZZ_MUTATE_H
#define BT_FUZZ_MUTATE_H

#include "input.h"

enum { MUTATIONS = 12 };

// One option of kind `what` that need not make sense, between header and payload.
static inline uint32_t mutate_option(struct input *in, uint8_t *p, uint32_t len, uint32_t room, uint8_t what)
{
    uint8_t words = 1 + (what >> 6);
    uint32_t n = 4u * words;
    if (len < 8 || p[1] < 8 || p[1] > len || p[1] + n > 64 || len + n > room) {
        return len;
    }
    memmove(p + p[1] + n, p + p[1], len - p[1]);
    uint8_t *o = p + p[1];
    o[0] = what & 0x8f;
    o[1] = (uint8_t)n;
    for (uint32_t i = 2; i < n; i++) {
        o[i] = in8(in);
    }
    p[1] = (uint8_t)(p[1] + n);
    return len + n;
}

// Changes len bytes at p, in a buffer of `room`; returns the new length.
static inline uint32_t mutate(struct input *in, uint8_t *p, uint32_t len, uint32_t room)
{
    uint8_t how = in8(in) % MUTATIONS, what = in8(in);
    if (how == 2) {
        return len > 0 ? what % len : 0; // cut off
    }
    if (how == 3) { // trailing bytes
        uint32_t n = len + (what & 31u) <= room ? what & 31u : 0;
        memset(p + len, what, n);
        return len + n;
    }
    if (how == 4) {
        return mutate_option(in, p, len, room, what);
    }
    if (len < 8) {
        return len;
    }
    switch (how) {
    case 0: // one bit anywhere
        p[in16(in) % len] ^= (uint8_t)(1u << (what & 7));
        break;
    case 1: // a burst
        for (uint32_t at = in16(in) % len, i = 0; i <= (what & 15u) && at + i < len; i++) {
            p[at + i] ^= in8(in);
        }
        break;
    case 5: // another type or policy
        p[2] = what;
        break;
    case 6: // another place in the message
        p[3] = what & 0xe0;
        break;
    case 7: // another pair
        p[5] = (uint8_t)(p[5] + (what & 7) - 3);
        break;
    case 8: // another count or index
        p[6] = what & 1;
        p[7] = (uint8_t)(p[7] + (what >> 1 & 15) - 7);
        break;
    case 9: // another header size
        p[1] = what & 1 ? what : (uint8_t)(what & 0x4c);
        break;
    case 10: // another word of the payload: counters, bitmaps, n
        if (len > 12) {
            p[8 + what % (len - 8)] = in8(in);
        }
        break;
    default: // extremes
        memset(p + what % len, what & 0x80 ? 0xff : 0, (what & 7) + 1u <= len - what % len ? (what & 7) + 1u : 1);
        break;
    }
    return len;
}

#endif
