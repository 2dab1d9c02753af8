// SPDX-License-Identifier: Apache-2.0
// See service_time.h.
#include "service_time.h"

#include "shell/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_NS 600e9
enum { FIELDS = 4 };

static bool duration(const char *text, double *ns)
{
    uint64_t v;
    bool ok = text != NULL && bt_duration_parse(text, &v) && (double)v <= LONGEST_NS;
    if (ok) {
        *ns = (double)v;
    }
    return ok;
}

static bool number(const char *text, double low, double high, double *out)
{
    char *end;
    if (text == NULL || *text == '\0') {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0' && *out >= low && *out <= high;
}

static bool parse_fixed(char *const *value, struct service_time *out)
{
    return duration(value[0], &out->mean_ns);
}

static bool parse_bimodal(char *const *value, struct service_time *out)
{
    bool ok = duration(value[0], &out->short_ns) && duration(value[1], &out->long_ns) &&
              number(value[2], 0, 100, &out->long_share);
    out->long_share /= 100;
    return ok;
}

static bool parse_lognormal(char *const *value, struct service_time *out)
{
    return duration(value[0], &out->mean_ns) && number(value[1], 0, 5, &out->sigma);
}

static const struct form {
    const char *name;
    enum service_kind kind;
    unsigned values;
    bool (*parse)(char *const *value, struct service_time *out);
} forms[] = {
    {"fixed", SERVICE_FIXED, 1, parse_fixed},
    {"exp", SERVICE_EXPONENTIAL, 1, parse_fixed},
    {"bimodal", SERVICE_BIMODAL, 3, parse_bimodal},
    {"lognormal", SERVICE_LOGNORMAL, 2, parse_lognormal},
};

bool service_time_parse(const char *text, struct service_time *out)
{
    char copy[128];
    char *field[FIELDS + 1] = {0};
    unsigned n = 0;
    if (strlen(text) >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, strlen(text) + 1);
    for (char *at = copy; at != NULL && n <= FIELDS; n++) {
        field[n] = at;
        at = strchr(at, ':');
        if (at != NULL) {
            *at++ = '\0';
        }
    }
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(field[0], forms[i].name) == 0) {
            out->kind = forms[i].kind;
            return n == 1 + forms[i].values && forms[i].parse(field + 1, out);
        }
    }
    return false;
}

// Standard normal by Box and Muller; one of the pair is thrown away.
static double normal(struct bt_rng *rng)
{
    double u = 1 - bt_rng_unit(rng); // (0, 1]
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * bt_rng_unit(rng));
}

uint64_t service_time_draw(const struct service_time *s, struct bt_rng *rng)
{
    double ns = s->mean_ns;
    switch (s->kind) {
    case SERVICE_FIXED:
        break;
    case SERVICE_EXPONENTIAL:
        ns = -s->mean_ns * log(1 - bt_rng_unit(rng));
        break;
    case SERVICE_BIMODAL:
        ns = bt_rng_unit(rng) < s->long_share ? s->long_ns : s->short_ns;
        break;
    case SERVICE_LOGNORMAL: // the mean of a lognormal is exp(mu + sigma^2/2)
        ns = s->mean_ns > 0 ? exp(log(s->mean_ns) - s->sigma * s->sigma / 2 + s->sigma * normal(rng)) : 0;
        break;
    }
    return ns < LONGEST_NS ? (uint64_t)ns : (uint64_t)LONGEST_NS;
}

bool service_time_is_zero(const struct service_time *s)
{
    return s->mean_ns <= 0 && s->short_ns <= 0 && s->long_ns <= 0;
}
