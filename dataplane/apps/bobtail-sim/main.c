// SPDX-License-Identifier: Apache-2.0
// bobtail-sim: options in, one of the simulator's commands out.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"

static const char usage_text[] =
    "usage: bobtail-sim COMMAND [FILE.yaml] [options]\n"
    "\n"
    "Runs the shipped router, server and client cores under virtual time.\n"
    "\n"
    "commands\n"
    "  run FILE              one seed of a scenario, everything printed\n"
    "  grid FILE             every point of a scenario's grid: rates, percentiles, drops\n"
    "  schema                the JSON Schema of scenario files\n"
    "  sweep [FILE ...]      many seeds, dealt round the scenarios given\n"
    "  figures [FILE]        the queueing figures, judged against theory\n"
    "  policy                the policies alone, without packets; see bobtail-sim policy --help\n"
    "  admission             admission control under a rising load; see bobtail-sim admission --help\n"
    "  crab                  CRAB's choice of a server over load; see bobtail-sim crab --help\n"
    "  replica               a replication group under faults; see bobtail-sim replica --help\n"
    "  store                 a member's log on disks that fail; see bobtail-sim store --help\n"
    "  hedge                 hedged reads of a replicated service; see bobtail-sim hedge --help\n"
    "  sched                 the scheduler of a server's cores; see bobtail-sim sched --help\n"
    "  switch                what a switch's pipeline does under faults, event by event; see bobtail-sim switch "
    "--help\n"
    "\n"
    "options\n"
    "  --seed=N              run, figures: this seed instead of the file's\n"
    "  --requests=N          this many RPCs instead of the file's\n"
    "  --only-faults=NAME[,...] no other faults and events than these; none: none at all\n"
    "  --without=NAME[,...]  leave out faults by name, events as event0, event1, ..., or garbage\n"
    "  --json=FILE           run, grid: the result as JSON\n"
    "  --csv=FILE            grid: a line per run\n"
    "  --series=FILE         grid: CSV, a line per run and second (seriesMilliseconds)\n"
    "  --histogram=FILE      grid: ll7 histograms as JSON, one per point\n"
    "  --plot=FILE.png       grid: p99 over throughput (needs python3-matplotlib)\n"
    "  --markdown            schema: the reference as tables\n"
    "  --seeds=N --first=S   sweep: N seeds from S on (default 2000 from 1)\n"
    "  --every-kind          sweep: fail when a kind of fault never happened\n"
    "  --stop                sweep: stop at the first failing seed\n"
    "  --long                figures: also the cells at load 0.95\n"
    "  --only=TEXT           figures: only cells whose name contains TEXT\n"
    "  -j N, --jobs=N        processes (default 2)\n"
    "  --measurements=FILE   write a JSON list of {name, value, unit}\n"
    "  --quiet               sweep: do not search for the smallest failing case\n"
    "  --help, --version\n"
    "\n"
    "exit code: 0 every invariant and bound held, 1 one did not, 2 usage or input error\n";

static const struct command {
    const char *name;
    int (*run)(const struct sim_options *);
    const char *file[SIM_FILES_MAX]; /* when none is given; seen from the top of the tree */
    uint32_t files_max;
} commands[] = {
    {"run", sim_command_run, {NULL}, 1},
    {"grid", sim_command_grid, {NULL}, 1},
    {"schema", sim_command_schema, {NULL}, 0},
    {"sweep",
     sim_command_sweep,
     {"dataplane/tests/sim/faults.yaml", "dataplane/tests/sim/faults-kernel.yaml", "dataplane/tests/sim/faults.yaml",
      "dataplane/tests/sim/faults-legacy.yaml", "dataplane/tests/sim/repair.yaml",
      "dataplane/tests/sim/faults-hosts.yaml", "dataplane/tests/sim/faults-tables.yaml",
      "dataplane/tests/sim/faults-hosts.yaml", "dataplane/tests/sim/black-hole.yaml",
      "dataplane/tests/sim/id-wrap.yaml", "dataplane/tests/sim/leave.yaml", "dataplane/tests/sim/faults-admission.yaml",
      "dataplane/tests/sim/faults-hedging.yaml", "dataplane/tests/sim/faults-cancel.yaml",
      "dataplane/tests/sim/faults-split.yaml", "dataplane/tests/sim/half-open.yaml"},
     SIM_FILES_MAX},
    {"figures", sim_command_figures, {"dataplane/tests/sim/figures.yaml"}, 1},
};

/* Commands with options of their own. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} models[] = {
    {"policy", sim_command_policy}, {"admission", sim_command_admission}, {"crab", sim_command_crab},
    {"hedge", sim_command_hedge},   {"replica", sim_command_replica},     {"store", sim_command_store},
    {"switch", sim_command_switch}, {"sched", sim_command_sched},
};

static int take_files(struct sim_options *o, const struct command *cmd, char **files, int n)
{
    if (n > (int)cmd->files_max) {
        fprintf(stderr, "bobtail-sim: %s takes at most %u files; got %d\n", cmd->name, cmd->files_max, n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        o->file[o->files++] = files[i];
    }
    if (n > 0) {
        return 0;
    }
    while (o->files < SIM_FILES_MAX && cmd->file[o->files] != NULL) {
        o->file[o->files] = cmd->file[o->files];
        o->files++;
    }
    if (o->files == 0 && cmd->files_max > 0) {
        fprintf(stderr, "bobtail-sim: %s needs a scenario FILE\n", cmd->name);
    }
    return o->files > 0 || cmd->files_max == 0 ? 0 : -1;
}

/* -1: o is what the command line says; else the exit code. */
static int read_options(struct sim_options *o, int argc, char **argv)
{
    const struct sim_option rows[] = {
        {"seed", SIM_OPTION_U64, &o->seed, .least = 1, .most = 9e15},
        {"requests", SIM_OPTION_U64, &o->requests, .least = 1, .most = 1e8},
        SIM_TEXT("only-faults", &o->only_faults),
        SIM_FLAG("every-kind", &o->every_kind),
        SIM_TEXT("without", &o->without),
        SIM_TEXT("json", &o->json),
        SIM_TEXT("csv", &o->csv),
        SIM_TEXT("series", &o->series),
        SIM_TEXT("histogram", &o->histogram),
        SIM_TEXT("plot", &o->plot),
        SIM_FLAG("markdown", &o->markdown),
        {"seeds", SIM_OPTION_U32, &o->seeds, .least = 1, .most = 1e8},
        {"first", SIM_OPTION_U64, &o->first, .least = 1, .most = 9e15},
        SIM_FLAG("stop", &o->stop),
        SIM_FLAG("long", &o->long_run),
        SIM_TEXT("only", &o->only),
        {"jobs", SIM_OPTION_U32, &o->jobs, .least = 1, .most = 64},
        SIM_TEXT("measurements", &o->measurements),
        SIM_FLAG("quiet", &o->quiet),
    };
    return sim_options_read(SIM_OPTIONS("", usage_text, rows), argc, argv);
}

int main(int argc, char **argv)
{
    struct sim_options o = {.seeds = 2000, .first = 1, .jobs = 2};
    for (size_t i = 0; argc > 1 && i < sizeof models / sizeof models[0]; i++) {
        if (strcmp(argv[1], models[i].name) == 0) {
            return models[i].run(argc - 1, argv + 1);
        }
    }
    int code = read_options(&o, argc, argv);
    if (code >= 0) {
        return code;
    }
    const char *name = optind < argc ? argv[optind] : "";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) != 0) {
            continue;
        }
        if (take_files(&o, &commands[i], argv + optind + 1, argc - optind - 1) != 0) {
            return 2;
        }
        return commands[i].run(&o);
    }
    fprintf(stderr, "bobtail-sim: %s%s; see bobtail-sim --help\n", *name == '\0' ? "no command" : "unknown command ",
            name);
    return 2;
}
