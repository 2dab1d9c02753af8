// SPDX-License-Identifier: Apache-2.0
// Members in one process: their packets go from one to the other, their disks are folders, the time is the test's. Only
// the storage threads are real.
#ifndef BT_TESTS_RUN_BED_H
#define BT_TESTS_RUN_BED_H

#include "run/aggregator.h"
#include "run/box.h"
#include "run/files.h"
#include "run/member.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    BED_MEMBERS = 5,
    BED_REPLY = 256,
    BED_BOX = 50,
    BED_AGGREGATOR = 60,
    BED_CLIENT = 100
}; // from the box on: end of an address

// A service that counts: a request adds what it holds, the answer is the sum; a read answers the sum.
struct bed_service {
    uint64_t sum, executed;
    uint64_t frozen[2];              // of a snapshot in the background
    unsigned turns, waits, refusals; // how often its end is not yet, still; how often it is not begun
    bool saving;
    struct bt_member **member;
};

struct bed {
    char folder[128];
    struct bt_group_document document;
    struct bt_keyring keys;
    struct bt_pool_fixed pool;
    void *pool_mem;
    struct bt_txq txq;
    uint64_t now;
    struct bt_member *member[BED_MEMBERS + 1]; // by id
    struct bed_service service[BED_MEMBERS + 1];
    struct r2p2_replica_service calls[BED_MEMBERS + 1];
    bool cut[BED_MEMBERS + 1]; // nothing reaches it, nothing comes from it
    struct bed_disk {
        struct bt_disk disk; // first
        struct bt_files files;
        atomic_bool stalled; // a sync waits
        atomic_int fails;    // and then returns this
    } disk[BED_MEMBERS + 1];
    struct bt_box_front *box;               // NULL: there is none, or it is down
    struct bt_aggregator_front *aggregator; // NULL: there is none, or it is down
    unsigned to_aggregator;                 // packets of members to it
    bool deaf[BED_MEMBERS + 1];             // nothing of the box reaches it
    unsigned replies;                       // packets that clients got in all
    uint8_t reply[BED_REPLY];               // of the last client's request that was answered
    uint32_t reply_n;
    uint8_t reply_type; // enum bt_type; 0xff: none came
    uint16_t rid;
    void (*adapt)(struct bed *b, uint16_t id); // what a test changes of a service before its member starts; or NULL
    char said[400];                            // what a member said last, and whether it was bad
    bool said_bad;
    unsigned sayings;
};

// Founders 1…voters of `places` members.
void bed_open(struct bed *b, unsigned voters, unsigned places);
void bed_close(struct bed *b);

// A HovercRaft group with one box, which has been there long enough to speak; the box sends to 239.0.0.1:8200, or to
// one member after the other.
void bed_open_hovercraft(struct bed *b, unsigned voters, bool multicast);
// The same with an aggregator.
void bed_open_hovercraftpp(struct bed *b, unsigned voters, bool as_switch);
// The same with a switch in its place: what is sent there, and what comes from there, has no tag.
void bed_open_boxed_by_switch(struct bed *b, unsigned voters); // the document says so; the box is the software's
void bed_open_switched(struct bed *b, unsigned voters);
void bed_aggregator_start(struct bed *b, bool as_switch);
void bed_aggregator_stop(struct bed *b);
void bed_box_start(struct bed *b);
void bed_box_stop(struct bed *b);

// A packet as a box sends it: a request of the client with this id, signed with this key for this destination.
struct bt_pkt *bed_boxed(struct bed *b, const struct bt_addr *dst, uint16_t rid, uint64_t add,
                         const struct bt_key *key);
void bed_give(struct bed *b, uint16_t id, struct bt_pkt *pkt); // to the port of the member that dst says
struct bt_addr bed_address(uint16_t id, uint16_t port);

void bed_start(struct bed *b, uint16_t id);
bool bed_try(struct bed *b, uint16_t id); // the same; false: there is no such member
void bed_stop(struct bed *b, uint16_t id);
// From now until it starts again its snapshots are written in the background, and take so many turns.
void bed_in_background(struct bed *b, uint16_t id, unsigned turns);
void bed_lose_disk(struct bed *b, uint16_t id); // of a member that is stopped

// A millisecond for all, and the packets that come of it.
void bed_step(struct bed *b);
// Steps until it is so; the test fails when that takes a minute of the bed's time.
void bed_until(struct bed *b, bool (*so)(struct bed *b, uint16_t id), uint16_t id);

struct bt_member_status bed_status(struct bed *b, uint16_t id);
uint16_t bed_leader(struct bed *b); // 0: none

struct bed_ask {
    uint16_t to;
    uint8_t policy;
    uint64_t add, session, seq;
};
// To a member, or to BED_BOX. Sent and not waited for; its id is in rid.
void bed_send(struct bed *b, const struct bed_ask *a);
// A client's request, until it is answered or a second has passed; true with the answer in reply.
bool bed_ask(struct bed *b, const struct bed_ask *a);
uint64_t bed_sum(const struct bed *b, unsigned at); // in the reply, from that byte on

#endif
