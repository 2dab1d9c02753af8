// SPDX-License-Identifier: Apache-2.0
// TCP segments, whole and broken ones, and what the software's balancer of connections (tcp/crab.h) makes of each: a
// line a segment, for the checker of the program for switches (hack/p4) to compare its program with.
//
//   E servers fallback capable    a fresh balancer: its VIP has so many servers; Drop as fall-back: 1; the option is
//                                 put into SYNs without it (C-22): 1
//   S now WHAT in out             now in microseconds; WHAT became of it: the name of a counter; IP packets in hex,
//   "-":
//                                 nothing is sent
#ifndef BOBTAIL_SIM_SWITCH_CRAB_H
#define BOBTAIL_SIM_SWITCH_CRAB_H

#include <stdint.h>
#include <stdio.h>

void sim_switch_crab(uint64_t seed, uint64_t segments, FILE *out);

#endif
