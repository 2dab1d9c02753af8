// SPDX-License-Identifier: Apache-2.0
// Header options (R-55…, F-49): forwarded-for, tag, class, trace, router id, copy, session, flow.
#ifndef BT_WIRE_OPTIONS_H
#define BT_WIRE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "wire/mcase.h"

enum bt_option_kind {
    BT_OPTION_PAD = 0,       // one byte
    BT_OPTION_FORWARDED = 1, // u16 client port, 4 or 16 bytes of client address: 8 or 20 bytes
    BT_OPTION_TAG = 2,       // u8 key id, u8 flags, 8 bytes: 12 bytes
    BT_OPTION_CLASS = 3,     // u8 class, u8 flags: 4 bytes
    BT_OPTION_TRACE = 4,     // u64: 10 bytes
    BT_OPTION_ROUTER = 5,    // u32: 6 bytes
    BT_OPTION_COPY = 6,      // u32: 6 bytes
    BT_OPTION_SESSION = 7,   // u64 session, u64 number: 18 bytes
    BT_OPTION_FLOW = 8,      // u16 of wire/fc_signal.h: 4 bytes
};

#define BT_OPTION_CRITICAL 0x80u // top bit of an unknown kind: reject

#define BT_CLASS_NON_DROPPABLE 0x01u
#define BT_CLASS_DEGRADED      0x02u

// Bits of bt_options.present: 1 << kind.
#define BT_HAS_FORWARDED (1u << BT_OPTION_FORWARDED)
#define BT_HAS_TAG       (1u << BT_OPTION_TAG)
#define BT_HAS_CLASS     (1u << BT_OPTION_CLASS)
#define BT_HAS_TRACE     (1u << BT_OPTION_TRACE)
#define BT_HAS_ROUTER    (1u << BT_OPTION_ROUTER)
#define BT_HAS_COPY      (1u << BT_OPTION_COPY)
#define BT_HAS_SESSION   (1u << BT_OPTION_SESSION)
#define BT_HAS_FLOW      (1u << BT_OPTION_FLOW)

struct bt_options {
    uint32_t present;
    struct bt_addr forwarded; // client identity as the router saw it
    uint64_t trace;
    uint64_t session, session_seq; // who asks for a replicated write, and which of its writes it is
    uint32_t router_id;            // see bt_router_id
    uint32_t copy;                 // which of its router's copies a REQUEST is, or a CANCEL names; never 0
    uint8_t class_id, class_flags;
    uint8_t key_id, tag_flags;
    uint16_t tag_offset; // of the 8 tag bytes from the start of the packet
    uint16_t flow;       // F-49: of a REQUEST, that its client wants to be told; of REPLY and DROP, what it is told
    uint8_t tag[8];
};

// Parses p[0..n), the bytes between the fixed header and the payload.
// header_offset is where p lies in the packet (8), for tag_offset. On
// BT_M_OPT_CRITICAL every known option has been read all the same.
enum bt_mcase bt_options_decode(const uint8_t *p, size_t n, size_t header_offset, struct bt_options *out);

// Bytes the options need, padding to a multiple of 4 included.
size_t bt_options_sum(const struct bt_options *o);
static inline size_t bt_options_size(const struct bt_options *o)
{
    return o->present ? bt_options_sum(o) : 0; // nearly every packet has none
}

// Writes them to p in order of kind, which must have bt_options_size(o) bytes;
// returns that size. Tag bytes are written as given (zero before signing), and
// o->tag_offset is set to header_offset + their place.
size_t bt_options_encode(uint8_t *p, size_t header_offset, struct bt_options *o);

// Overwrites the flags of the class option among p[0..n), options that bt_options_decode has accepted; nothing when
// there is none.
void bt_options_set_class_flags(uint8_t *p, size_t n, uint8_t flags);

// The u32 a Transparent router writes in kind 5: FNV-1a over the 16 address
// bytes and the big-endian port of its *request* address. Servers compute it
// for each router they are configured with and compare.
uint32_t bt_router_id(const struct bt_addr *request_addr);

#endif
