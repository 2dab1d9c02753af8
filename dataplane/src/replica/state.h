// SPDX-License-Identifier: Apache-2.0
// The state of a member, for the files of this room only.
#ifndef BT_REPLICA_STATE_H
#define BT_REPLICA_STATE_H

#include "base/rng.h"
#include "replica/kept.h"
#include "replica/log.h"
#include "replica/replica.h"

// How the leader feeds a member: one message at a time until it is known what it has, several at once, or a snapshot.
enum replica_feed { REPLICA_PROBE, REPLICA_STREAM, REPLICA_CHUNKS };

struct replica_peer {
    uint64_t match, next; // durable there; next to be sent
    uint64_t heard_ns;    // when it last answered in this term
    uint64_t applied;
    uint64_t under_way[BT_REPLICA_PIPELINE_MAX]; // last index of each message with entries, oldest first
    uint64_t chunk_index, chunk_offset;          // of the snapshot: which one, next byte
    uint64_t chunk_ns;                           // when it last took one, or was to begin
    uint8_t under_way_n;
    uint8_t feed;                  // enum replica_feed
    bool waiting;                  // probe or chunk unanswered
    bool shared;                   // gets its entries by way of the aggregator
    bool granted;                  // its vote, or its answer to the question before
    uint64_t depth_from, depth_to; // what is counted in `depth`: entries after the one, up to the other
    uint32_t depth, owed;          // to execute, and to answer, of those
    struct bt_group_states states; // as it said last (states.h)
    struct bt_group_state right;   // what a majority has where this one differs; index 0: nowhere
    bool fenced;                   // it says that it knows
    uint64_t bodyless;             // the entry whose body nobody gave it; up to `match`: it is not so
};

// It cannot go on by its log (bodyless.h).
static inline bool replica_bodyless(const struct replica_peer *p)
{
    return p->bodyless > p->match;
}

// Nor has it gone on by its log since then: what it got states for it did not answer.
static inline bool replica_by_states(const struct replica_peer *p)
{
    return p->bodyless != 0 && (p->match <= p->bodyless || p->match <= p->chunk_index);
}

// HovercRaft++ at a member (share.h).
struct replica_share {
    /* of a leader */
    bool on;                                     // it sends by way of the aggregator
    uint64_t epoch, floor;                       // of its probe: which membership, and from where on
    uint64_t next;                               // to be sent that way
    uint64_t seen;                               // what was committed at the last sign of life
    uint64_t under_way[BT_REPLICA_PIPELINE_MAX]; // last index of each message whose commit was not told, oldest first
    uint8_t under_way_n;
    uint64_t ok_ns; // when the aggregator last told all there was to tell
    /* of a follower */
    uint64_t end, end_epoch; // the last entry that came this way, and of which membership
    bool ack_due;            // the aggregator waits for word of what is durable
};

struct replica_lack {
    struct bt_group_lack of;
    uint8_t kind;
};

// What happens to the snapshot that is not the current one.
enum replica_spare { REPLICA_SPARE_IDLE, REPLICA_SPARE_RECEIVING, REPLICA_SPARE_TAKEN, REPLICA_SPARE_INSTALLED };

struct replica_held {
    struct bt_snapshot of; // bytes are ours
    uint8_t *room;
};

struct bt_replica {
    struct bt_replica_config conf;
    struct bt_replica_ops ops;
    void *ctx;
    struct replica_log log;
    struct bt_rng rng;

    enum bt_replica_role role;
    uint64_t term;
    uint16_t vote, leader;
    uint64_t commit, applied;
    uint64_t verified; // the log is the leader's of this term up to here
    bool ack_due;      // the leader waits for word of what is durable

    uint64_t now, election_at, heartbeat_at, quorum_at;
    uint64_t leader_heard_ns;
    bool leader_heard; // ever, since the start

    uint64_t issued, done;    // generations
    uint64_t hard_generation; // of the last term and vote
    bool failed;
    bool vote_due;     // r->vote is told when it is durable
    bool campaign_due; // votes are asked for when the own one is durable
    bool by_transfer;  // the election under way was asked for by the leader

    struct bt_group_config config; // in force: the last one in the log, else the snapshot's
    uint64_t config_index;
    struct replica_peer peer[BT_GROUP_MEMBERS_MAX]; // of config.member[i]

    uint16_t transfer_to; // 0: none
    bool transfer_told;
    uint64_t transfer_until;

    struct replica_held held[2];
    uint8_t current; // of held; the other one is the spare
    enum replica_spare spare;
    uint64_t spare_generation; // TAKEN, INSTALLED: when it is durable
    uint64_t received;         // RECEIVING: bytes so far
    uint64_t received_term;    // RECEIVING: of the leader that sends it
    uint64_t received_ns;

    struct replica_share share;
    struct replica_kept kept;
    struct replica_recent recent;
    uint8_t *whole;               // metadata and body, being put together
    uint64_t born_ns, vouched_ns; // the first word of time; requests from here on were in no log that is not known
    int replied_last;             // the member named last
    struct replica_lack lack[BT_GROUP_RECOVER_MAX];
    uint32_t lacks, lack_asked; // members asked so far
    uint64_t lack_at;           // the next one is asked
    uint32_t lack_in_vain;      // rounds in which nobody had a body, since one was found

    struct bt_group_states states; // of this member
    struct bt_group_state fenced;  // what a majority has where this one differs; index 0: it takes part in full
    uint64_t states_said_ns;
    uint64_t compared;  // a leader: the last index at which a majority has the same state
    uint64_t undecided; // and where none has; 0: nowhere

    uint64_t counter[BT_REPLICA_COUNTERS];
    uint8_t *message; // being written
    struct bt_group_message in, out;
};

static inline void replica_count(struct bt_replica *r, enum bt_replica_counter c)
{
    r->counter[c]++;
}

// Term and vote of this moment are durable.
static inline bool replica_settled(const struct bt_replica *r)
{
    return r->done >= r->hard_generation;
}

static inline const struct bt_snapshot *replica_current(const struct bt_replica *r)
{
    return &r->held[r->current].of;
}

static inline struct replica_held *replica_spare(struct bt_replica *r)
{
    return &r->held[!r->current];
}

static inline bool replica_store_busy(const struct bt_replica *r)
{
    return r->issued - r->done >= BT_REPLICA_STORE_MAX;
}

#endif
