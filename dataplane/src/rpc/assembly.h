// SPDX-License-Identifier: Apache-2.0
// A multi-packet message being received: packets in order of index, a bitmap of
// those present, and when to ask for the missing ones (R-19…R-24).
#ifndef BT_RPC_ASSEMBLY_H
#define BT_RPC_ASSEMBLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/pkt.h"
#include "rpc/msg.h"
#include "rpc/port.h"
#include "rpc/profile.h"
#include "wire/r2p2.h"
#include "wire/sack.h"

struct bt_assembly {
    struct bt_pkt *head, *tail;
    uint32_t have;  // packets present
    uint32_t count; // packets of the message; 0: F packet not here yet
    uint32_t bytes;
    uint32_t rounds;      // SACKs sent
    uint64_t progress_ns; // last new packet
    uint64_t event_ns;    // last new packet or SACK
    uint64_t *bits;       // present, by index
    struct bt_assembly *next_free;
};

struct bt_assembly_pool {
    struct bt_assembly *free;
    uint32_t words; // of each bitmap
    uint32_t left;
};

// Lays n of them out in mem, bitmaps for max_packets each.
void bt_assembly_pool_init(struct bt_assembly_pool *ap, struct bt_mem *mem, uint32_t n, uint32_t max_packets);
struct bt_assembly *bt_assembly_get(struct bt_assembly_pool *ap, uint64_t now_ns);
void bt_assembly_put(struct bt_assembly_pool *ap, struct bt_assembly *a, struct bt_pool *pool);

enum bt_assembly_result { BT_ASSEMBLY_ADDED, BT_ASSEMBLY_COMPLETE, BT_ASSEMBLY_DUPLICATE, BT_ASSEMBLY_REJECTED };

// Whose assembly it is: the port that packets come in by, and its owner's counters.
struct bt_assembly_owner {
    const struct bt_port *port;
    uint64_t *counters; // by M-case
};

// Adds the packet h was decoded from. ADDED and COMPLETE take it (trimmed to
// its payload); otherwise it stays the caller's and nothing has changed, *why
// naming the case of a rejection (M-9…M-14). Packets that came before their F
// packet and contradict it are dropped then, and counted.
enum bt_assembly_result bt_assembly_add(struct bt_assembly *a, struct bt_pkt *pkt, const struct bt_r2p2_hdr *h,
                                        uint64_t now_ns, struct bt_assembly_owner owner, enum bt_mcase *why);

// True when an F packet repeats the message's own: same count and same bytes.
bool bt_assembly_same_first(const struct bt_pkt *have, uint32_t count, const struct bt_r2p2_hdr *h);

// Moves a complete message out; the assembly is empty then.
void bt_assembly_take(struct bt_assembly *a, struct bt_msg *out);

// What is missing, as a SACK payload of at most 1,024 bits into buf.
size_t bt_assembly_sack(const struct bt_assembly *a, enum bt_sack_what what, uint8_t buf[BT_SACK_SIZE_MAX]);

enum bt_repair { BT_REPAIR_WAIT, BT_REPAIR_SACK, BT_REPAIR_FAIL };

// When the repair timer must fire next: RTO doubling with each round since the
// last event, at the latest gc_ns after the last progress.
uint64_t bt_assembly_deadline(const struct bt_assembly *a, const struct bt_rpc_timers *t, bool repairable);

// What to do when it fired. SACK counts a round.
enum bt_repair bt_assembly_due(struct bt_assembly *a, const struct bt_rpc_timers *t, uint64_t now_ns, bool repairable);

#endif
