// SPDX-License-Identifier: Apache-2.0
// A service behind a switch whose network loses, copies and reorders, whose workers restart, leave and change their n,
// and whose switch restarts: what happens at the switch and what its pipeline decides, a line an event. The checker of
// the program for switches (hack/p4) plays the lines again.
//
//   E workers depth group limit patience loss     a fresh switch
//   Z                                             the same one restarts: all zeros, an empty loop
//   Q now id VERDICT                              a request arrives
//   L now id VERDICT                              what stands first in the loop passes again
//   B now w flags n life received served VERDICT  a FEEDBACK arrives
//   X now w                                       one that is not to be believed: nothing changes
//   A objective                                   the service has SVEN (switch_admission.h)
//   R class rate until                            a rate is written, in units of 2^-16
//   C label die                                   the next request's class and flags, and the die cast for it
//   P id                                          of the request that the next FEEDBACK names
//   T note latency                                what the event before made the switch note of its pair
//   K class arrived refused                       what the software has counted of a class,
//   M within exceeded unknown dropped             and of all latencies
//   D w credits life served received granted sent due past lost   what is known of a worker
//   I w credits n                                 the same after everything came to rest
//
// VERDICT is F w credits open n (forwarded; open: of all its requests, 0: not counted here), W round group tried raised
// admitted (waits), R full|late|shed (refused), C w delta credits (credits changed), N (no change), O (old), P delta
// (it passes again).
#ifndef BOBTAIL_SIM_SWITCH_STORY_H
#define BOBTAIL_SIM_SWITCH_STORY_H

#include <stdint.h>
#include <stdio.h>

/* Writes episodes until so many events happened. Returns how many credits were missing when all had come to rest. */
uint64_t sim_switch_story(uint64_t seed, uint64_t events, FILE *out);

#endif
