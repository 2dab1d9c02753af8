// SPDX-License-Identifier: Apache-2.0
// CSV reader for traces: numbers in named columns, every complaint with line and column.
#include "recording.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 32, LONGEST_NUMBER = 40 };
enum column { COLUMN_UNKNOWN, COLUMN_GAP, COLUMN_TIME, COLUMN_SERVICE, COLUMN_COUNT };

#define US               1e3
#define MICROSECONDS_MAX 1e12

struct reader {
    const char *path, *at, *end;
    size_t line;
    enum column column[COLUMNS_MAX];
    unsigned columns;
    bool has[COLUMN_COUNT + 1];
    double last_us; /* time of the row before */
    double first_us;
    size_t cap;
    struct sim_recording *out;
    char *err;
    size_t err_n;
};

static int complain(const struct reader *r, unsigned column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int complain(const struct reader *r, unsigned column, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(r->err, r->err_n, "%s:%zu:%u: %s", r->path, r->line, column + 1, text);
    return -1;
}

/* Takes one cell; *last tells that the row ends with it. */
static void next_cell(struct reader *r, const char **cell, size_t *n, bool *last)
{
    const char *p = r->at;
    while (p < r->end && *p != ',' && *p != '\n') {
        p++;
    }
    *cell = r->at;
    *n = (size_t)(p - r->at);
    *last = p == r->end || *p == '\n';
    r->at = p < r->end ? p + 1 : p;
    while (*n > 0 && ((*cell)[*n - 1] == '\r' || (*cell)[*n - 1] == ' ')) {
        (*n)--;
    }
    while (*n > 0 && **cell == ' ') {
        (*cell)++;
        (*n)--;
    }
}

static enum column column_of(const char *cell, size_t n)
{
    static const char *const names[] = {NULL, "gapMicroseconds", "timeMicroseconds", "serviceMicroseconds", "count"};
    for (int c = COLUMN_GAP; c <= COLUMN_COUNT; c++) {
        if (strlen(names[c]) == n && memcmp(names[c], cell, n) == 0) {
            return (enum column)c;
        }
    }
    return COLUMN_UNKNOWN;
}

static int read_header(struct reader *r)
{
    bool last = false;
    while (!last) {
        const char *cell;
        size_t n;
        next_cell(r, &cell, &n, &last);
        if (r->columns == COLUMNS_MAX) {
            return complain(r, r->columns, "at most %d columns", COLUMNS_MAX);
        }
        enum column c = column_of(cell, n);
        if (c == COLUMN_UNKNOWN) {
            return complain(r, r->columns,
                            "unknown column %.*s; known: gapMicroseconds, timeMicroseconds, serviceMicroseconds, count",
                            (int)(n < LONGEST_NUMBER ? n : LONGEST_NUMBER), cell);
        }
        if (r->has[c]) {
            return complain(r, r->columns, "this column is named twice");
        }
        r->has[c] = true;
        r->column[r->columns++] = c;
    }
    return 0;
}

/* Columns that go together; bad ones are named. */
static int check_columns(struct reader *r)
{
    bool arrival = r->has[COLUMN_GAP] || r->has[COLUMN_TIME];
    if (r->has[COLUMN_GAP] && r->has[COLUMN_TIME]) {
        return complain(r, 0, "gapMicroseconds and timeMicroseconds say the same; leave one out");
    }
    if (r->has[COLUMN_COUNT] && !r->has[COLUMN_SERVICE]) {
        return complain(r, 0, "count says how often a serviceMicroseconds was seen, and that column is missing");
    }
    if (r->has[COLUMN_COUNT] && arrival) {
        return complain(r, 0, "a row with an arrival is one request; leave out count, or the arrivals");
    }
    if (!arrival && !r->has[COLUMN_SERVICE]) {
        return complain(r, 0,
                        "the first row must name columns: gapMicroseconds or timeMicroseconds, serviceMicroseconds");
    }
    return 0;
}

static int number(const struct reader *r, unsigned column, const char *cell, size_t n, double *out)
{
    const char *unit = r->column[column] == COLUMN_COUNT ? "" : " of microseconds";
    char text[LONGEST_NUMBER + 1], *end = NULL;
    if (n == 0 || n > LONGEST_NUMBER) {
        return complain(r, column, "must be a number%s", unit);
    }
    memcpy(text, cell, n);
    text[n] = '\0';
    *out = strtod(text, &end);
    if (end != text + n || !isfinite(*out) || *out < 0 || *out > MICROSECONDS_MAX) {
        return complain(r, column, "must be a number%s, 0..%g; got %s", unit, MICROSECONDS_MAX, text);
    }
    return 0;
}

static uint64_t *grown(uint64_t *v, size_t cap)
{
    uint64_t *bigger = realloc(v, cap * sizeof *v);
    if (bigger == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory for %zu rows\n", cap);
        abort();
    }
    return bigger;
}

static int make_room(struct reader *r)
{
    struct sim_recording *o = r->out;
    if (o->n < r->cap) {
        return 0;
    }
    if (r->cap >= SIM_RECORDING_ROWS) {
        return complain(r, 0, "at most %d rows", SIM_RECORDING_ROWS);
    }
    r->cap = r->cap > 0 ? 2 * r->cap : 1024;
    if (r->has[COLUMN_GAP] || r->has[COLUMN_TIME]) {
        o->at_ns = grown(o->at_ns, r->cap);
    }
    if (r->has[COLUMN_SERVICE]) {
        o->service_ns = grown(o->service_ns, r->cap);
    }
    if (r->has[COLUMN_COUNT]) {
        o->count = grown(o->count, r->cap);
    }
    return 0;
}

static int take_value(struct reader *r, unsigned i, double us)
{
    struct sim_recording *o = r->out;
    double at = r->column[i] == COLUMN_GAP ? r->last_us + us : us;
    switch (r->column[i]) {
    case COLUMN_GAP: /* the gap of the first row is before anything */
    case COLUMN_TIME:
        if (o->n == 0) {
            r->first_us = at;
        }
        if (o->n > 0 && at < r->last_us) {
            return complain(r, i, "times must rise; %.12g comes after %.12g", at, r->last_us);
        }
        r->last_us = at;
        o->at_ns[o->n] = (uint64_t)((at - r->first_us) * US + 0.5);
        break;
    case COLUMN_SERVICE:
        o->service_ns[o->n] = us * US < 1 ? 1 : (uint64_t)(us * US + 0.5);
        break;
    case COLUMN_COUNT:
        o->count[o->n] = (uint64_t)us;
        if ((double)o->count[o->n] != us) {
            return complain(r, i, "must be a whole number");
        }
        break;
    default:
        break;
    }
    return 0;
}

static int read_row(struct reader *r)
{
    bool last = false;
    unsigned i = 0;
    if (make_room(r) != 0) {
        return -1;
    }
    for (; !last; i++) {
        const char *cell;
        size_t n;
        double us = 0;
        next_cell(r, &cell, &n, &last);
        if (i >= r->columns || (last && i + 1 < r->columns)) {
            return complain(r, i, "this row has not the %u columns of the first", r->columns);
        }
        if (number(r, i, cell, n, &us) != 0 || take_value(r, i, us) != 0) {
            return -1;
        }
    }
    r->out->n++;
    return 0;
}

int sim_recording_parse(const char *path, const char *text, size_t n, struct sim_recording *out, char *err,
                        size_t err_n)
{
    struct reader r = {.path = path, .at = text, .end = text + n, .line = 1, .out = out, .err = err, .err_n = err_n};
    *out = (struct sim_recording){0};
    int rc = n > 0 ? read_header(&r) : complain(&r, 0, "is empty");
    rc = rc == 0 ? check_columns(&r) : rc;
    while (rc == 0 && r.at < r.end) {
        r.line++;
        rc = *r.at == '\n' ? (r.at++, 0) : read_row(&r);
    }
    if (rc == 0 && out->n == 0) {
        rc = complain(&r, 0, "has no rows");
    }
    if (rc != 0) {
        sim_recording_free(out);
    }
    return rc;
}

int sim_recording_load(const char *path, struct sim_recording *out, char *err, size_t err_n)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, cap = 0;
    int rc = -1;
    *out = (struct sim_recording){0};
    while (f != NULL) {
        if (n == cap) {
            cap = cap > 0 ? 2 * cap : 1 << 16;
            text = (char *)grown((uint64_t *)(void *)text, cap / sizeof(uint64_t));
        }
        size_t got = fread(text + n, 1, cap - n, f);
        n += got;
        if (got == 0) {
            break;
        }
    }
    if (f == NULL || ferror(f)) {
        snprintf(err, err_n, "%s: %s", path, strerror(errno));
    } else {
        rc = sim_recording_parse(path, text, n, out, err, err_n);
    }
    if (f != NULL) {
        fclose(f);
    }
    free(text);
    return rc;
}

void sim_recording_free(struct sim_recording *r)
{
    free(r->at_ns);
    free(r->service_ns);
    free(r->count);
    *r = (struct sim_recording){0};
}
