// SPDX-License-Identifier: Apache-2.0
// Members in one process: their packets go from one to the other, their disks are folders, the time is the test's. Only
// the storage threads are real.
#ifndef BT_TESTS_RUN_BED_H
#define BT_TESTS_RUN_BED_H

#include "run/files.h"
#include "run/member.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { BED_MEMBERS = 5, BED_REPLY = 256 };

// A service that counts: a request adds what it holds, the answer is the sum; a read answers the sum.
struct bed_service {
    uint64_t sum, executed;
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
    uint8_t reply[BED_REPLY]; // of the last client's request that was answered
    uint32_t reply_n;
    uint8_t reply_type; // enum bt_type; 0xff: none came
    uint16_t rid;
};

// Founders 1…voters of `places` members.
void bed_open(struct bed *b, unsigned voters, unsigned places);
void bed_close(struct bed *b);

void bed_start(struct bed *b, uint16_t id);
void bed_stop(struct bed *b, uint16_t id);
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
// A client's request, until it is answered or a second has passed; true with the answer in reply.
bool bed_ask(struct bed *b, const struct bed_ask *a);
uint64_t bed_sum(const struct bed *b, unsigned at); // in the reply, from that byte on

#endif
