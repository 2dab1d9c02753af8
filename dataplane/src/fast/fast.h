// SPDX-License-Identifier: Apache-2.0
// A router's program in the kernel (docs/decisions/0011): loads dataplane/bpf/jbsq_router.bpf.c, attaches it where
// requests come in, lends it the router's decisions and reads what it did with them. One thread: the router's.
//
// While a loan is open the router takes no packet. So: before it takes one, bt_fast_take_back; before its timers run,
// bt_fast_read; at the end of a turn, bt_fast_turn.
#ifndef BOBTAIL_FAST_H
#define BOBTAIL_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "router/delegation.h"

struct bt_fast;

struct bt_fast_setup {
    struct bt_addr request, feedback; /* the router's sockets, IPv4 */
    bool detached;                    /* not attached to any device: for tests, which run the program themselves */
    unsigned out;                     /* detached: as if packets to workers left on this device */
    uint64_t rest_ns;                 /* the router keeps its decisions so long after a loan; 0 = 1 ms */
};

/* NULL: why says what is missing and what to do. */
struct bt_fast *bt_fast_new(const struct bt_fast_setup *setup, char *why, size_t why_len);
void bt_fast_free(struct bt_fast *f); /* NULL is allowed; the program is gone after it */

/* Ends the loan, if there is one, and replays what was done with it. */
void bt_fast_take_back(struct bt_fast *f, struct bt_router *r, uint64_t now, struct bt_txq *txq);

/* Replays what was done so far. */
void bt_fast_read(struct bt_fast *f, struct bt_router *r, struct bt_txq *txq);

/* Lends when nothing speaks against it and some time has passed since the last loan, ends a loan whose terms no longer
 * hold, else shows that the router lives. */
void bt_fast_turn(struct bt_fast *f, struct bt_router *r, uint64_t now, struct bt_txq *txq);

/* When bt_fast_turn is of use again without any packet. */
uint64_t bt_fast_next(const struct bt_fast *f, uint64_t now);

bool bt_fast_lent(const struct bt_fast *f);
enum bt_lend bt_fast_why_not(const struct bt_fast *f); /* BT_LEND_YES: lent, or about to be */
/* The same asked anew, for who wants to know how things stand. */
enum bt_lend bt_fast_judge(const struct bt_fast *f, const struct bt_router *r);
const char *bt_fast_device(const struct bt_fast *f);
int bt_fast_program(const struct bt_fast *f); /* file descriptor */

enum bt_fast_counter {
    BT_FAST_REQUEST,
    BT_FAST_FEEDBACK,
    BT_FAST_UNSENT,
    BT_FAST_LOANS,
    BT_FAST_DISAGREED,
    BT_FAST_DAMAGED,
    BT_FAST_PASSED, /* and as many as there are reasons */
    BT_FAST_COUNTERS = BT_FAST_PASSED + BT_PASS_REASONS
};
extern const struct bt_counter_desc bt_fast_counter_descs[BT_FAST_COUNTERS];
void bt_fast_counters(const struct bt_fast *f, uint64_t out[BT_FAST_COUNTERS]);

#endif
