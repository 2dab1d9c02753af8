// SPDX-License-Identifier: Apache-2.0
// The smallest of some ranks, eight at a time where the processor can: x86-64-v2 has one instruction for it.
#ifndef BT_BASE_LEAST16_H
#define BT_BASE_LEAST16_H

#include <stdint.h>

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

// Two bytes that compare as one number, major first.
struct bt_rank {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint8_t major, minor;
#else
    uint8_t minor, major;
#endif
};

#define BT_LEAST_STEP 8u

#if defined(__SSE4_1__)
// One byte of turn (0..3) beside a zero, eight times.
static inline __m128i bt_least16_turns(uint32_t turn, int byte)
{
    return _mm_shuffle_epi8(_mm_cvtsi32_si128((int)turn), _mm_set1_epi16((short)(0x8000 | byte)));
}
#endif

// Smallest (major << 8 | (minor + turn) % 256) of at[0..n), without special instructions.
static inline uint32_t bt_least16_plain(const struct bt_rank *at, uint32_t n, uint32_t turn)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t here = (uint32_t)at[i].major << 8 | ((at[i].minor + turn) & 0xffu);
        least = here < least ? here : least;
    }
    return least;
}

// Smallest major of at[0..n); n and at as below.
static inline uint32_t bt_least16_major(const struct bt_rank *at, uint32_t n)
{
#if defined(__SSE4_1__)
    const __m128i *v = (const __m128i *)(const void *)at;
    __m128i least = _mm_load_si128(v);
    for (uint32_t i = 1; i < n / BT_LEAST_STEP; i++) {
        least = _mm_min_epu16(least, _mm_load_si128(v + i));
    }
    return (uint32_t)_mm_extract_epi16(_mm_minpos_epu16(least), 0) >> 8;
#else
    return bt_least16_plain(at, n, 0) >> 8;
#endif
}

// The same as bt_least16_plain; n a positive multiple of 8, at 16-byte aligned. Only the low byte of turn counts.
static inline uint32_t bt_least16(const struct bt_rank *at, uint32_t n, uint32_t turn)
{
#if defined(__SSE4_1__)
    const __m128i *v = (const __m128i *)(const void *)at;
    __m128i turns = bt_least16_turns(turn, 0), least = _mm_add_epi8(_mm_load_si128(v), turns);
    for (uint32_t i = 1; i < n / BT_LEAST_STEP; i++) {
        least = _mm_min_epu16(least, _mm_add_epi8(_mm_load_si128(v + i), turns));
    }
    return (uint32_t)_mm_extract_epi16(_mm_minpos_epu16(least), 0);
#else
    return bt_least16_plain(at, n, turn);
#endif
}

// Place of the first of the smallest (major, minor + turn) among at[0..8), without special instructions.
static inline uint32_t bt_least16_place_plain(const struct bt_rank *at, uint32_t turn)
{
    uint32_t place = 0, least = bt_least16_plain(at, 1, turn);
    for (uint32_t i = 1; i < BT_LEAST_STEP; i++) {
        uint32_t here = bt_least16_plain(at + i, 1, turn);
        place = here < least ? i : place;
        least = here < least ? here : least;
    }
    return place;
}

// The same with byte `byte` of turn, a constant; at 16-byte aligned.
static inline uint32_t bt_least16_place(const struct bt_rank *at, uint32_t turn, int byte)
{
#if defined(__SSE4_1__)
    __m128i ranks = _mm_add_epi8(_mm_load_si128((const __m128i *)(const void *)at), bt_least16_turns(turn, byte));
    return (uint32_t)_mm_cvtsi128_si32(_mm_minpos_epu16(ranks)) >> 16;
#else
    return bt_least16_place_plain(at, turn >> 8 * byte);
#endif
}

#endif
