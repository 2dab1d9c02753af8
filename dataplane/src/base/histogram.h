// SPDX-License-Identifier: Apache-2.0
// The one histogram encoding, "ll7": log-linear, 128 buckets per power of two,
// from 1,024 ns to 2^37 ns, so every bucket is at most 1/128 of its value wide.
// Merging is adding; percentiles are read from the merged one, never averaged.
// JSON: {"encoding":"ll7","total":N,"inf":N,"sumNanoseconds":N,"buckets":[[index,count],...]}
#ifndef BT_BASE_HISTOGRAM_H
#define BT_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BT_HIST_BUCKETS  3458u
#define BT_HIST_OVERFLOW 3457u      // index of values of 2^37 ns and above
#define BT_HIST_INF      UINT64_MAX // a percentile that lies among the unanswered

struct bt_hist {
    uint64_t total; // all counts and inf
    uint64_t inf;   // requests unanswered within T_max: they count as +infinity
    uint64_t sum_ns;
    uint64_t bucket[BT_HIST_BUCKETS];
};

// Bucket of a value in ns. A double (IEEE 754) is such an encoding itself: exponent and the first seven bits of the
// fraction stand side by side, and below 2^53 nothing is rounded.
static inline uint32_t bt_hist_index(uint64_t ns)
{
    if (ns < 1024) {
        return 0;
    }
    const double value = (double)(int64_t)ns;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t index = (bits >> 45) - ((1023u + 10u) * 128u - 1u);
    return __builtin_expect(index < BT_HIST_OVERFLOW, 1) ? (uint32_t)index : BT_HIST_OVERFLOW;
}

// Reported value of a bucket in ns: its inclusive upper edge. The overflow
// bucket reports 2^37, to be read as "at least".
uint64_t bt_hist_value(uint32_t index);

void bt_hist_clear(struct bt_hist *h);
void bt_hist_record(struct bt_hist *h, uint64_t ns);
void bt_hist_record_inf(struct bt_hist *h, uint64_t n);
void bt_hist_merge(struct bt_hist *into, const struct bt_hist *from);

// Smallest bucket whose cumulative count reaches ceil(p/100 * total), as its
// reported value in ns; BT_HIST_INF when that lies in inf; 0 when empty.
// per_100k: the percentile times 1,000 ("99.9" is 99900), so no float decides.
uint64_t bt_hist_percentile(const struct bt_hist *h, uint32_t per_100k);

// --- one-second slices --------------------------------------------------------

#define BT_HIST_SLICES   600u          // seconds kept
#define BT_HIST_SLICE_NS 1000000000ull // length of one

struct bt_hist_slice {
    _Atomic uint64_t second; // which second since epoch of the caller's clock, + 1; 0: being reset or never used
    _Atomic uint64_t sum_ns;
    _Atomic uint32_t inf;
    _Atomic uint32_t arrived, rejected; // requests that came, requests refused (not in the counts)
    _Atomic uint32_t lo, hi;            // touched bucket range, lo > hi when empty
    _Atomic uint32_t bucket[BT_HIST_BUCKETS];
};

// One writer, any number of concurrent readers. About 8.3 MB: the caller
// allocates it (bt_hist_slices_bytes) and zeroes it.
struct bt_hist_slices {
    _Atomic uint64_t first_second; // second of the first record + 1; 0: none yet
    uint64_t current_from;         // the writer's: begin in ns of the slice used last
    struct bt_hist_slice *current; // and that slice
    struct bt_hist_slice slice[BT_HIST_SLICES];
};

// What a window held, besides the histogram.
struct bt_hist_window {
    uint32_t covered_seconds; // how much of the asked window the process lived
    uint64_t arrived, rejected;
};

static inline size_t bt_hist_slices_bytes(void)
{
    return sizeof(struct bt_hist_slices);
}

void bt_hist_slices_init(struct bt_hist_slices *s, uint64_t now_ns);

// The slice of a time outside the current second, which it makes current.
struct bt_hist_slice *bt_hist_slices_other(struct bt_hist_slices *s, uint64_t now_ns);

// The bucket of this value came into use.
void bt_hist_slice_widen(struct bt_hist_slice *c, uint64_t value_ns);

// No division while the second lasts.
static inline struct bt_hist_slice *bt_hist_slice_at(struct bt_hist_slices *s, uint64_t now_ns)
{
    return __builtin_expect(now_ns - s->current_from < BT_HIST_SLICE_NS, 1) ? s->current
                                                                            : bt_hist_slices_other(s, now_ns);
}

// Single writer: a load and a store, no locked instruction. Returns what was there.
static inline uint32_t bt_hist_slice_add(_Atomic uint32_t *v, uint32_t n)
{
    uint32_t before = atomic_load_explicit(v, memory_order_relaxed);
    atomic_store_explicit(v, before + n, memory_order_release);
    return before;
}

static inline void bt_hist_slices_record(struct bt_hist_slices *s, uint64_t now_ns, uint64_t value_ns)
{
    struct bt_hist_slice *c = bt_hist_slice_at(s, now_ns);
    uint64_t sum = atomic_load_explicit(&c->sum_ns, memory_order_relaxed);
    atomic_store_explicit(&c->sum_ns, sum + value_ns, memory_order_release);
    if (__builtin_expect(bt_hist_slice_add(&c->bucket[bt_hist_index(value_ns)], 1) == 0, 0)) {
        bt_hist_slice_widen(c, value_ns);
    }
}

static inline void bt_hist_slices_record_inf(struct bt_hist_slices *s, uint64_t now_ns, uint32_t n)
{
    bt_hist_slice_add(&bt_hist_slice_at(s, now_ns)->inf, n);
}

static inline void bt_hist_slices_arrived(struct bt_hist_slices *s, uint64_t now_ns, uint32_t n)
{
    bt_hist_slice_add(&bt_hist_slice_at(s, now_ns)->arrived, n);
}

static inline void bt_hist_slices_rejected(struct bt_hist_slices *s, uint64_t now_ns, uint32_t n)
{
    bt_hist_slice_add(&bt_hist_slice_at(s, now_ns)->rejected, n);
}

// Makes `into` what the n of `from` hold together. One thread at a time; safe against the writers of `from`.
void bt_hist_slices_sum(struct bt_hist_slices *into, struct bt_hist_slices *const *from, unsigned n);

// Merges the last window_s whole and current seconds (1..600) into *out, which
// is cleared first. Safe against the writer: a slice reset meanwhile is left out.
void bt_hist_slices_merge(const struct bt_hist_slices *s, uint64_t now_ns, uint32_t window_s, struct bt_hist *out,
                          struct bt_hist_window *window);

#endif
