// SPDX-License-Identifier: Apache-2.0
// One service, behind a router in software (router/router.h, Transparent, JBSQ) that tells what it does with each
// packet: a line an event, for hack/p4 to give the same packets to the program for switches and to compare what must
// agree: verdict and bytes of each request, what is outstanding, and that nobody gets more than n.
//
//   E workers depth limit patience loss     a fresh router, from this line on; nobody has joined
//   Z now                                   it restarts; what it held is gone
//   N now w n flags life                    a worker tells of itself, with that n, LEAVE or JOIN; a new life begins at
//   0 Q now id kind lost ip port hex VERDICT  a datagram at the request port; kind: enum sim_request_kind; lost: on its
//                                           way to whatever worker
//   B now id how BELIEVED OLD               the worker that has it has served it; how: FEEDBACK once, twice, then an
//                                           older one, or lost and told later; how many were believed, and were old
//   X now w hex REASON                      FEEDBACK that is not to be believed; w = workers: of a stranger
//   K now                                   much time passes: what waited, waited too long
//   G id w hex                              what an event before made leave: of the queue to a worker
//   L id hex                                or DROP, too late
//   O outstanding held                      what then is known
//
// VERDICT is F w hex (forwarded), H (held), D reason hex (DROP) or S reason (silence); reason: a word of
// bobtail_router_drops_total, or a case of r2p2.md §9. Who gets a request is a router's own choice, and which of those
// that wait goes first: so workers end by request, and what concerns one of them (another n, LEAVE, a new life)
// comes when nothing is outstanding.
#ifndef BOBTAIL_SIM_SWITCH_SOFTWARE_H
#define BOBTAIL_SIM_SWITCH_SOFTWARE_H

#include <stdint.h>
#include <stdio.h>

void sim_switch_software(uint64_t seed, uint64_t events, FILE *out);

#endif
