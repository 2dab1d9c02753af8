// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim run`: one scenario, one seed, everything printed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "option.h"
#include "report.h"

double sim_wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Is `name` in the comma-separated list? */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p != NULL && *p != '\0'; p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Is a fault, an event or the garbage to stay? */
static bool stays(const struct sim_options *o, const char *name)
{
    return (o->only_faults == NULL || listed(o->only_faults, name)) && !listed(o->without, name);
}

int sim_prepare(const struct sim_options *o, const struct sim_template *t, uint64_t seed, struct sim_scenario *s)
{
    char err[1000];
    if (sim_template_draw(t, seed, s, err, sizeof err) != 0) {
        fprintf(stderr, "bobtail-sim: %s\n", err);
        return -1;
    }
    if (o->requests > 0) {
        s->requests = o->requests;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->faults_n; i++) {
        if (stays(o, s->fault[i].name)) {
            s->fault[kept++] = s->fault[i];
        }
    }
    s->faults_n = kept;
    kept = 0;
    for (uint32_t i = 0; i < s->events_n; i++) {
        char name[32];
        snprintf(name, sizeof name, "event%u", s->event[i].number);
        if (stays(o, name)) {
            s->event[kept++] = s->event[i];
        }
    }
    s->events_n = kept;
    if (!stays(o, "garbage")) {
        s->garbage_per_second = 0;
    }
    if (!stays(o, "halfOpen")) {
        s->half_open_sources = 0;
    }
    return 0;
}

static int write_json(const char *path, const struct sim_scenario *s, const struct sim_result *r)
{
    FILE *f = sim_option_open("--json", path);
    sim_json_run(f, s, r);
    return sim_option_close("--json", path, f);
}

int sim_command_run(const struct sim_options *o)
{
    char err[1000];
    struct sim_measures m;
    struct sim_template *t = sim_template_load(o->file[0], err, sizeof err);
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    int code = 2;
    if (s == NULL || r == NULL) {
        abort();
    }
    if (t == NULL) {
        fprintf(stderr, "bobtail-sim: %s\n", err);
    } else if (sim_prepare(o, t, o->seed, s) == 0 && sim_measures_open(&m, o->measurements) == 0) {
        double from = sim_wall_seconds();
        sim_run(s, r, NULL);
        r->wall_seconds = sim_wall_seconds() - from;
        sim_judge_expectations(s, r);
        sim_print_run(stdout, s, r);
        code = sim_broken(&r->verdict) > 0;
        sim_measure(&m, "seed", (double)r->seed, "seed");
        sim_measure(&m, "sim_faults_realised", (double)sim_faults_total(&r->seen), "count");
        sim_measure(&m, "invariants_broken", sim_broken(&r->verdict), "count");
        if (s->half_open_sources > 0) { /* what it cost others */
            double single = sim_measure_value(s, r, "singleAnswered"), multi = sim_measure_value(s, r, "multiAnswered");
            sim_measure(&m, "halfopen_legit_answered_share", single < multi ? single : multi, "ratio");
        }
        if (sim_measures_close(&m) != 0) {
            code = 2;
        }
        if (o->json != NULL && write_json(o->json, s, r) != 0) {
            code = 2;
        }
    }
    free(s);
    free(r);
    sim_template_free(t);
    return code;
}
