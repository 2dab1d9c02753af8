// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim admission`: one load step pattern through admission control, printed and as JSON.
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission_model.h"
#include "commands.h"
#include "option.h"
#include "router/policy.h"
#include "router/words.h"

static const char usage_text[] =
    "usage: bobtail-sim admission [options]\n"
    "\n"
    "Admission control (SVEN) in front of a load-balancing policy, without packets: the load goes up in steps.\n"
    "\n"
    "  --controller=NAME     Track, AIAD or Off (default Track)\n"
    "  --policy=NAME         one of" BT_ROUTER_POLICY_WORDS " (default Random)\n"
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
    "  --pause=MS            all workers stand still for so long (default 0: never), every\n"
    "  --pause-every=S       on average (default 2)\n"
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
    {"pause", required_argument, NULL, 'P'},
    {"pause-every", required_argument, NULL, 'E'},
    {"seed", required_argument, NULL, 's'},
    {"json", required_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const char *controller_name(uint32_t i)
{
    return i < BT_CONTROLLERS ? bt_controller_words[i] : "Off";
}

static const char *policy_name(uint32_t i)
{
    return bt_balancers[i].name;
}

static void take_controller(struct sim_admission_model *m, const char *name)
{
    uint32_t i = sim_option_named("--controller", name, controller_name, BT_CONTROLLERS + 1);
    m->admission.mode = i == BT_CONTROLLERS ? BT_ADMISSION_OBSERVE : BT_ADMISSION_REJECT;
    m->admission.controller = i == BT_CONTROLLERS ? BT_CONTROL_TRACK : (enum bt_admission_controller)i;
}

static void take_mix(struct sim_admission_model *m, const char *text)
{
    double sum = 0;
    memset(m->mix, 0, sizeof m->mix);
    sim_option_list("--mix", text, 0, 1, m->mix, BT_ADMISSION_CLASSES);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        sum += m->mix[c];
    }
    if (fabs(sum - 1) > 1e-6) {
        fprintf(stderr, "bobtail-sim: --mix must add up to 1; got %g\n", sum);
        exit(2);
    }
}

static uint64_t seconds(const char *option, const char *text)
{
    return (uint64_t)(sim_option_number(option, text, 0, 3600) * 1e9);
}

static bool take_time(struct sim_admission_model *m, int c)
{
    switch (c) {
    case 't':
        m->step_ns = seconds("--seconds", optarg);
        return true;
    case 'e':
        m->settle_ns = seconds("--settle", optarg);
        return true;
    case 'w':
        m->window_ns = seconds("--window", optarg);
        return true;
    case 'P':
        m->pause_ns = (uint64_t)(sim_option_number("--pause", optarg, 0, 1e6) * 1e6);
        return true;
    case 'E':
        m->pause_every_ns = (uint64_t)(sim_option_number("--pause-every", optarg, 1e-3, 3600) * 1e9);
        return true;
    default:
        return false;
    }
}

static bool take(struct ask *a, int c)
{
    struct sim_admission_model *m = &a->m;
    switch (c) {
    case 'c':
        take_controller(m, optarg);
        return true;
    case 'p':
        m->policy = sim_option_named("--policy", optarg, policy_name, BT_ROUTER_POLICIES);
        return true;
    case 'n':
        m->depth = (uint32_t)sim_option_whole("--n", optarg, 1, 64);
        return true;
    case 'k':
        m->workers = (uint32_t)sim_option_whole("--workers", optarg, 1, 1024);
        return true;
    case 'd':
        m->service.kind =
            (enum sim_dist_kind)sim_option_named("--distribution", optarg, sim_option_dist, SIM_DIST_ERLANG);
        return true;
    case 'm':
        m->service.mean_ns = sim_option_number("--mean", optarg, 0.01, 1e7) * 1e3;
        return true;
    case 'o':
        m->admission.slo_ns = (uint64_t)(sim_option_number("--slo", optarg, 1, 1e8) * 1e3);
        return true;
    case 'q':
        m->admission.per_100k = (uint32_t)lround(sim_option_number("--percentile", optarg, 50, 99.99) * 1000);
        return true;
    case 'r':
        m->steps = sim_option_list("--rates", optarg, 1, 1e9, m->rate, SIM_ADMISSION_STEPS_MAX);
        return true;
    case 'x':
        take_mix(m, optarg);
        return true;
    case 'a':
        a->above = sim_option_number("--above", optarg, 0, 1e9);
        return true;
    case 's':
        m->seed = sim_option_whole("--seed", optarg, 1, 9e15);
        return true;
    case 'j':
        a->json = optarg;
        return true;
    default:
        return take_time(m, c);
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
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        fprintf(f, "%s%.9g", c > 0 ? ", " : "", share(p->refused_class[c], p->arrived_class[c]));
    }
    fputs("]}", f);
}

static int write_json(const struct ask *a, const struct sim_admission_result *r, const struct sim_admission_part *all,
                      double oscillation)
{
    FILE *f = sim_option_open("--json", a->json);
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
    return sim_option_close("--json", a->json, f);
}

static void print_all(const struct ask *a, const struct sim_admission_result *r, const struct sim_admission_part *all,
                      double oscillation)
{
    const struct sim_admission_model *m = &a->m;
    printf("%u workers, %s service of %g us, policy %s, p%g <= %g us, seed %llu\n", m->workers,
           sim_dist_name(m->service.kind), m->service.mean_ns / 1e3, bt_balancers[m->policy].name,
           m->admission.per_100k / 1e3, (double)m->admission.slo_ns / 1e3, (unsigned long long)m->seed);
    printf("%12s %12s %12s %9s %9s\n", "offered/s", "answered/s", "in time/s", "refused", "p/SLO");
    for (uint32_t i = 0; i < m->steps; i++) {
        print_part(stdout, m, &r->step[i]);
    }
    printf("steps above %g/s, merged:\n", a->above);
    print_part(stdout, m, all);
    printf("largest distance of a window from its step's mean: %.4f of the SLO; %llu decisions, %llu requests\n",
           oscillation, (unsigned long long)r->decisions, (unsigned long long)r->requests);
}

int sim_command_admission(int argc, char **argv)
{
    struct ask a = {.above = 0};
    sim_admission_defaults(&a.m);
    a.m.pause_every_ns = 2000000000u; // as the usage says
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!take(&a, c)) {
            fputs(usage_text, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "bobtail-sim: admission takes options only; got %s\n", argv[optind]);
        return 2;
    }
    a.m.pause_every_ns = a.m.pause_ns == 0 ? 0 : a.m.pause_every_ns;
    const char *why = sim_admission_refuse(&a.m);
    if (why != NULL) {
        fprintf(stderr, "bobtail-sim: %s\n", why);
        return 2;
    }
    struct sim_admission_result *r = calloc(1, sizeof *r);
    struct sim_admission_part *all = calloc(1, sizeof *all);
    if (r == NULL || all == NULL) {
        abort();
    }
    sim_admission_run(&a.m, r);
    sim_admission_merge(&a.m, r, a.above, all);
    double oscillation = sim_admission_oscillation(&a.m, r, a.above);
    print_all(&a, r, all, oscillation);
    int code = a.json != NULL ? write_json(&a, r, all, oscillation) : 0;
    free(r);
    free(all);
    return code;
}
