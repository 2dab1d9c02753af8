// SPDX-License-Identifier: Apache-2.0
// The answers of `bobtail-sim policy` as a table, JSON and CSV.
#include <math.h>
#include <string.h>

#include "option.h"
#include "policy_command.h"

enum { NAME = 24 };

static void table(FILE *f, const struct sim_policy_row *row, uint32_t n)
{
    double wall = 0, requests = 0;
    fprintf(f, "%-14s %6s %12s %12s %7s %9s %9s %9s %9s %9s %9s %8s\n", "policy", "load", "offered/s", "achieved/s",
            "share", "mean us", "p50 us", "p99 us", "+-95%", "p99.9 us", "dropped", "held max");
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_policy_result *r = &row[i].r;
        char name[NAME];
        sim_policy_choice_name(&row[i].choice, name, sizeof name);
        fprintf(f, "%-14s %6.3f %12.0f %12.0f %7.4f %9.3f %9.3f %9.3f %9.3f %9.3f %9llu %8llu\n", name, row[i].load,
                r->offered_rps, r->achieved_rps, r->throughput, r->mean_ns / 1e3, r->p50_ns / 1e3, r->p99_ns / 1e3,
                r->p99_error_ns / 1e3, r->p999_ns / 1e3, (unsigned long long)r->counts.dropped,
                (unsigned long long)r->counts.most_held);
        wall += r->wall_seconds;
        requests += (double)(r->measured + r->counts.dropped);
    }
    fprintf(f, "%.2f million RPCs per second and core\n", wall > 0 ? requests / wall / 1e6 : 0);
}

void sim_policy_print(FILE *f, const struct sim_policy_ask *a, const struct sim_policy_row *row, uint32_t n)
{
    char name[NAME];
    fprintf(f, "%u workers, %s service of %g us, path %s, %llu requests from seed %llu, %u seed(s)\n", a->base.workers,
            sim_dist_name(a->base.service.kind), a->base.service.mean_ns / 1e3, a->path_name,
            (unsigned long long)a->base.requests, (unsigned long long)a->base.seed, a->seeds);
    if (a->question == SIM_POLICY_TABLE) {
        table(f, row, n);
        return;
    }
    if (a->question == SIM_POLICY_SLO) {
        fprintf(f, "%-14s highest load with p%g <= %g us   +-95%%   single queue's    share   +-95%%\n", "policy",
                a->percentile, a->slo_us);
    } else {
        fprintf(f, "%-14s %12s  fewest workers with p%g <= %g us\n", "policy", "requests/s", a->percentile, a->slo_us);
    }
    for (uint32_t i = 0; i < n; i++) {
        sim_policy_choice_name(&row[i].choice, name, sizeof name);
        if (a->question == SIM_POLICY_SLO) {
            fprintf(f, "%-14s %35.4f  %6.4f  %14.4f   %6.4f  %6.4f\n", name, row[i].slo_load, row[i].slo_load_error,
                    row[i].central_load, row[i].share_of_central, row[i].share_error);
        } else if (row[i].least_workers > 0) {
            fprintf(f, "%-14s %12.0f  %u\n", name, row[i].rate, row[i].least_workers);
        } else {
            fprintf(f, "%-14s %12.0f  more than %d\n", name, row[i].rate, SIM_POLICY_WORKERS_MAX);
        }
    }
}

/* One figure of a row under its name; units stand in the names. */
struct figure {
    const char *name;
    double value;
};

static size_t figures_of(const struct sim_policy_ask *a, const struct sim_policy_row *w, struct figure *out)
{
    const struct sim_policy_result *r = &w->r;
    const struct figure table_row[] = {
        {"load", w->load},
        {"offered_rps", r->offered_rps},
        {"achieved_rps", r->achieved_rps},
        {"throughput", r->throughput},
        {"mean_us", r->mean_ns / 1e3},
        {"p50_us", r->p50_ns / 1e3},
        {"p99_us", r->p99_ns / 1e3},
        {"p99_error_us", r->p99_error_ns / 1e3},
        {"p999_us", r->p999_ns / 1e3},
        {"measured", (double)r->measured},
        {"dropped", (double)r->counts.dropped},
        {"held", (double)r->counts.held},
        {"most_held", (double)r->counts.most_held},
        {"most_outstanding", (double)r->counts.most_outstanding},
        {"passes", (double)r->counts.passes},
        {"stolen", (double)r->counts.stolen},
        {"wall_seconds", r->wall_seconds},
    };
    const struct figure slo_row[] = {
        {"slo_load", w->slo_load},         {"slo_load_error", w->slo_load_error},
        {"central_load", w->central_load}, {"share_of_central", w->share_of_central},
        {"share_error", w->share_error},
    };
    const struct figure plan_row[] = {{"rate", w->rate}, {"least_workers", w->least_workers}};
    const struct figure *from = a->question == SIM_POLICY_TABLE ? table_row
                                : a->question == SIM_POLICY_SLO ? slo_row
                                                                : plan_row;
    size_t bytes = a->question == SIM_POLICY_TABLE ? sizeof table_row
                   : a->question == SIM_POLICY_SLO ? sizeof slo_row
                                                   : sizeof plan_row;
    memcpy(out, from, bytes);
    return bytes / sizeof *out;
}

static void value(FILE *f, double v, const char *none)
{
    if (isfinite(v)) {
        fprintf(f, "%.9g", v);
    } else {
        fputs(none, f);
    }
}

static void json(FILE *f, const struct sim_policy_ask *a, const struct sim_policy_row *row, uint32_t n)
{
    const struct sim_policy_path *p = &a->base.path;
    fprintf(f,
            "{\"workers\": %u, \"distribution\": \"%s\", \"mean_us\": %g, \"overhead_us\": %g, \"requests\": %llu,\n"
            " \"seed\": %llu, \"seeds\": %u, \"slo_us\": %g, \"percentile\": %g, \"path\": \"%s\",\n"
            " \"client_router_us\": %g, \"dispatch_us\": %g, \"feedback_us\": %g, \"reply_us\": %g,\n"
            " \"client_server_us\": %g, \"confirm_us\": %g, \"router_cost_ns\": %llu,\n \"rows\": [",
            a->base.workers, sim_dist_name(a->base.service.kind), a->base.service.mean_ns / 1e3,
            (double)a->base.overhead_ns / 1e3, (unsigned long long)a->base.requests, (unsigned long long)a->base.seed,
            a->seeds, a->slo_us, a->percentile, a->path_name, (double)p->client_router_ns / 1e3,
            (double)p->dispatch_ns / 1e3, (double)p->feedback_ns / 1e3, (double)p->reply_ns / 1e3,
            (double)p->client_server_ns / 1e3, (double)p->confirm_ns / 1e3, (unsigned long long)p->router_ns);
    for (uint32_t i = 0; i < n; i++) {
        struct figure figure[24];
        char name[NAME];
        size_t many = figures_of(a, &row[i], figure);
        sim_policy_choice_name(&row[i].choice, name, sizeof name);
        fprintf(f, "%s\n  {\"policy\": \"%s\"", i > 0 ? "," : "", name);
        for (size_t k = 0; k < many; k++) {
            fprintf(f, ", \"%s\": ", figure[k].name);
            value(f, figure[k].value, "null");
        }
        fputs("}", f);
    }
    fputs("\n]}\n", f);
}

static void csv(FILE *f, const struct sim_policy_ask *a, const struct sim_policy_row *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct figure figure[24];
        char name[NAME];
        size_t many = figures_of(a, &row[i], figure);
        if (i == 0) {
            fputs("policy", f);
            for (size_t k = 0; k < many; k++) {
                fprintf(f, ",%s", figure[k].name);
            }
            fputs("\n", f);
        }
        sim_policy_choice_name(&row[i].choice, name, sizeof name);
        fputs(name, f);
        for (size_t k = 0; k < many; k++) {
            fputs(",", f);
            value(f, figure[k].value, "");
        }
        fputs("\n", f);
    }
}

typedef void writer(FILE *, const struct sim_policy_ask *, const struct sim_policy_row *, uint32_t);

static int write_file(const char *option, const char *path, writer *put, const struct sim_policy_ask *a,
                      const struct sim_policy_row *row, uint32_t n)
{
    if (path == NULL) {
        return 0;
    }
    FILE *f = sim_option_open(option, path);
    put(f, a, row, n);
    return sim_option_close(option, path, f);
}

int sim_policy_write(const struct sim_policy_ask *a, const struct sim_policy_row *row, uint32_t n)
{
    int bad = write_file("--json", a->json, json, a, row, n);
    return write_file("--csv", a->csv, csv, a, row, n) | bad;
}
