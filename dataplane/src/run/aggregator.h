// SPDX-License-Identifier: Apache-2.0
// The aggregator of a HovercRaft++ group as a whole: packets of members in, packets to members out.
// Between the two stands what a switch would hold (replica/aggregator.h), and nothing more: which address belongs to an
// id the document says. The group key's tag is checked before anything is read, and each packet that leaves is signed
// for whoever gets it. It reads no clock, and may lose all it knows at any time.
#ifndef BT_RUN_AGGREGATOR_H
#define BT_RUN_AGGREGATOR_H

#include "base/counters.h"
#include "ctl/group_document.h"
#include "replica/aggregator.h"
#include "wire/group_packet.h"

#define BT_AGGREGATOR_PORT 0u // bt_pkt.local of its only port

// X(NAME, word, what): packets of members that were passed over; each a counter.
#define BT_AGGREGATOR_FRONT_LIST(ROW)                                                                                  \
    BT_GROUP_PACKET_LIST(ROW)                                                                                          \
    ROW(NOTE, "note") /* it has no disk, and nothing to say about those of others */
#define BT_AGGREGATOR_FRONT_VALUE(name, word) BT_AGGREGATOR_BAD_##name,
enum bt_aggregator_front_counter {
    BT_AGGREGATOR_FRONT_LIST(BT_AGGREGATOR_FRONT_VALUE) BT_AGGREGATOR_ACCEPTED, // messages that were looked into
    BT_AGGREGATOR_SENT,
    BT_AGGREGATOR_NO_ADDRESS, // for a member that the document does not name
    BT_AGGREGATOR_NO_BUFFER,
    BT_AGGREGATOR_FRONT_COUNTERS,
};
extern const struct bt_counter_desc bt_aggregator_front_counter_desc[BT_AGGREGATOR_FRONT_COUNTERS];
extern const struct bt_counter_desc bt_aggregator_counter_desc[BT_AGGREGATOR_COUNTERS];

struct bt_aggregator_front_config {
    const struct bt_group_document *document; // copied
    struct bt_addr address;                   // own, as bound
    struct bt_keyring keys;
    struct bt_pool *pool;
    struct bt_txq *txq; // where packets go
    bool as_switch;     // W-11: registers of 32 bits
};

struct bt_aggregator_front;

// NULL: no memory.
struct bt_aggregator_front *bt_aggregator_front_open(const struct bt_aggregator_front_config *c);
void bt_aggregator_front_close(struct bt_aggregator_front *f);

void bt_aggregator_front_receive(struct bt_aggregator_front *f, struct bt_pkt *pkt); // consumed

// A new document and new keys; may_follow was asked before.
void bt_aggregator_front_reconfigure(struct bt_aggregator_front *f, const struct bt_group_document *d,
                                     const struct bt_keyring *keys);

struct bt_aggregator_status bt_aggregator_front_status(const struct bt_aggregator_front *f);
const uint64_t *bt_aggregator_front_counters(const struct bt_aggregator_front *f);
const uint64_t *bt_aggregator_front_core_counters(const struct bt_aggregator_front *f);

#endif
