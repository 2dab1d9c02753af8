// SPDX-License-Identifier: Apache-2.0
// The door of the Raft core: one member of one replication group. It takes what
// happened (a message, the time, a completion of the store, what was applied, a proposal) and answers through the
// functions it was given: messages to send, operations for the store, a state to restore. Pure: no clock, no I/O, no
// allocation after bt_replica_start. Nothing is acknowledged before the store said that it is durable.
#ifndef BT_REPLICA_REPLICA_H
#define BT_REPLICA_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replica/entry.h"

#define BT_REPLICA_PIPELINE_MAX 16u  // messages with entries under way to one member
#define BT_REPLICA_STORE_MAX    256u // operations of the store under way; then nothing more is taken

struct bt_replica; // in memory of the caller's

struct bt_replica_ops {
    void (*send)(void *ctx, uint16_t to, const uint8_t *message, size_t n);
    // The completion comes later, by bt_replica_stored, never from within this call.
    void (*store)(void *ctx, const struct bt_store_op *op);
    // The application's state is to become this one, which is that after last_index; the next entry is last_index + 1.
    void (*restore)(void *ctx, uint64_t last_index, const uint8_t *bytes, uint64_t n);
};

// Who answers a request: whoever has least to execute, or anyone below the bound.
enum bt_replica_repliers { BT_REPLICA_JBSQ, BT_REPLICA_RANDOM };

// HovercRaft: requests come to every member by themselves, and are ordered by their metadata. All 0: Raft, whose
// entries carry their bodies.
struct bt_replica_apart {
    uint32_t kept_requests; // that stand in no log yet, of at most message_bytes each; 0: Raft
    uint32_t recent_pairs;  // remembered as ordered: at least those of quarantine_ns
    uint32_t bound;         // B: what a member that is to answer may have to execute
    enum bt_replica_repliers repliers;
    uint64_t keep_ns;       // a request that nobody ordered goes
    uint64_t quarantine_ns; // a copy of a request may be under way as long as that
    uint64_t recover_ns;    // until another member is asked for a body
    bool aggregator;        // HovercRaft++: there may be one, see replica/aggregator.h
    uint8_t key[16];        // of the bodies' hash, the same at all members; all 0: bt_replica_body_key gives it
};

struct bt_replica_config {
    uint64_t cluster;
    uint32_t group;
    uint16_t id;
    uint16_t pipeline;       // 1…BT_REPLICA_PIPELINE_MAX
    uint64_t election_ns;    // an election begins after one to two of it without a leader
    uint64_t heartbeat_ns;   // well below election_ns
    uint64_t seed;           // of the timers
    uint32_t log_slots;      // entries, a power of two of at least 128
    uint32_t body_bytes;     // of all of them
    uint32_t keep_entries;   // left before a snapshot for members that are a little behind; below log_slots / 2
    uint32_t message_bytes;  // of the largest message, 512…BT_GROUP_MESSAGE_MAX
    uint64_t snapshot_bytes; // of the largest snapshot; twice that is held
    uint32_t hash_every;     // entries from one hash of the state to the next; 0: the application has none
    struct bt_replica_apart apart;
};

// Bytes of memory for a member, aligned for any type; 0 when the configuration is out of its bounds.
size_t bt_replica_bytes(const struct bt_replica_config *c);

enum bt_replica_result {
    BT_REPLICA_OK,
    BT_REPLICA_NOT_LEADER,
    BT_REPLICA_FULL,         // log or store: wait for a snapshot or for completions
    BT_REPLICA_TOO_LONG,     // more than one message carries
    BT_REPLICA_TRANSFERRING, // the leadership is being handed over
    BT_REPLICA_NOT_YET,      // nothing of the own term is committed
    BT_REPLICA_PENDING,      // the change of membership before is not committed, or the snapshot before not durable
    BT_REPLICA_NO_MEMBER,    // no such member
    BT_REPLICA_ALREADY,      // it is what it is to become
    BT_REPLICA_LAST_VOTER,   // nobody would be left
    BT_REPLICA_BEHIND,       // it has not caught up
    BT_REPLICA_FAILED,       // the store failed
    BT_REPLICA_FENCED,       // start: the disk is damaged
    BT_REPLICA_FOREIGN,      // start: memory or records that contradict one another
    BT_REPLICA_DIVERGED,     // its state differs from a majority's
    BT_REPLICA_RESULTS,
};
const char *bt_replica_result_name(enum bt_replica_result r);

// Makes a member from what its store found. *out lies in mem. Restores the snapshot through ops. Its patience with a
// leader begins with the first tick, which is due at once.
enum bt_replica_result bt_replica_start(void *mem, const struct bt_replica_config *c, const struct bt_replica_ops *ops,
                                        void *ctx, const struct bt_recovery *found, struct bt_replica **out);

/* What happened. `now` is this member's clock, which never goes back. */
void bt_replica_receive(struct bt_replica *r, uint64_t now, const uint8_t *message, size_t n);
void bt_replica_tick(struct bt_replica *r, uint64_t now);
void bt_replica_stored(struct bt_replica *r, uint64_t now, uint64_t generation, enum bt_store_result result);
void bt_replica_applied(struct bt_replica *r, uint64_t index); // all up to it

// Is the hash of the state after this entry wanted? To be given once the entry is applied.
bool bt_replica_hash_wanted(const struct bt_replica *r, const struct bt_entry *e);
void bt_replica_hashed(struct bt_replica *r, uint64_t now, uint64_t index, uint64_t hash);

// Puts a command into the log of the leader; *index is where.
enum bt_replica_result bt_replica_propose(struct bt_replica *r, uint64_t now, const uint8_t *body, uint32_t n,
                                          uint64_t *index);

// A request that came to this member by itself (HovercRaft), be it the leader or not; copied. ALREADY: a duplicate.
// A member never refuses one on its own: the oldest goes when there are too many. FOREIGN: of a Raft group.
struct bt_replica_request {
    struct bt_addr client;
    uint16_t req_id;
    bool read_only; // policy 3, else 2
    const uint8_t *body;
    uint32_t length;
};
// The key of the bodies' hash, once, when it is known; before that no request is to be given, and what others send is
// taken as they say.
void bt_replica_body_key(struct bt_replica *r, const uint8_t key[16]);

enum bt_replica_result bt_replica_request(struct bt_replica *r, uint64_t now, const struct bt_replica_request *q);

// Bytes of the longest body that one message of message_bytes carries.
uint32_t bt_replica_request_most(uint32_t message_bytes);

// After bt_replica_applied: a leader may order more, since it has less to execute.
void bt_replica_announce(struct bt_replica *r, uint64_t now);

// What this member does with a committed entry once all before it are applied: nothing, or some of
// these. The application's bytes of a request begin BT_GROUP_META bytes after the entry's.
#define BT_REPLICA_EXECUTE 0x1u
#define BT_REPLICA_ANSWER                                                                                              \
    0x2u // REPLY to the client, FEEDBACK to the flow-control box; whoever proposed a COMMAND knows
unsigned bt_replica_duty(const struct bt_replica *r, const struct bt_entry *e);

enum bt_replica_result bt_replica_transfer(struct bt_replica *r, uint64_t now, uint16_t to);

enum bt_replica_change { BT_REPLICA_ADD_LEARNER, BT_REPLICA_PROMOTE, BT_REPLICA_REMOVE };
enum bt_replica_result bt_replica_change(struct bt_replica *r, uint64_t now, enum bt_replica_change change,
                                         uint16_t id);

// The application's state after `index`, which it has applied. Copied. Entries before it are forgotten once it is
// durable.
enum bt_replica_result bt_replica_snapshot(struct bt_replica *r, uint64_t now, uint64_t index, const uint8_t *bytes,
                                           uint64_t n);

// When bt_replica_tick has something to do next.
uint64_t bt_replica_due(const struct bt_replica *r);

// An entry the log holds: index in (first - 1, last]; the body is valid until the next input.
bool bt_replica_entry(const struct bt_replica *r, uint64_t index, struct bt_entry *out);

enum bt_replica_role { BT_REPLICA_FOLLOWER, BT_REPLICA_ASKING, BT_REPLICA_CANDIDATE, BT_REPLICA_LEADER };

struct bt_replica_status {
    enum bt_replica_role role;
    uint16_t id, leader, vote; // 0: none
    bool failed;               // the store failed
    bool aggregated;           // a leader that sends by way of the aggregator
    uint64_t term, commit, applied;
    uint64_t first, last, durable; // of the log
    uint64_t storing;              // operations that the store has not completed
    uint64_t last_term;
    uint64_t snapshot; // last index of the durable one
    uint64_t config_index;
    bool snapshot_wanted;                 // the log is nearly full: it fills up unless the application gives a snapshot
    bool mending;                         // a member waits for a snapshot that this leader is to take
    struct bt_group_state fenced;         // a majority has this, and this member another state: nothing is to be
                                          // executed until ops.restore. index 0: it is not so
    uint64_t undecided;                   // of a leader: no majority has the same state there. 0: it is not so
    const struct bt_group_config *config; // in force
};
struct bt_replica_status bt_replica_status(const struct bt_replica *r);

// What a leader knows of a member; false when this one does not lead, or knows no such member.
struct bt_replica_peer {
    uint64_t match, applied; // all up to it is durable there; and applied, as it said last
    uint64_t heard_ns;       // when it last answered
    uint64_t diverged;       // where its state differs from a majority's; 0: nowhere
};
bool bt_replica_peer(const struct bt_replica *r, uint16_t id, struct bt_replica_peer *out);

// X(NAME, word, what): why something was dropped, or what happened; each a counter.
#define BT_REPLICA_COUNTER_LIST(ROW)                                                                                   \
    ROW(MALFORMED, "malformed")             /* no message, see bt_group_decode */                                      \
    ROW(FOREIGN, "foreign")                 /* of another cluster or group */                                          \
    ROW(OWN, "own")                         /* from this member's own id */                                            \
    ROW(STALE, "stale")                     /* of an earlier term */                                                   \
    ROW(STRANGER, "stranger")               /* an answer of somebody who is no member */                               \
    ROW(UNASKED, "unasked")                 /* an answer nobody waits for */                                           \
    ROW(LEASE, "lease")                     /* a vote asked for while there is a leader */                             \
    ROW(SECOND_LEADER, "second_leader")     /* of this very term: its sender is wrong */                               \
    ROW(CONFLICT, "conflict")               /* contradicts what is committed: its sender is wrong */                   \
    ROW(MISMATCH, "mismatch")               /* entries that do not follow the log */                                   \
    ROW(NO_ROOM, "no_room")                 /* log full: entries left out */                                           \
    ROW(STORE_BUSY, "store_busy")           /* too many operations under way */                                        \
    ROW(STORE_FAILED, "store_failed")       /* not acknowledged because the disk failed */                             \
    ROW(LATE_COMPLETION, "late_completion") /* names nothing that is under way */                                      \
    ROW(SNAPSHOT_BUSY, "snapshot_busy")     /* another one is being stored */                                          \
    ROW(SNAPSHOT_LARGE, "snapshot_large")   /* above snapshot_bytes */                                                 \
    ROW(SNAPSHOT_ORDER, "snapshot_order")   /* not the bytes that come next */                                         \
    ROW(NOT_VOTER, "not_voter")             /* asked to take over without a vote */                                    \
    ROW(UNSENT, "unsent")                   /* a message that did not fit */                                           \
    ROW(ELECTIONS, "elections")             /* begun by this member */                                                 \
    ROW(LEADERSHIPS, "leaderships")         /* won by it */                                                            \
    ROW(NO_QUORUM, "no_quorum")             /* leaderships given up because most members were silent */                \
    ROW(TRUNCATED, "truncated")             /* entries taken back */                                                   \
    ROW(SNAPSHOTS_INSTALLED, "snapshots_installed")                                                                    \
    ROW(REQUESTS_AGAIN, "requests_again")     /* duplicates */                                                         \
    ROW(REQUESTS_EVICTED, "requests_evicted") /* kept ones that made room */                                           \
    ROW(REQUESTS_EXPIRED, "requests_expired") /* that nobody ordered */                                                \
    ROW(NO_REPLIER, "no_replier")             /* nobody had room for one more to execute */                            \
    ROW(RECOVERIES, "recoveries")             /* questions for bodies */                                               \
    ROW(RECOVERED, "recovered")               /* bodies that came */                                                   \
    ROW(WRONG_BODY, "wrong_body")             /* of another hash than its entry */                                     \
    ROW(BODYLESS, "bodyless")                 /* times that nobody had a body: the leader's state was asked for */     \
    ROW(AGGREGATED, "aggregated")             /* times that this leader began to send by way of the aggregator */      \
    ROW(FALLBACKS, "fallbacks")               /* and that it left it, on any doubt */                                  \
    ROW(AGG_COMMITS, "agg_commits")           /* commits that the aggregator told */                                   \
    ROW(STATES_COMPARED, "states_compared")   /* a leader: indices at which a majority has the same state */           \
    ROW(STATES_DIFFER, "states_differ")       /* a leader: members found with another one */                           \
    ROW(STATES_UNDECIDED, "states_undecided") /* a leader: indices at which no majority has the same */                \
    ROW(FENCED, "fenced")                     /* this member, for its state */                                         \
    ROW(MENDED, "mended")                     /* this member, by a snapshot */
#define BT_REPLICA_COUNTER_VALUE(name, word) BT_REPLICA_##name##_TOTAL,
enum bt_replica_counter { BT_REPLICA_COUNTER_LIST(BT_REPLICA_COUNTER_VALUE) BT_REPLICA_COUNTERS };
const char *bt_replica_counter_name(enum bt_replica_counter c);
const uint64_t *bt_replica_counters(const struct bt_replica *r); // BT_REPLICA_COUNTERS of them

#endif
