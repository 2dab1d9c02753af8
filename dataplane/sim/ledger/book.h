// SPDX-License-Identifier: Apache-2.0
// What a router must know of a worker's credit, told from the packets alone: how many requests it sent there and when,
// and what the FEEDBACK that it read said. None of it is taken from the router's own counters.
#ifndef BOBTAIL_SIM_CHECK_CREDIT_H
#define BOBTAIL_SIM_CHECK_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pkt.h"

struct sim_world;
struct bt_feedback;
struct bt_router_member_stats;

/* A request that left the router less than T_loss ago. */
struct sim_sent {
    uint64_t at_ns;
    uint32_t who; /* client and id */
    bool ended;   /* FEEDBACK named it */
};

/* When FEEDBACK was read, and what had been sent T_loss/8 before it came. */
struct sim_mark {
    uint64_t at_ns, sent;
};

enum { SIM_MARKS = 16 }; /* T_loss/8 apart or more, and not older than T_loss */

/* Of one router's life, about one worker. Times are by the router's clock. */
struct sim_book {
    uint32_t life; /* of the router */
    bool known;    /* it read FEEDBACK with counters */
    bool heard;    /* FEEDBACK of any form */
    uint32_t n;    /* as that said last */
    uint32_t incarnation;
    uint64_t sent;             /* REQ0 that left */
    uint64_t received, served; /* by the newest FEEDBACK */
    uint64_t
        base; /* what the worker counts beyond `sent`: sent + base are this router's requests in its count */
    uint64_t heard_came_ns, heard_read_ns; /* when the newest FEEDBACK came, and when it was read */
    /* `sent` as of T_loss ago lies between least_past and first */
    struct sim_sent *ring;  /* those sent since, by number, the oldest of them being `first` */
    uint32_t ring_n;        /* a power of two, or 0 */
    uint32_t ended;         /* entries that are */
    uint64_t first, behind; /* behind: of the first that is younger than T_loss/8 before the newest mark */
    uint64_t least_past;
    struct sim_mark mark[SIM_MARKS];
    uint32_t mark_first, marks;
    bool due; /* what is lost was decided anew since the row was looked at: between these two */
    int64_t lost_least, lost_most;
    /* */
    uint64_t done;     /* 16-byte FEEDBACK that found something outstanding */
    uint64_t busy_ns;  /* since when it owes an answer, or its credit was last taken back */
    uint32_t reclaims; /* since its last answer */
    /* of the row, when it was looked at last */
    uint64_t lost, reclaimed, sent_then;
    uint32_t owed;
};

/* A REQ0 leaves the router; every one, in order. */
void sim_book_sent(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_pkt *p);
/* An authentic FEEDBACK that came at that time is read. A router on one thread has yet to look at it, one on two has.
 */
void sim_book_heard(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_feedback *fb,
                    uint64_t came_ns);
/* The router's row is what the book says. */
void sim_book_check(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_router_member_stats *m);

#endif
