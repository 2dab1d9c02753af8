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

/* Why every packet has to go through the router itself. The last two are found by who lends on its behalf. */
enum bt_lend {
    BT_LEND_YES, /* it has not */
    BT_LEND_POLICY,
    BT_LEND_ADMISSION,
    BT_LEND_HEDGING,
    BT_LEND_FORWARDING,
    BT_LEND_THREADS,
    BT_LEND_WORKERS,
    BT_LEND_LEGACY,
    BT_LEND_IPV6,
    BT_LEND_NOBODY,
    BT_LEND_DRAINING,
    BT_LEND_HELD, /* for the moment */
    BT_LEND_OWN_ADDRESS,
    BT_LEND_KERNEL,
    BT_LEND_REASONS
};

/* The word that status and metrics have for it, and what it says to people. */
struct bt_lend_reason {
    const char *word, *text;
};
extern const struct bt_lend_reason bt_lend_reasons[BT_LEND_REASONS];

/* Fills d when the answer is BT_LEND_YES. */
enum bt_lend bt_router_lend(const struct bt_router *r, struct bt_delegation *d);

/* Since d was lent, only what the notes that were replayed say has happened. */
bool bt_router_loan_holds(const struct bt_router *r, const struct bt_delegation *d);

/* Does again what a note says. False: the router would have decided otherwise; it then takes the note's word. */
bool bt_router_replay(struct bt_router *r, const struct bt_delegation_note *note, struct bt_txq *txq);

#endif
