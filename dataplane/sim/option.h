// SPDX-License-Identifier: Apache-2.0
// What the text of an option says. A text that says nothing it may ends the program with exit code 2 and a message that
// names the option, what it takes and what it got.
#ifndef BOBTAIL_SIM_OPTION_H
#define BOBTAIL_SIM_OPTION_H

#include <stdint.h>
#include <stdio.h>

/* `option` is as the user wrote it: "--loads". */
double sim_option_number(const char *option, const char *text, double least, double most);
uint64_t sim_option_whole(const char *option, const char *text, double least, double most);
/* Numbers with commas between them; returns how many: 1 to max. */
uint32_t sim_option_list(const char *option, const char *text, double least, double most, double *out, uint32_t max);
/* Which of n names it is. */
uint32_t sim_option_named(const char *option, const char *text, const char *(*name_of)(uint32_t), uint32_t n);
/* sim_dist_name for sim_option_named: all but the last, a trace, which is only for scenario files. */
const char *sim_option_dist(uint32_t i);

/* Opens the file that an option names for writing. */
FILE *sim_option_open(const char *option, const char *path);
/* The exit code: 0 when the file holds all that was written, else 2 with a message. */
int sim_option_close(const char *option, const char *path, FILE *f);

#endif
