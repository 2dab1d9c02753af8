// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim admission`: one load step pattern through admission control, printed and as JSON.
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission_model.h"
#include "commands.h"
#include "router/policy.h"

static const char usage_text[] =
    "usage: bobtail-sim admission [options]\n"
    "\n"
    "Admission control (SVEN) in front of a load-balancing policy, without packets: the load goes up in steps.\n"
    "\n"
    "  --controller=NAME     Track, AIAD or Off (default Track)\n"
    "  --policy=NAME         JBSQ, JSQ, PowerOfTwo, RoundRobin, Random (default Random)\n"
    "  --n=N                 JBSQ's (default 3)\n"
    "  --workers=K           1..1024 (default 16)\n"
    "  --distribution=NAME   deterministic, exponential, bimodal1, bimodal10, ... (default exponential)\n"
    "  --mean=US             mean service time (default 10)\n"
    "  --slo=US              objective (default 300)\n"
    "  --percentile=P        of it, 50..99.99 (default 99)\n"
    "  --rates=LIST          requests per second of the steps (default 1e6,1.2e6,1.4e6,1.6e6,1.8e6)\n"
    "  --mix=LIST            shares of the classes 0, 1, 2, ... (default 1: all of class 0)\n"
    "  --seconds=S           of a step (default 10); --settle=S: left out at its beginning (default 2)\n"
    "  --window=S            of the series (default 1)\n"
    "  --above=RATE          the summary is over steps above it (default 0: all)\n"
    "  --seed=N --json=FILE\n";

struct ask {
    struct sim_admission_model m;
    double above;
    const char *json;
};

static const struct option long_options[] = {
    {"controller", required_argument, NULL, 'c'},
    {"policy", required_argument, NULL, 'p'},
    {"n", required_argument, NULL, 'n'},
    {"workers", required_argument, NULL, 'k'},
    {"distribution", required_argument, NULL, 'd'},
    {"mean", required_argument, NULL, 'm'},
    {"slo", required_argument, NULL, 'o'},
    {"percentile", required_argument, NULL, 'q'},
    {"rates", required_argument, NULL, 'r'},
    {"mix", required_argument, NULL, 'x'},
    {"seconds", required_argument, NULL, 't'},
    {"settle", required_argument, NULL, 'e'},
    {"window", required_argument, NULL, 'w'},
    {"above", required_argument, NULL, 'a'},
    {"seed", required_argument, NULL, 's'},
    {"json", required_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static double number(const char *text, double least, double most)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(v >= least && v <= most)) {
        fprintf(stderr, "bobtail-sim: must be %g..%g; got %s\n", least, most, text);
        exit(2);
    }
    return v;
}

/* Numbers with commas between them; returns how many. */
static uint32_t list(char *text, double *out, uint32_t most)
{
    uint32_t n = 0;
    for (char *save, *item = strtok_r(text, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        if (n == most) {
            fprintf(stderr, "bobtail-sim: at most %u numbers\n", most);
            exit(2);
        }
        out[n++] = number(item, 0, 1e9);
    }
    return n;
}

static uint32_t named(const char *what, const char *name, const char *(*name_of)(uint32_t), uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(name_of(i), name) == 0)
            return i;
    }
    fprintf(stderr, "bobtail-sim: unknown %s %s; see bobtail-sim admission --help\n", what, name);
    exit(2);
}

static const char *controller_name(uint32_t i)
{
    static const char *const names[] = {"Track", "AIAD", "Off"};
    return names[i];
}

static const char *policy_name(uint32_t i)
{
    return bt_balancers[i].name;
}

static const char *dist_name(uint32_t i)
{
    return sim_dist_name((enum sim_dist_kind)i);
}

static void take_controller(struct sim_admission_model *m, const char *name)
{
    uint32_t i = named("controller", name, controller_name, BT_CONTROLLERS + 1);
    m->admission.mode = i == BT_CONTROLLERS ? BT_ADMISSION_OBSERVE : BT_ADMISSION_REJECT;
    m->admission.controller = i == BT_CONTROLLERS ? BT_CONTROL_TRACK : (enum bt_admission_controller)i;
}

static void take_mix(struct sim_admission_model *m, char *text)
{
    double sum = 0;
    memset(m->mix, 0, sizeof m->mix);
    list(text, m->mix, BT_ADMISSION_CLASSES);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++)
        sum += m->mix[c];
    if (fabs(sum - 1) > 1e-6) {
        fprintf(stderr, "bobtail-sim: --mix must add up to 1; got %g\n", sum);
        exit(2);
    }
}

static void take_time(struct sim_admission_model *m, int c, const char *text)
{
    uint64_t ns = (uint64_t)(number(text, 0, 3600) * 1e9);
    if (c == 't')
        m->step_ns = ns;
    else if (c == 'e')
        m->settle_ns = ns;
    else
        m->window_ns = ns;
}

static bool take(struct ask *a, int c)
{
    struct sim_admission_model *m = &a->m;
    switch (c) {
    case 'c':
        take_controller(m, optarg);
        return true;
    case 'p':
        m->policy = named("policy", optarg, policy_name, BT_ROUTER_POLICIES);
        return true;
    case 'n':
        m->depth = (uint32_t)number(optarg, 1, 64);
        return true;
    case 'k':
        m->workers = (uint32_t)number(optarg, 1, 1024);
        return true;
    case 'd':
        m->service.kind = (enum sim_dist_kind)named("distribution", optarg, dist_name, SIM_DIST_TRACE);
        return true;
    case 'm':
        m->service.mean_ns = number(optarg, 0.01, 1e7) * 1e3;
        return true;
    case 'o':
        m->admission.slo_ns = (uint64_t)(number(optarg, 1, 1e8) * 1e3);
        return true;
    case 'q':
        m->admission.per_100k = (uint32_t)lround(number(optarg, 50, 99.99) * 1000);
        return true;
    case 'r':
        m->steps = list(optarg, m->rate, SIM_ADMISSION_STEPS_MAX);
        return true;
    case 'x':
        take_mix(m, optarg);
        return true;
    case 't':
    case 'e':
    case 'w':
        take_time(m, c, optarg);
        return true;
    case 'a':
        a->above = number(optarg, 0, 1e9);
        return true;
    case 's':
        m->seed = (uint64_t)number(optarg, 1, 9e15);
        return true;
    case 'j':
        a->json = optarg;
        return true;
    default:
        return false;
    }
}

static double p_over_slo(const struct sim_admission_model *m, const struct sim_admission_part *p)
{
    return (double)bt_hist_percentile(&p->latency, m->admission.per_100k) / (double)m->admission.slo_ns;
}

static double per_second(uint64_t n, const struct sim_admission_part *p)
{
    return p->span_ns > 0 ? (double)n * 1e9 / (double)p->span_ns : 0;
}

static double share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

static void print_part(FILE *f, const struct sim_admission_model *m, const struct sim_admission_part *p)
{
    fprintf(f, "%12.0f %12.0f %12.0f %9.4f %9.4f\n", p->rate, per_second(p->latency.total, p), per_second(p->within, p),
            share(p->refused, p->arrived), p_over_slo(m, p));
}

static void json_part(FILE *f, const struct sim_admission_model *m, const struct sim_admission_part *p)
{
    fprintf(
        f, "{\"rate\": %.9g, \"answered_rps\": %.9g, \"good_rps\": %.9g, \"refused_share\": %.9g, \"p_over_slo\": %.9g",
        p->rate, per_second(p->latency.total, p), per_second(p->within, p), share(p->refused, p->arrived),
        p_over_slo(m, p));
    fputs(", \"refused_by_class\": [", f);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++)
        fprintf(f, "%s%.9g", c > 0 ? ", " : "", share(p->refused_class[c], p->arrived_class[c]));
    fputs("]}", f);
}

static int write_json(const struct ask *a, const struct sim_admission_result *r, const struct sim_admission_part *all,
                      double oscillation)
{
    FILE *f = fopen(a->json, "w");
    if (f == NULL) {
        fprintf(stderr, "bobtail-sim: cannot write %s: %s\n", a->json, strerror(errno));
        return 2;
    }
    fprintf(f, "{\"requests\": %llu, \"decisions\": %llu, \"oscillation_share\": %.9g,\n \"all\": ",
            (unsigned long long)r->requests, (unsigned long long)r->decisions, oscillation);
    json_part(f, &a->m, all);
    fputs(",\n \"steps\": [", f);
    for (uint32_t i = 0; i < a->m.steps; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", f);
        json_part(f, &a->m, &r->step[i]);
    }
    fputs("],\n \"series\": [", f);
    for (uint32_t i = 0; i < r->windows; i++) {
        const struct sim_admission_window *w = &r->window[i];
        fprintf(
            f,
            "%s{\"at\": %.9g, \"offered_rps\": %.9g, \"answered_rps\": %.9g, \"p_us\": %.9g, \"refused_share\": %.9g}",
            i > 0 ? ",\n  " : "\n  ", w->at, w->offered, w->answered, w->p_ns / 1e3, w->refused_share);
    }
    fputs("]}\n", f);
    return fclose(f) == 0 ? 0 : 2;
}

static void print_all(const struct ask *a, const struct sim_admission_result *r, const struct sim_admission_part *all,
                      double oscillation)
{
    const struct sim_admission_model *m = &a->m;
    printf("%u workers, %s service of %g us, policy %s, p%g <= %g us, seed %llu\n", m->workers,
           sim_dist_name(m->service.kind), m->service.mean_ns / 1e3, bt_balancers[m->policy].name,
           m->admission.per_100k / 1e3, (double)m->admission.slo_ns / 1e3, (unsigned long long)m->seed);
    printf("%12s %12s %12s %9s %9s\n", "offered/s", "answered/s", "in time/s", "refused", "p/SLO");
    for (uint32_t i = 0; i < m->steps; i++)
        print_part(stdout, m, &r->step[i]);
    printf("steps above %g/s, merged:\n", a->above);
    print_part(stdout, m, all);
    printf("largest distance of a window from its step's mean: %.4f of the SLO; %llu decisions, %llu requests\n",
           oscillation, (unsigned long long)r->decisions, (unsigned long long)r->requests);
}

int sim_command_admission(int argc, char **argv)
{
    struct ask a = {.above = 0};
    sim_admission_defaults(&a.m);
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!take(&a, c)) {
            fputs(usage_text, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    const char *why = optind < argc ? "takes options only" : sim_admission_refuse(&a.m);
    if (why != NULL) {
        fprintf(stderr, "bobtail-sim: %s\n", why);
        return 2;
    }
    struct sim_admission_result *r = calloc(1, sizeof *r);
    struct sim_admission_part *all = calloc(1, sizeof *all);
    if (r == NULL || all == NULL)
        abort();
    sim_admission_run(&a.m, r);
    sim_admission_merge(&a.m, r, a.above, all);
    double oscillation = sim_admission_oscillation(&a.m, r, a.above);
    print_all(&a, r, all, oscillation);
    int code = a.json != NULL ? write_json(&a, r, all, oscillation) : 0;
    free(r);
    free(all);
    return code;
}
