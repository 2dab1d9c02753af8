// SPDX-License-Identifier: Apache-2.0
// See option.h.
#include "option.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

static double number(const char *option, const char *text, size_t len, double least, double most)
{
    char copy[40], *end = copy;
    if (len > 0 && len < sizeof copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        errno = 0;
        double v = strtod(copy, &end);
        if (errno == 0 && *end == '\0' && v >= least && v <= most) {
            return v;
        }
    }
    fprintf(stderr, "bobtail-sim: %s must be %g..%g; got %.*s\n", option, least, most, (int)len, text);
    exit(2);
}

double sim_option_number(const char *option, const char *text, double least, double most)
{
    return number(option, text, strlen(text), least, most);
}

uint64_t sim_option_whole(const char *option, const char *text, double least, double most)
{
    double v = sim_option_number(option, text, least, most);
    if (v != floor(v)) {
        fprintf(stderr, "bobtail-sim: %s must be a whole number; got %s\n", option, text);
        exit(2);
    }
    return (uint64_t)v;
}

uint32_t sim_option_list(const char *option, const char *text, double least, double most, double *out, uint32_t max)
{
    for (uint32_t n = 0;; text++) {
        size_t len = strcspn(text, ",");
        if (n == max) {
            fprintf(stderr, "bobtail-sim: %s takes at most %u numbers\n", option, max);
            exit(2);
        }
        out[n++] = number(option, text, len, least, most);
        text += len;
        if (*text == '\0') {
            return n;
        }
    }
}

uint32_t sim_option_named(const char *option, const char *text, const char *(*name_of)(uint32_t), uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(name_of(i), text) == 0) {
            return i;
        }
    }
    fprintf(stderr, "bobtail-sim: %s must be ", option);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(stderr, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", name_of(i));
    }
    fprintf(stderr, "; got %s\n", text);
    exit(2);
}

const char *sim_option_dist(uint32_t i)
{
    _Static_assert(SIM_DIST_TRACE + 1 == SIM_DIST_KINDS, "the others are all those before it");
    return sim_dist_name((enum sim_dist_kind)i);
}

static void cannot_write(const char *option, const char *path)
{
    fprintf(stderr, "bobtail-sim: %s=%s: %s\n", option, path, strerror(errno));
}

FILE *sim_option_open(const char *option, const char *path)
{
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        cannot_write(option, path);
        exit(2);
    }
    return f;
}

int sim_option_close(const char *option, const char *path, FILE *f)
{
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) {
        cannot_write(option, path);
    } else {
        return 0;
    }
    return 2;
}
