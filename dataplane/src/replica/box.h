// SPDX-License-Identifier: Apache-2.0
// The flow-control box before a replication group: how many requests are in the group at once. It
// counts pairs, not credits: one request at N members gets one reply, and one FEEDBACK. Soft state only: a box that
// starts anew is empty and lets few in at first. Pure; the driver copies what passes to every member, by multicast or
// one by one.
#ifndef BT_REPLICA_BOX_H
#define BT_REPLICA_BOX_H

#include "base/pairs.h"

struct bt_box_config {
    uint32_t limit;         // requests in the group at once
    uint64_t timeout_ns;    // a pair without FEEDBACK leaves then: its replier died, or its request was lost
    uint64_t slow_start_ns; // after a start the limit grows from a sixteenth to the whole
    uint64_t quarantine_ns; // how long a copy of a packet may be under way: what was said of a pair holds so long
    uint32_t recent_pairs;  // remembered so: at least the requests of quarantine_ns
    uint64_t seed;
    // As a switch does it: requests are offered `limit` slots in turn, also copies and those that get none; a slot is
    // free when it was answered, or when its time is over. It neither keeps silent at first nor starts slowly: a switch
    // takes longer than that to start (W-21).
    bool as_switch;
};

enum bt_box_verdict {
    BT_BOX_PASS,  // to every member
    BT_BOX_AGAIN, // is or was in the group: a duplicate; to every member, counted once
    BT_BOX_NACK,  // DROP to the client: at the limit, or this pair was refused before (I-6)
    BT_BOX_HUSH   // nothing at all: a box that has just started does not know what it said before
};

struct bt_box; // in memory of the caller's

size_t bt_box_bytes(const struct bt_box_config *c); // 0: out of bounds
struct bt_box *bt_box_start(void *mem, const struct bt_box_config *c, uint64_t now);

enum bt_box_verdict bt_box_request(struct bt_box *b, uint64_t now, const struct bt_addr *client, uint16_t req_id);

// One request was answered; false when it is not there, a second word or one after its time.
bool bt_box_feedback(struct bt_box *b, uint64_t now, const struct bt_addr *client, uint16_t req_id);

struct bt_box_counts {
    uint32_t inside;
    uint64_t passed, again, nacked, hushed, answered, unknown, timed_out;
};
struct bt_box_counts bt_box_counts(struct bt_box *b, uint64_t now);

#endif
