// SPDX-License-Identifier: Apache-2.0
// The last 600 seconds, one slice each. A slice's stamp is its lock: the writer
// zeroes it before it resets the slice, the reader checks it before and after.
// Every store releases and every load of the reader acquires: who sees a value
// of the new second also sees that the stamp has changed.
#include "base/histogram.h"

static uint32_t load32(const _Atomic uint32_t *v)
{
    return atomic_load_explicit(v, memory_order_acquire);
}

static void store32(_Atomic uint32_t *v, uint32_t n)
{
    atomic_store_explicit(v, n, memory_order_release);
}

static void reset(struct bt_hist_slice *c, uint64_t stamp)
{
    atomic_store_explicit(&c->second, 0, memory_order_release);
    uint32_t lo = load32(&c->lo), hi = load32(&c->hi);
    for (uint32_t i = lo; i <= hi && i < BT_HIST_BUCKETS; i++) {
        store32(&c->bucket[i], 0);
    }
    atomic_store_explicit(&c->sum_ns, 0, memory_order_release);
    store32(&c->inf, 0);
    store32(&c->arrived, 0);
    store32(&c->rejected, 0);
    store32(&c->lo, BT_HIST_BUCKETS);
    store32(&c->hi, 0);
    atomic_store_explicit(&c->second, stamp, memory_order_release);
}

struct bt_hist_slice *bt_hist_slices_other(struct bt_hist_slices *s, uint64_t now_ns)
{
    uint64_t second = now_ns / BT_HIST_SLICE_NS;
    struct bt_hist_slice *c = &s->slice[second % BT_HIST_SLICES];
    if (atomic_load_explicit(&c->second, memory_order_relaxed) != second + 1) {
        reset(c, second + 1);
    }
    s->current_from = second * BT_HIST_SLICE_NS;
    s->current = c;
    return c;
}

void bt_hist_slice_widen(struct bt_hist_slice *c, uint64_t value_ns)
{
    uint32_t i = bt_hist_index(value_ns);
    if (i < load32(&c->lo)) {
        store32(&c->lo, i);
    }
    if (i > load32(&c->hi)) {
        store32(&c->hi, i);
    }
}

void bt_hist_slices_init(struct bt_hist_slices *s, uint64_t now_ns)
{
    for (uint32_t i = 0; i < BT_HIST_SLICES; i++) {
        atomic_store_explicit(&s->slice[i].second, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&s->first_second, now_ns / BT_HIST_SLICE_NS + 1, memory_order_release);
    bt_hist_slices_other(s, now_ns);
}

// One slice as read between two looks at its stamp.
struct copy {
    uint64_t sum_ns;
    uint32_t inf, arrived, rejected, lo, hi;
    uint32_t bucket[BT_HIST_BUCKETS];
};

static bool copy_slice(const struct bt_hist_slice *c, uint64_t stamp, struct copy *to)
{
    if (atomic_load_explicit(&c->second, memory_order_acquire) != stamp) {
        return false;
    }
    to->lo = load32(&c->lo);
    to->hi = load32(&c->hi);
    to->inf = load32(&c->inf);
    to->arrived = load32(&c->arrived);
    to->rejected = load32(&c->rejected);
    to->sum_ns = atomic_load_explicit(&c->sum_ns, memory_order_acquire);
    for (uint32_t i = to->lo; i <= to->hi && i < BT_HIST_BUCKETS; i++) {
        to->bucket[i] = load32(&c->bucket[i]);
    }
    return atomic_load_explicit(&c->second, memory_order_relaxed) == stamp;
}

static void add_copy(const struct copy *c, struct bt_hist *out, struct bt_hist_window *w)
{
    for (uint32_t i = c->lo; i <= c->hi && i < BT_HIST_BUCKETS; i++) {
        out->bucket[i] += c->bucket[i];
        out->total += c->bucket[i];
    }
    out->inf += c->inf;
    out->total += c->inf;
    out->sum_ns += c->sum_ns;
    w->arrived += c->arrived;
    w->rejected += c->rejected;
}

void bt_hist_slices_merge(const struct bt_hist_slices *s, uint64_t now_ns, uint32_t window_s, struct bt_hist *out,
                          struct bt_hist_window *window)
{
    bt_hist_clear(out);
    *window = (struct bt_hist_window){0};
    uint64_t second = now_ns / BT_HIST_SLICE_NS, first = atomic_load_explicit(&s->first_second, memory_order_acquire);
    if (first == 0 || window_s == 0) {
        return;
    }
    if (window_s > BT_HIST_SLICES) {
        window_s = BT_HIST_SLICES;
    }
    uint64_t lived = second + 2 > first ? second + 2 - first : 0;
    window->covered_seconds = lived < window_s ? (uint32_t)lived : window_s;
    struct copy c;
    for (uint32_t back = 0; back < window->covered_seconds; back++) {
        uint64_t at = second - back;
        if (copy_slice(&s->slice[at % BT_HIST_SLICES], at + 1, &c)) {
            add_copy(&c, out, window);
        }
    }
}

static void put_copy(struct bt_hist_slice *to, const struct copy *c)
{
    for (uint32_t i = c->lo; i <= c->hi && i < BT_HIST_BUCKETS; i++) {
        store32(&to->bucket[i], load32(&to->bucket[i]) + c->bucket[i]);
    }
    store32(&to->lo, c->lo < load32(&to->lo) ? c->lo : load32(&to->lo));
    store32(&to->hi, c->hi > load32(&to->hi) ? c->hi : load32(&to->hi));
    store32(&to->inf, load32(&to->inf) + c->inf);
    store32(&to->arrived, load32(&to->arrived) + c->arrived);
    store32(&to->rejected, load32(&to->rejected) + c->rejected);
    uint64_t sum = atomic_load_explicit(&to->sum_ns, memory_order_relaxed);
    atomic_store_explicit(&to->sum_ns, sum + c->sum_ns, memory_order_release);
}

void bt_hist_slices_sum(struct bt_hist_slices *into, struct bt_hist_slices *const *from, unsigned n)
{
    struct copy c;
    uint64_t first = 0;
    for (uint32_t i = 0; i < BT_HIST_SLICES; i++) {
        reset(&into->slice[i], 0);
    }
    for (unsigned k = 0; k < n; k++) {
        uint64_t began = atomic_load_explicit(&from[k]->first_second, memory_order_acquire);
        first = first == 0 || (began != 0 && began < first) ? began : first;
        for (uint32_t i = 0; i < BT_HIST_SLICES; i++) {
            uint64_t stamp = atomic_load_explicit(&from[k]->slice[i].second, memory_order_acquire);
            uint64_t there = atomic_load_explicit(&into->slice[i].second, memory_order_relaxed);
            if (stamp == 0 || stamp < there || !copy_slice(&from[k]->slice[i], stamp, &c)) {
                continue;
            }
            if (stamp > there) {
                reset(&into->slice[i], stamp);
            }
            put_copy(&into->slice[i], &c);
        }
    }
    atomic_store_explicit(&into->first_second, first, memory_order_release);
}
