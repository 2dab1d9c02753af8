// SPDX-License-Identifier: Apache-2.0
// Option tables of the programs, read as a program reads them: every row at its bounds, what --help says of it, and
// what is refused with which words.
#ifndef BT_TESTS_OPTIONS_BED_H
#define BT_TESTS_OPTIONS_BED_H

#include "unit.h"

#include "shell/cli.h"
#include "shell/network.h"

struct options_bed {
    const char *program;
    const char *needed;                                // what every command line of it has, separated by blanks
    enum bt_cli_result (*read)(int argc, char **argv); // into the place where the rows look
};

struct option_row {
    const char *name;
    enum bt_cli_kind kind;
    const void *at;            // where it is read to
    const char *normal;        // as --help says it; NULL: nothing
    const char *least, *most;  // taken; of a choice `least` is all of them
    const char *below, *above; // refused; NULL: there is none
    const char *with;          // options it needs, separated by blanks, or NULL
};

// Each row can be given and is taken up to its bounds, not past them, and is in --help with what holds without it.
void options_hold(const struct options_bed *b, const struct option_row *rows, size_t n);

// --help has n options and no others, under these headings, separated by |, and says `more` behind them.
void options_are(const struct options_bed *b, size_t n, const char *headings, const char *more);

// The rows of bt_network_rows but --driver, of a program whose --address is an IPv4 one; `with` is what DPDK needs.
// Returns how many can be given in this build.
enum { OPTIONS_NETWORK = BT_NETWORK_ROWS - 2 }; // less --driver and the heading
size_t options_network(const struct bt_network_options *o, const char *with, struct option_row *rows);

struct option_refusal {
    const char *given; // beside what is needed
    const char *why;   // "--option: message"
};

void options_refused(const struct options_bed *b, const struct option_refusal *rows, size_t n);

// The line is taken.
void options_taken(const struct options_bed *b, const char *given);

#endif
