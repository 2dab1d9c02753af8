// SPDX-License-Identifier: Apache-2.0
// A flow-control box as a whole: the address of a HovercRaft group for its clients. It counts what is
// in the group (replica/box.h), refuses what is too much, and sends the rest to every member with the client's address
// and the group's tag, by multicast or one by one. Packets and `now` in, packets out; it reads no clock and keeps
// nothing that it could not lose.
#ifndef BT_RUN_BOX_H
#define BT_RUN_BOX_H

#include "base/counters.h"
#include "ctl/group_document.h"
#include "replica/box.h"
#include "rpc/port.h"
#include "wire/group_packet.h"

#define BT_BOX_CLIENTS  0u // bt_pkt.local of the port that takes clients' requests, and sends to members
#define BT_BOX_FEEDBACK 1u // and of the one where members say what they answered

// X(NAME, word): requests and FEEDBACK that were passed over, or refused with this reason; each a counter.
#define BT_BOX_COUNTER_LIST(ROW)                                                                                       \
    ROW(MALFORMED, "malformed")               /* no R2P2 packet a client sends, or from an address no client has */    \
    ROW(FORGED, "forged")                     /* from a client that says it is somebody else, or signs */              \
    ROW(REST, "rest")                         /* of a request of several packets, refused with its first */            \
    ROW(TOO_LONG, "too_long")                 /* DROP: more than one packet of a member carries (R-314) */             \
    ROW(UNORDERED, "unordered")               /* DROP: policies 0 and 1 go to a member */                              \
    ROW(BUSY, "busy")                         /* DROP: at the limit */                                                 \
    ROW(HUSHED, "hushed")                     /* not answered: the box has just started (R-333) */                     \
    ROW(FEEDBACK_FORM, "feedback_form")       /* no FEEDBACK about a pair */                                           \
    ROW(FEEDBACK_TAG, "feedback_tag")         /* without the group's tag, or a wrong one */                            \
    ROW(FEEDBACK_UNKNOWN, "feedback_unknown") /* of a pair that is not here (any more) */                              \
    ROW(NO_BUFFER, "no_buffer")               /* copies that could not be sent */
#define BT_BOX_COUNTER_VALUE(name, word) BT_BOX_BAD_##name,
enum bt_box_counter {
    BT_BOX_COUNTER_LIST(BT_BOX_COUNTER_VALUE) BT_BOX_PASSED, // to every member
    BT_BOX_PASSED_AGAIN,                                     // a duplicate
    BT_BOX_ANSWERED,
    BT_BOX_TIMED_OUT, // left without FEEDBACK
    BT_BOX_COPIES,    // packets to members or to their multicast group
    BT_BOX_COUNTERS,
};
extern const struct bt_counter_desc bt_box_counter_desc[BT_BOX_COUNTERS];

struct bt_box_front_config {
    const struct bt_group_document *document; // copied
    struct bt_addr clients, feedback;         // own addresses as bound
    struct bt_keyring keys;
    uint16_t mtu; // the members' as well
    struct bt_pool *pool;
    struct bt_txq *txq; // where packets go
    uint64_t seed;
    uint32_t recent_pairs; // remembered as refused or passed; 0: those of a busy quarantine
};

struct bt_box_front;

// NULL: no memory.
struct bt_box_front *bt_box_front_open(const struct bt_box_front_config *c, uint64_t now);
void bt_box_front_close(struct bt_box_front *b);

void bt_box_front_receive(struct bt_box_front *b, uint64_t now, struct bt_pkt *pkt); // consumed

// A new document and new keys; may_follow was asked before. With another limit it begins anew, as after a restart.
// False: no memory for that, and all is as it was.
bool bt_box_front_reconfigure(struct bt_box_front *b, uint64_t now, const struct bt_group_document *d,
                              const struct bt_keyring *keys);

uint32_t bt_box_front_limit(const struct bt_box_front *b);
uint32_t bt_box_front_inside(struct bt_box_front *b, uint64_t now);
const uint64_t *bt_box_front_counters(struct bt_box_front *b, uint64_t now);

#endif
