// SPDX-License-Identifier: Apache-2.0
// Grid results for people, spreadsheets and programs. What has no reply counts as +infinity in every percentile
//
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "grid.h"
#include "report.h"
#include "router/router.h"
#include "router/words.h"

static const char *const outcome_names[SIM_OUTCOMES] = {"pending", "success", "timeout", "dropped", "error", "refused"};

static void us(FILE *f, double ns, const char *format)
{
    if (isinf(ns)) {
        fprintf(f, "%*s", format[1] == '1' ? 11 : 0, "inf");
    } else if (!isnan(ns)) {
        fprintf(f, format, ns / 1e3);
    } else {
        fprintf(f, "%*s", format[1] == '1' ? 11 : 0, "");
    }
}

static double merged(const struct bt_hist *h, uint32_t per_100k)
{
    uint64_t v = bt_hist_percentile(h, per_100k);
    return h->total == 0 ? NAN : v == BT_HIST_INF ? INFINITY : (double)v;
}

/* Runs of one point put together. */
struct total {
    struct bt_hist hist;
    uint64_t measured, outcome[SIM_OUTCOMES], broken, died;
    uint64_t router_counter[BT_ROUTER_COUNTERS];
    double offered, achieved;
};

static void add_up(const struct sim_grid_runs *g, uint32_t first, struct total *t)
{
    *t = (struct total){0};
    for (uint32_t i = first; i < first + g->seeds; i++) {
        const struct sim_grid_run *r = &g->run[i];
        if (g->signals[i] != 0) {
            t->died++;
            continue;
        }
        bt_hist_merge(&t->hist, &r->extras.hist);
        t->measured += r->extras.point.measured;
        for (int k = 0; k < SIM_OUTCOMES; k++) {
            t->outcome[k] += r->extras.point.outcome[k];
        }
        for (int c = 0; c < BT_ROUTER_COUNTERS; c++) {
            t->router_counter[c] += r->result.router_counter[c];
        }
        t->broken += sim_broken(&r->result.verdict);
        t->offered += r->extras.point.offered_rps;
        t->achieved += r->extras.point.achieved_rps;
    }
    double lived = g->seeds - (double)t->died;
    t->offered /= lived > 0 ? lived : 1;
    t->achieved /= lived > 0 ? lived : 1;
}

static int policy_width(void)
{
    size_t width = 0;
    for (uint32_t p = 0; p < BT_ROUTER_POLICIES; p++) {
        size_t n = strlen(bt_router_policy_words[p]);
        width = n > width ? n : width;
    }
    return (int)width;
}

/* Why the routers of each point sent DROP, below the table: the counts fit no column. */
static void drops_by_reason(FILE *f, const struct sim_grid_runs *g, struct total *t)
{
    bool any = false;
    for (uint32_t i = 0; i < g->n; i += g->seeds) {
        const struct sim_grid_run *r = &g->run[i];
        add_up(g, i, t);
        if (bt_router_drops(t->router_counter) == 0) {
            continue;
        }
        if (!any) {
            fputs("dropped by routers, warm-up included:\n", f);
        }
        any = true;
        fprintf(f, "%-*s %3u %7u %6.3g ", policy_width(), bt_router_policy_words[r->policy], r->depth, r->workers,
                r->load);
        sim_print_drops(f, t->router_counter);
    }
}

void sim_grid_table(FILE *f, const struct sim_grid_runs *g)
{
    struct total *t = malloc(sizeof *t);
    if (t == NULL) {
        abort();
    }
    const char *discipline = g->s->discipline != SIM_SERVE_FCFS ? sim_discipline_names[g->s->discipline] : "";
    fprintf(
        f, "%s: %u threads per worker, %s%s%s, %u seed(s) per point; latency in us, unanswered requests are infinite\n",
        g->s->name, g->s->threads, sim_dist_name(g->s->service.kind), *discipline != '\0' ? ", " : "", discipline,
        g->seeds);
    fprintf(f, "%-*s %3s %7s %6s %11s %11s %10s %10s %10s %10s %9s %9s %9s\n", policy_width(), "policy", "n", "workers",
            "load", "offered/s", "achieved/s", "p50", "p99", "p99.9", "answered", "timeouts", "dropped", "errors");
    for (uint32_t i = 0; i < g->n; i += g->seeds) {
        const struct sim_grid_run *r = &g->run[i];
        add_up(g, i, t);
        fprintf(f, "%-*s %3u %7u %6.3g %11.0f %11.0f", policy_width(), bt_router_policy_words[r->policy], r->depth,
                r->workers, r->load, t->offered, t->achieved);
        us(f, merged(&t->hist, 50000), "%11.1f");
        us(f, merged(&t->hist, 99000), "%11.1f");
        us(f, merged(&t->hist, 99900), "%11.1f");
        fprintf(f, " %10llu %9llu %9llu %9llu%s%s\n", (unsigned long long)t->outcome[SIM_SUCCESS],
                (unsigned long long)t->outcome[SIM_TIMEOUT], (unsigned long long)t->outcome[SIM_DROPPED],
                (unsigned long long)(t->outcome[SIM_ERROR] + t->outcome[SIM_REFUSED]),
                t->broken > 0 ? "  INVARIANT BROKEN" : "", t->died > 0 ? "  CRASHED" : "");
    }
    drops_by_reason(f, g, t);
    free(t);
}

static void place_csv(FILE *f, const struct sim_grid_runs *g, const struct sim_grid_run *r)
{
    fprintf(f, "%s,%s,%u,%u,%u,%.9g,%llu", g->s->name, bt_router_policy_words[r->policy], r->depth, r->workers,
            g->s->threads, r->load, (unsigned long long)r->seed);
}

void sim_grid_csv(FILE *f, const struct sim_grid_runs *g)
{
    fputs("scenario,policy,queueDepth,workers,threads,load,seed,measured,offeredPerSecond,achievedPerSecond,"
          "meanMicroseconds,p50Microseconds,p99Microseconds,p999Microseconds,success,timeouts,dropped,errors,refused",
          f);
    for (int c = BT_RC_DROPS_FIRST; c < BT_RC_DROPS_END; c++) {
        fprintf(f, ",dropped_%s", bt_router_counter_descs[c].value);
    }
    fputs(",faults,invariantsBroken\n", f);
    for (uint32_t i = 0; i < g->n; i++) {
        const struct sim_grid_run *r = &g->run[i];
        const struct sim_point *p = &r->extras.point;
        if (g->signals[i] != 0) {
            continue; /* the exit code and the table say so */
        }
        place_csv(f, g, r);
        fprintf(f, ",%llu,%.3f,%.3f,", (unsigned long long)p->measured, p->offered_rps, p->achieved_rps);
        const double values[] = {p->mean_ns, p->p50_ns, p->p99_ns, p->p999_ns};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            us(f, values[k], "%.3f");
            fputc(',', f);
        }
        fprintf(f, "%llu,%llu,%llu,%llu,%llu", (unsigned long long)p->outcome[SIM_SUCCESS],
                (unsigned long long)p->outcome[SIM_TIMEOUT], (unsigned long long)p->outcome[SIM_DROPPED],
                (unsigned long long)p->outcome[SIM_ERROR], (unsigned long long)p->outcome[SIM_REFUSED]);
        for (int c = BT_RC_DROPS_FIRST; c < BT_RC_DROPS_END; c++) {
            fprintf(f, ",%llu", (unsigned long long)r->result.router_counter[c]);
        }
        fprintf(f, ",%llu,%u\n", (unsigned long long)sim_faults_total(&r->result.seen), sim_broken(&r->result.verdict));
    }
}

static void json_us(FILE *f, const char *name, double ns)
{
    if (isfinite(ns)) {
        fprintf(f, ", \"%s\": %.3f", name, ns / 1e3);
    } else {
        fprintf(f, ", \"%s\": %s", name, isinf(ns) ? "\"inf\"" : "null");
    }
}

static void place_json(FILE *f, const struct sim_grid_run *r)
{
    fprintf(f, "{\"policy\": \"%s\", \"queueDepth\": %u, \"workers\": %u, \"load\": %.9g",
            bt_router_policy_words[r->policy], r->depth, r->workers, r->load);
}

void sim_grid_json(FILE *f, const struct sim_grid_runs *g)
{
    fprintf(
        f,
        "{\"scenario\": \"%s\", \"threads\": %u, \"service\": \"%s\", \"meanServiceMicroseconds\": %.6g,\n \"runs\": [",
        g->s->name, g->s->threads, sim_dist_name(g->s->service.kind), g->s->service.mean_ns / 1e3);
    bool any = false;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct sim_grid_run *r = &g->run[i];
        const struct sim_point *p = &r->extras.point;
        if (g->signals[i] != 0) {
            continue;
        }
        fprintf(f, "%s\n  ", any ? "," : "");
        any = true;
        place_json(f, r);
        fprintf(f, ", \"seed\": %llu, \"measured\": %llu, \"offeredPerSecond\": %.3f, \"achievedPerSecond\": %.3f",
                (unsigned long long)r->seed, (unsigned long long)p->measured, p->offered_rps, p->achieved_rps);
        json_us(f, "meanMicroseconds", p->mean_ns);
        json_us(f, "p50Microseconds", p->p50_ns);
        json_us(f, "p99Microseconds", p->p99_ns);
        json_us(f, "p999Microseconds", p->p999_ns);
        fputs(",\n   \"outcomes\": {", f);
        for (int k = 0; k < SIM_OUTCOMES; k++) {
            fprintf(f, "%s\"%s\": %llu", k > 0 ? ", " : "", outcome_names[k], (unsigned long long)p->outcome[k]);
        }
        fputs("}, \"droppedByRouter\": ", f);
        sim_json_drops(f, r->result.router_counter);
        fprintf(f, ", \"faults\": %llu, \"invariantsBroken\": %u}",
                (unsigned long long)sim_faults_total(&r->result.seen), sim_broken(&r->result.verdict));
    }
    fputs("\n ]}\n", f);
}

void sim_grid_series(FILE *f, const struct sim_grid_runs *g)
{
    fputs("scenario,policy,queueDepth,workers,threads,load,seed,fromSeconds,sent,replies,timeouts,dropped,errors,"
          "p50Microseconds,p99Microseconds\n",
          f);
    for (uint32_t i = 0; i < g->n; i++) {
        const struct sim_grid_run *r = &g->run[i];
        for (uint32_t k = 0; k < r->extras.rows && g->signals[i] == 0; k++) {
            const struct sim_series_row *row = &r->extras.row[k];
            place_csv(f, g, r);
            fprintf(f, ",%.9g,%llu,%llu,%llu,%llu,%llu,", (double)k * (double)r->extras.row_ns / 1e9,
                    (unsigned long long)row->sent, (unsigned long long)row->replies, (unsigned long long)row->timeouts,
                    (unsigned long long)row->dropped, (unsigned long long)row->errors);
            us(f, row->p50_ns, "%.3f");
            fputc(',', f);
            us(f, row->p99_ns, "%.3f");
            fputc('\n', f);
        }
    }
}

void sim_grid_histograms(FILE *f, const struct sim_grid_runs *g)
{
    struct total *t = malloc(sizeof *t);
    if (t == NULL) {
        abort();
    }
    fputs("[", f);
    for (uint32_t i = 0; i < g->n; i += g->seeds) {
        add_up(g, i, t);
        fprintf(f, "%s\n ", i > 0 ? "," : "");
        place_json(f, &g->run[i]);
        fprintf(f,
                ", \"histogram\": {\"encoding\": \"ll7\", \"total\": %llu, \"inf\": %llu, \"sumNanoseconds\": %llu, "
                "\"buckets\": [",
                (unsigned long long)t->hist.total, (unsigned long long)t->hist.inf, (unsigned long long)t->hist.sum_ns);
        bool any = false;
        for (uint32_t b = 0; b < BT_HIST_BUCKETS; b++) {
            if (t->hist.bucket[b] == 0) {
                continue;
            }
            fprintf(f, "%s[%u, %llu]", any ? ", " : "", b, (unsigned long long)t->hist.bucket[b]);
            any = true;
        }
        fputs("]}}", f);
    }
    fputs("\n]\n", f);
    free(t);
}
