// SPDX-License-Identifier: Apache-2.0
// A member of a replication group as a whole: the Raft core, its disk, the service and its clients, driven by whoever
// has the network and the time. Packets and `now` in, packets out; besides its storage thread it has none of its own,
// and it reads no clock.
//
// The core's inputs come from here in the order they happened, and its outputs go out in the order it gave them: the
// same as in the simulator (sim/replica_member.c).
#ifndef BT_RUN_MEMBER_H
#define BT_RUN_MEMBER_H

#include "base/histogram.h"
#include "base/pkt.h"
#include "bobtail/replica.h"
#include "ctl/group_document.h"
#include "replica/replica.h"
#include "rpc/server.h"
#include "run/cluster.h"
#include "wire/group_packet.h"

#define BT_MEMBER_CLIENTS 0u // bt_pkt.local of the port that takes clients' requests
#define BT_MEMBER_MEMBERS 1u // and of the one between members
#define BT_MEMBER_GROUP   2u // and of the multicast group of requests, where the document names one

#define BT_MEMBER_IN_FLIGHT_MAX 4096u

struct bt_member;

struct bt_member_config {
    const struct bt_group_document *document; // copied
    const char *name;                         // which of its members this is
    const char *folder;                       // of the disk
    struct bt_disk *disk;                     // instead of the folder; NULL: the folder
    struct bt_addr members, clients;          // own addresses as bound
    struct bt_keyring keys;
    uint16_t mtu;
    struct bt_pool *pool;
    struct bt_txq *txq; // where packets go, whatever call makes them
    const struct r2p2_replica_service *service;
    struct bt_hist_slices *latency; // first packet in → reply out, of requests this member answered
    uint64_t seed[3];
    uint32_t incarnation;
    void (*wake)(void *arg);                            // the storage thread has something to say
    void (*say)(void *arg, bool bad, const char *text); // what its owner should know; from within any call
    void *arg;
};

enum bt_member_phase {
    BT_MEMBER_RUNNING,
    BT_MEMBER_REFUSED, // by the group: it takes no part any more
    BT_MEMBER_FAILED,  // its disk, or its state: likewise
};

// Opens the disk and takes part. A disk that must not or cannot be used makes a member of phase FAILED, which says why
// and does nothing. NULL: no memory.
struct bt_member *bt_member_open(const struct bt_member_config *c, uint64_t now);
// Makes durable what was given to the disk.
void bt_member_close(struct bt_member *m);

/* What happens. */
void bt_member_receive(struct bt_member *m, uint64_t now, struct bt_pkt *pkt); // consumed
// Completions of the disk, with `timers` those timers that are due, and what follows from all that happened since the
// last call.
void bt_member_turn(struct bt_member *m, uint64_t now, bool timers);
uint64_t bt_member_next(const struct bt_member *m); // when to call turn at the latest

// A new document and new keys for a running member; may_follow was asked before.
void bt_member_reconfigure(struct bt_member *m, const struct bt_group_document *d, const struct bt_keyring *keys);

/* What an owner may ask for. */
struct bt_member_order {
    enum bt_replica_change change;
    uint16_t id;
    struct bt_addr address, client; // ADD_LEARNER
    const char *name;               // ADD_LEARNER
};
// *index: of the entry; it is done when that is committed.
enum bt_replica_result bt_member_change(struct bt_member *m, uint64_t now, const struct bt_member_order *o,
                                        uint64_t *index);
// id 0: to whoever holds most of those that were heard lately; *to: who.
enum bt_replica_result bt_member_transfer(struct bt_member *m, uint64_t now, uint16_t id, uint16_t *to);
enum bt_replica_result bt_member_snapshot(struct bt_member *m, uint64_t now, uint64_t *index);

// Within the service's recv only.
int bt_member_respond(struct bt_member *m, uint64_t handle, const struct iovec *iov, int iovcnt);
bool bt_member_read_only(const struct bt_member *m, uint64_t handle);

/* What is known of it. */
struct bt_member_peer {
    uint16_t id;
    bool voter, registered, lagging_known;
    char name[BT_CONFIG_TEXT];
    struct bt_addr address, client; // zeroes: not known
    uint64_t match, applied, lag;   // lagging_known
    int64_t heard_ms_ago;           // -1: not known
};

struct bt_member_status {
    enum bt_member_phase phase;
    bool ready, formed;
    bool takes_requests; // of boxes: the group is formed, and the key of the bodies' hash is known
    const char *reason;  // "" when ready
    const char *message; // for people; ""
    const char *disk;    // "Healthy", "Failed", …
    uint8_t disk_id[16];
    struct bt_replica_status core; // zeroes without a core
    bool learner;                  // has no vote
    uint64_t snapshot_bytes;
    uint32_t voters, needed, heard;
    uint16_t leader;
    char leader_name[BT_CONFIG_TEXT];
    struct bt_addr leader_client; // zeroes: not known
    struct bt_member_peer peer[BT_GROUP_MEMBERS_MAX];
    uint32_t peers;
    uint16_t removed[64];
    uint32_t n_removed;
    uint32_t in_flight;
};
void bt_member_status(const struct bt_member *m, uint64_t now, struct bt_member_status *out);

// X(NAME, word, what): packets and requests that were passed over, and what happened; each a counter.
#define BT_MEMBER_COUNTER_LIST(ROW)                                                                                    \
    BT_GROUP_PACKET_LIST(ROW)                                                                                          \
    ROW(WRONG_DISK, "wrong_disk")   /* of a member, from another disk than its own */                                  \
    ROW(REMOVED_MEMBER, "removed")  /* of somebody who was removed */                                                  \
    ROW(NOT_RUNNING, "not_running") /* this member takes no part */                                                    \
    ROW(NOTE, "note")               /* a note that concerns nobody here */                                             \
    ROW(UNSAID, "untagged_kind")    /* without a tag, and nothing that an aggregator says or passes on */              \
    ROW(AHEAD, "untagged_term")     /* without a tag, of a term that no tagged message told of */
#define BT_MEMBER_COUNTER_VALUE(name, word) BT_MEMBER_BAD_##name,
enum bt_member_counter {
    BT_MEMBER_COUNTER_LIST(BT_MEMBER_COUNTER_VALUE) BT_MEMBER_ACCEPTED, // packets handed to the core
    BT_MEMBER_SENT,
    BT_MEMBER_NO_ADDRESS,   // messages for a member nobody knows the address of
    BT_MEMBER_NO_BUFFER,    // messages without a buffer
    BT_MEMBER_UNREGISTERED, // answers to the aggregator that were withheld: the log does not name this disk
    BT_MEMBER_NOTES_SENT,
    BT_MEMBER_APPLIED_WRITES,
    BT_MEMBER_APPLIED_READS, // executed here
    BT_MEMBER_REPEATED,      // writes that were executed before
    BT_MEMBER_SESSIONS_OPENED,
    BT_MEMBER_SNAPSHOTS,
    BT_MEMBER_SNAPSHOT_TOO_LARGE,
    // Requests that boxes send: not looked into, in the order of BT_GROUP_PACKET_LIST; and what became of them.
    BT_MEMBER_BOXED_BAD_FORM,
    BT_MEMBER_BOXED_TAKEN = BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_RESULTS - 1,
    BT_MEMBER_BOXED_AGAIN,     // a duplicate
    BT_MEMBER_BOXED_TOO_LONG,  // more than one message between members carries
    BT_MEMBER_BOXED_EARLY,     // the group is not formed, or this member takes no part
    BT_MEMBER_ANSWERED,        // of them, from here
    BT_MEMBER_ANSWERED_BEFORE, // the same pair, lately
    BT_MEMBER_ANSWER_TOO_LATE, // it was in the log when this member started, or was cut off or stopped for long
    BT_MEMBER_FEEDBACK_SENT,
    BT_MEMBER_DROP_FIRST, // by enum bt_drop_reason
    BT_MEMBER_COUNTERS = BT_MEMBER_DROP_FIRST + BT_DROP_REASONS,
};
extern const struct bt_counter_desc bt_member_counter_desc[BT_MEMBER_COUNTERS];
extern const struct bt_counter_desc bt_member_core_counter_desc[BT_REPLICA_COUNTERS];
const uint64_t *bt_member_counters(const struct bt_member *m);
const uint64_t *bt_member_core_counters(const struct bt_member *m);   // NULL: there is no core
const uint64_t *bt_member_server_counters(const struct bt_member *m); // likewise
uint32_t bt_member_backlog(const struct bt_member *m);

#endif
