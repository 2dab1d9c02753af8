// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim switch`: what a switch's pipeline does under faults, a line an event.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "option.h"
#include "switch_story.h"

static const char usage_text[] =
    "usage: bobtail-sim switch [options]\n"
    "\n"
    "Services behind a switch whose network loses, copies and reorders, and whose workers and switch restart: what "
    "its\n"
    "pipeline decides (R-129 to R-132, W-2 to W-7), for hack/p4 to compare the program for switches with.\n"
    "\n"
    "  --events=N    packets that pass the switch, at least (default 100000)\n"
    "  --seed=N      (default 1)\n"
    "  --out=FILE    where the lines go (default: standard output)\n";

int sim_command_switch(int argc, char **argv)
{
    static const struct option options[] = {
        {"events", required_argument, NULL, 'e'},
        {"seed", required_argument, NULL, 's'},
        {"out", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    uint64_t events = 100000, seed = 1;
    const char *path = NULL;
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'e':
            events = sim_option_whole("--events", optarg, 1, 1e9);
            break;
        case 's':
            seed = sim_option_whole("--seed", optarg, 1, 9e15);
            break;
        case 'o':
            path = optarg;
            break;
        case 'h':
            fputs(usage_text, stdout);
            return 0;
        default:
            fputs("bobtail-sim: see bobtail-sim switch --help\n", stderr);
            return 2;
        }
    }
    FILE *out = path != NULL ? sim_option_open("--out", path) : stdout;
    uint64_t missing = sim_switch_story(seed, events, out);
    int code = path != NULL ? sim_option_close("--out", path, out) : fflush(out) != 0 ? 2 : 0;
    if (missing > 0) {
        fprintf(stderr, "bobtail-sim: seed %llu: %llu workers without their credits at rest\n",
                (unsigned long long)seed, (unsigned long long)missing);
    }
    return code != 0 ? code : missing > 0;
}
