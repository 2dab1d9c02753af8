// SPDX-License-Identifier: Apache-2.0
// FEEDBACK payload (r2p2 §7): legacy 8 bytes, version 1 (IPv4), 2 (IPv6) and 3
// (version 1 and a signal of flow control behind it, F-49).
// Version 2 moves what follows the address by 12 bytes, its version byte too,
// so it is told by its length: exactly 44 bytes with 2 at offset 20. Versions
// above 2 lay out their first 32 bytes as version 1 and may be longer (M-25).
#ifndef BT_WIRE_FEEDBACK_H
#define BT_WIRE_FEEDBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "wire/mcase.h"

#define BT_FEEDBACK_LEGACY_SIZE 8u // payload bytes
#define BT_FEEDBACK_V1_SIZE     32u
#define BT_FEEDBACK_V2_SIZE     44u
#define BT_FEEDBACK_V3_SIZE     36u

/* In a payload of version 1. */
#define BT_FEEDBACK_REQ_ID_AT      0u
#define BT_FEEDBACK_PORT_AT        2u
#define BT_FEEDBACK_IP_AT          4u
#define BT_FEEDBACK_VERSION_AT     8u
#define BT_FEEDBACK_FLAGS_AT       9u
#define BT_FEEDBACK_N_AT           10u
#define BT_FEEDBACK_INCARNATION_AT 12u
#define BT_FEEDBACK_RECEIVED_AT    16u
#define BT_FEEDBACK_SERVED_AT      24u
#define BT_FEEDBACK_SIGNAL_AT      32u // in version 3; then two bytes of 0

#define BT_FEEDBACK_JOIN      0x01u
#define BT_FEEDBACK_LEAVE     0x02u
#define BT_FEEDBACK_PAIR      0x04u // pair identity valid
#define BT_FEEDBACK_DROPPED   0x08u // that pair was dropped, not served
#define BT_FEEDBACK_PERIODIC  0x10u
#define BT_FEEDBACK_CANCELLED 0x20u // with DROPPED: because its router took it back (CANCEL); no client was told

struct bt_feedback {
    uint8_t version; // 0 legacy, 1, 2, 3, or a newer one
    uint8_t flags;   // legacy: BT_FEEDBACK_PAIR
    uint16_t req_id; // of the finished pair
    struct bt_addr client;
    uint16_t n; // requests the worker takes from this router; 0: send nothing
    uint32_t incarnation;
    uint64_t received, served;
    uint16_t signal; // version 3: what a client without tokens is told (wire/fc_signal.h); else 0
};

// More served than was received. Both counters wrap, so they are compared by serial arithmetic.
static inline bool bt_feedback_contradicts(uint64_t received, uint64_t served)
{
    return (int64_t)(received - served) < 0;
}

// M-21 impossible length, M-25 trailing bytes, M-22 served above received.
enum bt_mcase bt_feedback_decode(const uint8_t *p, size_t n, struct bt_feedback *out);

// Writes version 0 to 3 as fb->version says and returns the bytes written,
// 0 when room is too small or an IPv6 client meets another version than 2.
size_t bt_feedback_encode(uint8_t *p, size_t room, const struct bt_feedback *fb);

#endif
