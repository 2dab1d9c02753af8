// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim switch`: what a switch's pipeline does under faults, a line an event.
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "option.h"
#include "options.h"
#include "switch_aggregator.h"
#include "switch_box.h"
#include "switch_crab.h"
#include "switch_software.h"
#include "switch_story.h"

static const char usage_text[] =
    "usage: bobtail-sim switch [options]\n"
    "\n"
    "Services behind a switch whose network loses, copies and reorders, and whose workers and switch restart: what "
    "its\n"
    "pipeline decides (R-129 to R-132, W-2 to W-7), for hack/p4 to compare the program for switches with.\n"
    "\n"
    "  --program=router|crab|aggregator|box|software  (default router); crab: TCP segments, and what bobtail-crab-lb's "
    "code "
    "makes of\n"
    "                them; aggregator: messages of a replication group, and what the software's aggregator makes of "
    "them;\n"
    "                box: its clients' requests, and what the software's flow-control box says to them;\n"
    "                software: requests, whole and broken ones, and what the software's router does with them\n"
    "  --events=N    packets that pass the switch, at least (default 100000)\n"
    "  --seed=N      (default 1)\n"
    "  --out=FILE    where the lines go (default: standard output)\n";

enum { ROUTER, CRAB, AGGREGATOR, BOX, SOFTWARE, PROGRAMS };

static const char *program_name(uint32_t i)
{
    static const char *const names[] = {"router", "crab", "aggregator", "box", "software"};
    return names[i];
}

/* Returns how many workers lack credits at the end. */
static uint64_t tell(uint32_t program, uint64_t seed, uint64_t events, FILE *out)
{
    static void (*const others[PROGRAMS])(uint64_t, uint64_t, FILE *) = {[CRAB] = sim_switch_crab,
                                                                         [AGGREGATOR] = sim_switch_aggregator,
                                                                         [BOX] = sim_switch_box,
                                                                         [SOFTWARE] = sim_switch_software};
    if (program == ROUTER) {
        return sim_switch_story(seed, events, out);
    }
    others[program](seed, events, out);
    return 0;
}

int sim_command_switch(int argc, char **argv)
{
    uint64_t events = 100000, seed = 1;
    const char *path = NULL, *program = "router";
    const struct sim_option rows[] = {
        {"events", SIM_OPTION_U64, &events, .least = 1, .most = 1e9},
        {"seed", SIM_OPTION_U64, &seed, .least = 1, .most = 9e15},
        SIM_TEXT("program", &program),
        SIM_TEXT("out", &path),
    };
    int code = sim_options_only(SIM_OPTIONS("switch", usage_text, rows), argc, argv);
    if (code >= 0) {
        return code;
    }
    uint32_t which = sim_option_named("--program", program, program_name, PROGRAMS);
    FILE *out = path != NULL ? sim_option_open("--out", path) : stdout;
    uint64_t missing = tell(which, seed, events, out);
    code = path != NULL ? sim_option_close("--out", path, out) : fflush(out) != 0 ? 2 : 0;
    if (missing > 0) {
        fprintf(stderr, "bobtail-sim: seed %llu: %llu workers without their credits at rest\n",
                (unsigned long long)seed, (unsigned long long)missing);
    }
    return code != 0 ? code : missing > 0;
}
