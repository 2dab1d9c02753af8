// SPDX-License-Identifier: Apache-2.0
// What the files of this room share; nobody else includes it. For every field it is said who may touch it.
#ifndef BT_SCHED_STATE_H
#define BT_SCHED_STATE_H

#include "sched/sched.h"

// Z-21. READY: in exactly one queue of flows. BUSY: one core executes it, or its replies have not left yet.
enum sched_flow_state { SCHED_FLOW_IDLE, SCHED_FLOW_READY, SCHED_FLOW_BUSY };

struct sched_events {
    SCHED_PLAIN(struct bt_sched_event *) first;
    SCHED_PLAIN(struct bt_sched_event *) last;
};

// Lists of flows are linked by number: number + 1, so that 0 is the end.
struct sched_flows {
    SCHED_PLAIN(uint32_t) first;
    SCHED_PLAIN(uint32_t) last;
};

struct sched_flow {
    SCHED_PLAIN(uint32_t) state;         // home's lock
    SCHED_PLAIN(uint32_t) next;          // home's lock: in a queue of ready flows
    SCHED_PLAIN(uint32_t) finished_next; // who executes it, then the holder of home's token
    SCHED_PLAIN(uint32_t) group;         // holder of home's token while the flow is idle; then read only
    struct sched_events events;          // home's lock
};

#define SCHED_TAG UINT32_C(0x80000000) // of an owner: the group is leaving

struct sched_group {
    sched_word owner;           // its home core, and SCHED_TAG; written by the holder of the home's token and lock
    SCHED_PLAIN(uint32_t) busy; // flows that are BUSY: home's lock
};

struct SCHED_ALIGNED sched_core {
    sched_word lock;          // guards the shuffle queue and the flows that are at home here (Z-23)
    struct sched_flows queue; // the shuffle queue: ready flows, oldest first
    sched_word ready;         // how many, for others to read without the lock

    SCHED_ALIGNED sched_word token; // 1: somebody does this home's network (D-2)
    sched_word finished;            // executed flows of this home, newest first; anybody pushes, the holder takes all
    SCHED_PLAIN(uint32_t) replies;  // the holder's: what it took, oldest first
    sched_word waiting;             // a hint: packets at this home's network
    sched_word asleep;

    SCHED_ALIGNED uint32_t polled; // the core's own: its network has been looked at since it last executed something
    sched_word handled, stolen, borrowed, missed; // the core's own to write
    sched_word astray, moved;                     // the holder's to write
};

// The phases of a migration, in order. Each is entered by one side, which then no longer writes what the other reads.
enum sched_phase {
    SCHED_REST = BT_SCHED_PHASE_REST,
    SCHED_ASKED = BT_SCHED_PHASE_ASKED,     // bt_sched_move → from
    SCHED_HOLDING = BT_SCHED_PHASE_HOLDING, // from has tagged the groups; both ends put packets of them aside
    SCHED_CLOSING = BT_SCHED_PHASE_CLOSING, // to has seen one, or waited long enough, and wants the rest
    SCHED_HANDED = BT_SCHED_PHASE_HANDED,   // from has nothing more of them: what it put aside is to's
};

// What is only the ends' is read by nobody else: a core that is neither end may see a migration that is long over.
struct sched_migration {
    sched_word now; // phase, from and to in one word, so that all three are of one migration; SCHED_REST: none
    SCHED_PLAIN(uint64_t) wait_ns;
    SCHED_PLAIN(uint64_t) deadline; // of HOLDING
    struct sched_events remote;     // put aside at `from`
    struct sched_events local;      // put aside at `to`
    struct sched_flows parked;      // flows of the set that were ready
    uint64_t set[BT_SCHED_GROUPS_MAX / 64];
};

struct bt_sched {
    struct bt_sched_setup setup;
    struct sched_core *core;
    struct sched_flow *flow;
    struct sched_group *group;
    struct sched_migration move;
};

// Everything at rest, in arrays that are there (start.c).
void sched_start(struct bt_sched *s);

#endif
