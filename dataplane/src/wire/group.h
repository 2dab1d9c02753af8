// SPDX-License-Identifier: Apache-2.0
// Messages between the members of a replication group, each the payload of one R2P2 message of type 5 or 6: a
// header of 24 bytes, then what its type says. Big endian, every field that a switch may keep on 4 bytes. The key's tag
// stands in the R2P2 header's options and covers the whole payload; BT_GROUP_TAG_ROOM is left for it.
//
//   header       version u8, type u8, from u16, group u32, term u64, cluster u64
//   vote         flags u32, asked u64, last index u64, last term u64
//   vote reply   flags u32, asked u64
//   append       count u32, prev index u64, prev term u64, commit u64; count entries: term u64, length u32, kind u8,
//                reserved u8, reserved u16, length bytes
//   append reply flags u32, index u64, last u64, applied u64
//   snapshot     length u32, last index u64, last term u64, total u64, offset u64; a configuration; length bytes
//   snapshot reply  flags u32, last index u64, offset u64
//   take over    nothing
//   recovery     count u32; count times: index u64, metadata
//   recovery reply  flags u32, index u64, metadata; with YES the body
//   committed    count u32, epoch u64, commit u64; count times: id u16, reserved u16, applied u64
//   probe        flags u32, epoch u64, floor u64, a configuration
//   probe reply  flags u32, epoch u64, floor u64
//   shared       what an append has up to its commit, epoch u64, entries: an append by way of the aggregator
//   shared reply an append reply, epoch u64
//   state        flags u32, count u32, applied u64; count times: index u64, hash u64
//   diverged     a state whose count is 1: what a majority has at that index
//   metadata     ip 16 bytes, port u16, request id u16, replier u16, reserved u16, body length u32, hash u64
//
// The body of an ordered request (kinds WRITE and READ) begins with its metadata. In an append it may end there: then
// whoever takes it has the rest already, by multicast (HovercRaft), or asks for it.
//   configuration   count u16; count members: id u16, role u8, reserved u8
#ifndef BT_WIRE_GROUP_H
#define BT_WIRE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

#define BT_GROUP_VERSION     1u
#define BT_GROUP_MEMBERS_MAX 16u // 9 voters and the learners beside them
#define BT_GROUP_HEADER      24u
#define BT_GROUP_ENTRY       16u    // an entry's bytes before its body
#define BT_GROUP_ENTRIES_MAX 64u    // in one message
#define BT_GROUP_MESSAGE_MAX 65000u // bytes; above one packet a message of several
#define BT_GROUP_TAG_ROOM    20u    // R2P2 header with the tag option
#define BT_GROUP_CONFIG_MAX  (2u + 4u * BT_GROUP_MEMBERS_MAX)
#define BT_GROUP_META        36u     // bytes of an ordered request's metadata
#define BT_GROUP_RECOVER_MAX 16u     // bodies asked for in one message
#define BT_GROUP_STATES_MAX  8u      // hashes of states in one message
#define BT_GROUP_AGGREGATOR  0xffffu // the aggregator's id, never a member's: `from` of what it says by itself

// What an entry is. WRITE and READ are requests that came by themselves: their body begins with their metadata.
enum bt_entry_kind { BT_ENTRY_NOOP, BT_ENTRY_CONFIG, BT_ENTRY_COMMAND, BT_ENTRY_WRITE, BT_ENTRY_READ, BT_ENTRY_KINDS };

// Which request an entry orders, and who answers it.
struct bt_group_meta {
    struct bt_addr client;
    uint16_t req_id;
    uint16_t replier; // member id; 0: not chosen yet, never in a log
    uint32_t length;  // of the request's body
    uint64_t hash;    // of it, bt_group_body_hash
};

// Metadata and a body; index is implied on the wire and written on a disk.
struct bt_entry {
    uint64_t index, term;
    const uint8_t *body; // length bytes, the holder's
    uint32_t length;
    uint8_t kind; // enum bt_entry_kind
};

enum bt_group_role { BT_GROUP_VOTER = 1, BT_GROUP_LEARNER = 2 };

struct bt_group_member {
    uint16_t id; // never 0, never given twice
    uint8_t role;
};

struct bt_group_config {
    struct bt_group_member member[BT_GROUP_MEMBERS_MAX]; // ids rise
    uint16_t count;
};

enum bt_group_type {
    BT_GROUP_VOTE = 0,
    BT_GROUP_VOTE_REPLY = 1,
    BT_GROUP_APPEND = 2,
    BT_GROUP_APPEND_REPLY = 3,
    BT_GROUP_COMMITTED = 4,   // the aggregator to all: AGG_COMMIT
    BT_GROUP_PROBE = 5,       // a leader to the aggregator: who is in the group, and are you there?
    BT_GROUP_PROBE_REPLY = 6, // its answer
    BT_GROUP_RECOVERY = 7,
    BT_GROUP_RECOVERY_REPLY = 8,
    BT_GROUP_SNAPSHOT = 9,
    BT_GROUP_SNAPSHOT_REPLY = 10,
    BT_GROUP_TAKE_OVER = 11,
    BT_GROUP_SHARED = 12,       // a leader to the aggregator, which passes it on as it is
    BT_GROUP_SHARED_REPLY = 13, // a follower to the aggregator
    BT_GROUP_STATE = 14,        // a member to its leader: hashes of its states
    BT_GROUP_DIVERGED = 15,     // the leader to a member: a majority has another state
};

/* Flags of votes, of replies and of states. */
#define BT_GROUP_PRE      0x1u  // a question before a vote: changes nobody's state
#define BT_GROUP_TRANSFER 0x2u  // the leader asked for this election
#define BT_GROUP_YES      0x4u  // granted, appended, installed
#define BT_GROUP_DURABLE  0x8u  // of a probe: what the leader sends this way is durable at the leader
#define BT_GROUP_FENCED   0x10u // of a state: it is known to differ from a majority's
#define BT_GROUP_BODYLESS 0x20u // of a refused append: nobody has the body of the entry after `last`

struct bt_group_header {
    uint8_t version, type;
    uint16_t from;
    uint32_t group;
    uint64_t term, cluster;
};

struct bt_group_vote {
    uint32_t flags;
    uint64_t asked; // the term the candidate wants
    uint64_t last_index, last_term;
};

struct bt_group_append {
    uint64_t prev_index, prev_term, commit;
    uint64_t epoch; // of SHARED: the entry that named the members
    uint32_t count;
    struct bt_entry entry[BT_GROUP_ENTRIES_MAX]; // bodies lie in the message
};

struct bt_group_append_reply {
    uint32_t flags;
    uint64_t index;   // YES: all up to here are durable; else the previous index that was refused
    uint64_t last;    // refused: the leader may try after this one
    uint64_t applied; // the follower's
    uint64_t epoch;   // of SHARED_REPLY
};

// How far a member applied, as the aggregator heard last.
struct bt_group_done {
    uint16_t id;
    uint64_t applied;
};

struct bt_group_committed {
    uint64_t epoch, commit;
    uint32_t count;
    struct bt_group_done done[BT_GROUP_MEMBERS_MAX];
};

// Of the leader to the aggregator, and without members back. floor: what is committed, with an entry of this term.
struct bt_group_probe {
    uint32_t flags;
    uint64_t epoch, floor;
    struct bt_group_config config;
};

struct bt_group_snapshot {
    uint64_t last_index, last_term, total, offset;
    struct bt_group_config config;
    uint32_t length;
    const uint8_t *bytes; // in the message
};

struct bt_group_snapshot_reply {
    uint32_t flags;
    uint64_t last_index, offset; // the next byte wanted; YES: installed and durable
};

struct bt_group_lack {
    uint64_t index;
    struct bt_group_meta meta;
};

struct bt_group_recovery {
    uint32_t count;
    struct bt_group_lack lack[BT_GROUP_RECOVER_MAX];
};

struct bt_group_recovery_reply {
    uint32_t flags; // YES: the body follows
    struct bt_group_lack of;
    const uint8_t *body; // of.meta.length bytes in the message; NULL when it is not held
};

// The state after an entry.
struct bt_group_state {
    uint64_t index, hash;
};

struct bt_group_states {
    uint32_t flags, count;
    uint64_t applied;
    struct bt_group_state at[BT_GROUP_STATES_MAX]; // indices rise
};

struct bt_group_message {
    struct bt_group_header header;
    union {
        struct bt_group_vote vote; // of VOTE and, without a log, of VOTE_REPLY
        struct bt_group_append append;
        struct bt_group_append_reply append_reply;
        struct bt_group_snapshot snapshot;
        struct bt_group_snapshot_reply snapshot_reply;
        struct bt_group_recovery recovery;
        struct bt_group_recovery_reply recovery_reply;
        struct bt_group_committed committed;
        struct bt_group_states states; // of STATE and, with one, of DIVERGED
        struct bt_group_probe probe;   // of PROBE and, without a configuration, of PROBE_REPLY
    };
};

// Why a message is refused; each has a counter.
#define BT_GROUP_ERROR_LIST(ROW)                                                                                       \
    ROW(SHORT, "short")       /* ends inside a field */                                                                \
    ROW(LONG, "long")         /* bytes after its end, or above the largest message */                                  \
    ROW(VERSION, "version")   /* not a version we know */                                                              \
    ROW(TYPE, "type")         /* not a type we know */                                                                 \
    ROW(FROM, "from")         /* member 0, or not the aggregator where it must be, or it where it must not */          \
    ROW(TERM, "term")         /* term 0, or an entry's above the message's or falling */                               \
    ROW(FLAGS, "flags")       /* a bit that has no meaning here */                                                     \
    ROW(COUNT, "count")       /* more entries or members than a message may have */                                    \
    ROW(KIND, "kind")         /* an entry of an unknown kind */                                                        \
    ROW(INDEX, "index")       /* an index that contradicts another, or would wrap */                                   \
    ROW(CONFIG, "config")     /* members not in order, an unknown role, or none that votes */                          \
    ROW(RESERVED, "reserved") /* a reserved byte that is not 0 */                                                      \
    ROW(META, "meta")         /* no replier, or a body of another length than it says */
#define BT_GROUP_ERROR_VALUE(name, word) BT_GROUP_BAD_##name,
enum bt_group_error { BT_GROUP_OK, BT_GROUP_ERROR_LIST(BT_GROUP_ERROR_VALUE) BT_GROUP_ERRORS };

// What is wrong and at which byte.
struct bt_group_fault {
    enum bt_group_error error;
    uint32_t at;
};

const char *bt_group_error_name(enum bt_group_error e);

// Reads p[0..n); entries and bytes of *out point into it.
struct bt_group_fault bt_group_decode(const uint8_t *p, size_t n, struct bt_group_message *out);

// Writes m, which decode would accept, and returns its bytes; 0 when room is too small.
size_t bt_group_encode(uint8_t *p, size_t room, const struct bt_group_message *m);

// A configuration alone, the body of an entry of kind CONFIG. Exactly n bytes.
struct bt_group_fault bt_group_config_decode(const uint8_t *p, size_t n, struct bt_group_config *out);
size_t bt_group_config_encode(uint8_t *p, size_t room, const struct bt_group_config *c);

// Metadata alone: BT_GROUP_META bytes at p.
void bt_group_meta_put(uint8_t *p, const struct bt_group_meta *m);
struct bt_group_meta bt_group_meta_get(const uint8_t *p);

static inline bool bt_group_is_request(const struct bt_entry *e)
{
    return e->kind == BT_ENTRY_WRITE || e->kind == BT_ENTRY_READ;
}

// Under a key that clients do not know: else one could give two members two bodies of the same hash.
uint64_t bt_group_body_hash(const uint8_t key[16], const uint8_t *body, uint32_t n);

#endif
