// SPDX-License-Identifier: Apache-2.0
// The commands of bobtail-sim. Each returns the exit code: 0 held, 1 broken, 2 usage.
#ifndef BOBTAIL_SIM_COMMANDS_H
#define BOBTAIL_SIM_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_FILES_MAX = 16 };

struct sim_options {
    const char *file[SIM_FILES_MAX]; /* scenarios or figure table; a sweep deals its seeds round */
    uint32_t files;
    const char *json;                            /* --json FILE */
    const char *csv, *series, *histogram, *plot; /* grid: where to write */
    const char *measurements;                    /* --measurements FILE */
    const char *only_faults; /* --only-faults NAME,NAME: no other faults and events; "none": none at all */
    const char *without;     /* --without NAME,NAME: faults and events left out */
    const char *only;        /* --only TEXT: figure cells whose name contains it */
    uint64_t seed;           /* 0: the file's */
    uint64_t requests;       /* 0: the file's */
    uint32_t seeds;
    uint64_t first;
    unsigned jobs;
    bool long_run;   /* figures: the cells marked long too */
    bool every_kind; /* sweep: a kind of fault that never happened fails it */
    bool stop;       /* sweep: stop at the first failing seed */
    bool quiet;
    bool markdown; /* schema: the reference instead */
};

int sim_command_run(const struct sim_options *o);
int sim_command_grid(const struct sim_options *o);
int sim_command_schema(const struct sim_options *o);
int sim_command_sweep(const struct sim_options *o);
int sim_command_figures(const struct sim_options *o);
/* Has options of its own; argv[0] is the command's name. */
int sim_command_policy(int argc, char **argv);
int sim_command_admission(int argc, char **argv);
int sim_command_hedge(int argc, char **argv);
int sim_command_sched(int argc, char **argv);
int sim_command_switch(int argc, char **argv);
int sim_command_crab(int argc, char **argv);
int sim_command_replica(int argc, char **argv);
int sim_command_store(int argc, char **argv);

/* Draws a scenario and applies --requests and --without; 0 or -1 with a message on stderr. */
struct sim_template;
struct sim_scenario;
int sim_prepare(const struct sim_options *o, const struct sim_template *t, uint64_t seed, struct sim_scenario *s);
double sim_wall_seconds(void);

#endif
