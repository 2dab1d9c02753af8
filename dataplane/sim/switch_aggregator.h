// SPDX-License-Identifier: Apache-2.0
// A replication group behind a switch that aggregates (R-335 to R-344, W-11): messages that are lost, copied, reordered
// and broken, terms and memberships that change, indices at both ends of a high half, a switch that restarts. What the
// software's aggregator as a switch (replica/aggregator.h) makes of each: a line a message, for hack/p4 to compare the
// program for switches with.
//
//   E group cluster epoch ID:ROLE...  a fresh switch, whose tables name this group, its members and their epoch;
//                                     ROLE: 1 votes, 2 learns
//   T epoch ID:ROLE...                a controller wrote another membership into its tables
//   R                                 it lost its registers, and its tables were written again
//   M from WHAT in to,to... out       a message of `from`, in hex; WHAT became of it: the name of a counter, "source":
//                                     it is of nobody who is in the tables; whom the message `out` goes to; "- -":
//                                     nobody
#ifndef BOBTAIL_SIM_SWITCH_AGGREGATOR_H
#define BOBTAIL_SIM_SWITCH_AGGREGATOR_H

#include <stdint.h>
#include <stdio.h>

void sim_switch_aggregator(uint64_t seed, uint64_t messages, FILE *out);

#endif
