// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "option.h"

enum { HELP = 1000, VERSION, MOST = 64 };

static uint64_t nanoseconds(const struct sim_option *row, const char *option)
{
    return (uint64_t)(sim_option_number(option, optarg, row->least, row->most) * (row->unit != 0 ? row->unit : 1));
}

static void read_row(const struct sim_option *row, const char *option)
{
    switch (row->kind) {
    case SIM_OPTION_TEXT:
        *(const char **)row->to = optarg;
        break;
    case SIM_OPTION_FLAG:
        *(bool *)row->to = true;
        break;
    case SIM_OPTION_U32:
        *(uint32_t *)row->to = (uint32_t)sim_option_whole(option, optarg, row->least, row->most);
        break;
    case SIM_OPTION_U64:
        *(uint64_t *)row->to = sim_option_whole(option, optarg, row->least, row->most);
        break;
    case SIM_OPTION_NUMBER:
        *(double *)row->to =
            sim_option_number(option, optarg, row->least, row->most) * (row->unit != 0 ? row->unit : 1);
        break;
    case SIM_OPTION_TIME:
        *(uint64_t *)row->to = nanoseconds(row, option);
        break;
    case SIM_OPTION_LIST:
        *row->count = sim_option_list(option, optarg, row->least, row->most, row->to, row->max);
        break;
    case SIM_OPTION_NAME:
        *(uint32_t *)row->to = sim_option_named(option, optarg, row->name_of, row->max);
        break;
    case SIM_OPTION_OTHER:
        row->read(row->to, option, optarg);
        break;
    }
    if (row->given != NULL) {
        *row->given = true;
    }
}

static void long_options(const struct sim_option_table *o, struct option *longs)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n && n < MOST; i++) {
        int value = o->rows[i].kind == SIM_OPTION_FLAG ? no_argument : required_argument;
        longs[n++] = (struct option){o->rows[i].name, value, NULL, (int)i};
    }
    longs[n++] = (struct option){"help", no_argument, NULL, HELP};
    longs[n++] = (struct option){"version", no_argument, NULL, VERSION};
    longs[n] = (struct option){0};
}

static const struct sim_option *row_of(const struct sim_option_table *o, int c)
{
    for (size_t i = 0; c == 'j' && i < o->n; i++) {
        if (strcmp(o->rows[i].name, "jobs") == 0) {
            return &o->rows[i];
        }
    }
    return c >= 0 && (size_t)c < o->n ? &o->rows[c] : NULL;
}

int sim_options_read(const struct sim_option_table *o, int argc, char **argv)
{
    struct option longs[MOST + 3];
    char written[40];
    long_options(o, longs);
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, "hj:", longs, NULL)) != -1;) {
        if (c == HELP || c == 'h') {
            fputs(o->usage, stdout);
            return 0;
        }
        if (c == VERSION) {
            puts("bobtail-sim " BOBTAIL_VERSION);
            return 0;
        }
        const struct sim_option *row = row_of(o, c);
        if (row == NULL) { /* getopt has said what is wrong, but for a -j of a command without jobs */
            fprintf(stderr, "bobtail-sim: see bobtail-sim %s%s--help\n", o->command, o->command[0] != '\0' ? " " : "");
            return 2;
        }
        snprintf(written, sizeof written, "--%s", row->name);
        read_row(row, written);
    }
    return -1;
}

int sim_options_only(const struct sim_option_table *o, int argc, char **argv)
{
    int code = sim_options_read(o, argc, argv);
    if (code < 0 && optind < argc) {
        fprintf(stderr, "bobtail-sim: %s takes options only; got %s\n", o->command, argv[optind]);
        return 2;
    }
    return code;
}
