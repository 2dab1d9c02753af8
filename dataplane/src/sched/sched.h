// SPDX-License-Identifier: Apache-2.0
// Run to completion and work stealing (Z-01…Z-27, D-1, D-2): the one door of this room. Who runs it has k threads, one
// a core, and a network for each. This says what each of them does next; it moves no packet, calls no handler, reads no
// clock, starts and stops no thread, and allocates nothing.
//
// A request is an event of a flow. A flow has a home core, where its packets arrive and its replies leave, and is
// executed by one core at a time: at home, or by a thief. So its requests are answered in order (Z-22). What leaves and
// enters a home's network is done by whoever holds the home's stack token: the home itself between handlers, or an idle
// core while the home is in one. A core that finishes a stolen flow puts it on the home's list of finished flows, and
// takes the token if it is free; else its holder finds it. Hints (bt_sched_waiting, sizes of queues that others read)
// may be late or lost: that costs time and never a request.
//
// A core's loop:
//
//   bt_sched_next(s, self, &rng, &w)
//     BT_SCHED_NETWORK  self holds w.home's token: the loop "network" below
//     BT_SCHED_HANDLE   run the handler for w.events of w.flow; then bt_sched_executed(s, self, w.flow):
//                       true: self holds the token of w.home now: the loop "network", where nothing need be polled
//     BT_SCHED_NOTHING  spin a little, or bt_sched_sleep
//   w.wake names a core to wake, whatever there is to do.
//
//   network: do {
//                while ((flow = bt_sched_finished(s, home)) != BT_SCHED_NONE) {
//                    send what the handler left; bt_sched_replied(s, home, flow);
//                }
//                take at most bt_sched_batch(present, bound) packets; bt_sched_deliver each; run due timers;
//                bt_sched_move_step(s, home, nothing is left to take, now)
//            } while (bt_sched_release(s, home));
#ifndef BT_SCHED_H
#define BT_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "sched/atomic.h"
#include "sched/elastic.h"
#include "sched/ladder.h"
#include "sched/measure.h"

#define BT_SCHED_NONE UINT32_MAX

enum {
    BT_SCHED_CORES_MAX = 64,
    BT_SCHED_GROUPS_MAX = 512, // entries of a redirection table (Z-13)
    BT_SCHED_BATCH_MAX = 1024,
};

enum bt_sched_mode {
    BT_SCHED_RUN_TO_COMPLETION, // a core does what arrives at it, batch by batch, and nothing else (Z-03)
    BT_SCHED_WORK_STEALING,     // idle cores help (Z-20)
};

struct bt_sched_setup {
    enum bt_sched_mode mode;
    uint32_t cores;    // 1…BT_SCHED_CORES_MAX
    uint32_t flows;    // at least 1: the numbers that flows have
    uint32_t groups;   // 1…BT_SCHED_GROUPS_MAX; group g begins at core g modulo cores
    uint32_t take_max; // events of one flow that are executed at once; 0: all that are there
    bool keep_stack;   // stealing without D-2: a home lends its network to nobody
};

// A request of a flow, in the caller's memory: nobody else writes it between bt_sched_deliver and its handler's end.
struct bt_sched_event {
    SCHED_PLAIN(struct bt_sched_event *) next;
    uint32_t flow;
};

enum bt_sched_kind { BT_SCHED_NOTHING, BT_SCHED_NETWORK, BT_SCHED_HANDLE };

struct bt_sched_work {
    enum bt_sched_kind kind;
    uint32_t home;                 // whose network, or whose flow
    uint32_t flow;                 // HANDLE
    struct bt_sched_event *events; // HANDLE: oldest first
    uint32_t wake;                 // a sleeping core that is needed; BT_SCHED_NONE: none is
};

struct bt_sched;

// Bytes that a setup takes; 0: it is out of bounds. mem is aligned to 64 bytes and lives as long as the result.
size_t bt_sched_bytes(const struct bt_sched_setup *setup);
struct bt_sched *bt_sched_init(void *mem, size_t bytes, const struct bt_sched_setup *setup);

// Gives a flow that is idle its group. Holder of the token of the group's home, or before the threads start.
void bt_sched_open(struct bt_sched *s, uint32_t flow, uint32_t group);
// Which core has a group's packets now; while the group is moving it is the core that it leaves.
uint32_t bt_sched_home(const struct bt_sched *s, uint32_t group);
// Is the group being moved? Its timers must not fire then (Z-13).
bool bt_sched_moving(const struct bt_sched *s, uint32_t group);

// Z-04: never wait to fill a batch. 1 <= bound.
static inline uint32_t bt_sched_batch(uint32_t present, uint32_t bound)
{
    return present < bound ? present : bound;
}

// Core `self` alone; rng is its own (Z-24).
void bt_sched_next(struct bt_sched *s, uint32_t self, struct bt_rng *rng, struct bt_sched_work *w);
bool bt_sched_executed(struct bt_sched *s, uint32_t self, uint32_t flow);

// Anybody, in any mode: takes home's token if it is free, and is its holder until bt_sched_release says false. For who
// is no core: it serves a home whose core is in a handler, or changes what is the holder's. It rouses a core for what
// it delivers.
bool bt_sched_take(struct bt_sched *s, uint32_t home);

// Holder of home's token. deliver: false, and counted, when the flow's group is neither of this home nor moving to or
// from it: the event stays the caller's.
bool bt_sched_deliver(struct bt_sched *s, uint32_t home, struct bt_sched_event *event);
uint32_t bt_sched_finished(struct bt_sched *s, uint32_t home);
void bt_sched_replied(struct bt_sched *s, uint32_t home, uint32_t flow);
// Gives the token back; true when something was left meanwhile and it was taken again.
bool bt_sched_release(struct bt_sched *s, uint32_t home);

// Anybody: so many packets wait at home's network, as far as is known.
void bt_sched_waiting(struct bt_sched *s, uint32_t home, uint32_t packets);

// Core self wants to sleep. False: there is something to do. True: it sleeps until the core that is named by another
// one's w.wake, or by bt_sched_rouse, is it; the caller's semaphore carries that. What the caller alone knows of (a
// ring that is not empty) it looks at after this said true, and rouses itself; who fills the ring rouses after that.
bool bt_sched_sleep(struct bt_sched *s, uint32_t self);
// Takes a core out of sleep for another reason: true when it slept, and the caller must wake it. What the caller wrote
// before is seen by a core that this finds awake, before it sleeps.
bool bt_sched_rouse(struct bt_sched *s, uint32_t core);

// Migration of flow groups (Z-13), one at a time: false while another one goes on, or when the groups are not all at
// `from`. `set` has a bit a group. wait_ns: how long `to` waits for a first packet of them before it asks for the rest.
// The caller rouses both ends, which do not sleep before it is over.
bool bt_sched_move(struct bt_sched *s, uint32_t from, uint32_t to, const uint64_t *set, uint64_t wait_ns);
enum bt_sched_moved {
    BT_SCHED_MOVE_NOTHING,
    BT_SCHED_MOVE_REDIRECT, // at `from`: let the network bring packets of the set to `to` from now on
                            // (bt_sched_move_set)
    BT_SCHED_MOVE_DONE,     // at `to`: the groups are here
};
// Holder of home's token, after what it took was delivered. empty: nothing waits at home's network.
enum bt_sched_moved bt_sched_move_step(struct bt_sched *s, uint32_t home, bool empty, uint64_t now);
bool bt_sched_move_pending(const struct bt_sched *s);
// How far the one that goes on is, for who measures it.
enum bt_sched_phase {
    BT_SCHED_PHASE_REST,    // there is none
    BT_SCHED_PHASE_ASKED,   // `from` has not looked yet
    BT_SCHED_PHASE_HOLDING, // both ends put aside what comes of the groups
    BT_SCHED_PHASE_CLOSING, // `to` has seen a packet of them, or has waited long enough, and wants the rest
    BT_SCHED_PHASE_HANDED,  // `from` has nothing more of them
};
enum bt_sched_phase bt_sched_move_phase(const struct bt_sched *s);
// Is a group in the set that moves? Only while a migration is pending.
bool bt_sched_move_set(const struct bt_sched *s, uint32_t group);

// What core `self` did, and what happened at home `self`. Reading while others run: each is whole, the sum may be late.
struct bt_sched_counts {
    uint32_t handled, stolen; // flows taken for execution; of other homes
    uint32_t borrowed;        // networks of other homes that were served
    uint32_t missed;          // locks that a thief found taken
    uint32_t astray;          // events that were refused by bt_sched_deliver
    uint32_t moved;           // groups that came here
};
void bt_sched_read_counts(const struct bt_sched *s, uint32_t self, struct bt_sched_counts *out);

#endif
