// SPDX-License-Identifier: Apache-2.0
// SVEN in a switch, in software (W-10, R-205 to R-216): the software router's own admission control decides and
// steers, and a table of the switch's size says of which requests it knows the time. switch_story.h tells both to the
// checker of the program for switches (hack/p4).
//
// A unit of the switch's clock is SIM_SHED_UNIT_NS to the control loop, so that a story of some thousand events sees
// some dozens of its periods.
#ifndef BOBTAIL_SIM_SWITCH_ADMISSION_H
#define BOBTAIL_SIM_SWITCH_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/rng.h"
#include "router/admission.h"

#define SIM_SHED_UNIT_NS UINT64_C(100000)
#define SIM_SHED_VALID   3000u  /* units that a rate counts for after it was written */
#define SIM_SHED_PAIRS   65536u /* of the switch's table */

/* What a switch notes of a pair; as dataplane/p4/router/headers.p4 numbers them. */
enum sim_shed_note {
    SIM_SHED_NOTHING,
    SIM_SHED_KNOWN,
    SIM_SHED_LOST,
    SIM_SHED_AGAIN,
    SIM_SHED_MEASURED,
    SIM_SHED_UNSEEN,
    SIM_SHED_DROPPED,
};

struct sim_shed_pair {
    uint32_t print, time;
};

/* Who a request is of. */
struct sim_shed_key {
    uint32_t client;
    uint16_t port, req_id;
};

struct sim_shed {
    struct bt_admission software;
    struct bt_rng rng;
    uint64_t clock;                      /* of the control loop, in ns */
    uint32_t rate[BT_ADMISSION_CLASSES]; /* as last written, in units of 2^-16 */
    uint32_t until;                      /* they count */
    bool dead;                           /* the controller */
    FILE *out;
    struct sim_shed_pair pairs[SIM_SHED_PAIRS];
};

/* A fresh switch and a controller that knows nothing yet; objective in units of the switch's clock. */
void sim_shed_init(struct sim_shed *s, uint64_t seed, uint32_t objective, FILE *out);
/* Time passes: the controller looks when it is due, and tells of the rates that it writes. */
void sim_shed_pass(struct sim_shed *s, uint32_t now, uint32_t units);
/* A request arrives: tells its label and the die that is cast for it. True: it is refused. */
bool sim_shed_refuses(struct sim_shed *s, uint32_t now);
/* It was not refused. */
void sim_shed_remember(struct sim_shed *s, uint32_t now, const struct sim_shed_key *key);
/* A FEEDBACK names a pair. */
void sim_shed_recall(struct sim_shed *s, uint32_t now, const struct sim_shed_key *key, bool dropped);
/* What the software has counted, class by class and together. */
void sim_shed_tell(const struct sim_shed *s);

#endif
