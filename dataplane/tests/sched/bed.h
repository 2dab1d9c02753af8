// SPDX-License-Identifier: Apache-2.0
// A scheduler on the test's own thread, which plays all cores in turn, and events with numbers.
#ifndef BT_TESTS_SCHED_BED_H
#define BT_TESTS_SCHED_BED_H

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "sched/sched.h"

enum { BED_EVENTS = 64, BED_BYTES = 1 << 20 };

struct bed {
    _Alignas(64) uint8_t memory[BED_BYTES];
    struct bt_sched *s;
    struct bt_sched_event event[BED_EVENTS];
    struct bt_rng rng;
    struct bt_sched_work w;
};

static inline void bed_init(struct bed *b, struct bt_sched_setup setup)
{
    bt_rng_seed(&b->rng, 1);
    b->s = bt_sched_init(b->memory, sizeof b->memory, &setup);
    assert_non_null(b->s);
}

// Four cores that steal, eight flows, a group each.
static inline void bed_stealing(struct bed *b)
{
    bed_init(b, (struct bt_sched_setup){.mode = BT_SCHED_WORK_STEALING, .cores = 4, .flows = 8, .groups = 8});
    for (uint32_t f = 0; f < 8; f++) {
        bt_sched_open(b->s, f, f);
    }
}

static inline enum bt_sched_kind bed_next(struct bed *b, uint32_t core)
{
    bt_sched_next(b->s, core, &b->rng, &b->w);
    return b->w.kind;
}

static inline bool bed_deliver(struct bed *b, uint32_t home, uint32_t event, uint32_t flow)
{
    b->event[event].flow = flow;
    return bt_sched_deliver(b->s, home, &b->event[event]);
}

// The core's own network: its token is taken, events may be delivered, then bed_done.
static inline void bed_network(struct bed *b, uint32_t core)
{
    assert_int_equal(bed_next(b, core), BT_SCHED_NETWORK);
    assert_int_equal(b->w.home, core);
}

static inline void bed_done(struct bed *b, uint32_t home)
{
    do {
        uint32_t flow;
        while ((flow = bt_sched_finished(b->s, home)) != BT_SCHED_NONE) {
            bt_sched_replied(b->s, home, flow);
        }
    } while (bt_sched_release(b->s, home));
}

// Which events the work has, oldest first: "0 1 2".
static inline const char *bed_events(const struct bed *b)
{
    static char text[256];
    size_t at = 0;
    text[0] = 0;
    for (const struct bt_sched_event *e = b->w.events; e != NULL; e = e->next) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", at != 0 ? " " : "", (int)(e - b->event));
    }
    return text;
}

static inline void bed_handled(struct bed *b, uint32_t core)
{
    if (bt_sched_executed(b->s, core, b->w.flow)) {
        bed_done(b, b->w.home);
    }
}

#endif
