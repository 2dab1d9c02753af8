// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim grid`: every point of a scenario's grid, several at a time; the result does not depend on how many.
#include "grid.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "option.h"
#include "parallel.h"
#include "report.h"

extern char **environ;

struct job {
    const struct sim_options *o;
    const struct sim_template *t;
    const struct sim_grid_run *plan;
};

static double pick(const struct sim_list *l, uint32_t i, double own)
{
    return l->n > 0 ? l->v[i] : own;
}

static uint32_t length(const struct sim_list *l)
{
    return l->n > 0 ? l->n : 1;
}

static uint32_t runs_of(const struct sim_grid *g, uint32_t seeds)
{
    return length(&g->policy) * length(&g->depth) * length(&g->workers) * length(&g->load) * seeds;
}

/* Where run i stands; seeds vary fastest, then load. */
static struct sim_grid_run place(const struct sim_scenario *s, uint32_t seeds, uint32_t i)
{
    const struct sim_grid *g = &s->grid;
    struct sim_grid_run r = {.seed = s->seed + i % seeds};
    i /= seeds;
    r.load = pick(&g->load, i % length(&g->load), s->load);
    i /= length(&g->load);
    r.workers = (uint32_t)pick(&g->workers, i % length(&g->workers), s->workers);
    i /= length(&g->workers);
    r.depth = (uint32_t)pick(&g->depth, i % length(&g->depth), s->depth);
    if (s->arrivals == SIM_ARRIVE_TRACE) { /* the rate stays, so another number of workers is another load */
        r.load = s->load * s->workers / r.workers;
    }
    r.policy = (uint32_t)pick(&g->policy, i / length(&g->depth), s->policy);
    return r;
}

static void one_run(const void *ctx, uint32_t i, void *out)
{
    const struct job *j = ctx;
    struct sim_grid_run *r = out;
    struct sim_scenario *s = calloc(1, sizeof *s);
    if (s == NULL) {
        abort();
    }
    *r = j->plan[i];
    if (sim_prepare(j->o, j->t, r->seed, s) != 0) {
        _exit(2);
    }
    const struct sim_grid *g = &s->grid;
    if (g->load.n > 0) {
        s->load = r->load;
    }
    if (g->depth.n > 0) {
        s->depth = r->depth;
    }
    if (g->workers.n > 0) {
        s->workers = r->workers;
    }
    if (g->policy.n > 0) {
        s->policy = r->policy;
    }
    sim_run_full(s, &r->result, NULL, &r->extras);
    sim_judge_expectations(s, &r->result);
    free(s);
}

static int write_file(const char *option, const char *path, void (*how)(FILE *, const struct sim_grid_runs *),
                      const struct sim_grid_runs *g)
{
    if (path == NULL) {
        return 0;
    }
    FILE *f = sim_option_open(option, path);
    how(f, g);
    return sim_option_close(option, path, f);
}

/* The drawing is a script's; it reads the same JSON anybody may. */
static int plot(const char *path, const struct sim_grid_runs *g)
{
    static char script[] = BOBTAIL_SIM_PLOT; /* in the tree this was built from */
    char data[] = "/tmp/bobtail-sim-XXXXXX";
    int fd = mkstemp(data), status = -1;
    pid_t pid = 0;
    if (fd < 0 || write_file("--plot", data, sim_grid_json, g) != 0) {
        return -1;
    }
    close(fd);
    char *argv[] = {script, data, strdup(path), NULL};
    int rc = posix_spawn(&pid, script, NULL, NULL, argv, environ);
    if (rc == 0) {
        waitpid(pid, &status, 0);
    }
    if (rc != 0 || status != 0) {
        fprintf(stderr, "bobtail-sim: --plot=%s: %s failed%s%s; it needs python3-matplotlib and the tree\n", path,
                script, rc != 0 ? ": " : "", rc != 0 ? strerror(rc) : "");
    }
    unlink(data);
    free(argv[2]);
    return rc != 0 || status != 0 ? -1 : 0;
}

static int tell(const struct sim_options *o, const struct sim_grid_runs *g)
{
    int bad = 0;
    uint32_t broken = 0;
    sim_grid_table(stdout, g);
    for (uint32_t i = 0; i < g->n; i++) {
        const struct sim_verdict *v = &g->run[i].result.verdict;
        if (g->signals[i] == 0 && sim_broken(v) == 0) {
            continue;
        }
        broken++;
        printf("seed %llu: %s\n", (unsigned long long)g->run[i].seed, g->signals[i] != 0 ? "crashed" : v->first);
    }
    bad |= write_file("--csv", o->csv, sim_grid_csv, g);
    bad |= write_file("--json", o->json, sim_grid_json, g);
    bad |= write_file("--series", o->series, sim_grid_series, g);
    bad |= write_file("--histogram", o->histogram, sim_grid_histograms, g);
    if (o->plot != NULL) {
        bad |= plot(o->plot, g);
    }
    return bad != 0 ? 2 : broken > 0;
}

static int run_all(const struct sim_options *o, const struct sim_template *t, const struct sim_scenario *s,
                   uint32_t seeds)
{
    struct sim_grid_runs g = {.s = s, .n = runs_of(&s->grid, seeds), .seeds = seeds};
    int code = 2;
    if (g.n > SIM_POINTS_MAX) {
        fprintf(stderr, "bobtail-sim: the grid has %u runs; at most %d\n", g.n, SIM_POINTS_MAX);
        return 2;
    }
    size_t bytes = g.n * sizeof *g.run;
    int *signals = calloc(g.n, sizeof *signals);
    struct sim_grid_run *plan = sim_memory(bytes);
    g.run = sim_memory(bytes);
    g.signals = signals;
    if (signals == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < g.n; i++) {
        plan[i] = g.run[i] = place(s, seeds, i);
    }
    const struct job job = {o, t, plan};
    if (sim_parallel(o->jobs, &(struct sim_items){.n = g.n, .size = sizeof *g.run, .fn = one_run, .ctx = &job}, g.run,
                     signals) >= 0) {
        code = tell(o, &g);
    }
    sim_memory_free(plan, bytes);
    sim_memory_free(g.run, bytes);
    free(signals);
    return code;
}

int sim_command_grid(const struct sim_options *o)
{
    char err[800];
    struct sim_template *t = sim_template_load(o->file[0], err, sizeof err);
    struct sim_scenario *s = calloc(1, sizeof *s);
    int code = 2;
    if (s == NULL) {
        abort();
    }
    if (t == NULL) {
        fprintf(stderr, "bobtail-sim: %s\n", err);
    } else if (sim_prepare(o, t, o->seed, s) == 0) {
        code = run_all(o, t, s, o->seed > 0 ? 1 : s->grid.seeds);
    }
    free(s);
    sim_template_free(t);
    return code;
}
