// SPDX-License-Identifier: Apache-2.0
// The plain (single-threaded, mergeable) form of the ll7 histogram.
#include "base/histogram.h"

#include <string.h>

uint64_t bt_hist_value(uint32_t index)
{
    if (index == 0) {
        return 1023;
    }
    if (index >= BT_HIST_OVERFLOW) {
        return 1ull << 37;
    }
    uint32_t e = 10 + (index - 1) / 128, step = (index - 1) % 128;
    return ((uint64_t)(128 + step + 1) << (e - 7)) - 1;
}

void bt_hist_clear(struct bt_hist *h)
{
    memset(h, 0, sizeof *h);
}

void bt_hist_record(struct bt_hist *h, uint64_t ns)
{
    h->total++;
    h->sum_ns += ns;
    h->bucket[bt_hist_index(ns)]++;
}

void bt_hist_record_inf(struct bt_hist *h, uint64_t n)
{
    h->total += n;
    h->inf += n;
}

void bt_hist_merge(struct bt_hist *into, const struct bt_hist *from)
{
    into->total += from->total;
    into->inf += from->inf;
    into->sum_ns += from->sum_ns;
    for (uint32_t i = 0; i < BT_HIST_BUCKETS; i++) {
        into->bucket[i] += from->bucket[i];
    }
}

// ceil(total * per_100k / 100000) without overflow of the product.
static uint64_t rank_of(uint64_t total, uint32_t per_100k)
{
    uint64_t whole = total / 100000, rest = total % 100000;
    return whole * per_100k + (rest * per_100k + 99999) / 100000;
}

uint64_t bt_hist_percentile(const struct bt_hist *h, uint32_t per_100k)
{
    if (h->total == 0) {
        return 0;
    }
    uint64_t want = rank_of(h->total, per_100k), seen = 0;
    if (want == 0) {
        want = 1;
    }
    for (uint32_t i = 0; i < BT_HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= want) {
            return bt_hist_value(i);
        }
    }
    return BT_HIST_INF;
}
