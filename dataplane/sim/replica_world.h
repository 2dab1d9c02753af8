// SPDX-License-Identifier: Apache-2.0
// A replication group in virtual time: members, which are the shipped Raft core, their disks, a network, clients, and
// what is known of all of them at once.
#ifndef BOBTAIL_SIM_REPLICA_WORLD_H
#define BOBTAIL_SIM_REPLICA_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "event.h"
#include "replica/aggregator.h"
#include "replica/box.h"
#include "replica/replica.h"
#include "replica/sessions.h"
#include "replica_disk.h"

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)

#define REPLICA_CLUSTER UINT64_C(0xb0b7a11000000001)

enum {
    REPLICA_GROUP = 7,
    REPLICA_MEMBERS = 17, /* ids 1…16; the network knows the aggregator as 0 */
    REPLICA_CLIENTS = 6,
    REPLICA_WAITERS = 64,
    REPLICA_SLOTS = 512,
    REPLICA_MESSAGE = 1452,
    REPLICA_BODIES = 96 * 1024,
    REPLICA_SNAPSHOT = 8192,
    REPLICA_SAYS = 240
};

/* What a sweep looks for. */
enum replica_mode {
    REPLICA_FAULTS,   /* faults, then none: progress must resume */
    REPLICA_BEYOND,   /* more than f members go for good: safety only */
    REPLICA_KILLS,    /* leaders are killed, nothing else: how long until a write is acknowledged */
    REPLICA_COUNTS,   /* nothing happens, one request after the other: messages of the leader */
    REPLICA_SESSIONS, /* faults, and clients that ask again under the same number: executed once */
    REPLICA_DIVERGE,  /* faults, and a member that executes an entry wrongly */
    REPLICA_LACKING   /* faults, and a member that reckons the hash of bodies wrongly for a while */
};

/* How requests come to be ordered. */
enum replica_protocol { REPLICA_RAFT, REPLICA_HOVERCRAFT, REPLICA_HOVERCRAFTPP, REPLICA_PROTOCOLS };

enum replica_event {
    EV_MESSAGE,
    EV_TICK,
    EV_DISK,
    EV_CLIENT,
    EV_REQUEST,
    EV_ANSWER,
    EV_RESTART,
    EV_CRASH,
    EV_BACK,
    EV_FAULT,
    EV_HEAL,
    EV_BOX,      /* a request at the flow-control box: node is the client */
    EV_FEEDBACK, /* at the box */
    EV_BOX_BACK,
    EV_AGGREGATOR_BACK
};

/* Why a run is broken; its name begins the line that says so. */
enum replica_breach {
    REPLICA_HELD,
    REPLICA_TWO_LEADERS,   /* I-1 */
    REPLICA_APPEND_ONLY,   /* I-2 */
    REPLICA_LOG_MATCHING,  /* I-3 */
    REPLICA_INCOMPLETE,    /* I-4 */
    REPLICA_STATE_MACHINE, /* I-5 */
    REPLICA_HISTORY,       /* I-6: acknowledged writes, once, in their order */
    REPLICA_NOT_DURABLE,   /* I-8: acknowledged, counted or committed before it was durable */
    REPLICA_INDICES,       /* I-9 */
    REPLICA_TWO_VOTES,     /* */
    REPLICA_NO_MAJORITY,   /* elected or committed without one */
    REPLICA_MEMBERSHIP,    /* */
    REPLICA_SNAPSHOTS,     /* a snapshot that is not the state at its index */
    REPLICA_FOREIGN_TERM,  /* a term that no member of the group began */
    REPLICA_STORE_MISUSE,  /* an operation that no store could do */
    REPLICA_WRONG_BODY,    /* I-7, I-8, R-308: applied with another body than was ordered */
    REPLICA_BOUND,         /* I-10: a replier with more than B to execute */
    REPLICA_WRONG_REPLIER, /* I-13: answered by another member, or twice */
    REPLICA_READS,         /* I-11, I-12: a read that changes the state, or sees another one than at its place */
    REPLICA_DROPPED,       /* I-6: refused and yet executed */
    REPLICA_ANNOUNCED,     /* I-15: the aggregator announces what no quorum holds, or less than before */
    REPLICA_TWICE,         /* a write that was asked for again was executed again */
    REPLICA_FENCE,         /* who is fenced has another state than the group, and does not lead */
    REPLICA_QUESTIONS,     /* who asks for a body in vain asks ever less */
    REPLICA_NO_PROGRESS,   /* faults ended and nothing went on */
    REPLICA_BREACHES
};

/* The application: a chain of all it applied. */
struct replica_state {
    uint64_t applied, chain;
};

/* What became of an entry: executed (NEW), or what the session table said; where the write was executed, or for an
 * opened session the number to go on from. */
struct replica_did {
    enum bt_session_status status;
    uint64_t index;
};

struct replica_waiter {
    uint64_t index, term, op;
    uint32_t client;
};

struct replica_member {
    struct bt_replica *core; /* NULL: down */
    void *mem;
    struct replica_disk *disk;
    struct replica_state state;
    struct bt_sessions *sessions; /* part of the state, in mode REPLICA_SESSIONS */
    struct replica_did did;       /* with the entry that it applied last */
    struct replica_waiter waiter[REPLICA_WAITERS];
    uint32_t waiters;
    uint32_t incarnation;
    uint64_t answered; /* the last entry it answered in this incarnation */
    uint64_t tick_at, paused_until;
    double rate;                        /* of its clock */
    uint64_t clock_base;                /* its clock at world time 0 */
    bool exists, gone;                  /* ever started; down for good */
    bool astray;                        /* in mode REPLICA_DIVERGE: its state is not the group's */
    bool was_astray;                    /* nor was it when the member ended */
    uint64_t wrong_until, asked_before; /* in mode REPLICA_LACKING: its key is wrong; 0: right */
    /* what the judge saw of it last */
    uint64_t seen_last, seen_commit, seen_term;
    bool seen_leader, seen_fenced;
    uint64_t shadow[REPLICA_SLOTS]; /* terms of its entries */
};

/* An entry that some member had at an index, of one term. */
struct replica_known {
    uint64_t term, hash, prev_term;
    uint32_t next; /* in the list of the index; 0: none */
};

struct replica_committed {
    uint64_t term, hash, chain, op, at_term; /* at_term: of whoever committed it first */
    uint32_t known;                          /* first of its list */
    bool is;
    bool config; /* configuration that it carries: body */
    bool read;
    bool settled, executed; /* with sessions: the first to apply it has said what became of it */
    uint16_t replier;       /* of a request */
    struct bt_group_config body;
};

struct replica_vote {
    uint64_t term;
    uint16_t to;
};

enum { REPLICA_VOTES = 64 }; /* latest of a member */

struct replica_client {
    uint64_t seq, op;        /* op: outstanding; 0: none */
    uint64_t sent_at, floor; /* floor: highest index acknowledged to anybody when it was sent */
    uint16_t target, wake;   /* wake: the latest alarm */
    uint64_t acked;          /* writes */
    uint32_t silent;         /* attempts in a row that nobody answered, since faults ended */
    /* with sessions: seq is within the session */
    uint32_t session, sends;
    bool opened, again; /* again: the write is to be asked for again */
};

struct replica_ack {
    uint64_t index, op;
};

struct replica_counts {
    uint64_t events, after_votes, amid_stores, disks_failed, tails, messages, writes, acked, elections, crashes,
        restarts, cuts, one_way, isolations, pauses, transfers, changes, snapshots, installs, lost, duplicated, late,
        foreign, cut_short, stalls, leader_kills, reads, nacked, recoveries, recovered, boxes, aggregators, aggregated,
        fallbacks, announced, repeated, forgotten, planted, spread, fenced, bodyless;
};

/* Messages of the leader (table 12.1), and those that are counted apart: signs of life, empty appends that announce a
 * commit and their answers, questions for bodies. */
struct replica_tally {
    uint64_t tx_entries, tx_replies, rx_requests, rx_acks, apart;
    uint64_t acked[REPLICA_MEMBERS]; /* by member: up to where */
    uint64_t asked[REPLICA_MEMBERS]; /* by member: the last entry that was sent to it */
};

struct replica_rules { /* drawn from the seed */
    double loss, duplicate, late;
    uint64_t delay_ns, spread_ns, late_ns;
    uint64_t sync_ns, stall_ns;
    double stall;
    uint32_t keep, snapshot_every, apply_most, clients, members, log_slots;
    uint64_t election_ns, heartbeat_ns;
    bool wal; /* the shipped log, on disks that tear; else a log that is whole or not there */
    double sync_fails;
    bool same_timers;              /* members draw alike: elections collide */
    struct bt_replica_apart apart; /* HovercRaft; all 0: Raft */
    uint32_t box_limit;
    double reads;        /* of the requests */
    double after_a_vote; /* a member crashes when it has told its vote, and is back soon */
    uint32_t sessions;   /* that a member knows at most; 0: there are none */
};

struct replica_world {
    struct sim_agenda agenda;
    struct bt_rng rng;
    enum replica_mode mode;
    struct replica_rules rules;
    struct replica_member member[REPLICA_MEMBERS];
    bool cut[REPLICA_MEMBERS][REPLICA_MEMBERS]; /* from, to */
    struct replica_client client[REPLICA_CLIENTS];
    bool calm;    /* faults are over */
    bool closing; /* no more writes */
    bool done;
    uint32_t stage;
    uint64_t stage_at, stage_tried, stage_acked[REPLICA_CLIENTS], stage_index;
    uint16_t stage_target;
    uint64_t stage_term;
    uint32_t stage_failed;
    uint64_t faults_end;
    uint16_t sending; /* the member whose input is being taken */

    /* all that was ever true */
    struct replica_committed *at; /* by index */
    uint64_t at_room, commit;     /* highest committed by anybody */
    struct replica_known *known;
    uint32_t known_n, known_room;
    uint16_t *leader_of; /* by term */
    uint64_t terms_room, term_most;
    struct replica_vote vote[REPLICA_MEMBERS][REPLICA_VOTES];
    struct replica_ack *ack;
    uint64_t acks, acks_room, acked_index;

    struct bt_box *box; /* NULL: down */
    void *box_mem;
    struct replica_ack *dropped; /* requests a client was told DROP for */
    uint64_t drops, drops_room;
    uint64_t lost_replies_most; /* answers that went with one member */

    struct replica_aggregator { /* HovercRaft++ */
        struct bt_aggregator a;
        bool up, as_switch;
        uint64_t seen_term, seen_epoch, seen_commit; /* of what it announced since it began anew */
    } aggregator;

    struct replica_tally tally;

    uint32_t planted; /* entries that a member executed wrongly, or times that its key was wrong */
    uint64_t plant_at;
    bool spread; /* a member got its state from one that was not found yet: no majority is to be relied on */

    uint64_t tail_seq;
    uint64_t killed_at; /* a leader; 0: none that is not replaced */
    uint64_t failover[64];
    uint32_t failovers;

    enum replica_breach breach;
    char says[REPLICA_SAYS];
    struct replica_counts count;
};

/* The member's own clock. */
static inline uint64_t replica_clock(const struct replica_world *w, uint16_t id)
{
    return w->member[id].clock_base + (uint64_t)((double)w->agenda.now * w->member[id].rate);
}

static inline bool replica_chance(struct replica_world *w, double p)
{
    return p > 0 && bt_rng_unit(&w->rng) < p;
}

static inline uint64_t replica_draw(struct replica_world *w, uint64_t least, uint64_t most)
{
    return least + bt_rng_next(&w->rng) % (most - least + 1);
}

#endif
