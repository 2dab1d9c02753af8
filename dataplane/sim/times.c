// SPDX-License-Identifier: Apache-2.0
// An alias table over recorded service times (Walker; built as Vose does): a draw costs the same for three values and
// for a million.
#include "times.h"

#include <stdio.h>
#include <stdlib.h>

#include "buffers.h"
#include "recording.h"
#include "stream.h"

enum { VALUES_MAX = 1 << 24 };

/* What is below its fair share is filled up from what is above, until every cell holds exactly one share. */
static void fill(struct sim_times *t)
{
    uint32_t *below = sim_zeroed(t->n * sizeof *below), *above = sim_zeroed(t->n * sizeof *above);
    size_t poor = 0, rich = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        t->other[i] = i;
        if (t->keep[i] < 1) {
            below[poor++] = i;
        } else {
            above[rich++] = i;
        }
    }
    while (poor > 0 && rich > 0) {
        uint32_t to = below[--poor], from = above[rich - 1];
        t->other[to] = from;
        t->keep[from] -= 1 - t->keep[to];
        if (t->keep[from] < 1) {
            below[poor++] = above[--rich];
        }
    }
    while (poor > 0) { /* rounding left it a hair below */
        t->keep[below[--poor]] = 1;
    }
    free(below);
    free(above);
}

static uint64_t seen(const struct sim_recording *r, size_t i)
{
    return r->count != NULL ? r->count[i] : 1;
}

static int refuse(const char *path, const char *why, char *err, size_t err_n)
{
    snprintf(err, err_n, "%s: %s", path, why);
    return -1;
}

int sim_times_of(const char *path, const struct sim_recording *r, struct sim_times *out, char *err, size_t err_n)
{
    double total = 0, sum = 0;
    if (r->service_ns == NULL) {
        return refuse(path, "has no column serviceMicroseconds", err, err_n);
    }
    if (r->n > VALUES_MAX) {
        return refuse(path, "has more than 16777216 rows; add up equal ones in a column count", err, err_n);
    }
    for (size_t i = 0; i < r->n; i++) {
        total += (double)seen(r, i);
        sum += (double)seen(r, i) * (double)r->service_ns[i];
    }
    if (total <= 0) {
        return refuse(path, "has no row whose count is above 0", err, err_n);
    }
    out->n = r->n;
    out->mean_ns = sum / total;
    out->ns = sim_zeroed(r->n * sizeof *out->ns);
    out->keep = sim_zeroed(r->n * sizeof *out->keep);
    out->other = sim_zeroed(r->n * sizeof *out->other);
    for (size_t i = 0; i < r->n; i++) {
        out->ns[i] = r->service_ns[i];
        out->keep[i] = (double)seen(r, i) * (double)r->n / total;
    }
    fill(out);
    return 0;
}

int sim_times_parse(const char *path, const char *text, size_t n, struct sim_times *out, char *err, size_t err_n)
{
    struct sim_recording r;
    *out = (struct sim_times){0};
    if (sim_recording_parse(path, text, n, &r, err, err_n) != 0) {
        return -1;
    }
    int rc = sim_times_of(path, &r, out, err, err_n);
    sim_recording_free(&r);
    return rc;
}

int sim_times_load(const char *path, struct sim_times *out, char *err, size_t err_n)
{
    struct sim_recording r;
    *out = (struct sim_times){0};
    if (sim_recording_load(path, &r, err, err_n) != 0) {
        return -1;
    }
    int rc = sim_times_of(path, &r, out, err, err_n);
    sim_recording_free(&r);
    return rc;
}

void sim_times_free(struct sim_times *t)
{
    free(t->ns);
    free(t->keep);
    free(t->other);
    *t = (struct sim_times){0};
}

uint64_t sim_times_draw(const struct sim_times *t, struct bt_rng *g)
{
    uint32_t i = sim_below(g, (uint32_t)t->n);
    return t->ns[sim_uniform(g) < t->keep[i] ? i : t->other[i]];
}
