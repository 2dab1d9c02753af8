// SPDX-License-Identifier: Apache-2.0
// Command lines of the simulator's commands from a table: what each option takes, and where it goes. A text that says
// nothing it may ends the program with exit code 2 (option.h).
#ifndef BOBTAIL_SIM_OPTIONS_H
#define BOBTAIL_SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_option_kind {
    SIM_OPTION_TEXT,   // const char *
    SIM_OPTION_FLAG,   // bool, takes no value
    SIM_OPTION_U32,    // uint32_t, least..most
    SIM_OPTION_U64,    // uint64_t, least..most
    SIM_OPTION_NUMBER, // double, least..most, times unit
    SIM_OPTION_TIME,   // uint64_t ns; a number least..most, times unit
    SIM_OPTION_LIST,   // double[max], each least..most; *count becomes how many
    SIM_OPTION_NAME,   // uint32_t: which of max names
    SIM_OPTION_OTHER,  // what read makes of it
};

struct sim_option {
    const char *name; // without --; "jobs" may also be written -j
    enum sim_option_kind kind;
    void *to;
    double least, most;
    double unit; // 0: 1
    uint32_t max, *count;
    const char *(*name_of)(uint32_t);
    void (*read)(void *to, const char *option, const char *text); // option as the user wrote it
    bool *given;                                                  // NULL, or what becomes true with it
};

/* Rows of the two kinds that have no bounds. */
#define SIM_TEXT(option, target) {.name = (option), .kind = SIM_OPTION_TEXT, .to = (target)}
#define SIM_FLAG(option, target) {.name = (option), .kind = SIM_OPTION_FLAG, .to = (target)}

struct sim_option_table {
    const char *command; // its name after bobtail-sim; "" for bobtail-sim itself
    const char *usage;   // what --help prints
    const struct sim_option *rows;
    size_t n;
};

#define SIM_OPTIONS(command, usage, rows)                                                                              \
    (&(struct sim_option_table){command, usage, rows, sizeof(rows) / sizeof(rows)[0]})

/* Reads argv into the table's targets; what is no option stands from optind on. Returns the exit code of a program
 * that has nothing more to do (0 after --help and --version, 2 after an unknown option), else -1. */
int sim_options_read(const struct sim_option_table *o, int argc, char **argv);

/* The same for a command that takes options only. */
int sim_options_only(const struct sim_option_table *o, int argc, char **argv);

#endif
