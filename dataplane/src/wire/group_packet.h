// SPDX-License-Identifier: Apache-2.0
// How messages between members travel: an R2P2 packet of type 5 with the group key's tag, whose payload
// is one message of wire/group.h and behind it 8 bytes that say which disk its sender has. Besides messages there are
// notes: a member that nobody speaks with says that it is there, and is told when the group refuses it. And what a
// member says behind the word DROP.
//
//   packet   R2P2 header with the tag option (to and from a switch without one); message, or note; disk u64
//   note     0 u8, why u8, id u16, group u32, cluster u64, that member's disk u64
//   drop     1 u8, reason u8, leader's id u16, its address for clients 16 bytes, port u16, 0 u16
#ifndef BT_WIRE_GROUP_PACKET_H
#define BT_WIRE_GROUP_PACKET_H

#include "base/pkt.h"
#include "wire/group.h"
#include "wire/tag.h"

#define BT_GROUP_TRAILER 8u
#define BT_GROUP_NOTE    24u
#define BT_DROP_WHY      24u

// Why a packet between members is not looked into; each has a counter.
#define BT_GROUP_PACKET_LIST(ROW)                                                                                      \
    ROW(FORM, "form")               /* no R2P2 packet of type 5, or not one packet */                                  \
    ROW(UNTAGGED, "untagged")       /* without a tag */                                                                \
    ROW(UNKNOWN_KEY, "unknown_key") /* tagged with a key that is not ours */                                           \
    ROW(WRONG_TAG, "wrong_tag")     /* the tag is not that of these bytes and addresses */                             \
    ROW(SHORT, "short")             /* too short for a message and its disk */
#define BT_GROUP_PACKET_VALUE(name, word) BT_GROUP_PACKET_##name,
enum bt_group_packet_result { BT_GROUP_PACKET_OK, BT_GROUP_PACKET_LIST(BT_GROUP_PACKET_VALUE) BT_GROUP_PACKET_RESULTS };

struct bt_group_packet {
    const uint8_t *message; // in the packet; not decoded
    size_t n;
    uint64_t disk;
    bool is_note;
};

// Checks the tag before it looks at anything else. keys: of the group.
enum bt_group_packet_result bt_group_packet_open(const struct bt_pkt *pkt, const struct bt_keyring *keys,
                                                 struct bt_group_packet *out);

// The same of a packet without a tag, as a switch sends them (W-8): who may send one is the caller's to know. What has
// a tag, or another option, is refused as FORM.
enum bt_group_packet_result bt_group_packet_open_untagged(const struct bt_pkt *pkt, struct bt_group_packet *out);

// Makes an empty packet with src and dst the packet of a message, signed with key; NULL: without a tag, for a switch.
// False when it does not fit.
bool bt_group_packet_write(struct bt_pkt *pkt, const uint8_t *message, size_t n, uint64_t disk,
                           const struct bt_key *key);

// The longest message that one packet of an IP MTU carries, whichever the family.
uint32_t bt_group_packet_most(uint32_t mtu);

enum bt_group_note_why {
    BT_NOTE_WRONG_DISK = 1, // of `id`: the group knows another disk
    BT_NOTE_REMOVED = 2,    // `id` was removed
    BT_NOTE_HELLO = 3,      // `id` itself says that it is there, with its own disk; no answer: nothing against it
};

struct bt_group_note {
    uint8_t why; // enum bt_group_note_why
    uint16_t id; // who is refused, or is there
    uint32_t group;
    uint64_t cluster, disk;
};

void bt_group_note_write(uint8_t p[BT_GROUP_NOTE], const struct bt_group_note *note);
// False when p[0..n) is none.
bool bt_group_note_read(const uint8_t *p, size_t n, struct bt_group_note *note);

/* Why a request is refused: in every case it was not executed, and will not be. */
enum bt_drop_reason {
    BT_DROP_NOT_LEADER = 1, // the leader is named, or nobody knows one; in a HovercRaft group a box in its place
    BT_DROP_TOO_LONG = 2,   // above what one message between members carries
    BT_DROP_BUSY = 3,       // too many wait already, or the log is full
    BT_DROP_FORMING = 4,    // not all founding members have been here yet
    BT_DROP_DISK = 5,       // this member's disk failed
    BT_DROP_MOVING = 6,     // the leadership is being handed over
    BT_DROP_REFUSED = 7,    // this member is not one of the group (any more)
    BT_DROP_UNORDERED = 8,  // of a box: what is not ordered goes to a member
    BT_DROP_REASONS,
};

struct bt_drop_why {
    uint8_t reason;
    uint16_t leader;       // 0: not known
    struct bt_addr client; // the leader's, where it takes requests
};

void bt_drop_why_write(uint8_t p[BT_DROP_WHY], const struct bt_drop_why *why);

#endif
