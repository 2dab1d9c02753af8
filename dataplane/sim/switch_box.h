// SPDX-License-Identifier: Apache-2.0
// A replication group behind a switch that is its flow-control box: requests that are lost, copied and
// late, answers that come in any order, twice or never, a switch that restarts. What the software's box as a switch
// (replica/box.h) says to each: a line an event, for hack/p4 to compare the program for switches with.
//
//   E slots base              a fresh switch, with so many slots for the group, from this one on
//   R                         it lost its registers
//   Q now client port id WHAT a request of a client: passed, passed_again, busy or busy_again
//   F now client port id WHAT a member's FEEDBACK about it: answered or unknown
//
// `now` is in the program's units. What the rules leave open is not told: copies that come later than a copy may
// (LINGER), and FEEDBACK in the last moment of a request's time.
#ifndef BOBTAIL_SIM_SWITCH_BOX_H
#define BOBTAIL_SIM_SWITCH_BOX_H

#include <stdint.h>
#include <stdio.h>

void sim_switch_box(uint64_t seed, uint64_t events, FILE *out);

#endif
