// SPDX-License-Identifier: Apache-2.0
// Command lines from one table per program: the same rows make the parser, --help and the error
// messages, so that they cannot disagree. GNU long options only; every value is checked here and
// refused with the option's name and what it may be.
#ifndef BT_APPS_CLI_H
#define BT_APPS_CLI_H

#include "base/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bt_cli_kind {
    BT_CLI_TEXT,     // const char *
    BT_CLI_TEXT_AT,  // const char *; "@FILE" stands for the one line in FILE
    BT_CLI_U32,      // uint32_t, min..max
    BT_CLI_U64,      // uint64_t
    BT_CLI_AUTO_U32, // uint32_t, min..max with min > 0; 0 for "auto"
    BT_CLI_DOUBLE,   // double, min..max
    BT_CLI_DURATION, // uint64_t ns: 250us, 5ms, 1.5s, 2m; min..max in ns
    BT_CLI_CHOICE,   // int: index into `choices`
    BT_CLI_FLAG,     // bool, takes no value
    BT_CLI_HEADING,  // no option: a line in --help
};

struct bt_cli_option {
    const char *name;
    enum bt_cli_kind kind;
    void *to;            // also holds the default, which --help shows
    double min, max;     // both 0: no bounds
    const char *choices; // CHOICE: "block|spin|yield"; else what stands behind "=" in --help
    const char *help;
};

struct bt_cli {
    const char *name;
    const char *summary;  // first line of --help
    const char *epilogue; // after the options; may be NULL
    const struct bt_cli_option *options;
    size_t n_options;
};

enum bt_cli_result { BT_CLI_RUN, BT_CLI_EXIT_OK, BT_CLI_EXIT_USAGE };

// Reads argv into the table's targets. Prints --help and --version to stdout, errors to stderr.
enum bt_cli_result bt_cli_parse(const struct bt_cli *p, int argc, char **argv);

// Prints "<program>: --<option>: <message>" and a pointer to --help; for checks a table cannot do.
void bt_cli_error(const struct bt_cli *p, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// --address of a program that may take its own from a document (text NULL: all zero). False: it was said why; whose:
// "box".
bool bt_cli_own_address(const struct bt_cli *p, const char *text, const char *whose, struct bt_addr *out);

// "5ms" to ns; false if it is no duration. Units ns, us, ms, s, m, h; a bare 0 is allowed.
bool bt_duration_parse(const char *text, uint64_t *ns);

#endif
