// SPDX-License-Identifier: Apache-2.0
// JBSQ as a switch's pipeline does it, in software (R-129…R-132, W-2…W-7): what one pass does to the registers of one
// service. Who calls it says when passes happen. The program for switches (dataplane/p4/router) is compared with this
// model event by event, so that its words are the program's: 32 bits, compared by signed difference.
//
// A request's pass compares one group of workers; in round i it takes the first one with at least n − i credits. What
// finds none goes round the loop. A FEEDBACK takes two passes: the first compares its counters with those known, the
// second adds what that makes to the credits.
#ifndef BOBTAIL_SIM_SWITCH_PIPELINE_H
#define BOBTAIL_SIM_SWITCH_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_pipeline_config {
    uint32_t workers, depth, group;
    uint32_t limit;          /* requests that may wait (W-6) */
    uint32_t patience, loss; /* for so long; T_loss */
};

struct sim_pipeline_worker {
    int32_t credits; /* n − outstanding (W-2) */
    uint32_t life;   /* incarnation */
    uint32_t served, received, granted, sent;
    uint32_t due, past, lost; /* when and what `sent` was sampled; held to be lost */
};

struct sim_pipeline {
    struct sim_pipeline_config c;
    struct sim_pipeline_worker *worker; /* the caller's, c.workers of them */
    uint32_t groups, turn, round, held;
};

/* What a waiting request carries. */
struct sim_pipeline_loop {
    uint32_t since;
    uint16_t round, group, tried;
    bool raised, admitted;
};

struct sim_pipeline_report {
    uint32_t n, life, received, served;
    bool leave;
};

/* Instead of a worker. */
#define SIM_PIPELINE_WAITS UINT32_MAX
#define SIM_PIPELINE_FULL  (UINT32_MAX - 1u)
#define SIM_PIPELINE_LATE  (UINT32_MAX - 2u)

/* All zeros, as a fresh switch is: nobody may get anything. */
void sim_pipeline_init(struct sim_pipeline *p, const struct sim_pipeline_config *c, struct sim_pipeline_worker *worker);
/* A request's first pass: a worker, or SIM_PIPELINE_WAITS, and then *loop is what it carries. Where it was not admitted
 * its next pass refuses it. */
uint32_t sim_pipeline_first(struct sim_pipeline *p, uint32_t now, struct sim_pipeline_loop *loop);
/* A request that was refused before any worker was looked for: it takes its turn all the same. */
void sim_pipeline_refused(struct sim_pipeline *p);
/* Any other pass: a worker, SIM_PIPELINE_WAITS, _FULL or _LATE. */
uint32_t sim_pipeline_again(struct sim_pipeline *p, uint32_t now, struct sim_pipeline_loop *loop);
/* A FEEDBACK's first pass. False: it is older than what is known. *delta is for the second pass; 0: there is none. */
bool sim_pipeline_report(struct sim_pipeline *p, uint32_t now, uint32_t w, const struct sim_pipeline_report *report,
                         int32_t *delta);
/* Its second pass. What was said of a former life counts no more: its credits were taken away since. */
void sim_pipeline_credit(struct sim_pipeline *p, uint32_t w, uint32_t life, int32_t delta);

#endif
