// SPDX-License-Identifier: Apache-2.0
// A router may lend its decisions to somebody nearer to the packets (docs/decisions/0011): it hands out what JBSQ needs
// to know (bt_router_lend), and is told afterwards what was done with it, note by note, in order (bt_router_replay).
// Then it is as if it had taken those packets itself, with all its counters, pairs and histograms. In between it must
// take no packet: who calls it ends the loan and replays every note first. Its timers may run; bt_router_loan_holds
// says whether what was lent is still true. Pure like the router.
#ifndef BOBTAIL_ROUTER_DELEGATION_H
#define BOBTAIL_ROUTER_DELEGATION_H

#include "router/delegation_layout.h"
#include "router/router.h"

/* Fills d. NULL, or why the router has to take every packet itself now (static storage). */
const char *bt_router_lend(const struct bt_router *r, struct bt_delegation *d);

/* Since d was lent, only what the notes that were replayed say has happened. */
bool bt_router_loan_holds(const struct bt_router *r, const struct bt_delegation *d);

/* Does again what a note says. False: the router would have decided otherwise; it then takes the note's word. */
bool bt_router_replay(struct bt_router *r, const struct bt_delegation_note *note, struct bt_txq *txq);

#endif
