// SPDX-License-Identifier: Apache-2.0
// Exact samples: mean, order statistics by quickselect, comparison as multisets.
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t *array_of(size_t n)
{
    uint64_t *v = malloc((n > 0 ? n : 1) * sizeof *v);
    if (v == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory for %zu samples\n", n);
        abort();
    }
    return v;
}

void sim_samples_init(struct sim_samples *s, size_t expect)
{
    s->n = 0;
    s->cap = expect > 64 ? expect : 64;
    s->v = array_of(s->cap);
}

void sim_samples_free(struct sim_samples *s)
{
    free(s->v);
    memset(s, 0, sizeof *s);
}

void sim_samples_add(struct sim_samples *s, uint64_t ns)
{
    if (s->n == s->cap) {
        uint64_t *bigger = array_of(s->cap * 2);
        memcpy(bigger, s->v, s->n * sizeof *bigger);
        free(s->v);
        s->v = bigger;
        s->cap *= 2;
    }
    s->v[s->n++] = ns;
}

double sim_samples_mean(const struct sim_samples *s)
{
    long double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        sum += (long double)s->v[i];
    }
    return s->n > 0 ? (double)(sum / (long double)s->n) : 0;
}

enum { SPREAD = 31 };

/* A value near the k-th smallest of v[lo…hi], from values spread over the whole range: samples of one run are
 * correlated in time, so the ends and the middle alone would often be far off. */
static uint64_t pivot_for(const uint64_t *v, size_t lo, size_t hi, size_t k)
{
    uint64_t spread[SPREAD];
    size_t step = (hi - lo) / SPREAD;
    if (step == 0) {
        return v[lo + (hi - lo) / 2];
    }
    for (size_t i = 0; i < SPREAD; i++) {
        uint64_t x = v[lo + i * step + step / 2];
        size_t at = i;
        for (; at > 0 && spread[at - 1] > x; at--) {
            spread[at] = spread[at - 1];
        }
        spread[at] = x;
    }
    return spread[(k - lo) * (SPREAD - 1) / (hi - lo)];
}

/* The k-th smallest of v[lo…n), k counted from 0 in v; what is before it afterwards is not larger. */
static uint64_t select_kth(uint64_t *v, size_t lo, size_t n, size_t k)
{
    size_t hi = n - 1;
    while (lo < hi) {
        uint64_t pivot = pivot_for(v, lo, hi, k);
        size_t lt = lo, i = lo, gt = hi + 1;
        while (i < gt) { /* three-way: deterministic service gives millions of equal samples */
            uint64_t x = v[i];
            if (x < pivot) {
                v[i++] = v[lt];
                v[lt++] = x;
            } else if (x > pivot) {
                v[i] = v[--gt];
                v[gt] = x;
            } else {
                i++;
            }
        }
        if (k < lt) {
            hi = lt - 1;
        } else if (k >= gt) {
            lo = gt;
        } else {
            return pivot;
        }
    }
    return v[lo];
}

static size_t rank_of(size_t n, double p)
{
    size_t rank = (size_t)ceil(p / 100 * (double)n);
    return rank < 1 ? 0 : rank > n ? n - 1 : rank - 1;
}

void sim_samples_percentiles(const struct sim_samples *s, const double *p, size_t n, uint64_t *out)
{
    uint64_t *copy = array_of(s->n);
    size_t from = 0;
    memcpy(copy, s->v, s->n * sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        size_t k = s->n > 0 ? rank_of(s->n, p[i]) : 0;
        out[i] = s->n > 0 ? select_kth(copy, from, s->n, k) : 0;
        from = k;
    }
    free(copy);
}

uint64_t sim_samples_percentile(const struct sim_samples *s, double p)
{
    uint64_t x;
    sim_samples_percentiles(s, &p, 1, &x);
    return x;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int sim_samples_same_multiset(const struct sim_samples *a, const struct sim_samples *b)
{
    if (a->n != b->n) {
        return 0;
    }
    uint64_t *x = array_of(a->n), *y = array_of(b->n);
    memcpy(x, a->v, a->n * sizeof *x);
    memcpy(y, b->v, b->n * sizeof *y);
    qsort(x, a->n, sizeof *x, by_value);
    qsort(y, b->n, sizeof *y, by_value);
    int same = memcmp(x, y, a->n * sizeof *x) == 0;
    free(x);
    free(y);
    return same;
}
