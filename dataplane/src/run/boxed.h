// SPDX-License-Identifier: Apache-2.0
// A request as a flow-control box sends it to every member of a HovercRaft group: the client's packet of
// type REQUEST, policy 2 or 3, one packet, with two options more: the client's address, and the group's tag for this
// destination, which may be a multicast group. Whoever takes it makes the same command of it, byte by byte.
#ifndef BT_RUN_BOXED_H
#define BT_RUN_BOXED_H

#include "wire/group_packet.h"
#include "wire/r2p2.h"

// It looks like one; *h is filled in. What does not is a client's own, or nobody's.
bool bt_boxed_is(const struct bt_pkt *pkt, struct bt_r2p2_hdr *h);

// Why it is not looked into, or BT_GROUP_PACKET_OK; h: of this packet. The tag is checked before anything else; with
// `unsigned_may` there may be none, but no wrong one.
enum bt_group_packet_result bt_boxed_open(const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h,
                                          const struct bt_keyring *keys, bool unsigned_may);

// The command of it (run/command.h), and its bytes; 0: more than room.
uint32_t bt_boxed_command(const struct bt_r2p2_hdr *h, uint8_t *out, uint32_t room);

// Bytes of the longest ordered request that a group of this IP MTU takes.
uint32_t bt_boxed_most(uint32_t mtu);

#endif
