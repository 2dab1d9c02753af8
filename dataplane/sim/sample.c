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
    for (size_t i = 0; i < s->n; i++)
        sum += (long double)s->v[i];
    return s->n > 0 ? (double)(sum / (long double)s->n) : 0;
}

static uint64_t median_of_three(const uint64_t *v, size_t lo, size_t hi)
{
    uint64_t a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi];
    if (a > b) {
        uint64_t t = a;
        a = b;
        b = t;
    }
    return c < a ? a : c > b ? b : c;
}

static uint64_t select_kth(uint64_t *v, size_t n, size_t k)
{
    size_t lo = 0, hi = n - 1;
    while (lo < hi) {
        uint64_t pivot = median_of_three(v, lo, hi);
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

uint64_t sim_samples_percentile(const struct sim_samples *s, double p)
{
    if (s->n == 0)
        return 0;
    size_t rank = (size_t)ceil(p / 100 * (double)s->n);
    if (rank < 1)
        rank = 1;
    if (rank > s->n)
        rank = s->n;
    uint64_t *copy = array_of(s->n);
    memcpy(copy, s->v, s->n * sizeof *copy);
    uint64_t x = select_kth(copy, s->n, rank - 1);
    free(copy);
    return x;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int sim_samples_same_multiset(const struct sim_samples *a, const struct sim_samples *b)
{
    if (a->n != b->n)
        return 0;
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
