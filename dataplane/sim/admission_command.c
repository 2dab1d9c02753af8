// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim admission`: one load step pattern through admission control, printed and as JSON.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission_model.h"
#include "commands.h"
#include "option.h"
#include "options.h"
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

static const char *controller_name(uint32_t i)
{
    return i < BT_CONTROLLERS ? bt_controller_words[i] : "Off";
}

static const char *policy_name(uint32_t i)
{
    return bt_balancers[i].name;
}

static void read_controller(void *to, const char *option, const char *text)
{
    struct sim_admission_model *m = to;
    uint32_t i = sim_option_named(option, text, controller_name, BT_CONTROLLERS + 1);
    m->admission.mode = i == BT_CONTROLLERS ? BT_ADMISSION_OBSERVE : BT_ADMISSION_REJECT;
    m->admission.controller = i == BT_CONTROLLERS ? BT_CONTROL_TRACK : (enum bt_admission_controller)i;
}

static void read_mix(void *to, const char *option, const char *text)
{
    double *mix = to;
    double sum = 0;
    memset(mix, 0, BT_ADMISSION_CLASSES * sizeof *mix);
    sim_option_list(option, text, 0, 1, mix, BT_ADMISSION_CLASSES);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        sum += mix[c];
    }
    if (fabs(sum - 1) > 1e-6) {
        fprintf(stderr, "bobtail-sim: %s must add up to 1; got %g\n", option, sum);
        exit(2);
    }
}

static void read_percentile(void *to, const char *option, const char *text)
{
    *(uint32_t *)to = (uint32_t)lround(sim_option_number(option, text, 50, 99.99) * 1000);
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

/* -1: a is what the command line says; else the exit code. */
static int read_command(struct ask *a, int argc, char **argv)
{
    struct sim_admission_model *m = &a->m;
    const struct sim_option rows[] = {
        {"controller", SIM_OPTION_OTHER, m, .read = read_controller},
        {"policy", SIM_OPTION_NAME, &m->policy, .max = BT_ROUTER_POLICIES, .name_of = policy_name},
        {"n", SIM_OPTION_U32, &m->depth, .least = 1, .most = 64},
        {"workers", SIM_OPTION_U32, &m->workers, .least = 1, .most = 1024},
        {"distribution", SIM_OPTION_NAME, &m->service.kind, .max = SIM_DIST_ERLANG, .name_of = sim_option_dist},
        {"mean", SIM_OPTION_NUMBER, &m->service.mean_ns, .least = 0.01, .most = 1e7, .unit = 1e3},
        {"slo", SIM_OPTION_TIME, &m->admission.slo_ns, .least = 1, .most = 1e8, .unit = 1e3},
        {"percentile", SIM_OPTION_OTHER, &m->admission.per_100k, .read = read_percentile},
        {"rates", SIM_OPTION_LIST, m->rate, .least = 1, .most = 1e9, .max = SIM_ADMISSION_STEPS_MAX,
         .count = &m->steps},
        {"mix", SIM_OPTION_OTHER, m->mix, .read = read_mix},
        {"seconds", SIM_OPTION_TIME, &m->step_ns, .least = 0, .most = 3600, .unit = 1e9},
        {"settle", SIM_OPTION_TIME, &m->settle_ns, .least = 0, .most = 3600, .unit = 1e9},
        {"window", SIM_OPTION_TIME, &m->window_ns, .least = 0, .most = 3600, .unit = 1e9},
        {"pause", SIM_OPTION_TIME, &m->pause_ns, .least = 0, .most = 1e6, .unit = 1e6},
        {"pause-every", SIM_OPTION_TIME, &m->pause_every_ns, .least = 1e-3, .most = 3600, .unit = 1e9},
        {"above", SIM_OPTION_NUMBER, &a->above, .least = 0, .most = 1e9},
        {"seed", SIM_OPTION_U64, &m->seed, .least = 1, .most = 9e15},
        SIM_TEXT("json", &a->json),
    };
    return sim_options_only(SIM_OPTIONS("admission", usage_text, rows), argc, argv);
}

int sim_command_admission(int argc, char **argv)
{
    struct ask a = {.above = 0};
    sim_admission_defaults(&a.m);
    a.m.pause_every_ns = 2000000000u; // as the usage says
    int code = read_command(&a, argc, argv);
    if (code >= 0) {
        return code;
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
    code = a.json != NULL ? write_json(&a, r, all, oscillation) : 0;
    free(r);
    free(all);
    return code;
}
