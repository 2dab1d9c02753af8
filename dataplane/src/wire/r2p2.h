// SPDX-License-Identifier: Apache-2.0
// The R2P2 packet: the 8-byte header, its options and where the payload lies.
// Parsed once, on arrival; nothing behind this reads header bytes again.
#ifndef BT_WIRE_R2P2_H
#define BT_WIRE_R2P2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/pkt.h"
#include "wire/mcase.h"
#include "wire/options.h"

#define BT_R2P2_MAGIC      0xCCu
#define BT_R2P2_HEADER     8u
#define BT_R2P2_HEADER_MAX 64u
#define BT_R2P2_REQ_ID_AT  4u
#define BT_R2P2_RESERVE    32u // left free by X clients for a router's options

enum bt_type {
    BT_REQUEST = 0,
    BT_REPLY = 1,
    BT_FEEDBACK = 2,
    BT_REQRDY = 3,
    BT_DROP = 4,
    BT_RAFT_REQUEST = 5,
    BT_RAFT_REPLY = 6,
    BT_RAFT_MESSAGE = 7,
    BT_SACK = 8,
    BT_CANCEL = 9, // router to server: take a copy of a request back
};

enum bt_policy {
    BT_POLICY_UNRESTRICTED = 0, // router may choose any worker
    BT_POLICY_STICKY = 1,       // the master worker, index 0
    BT_POLICY_REPLICATED_WRITE = 2,
    BT_POLICY_REPLICATED_READ = 3,
};

// Who is reading: decides which types are legal (M-5).
enum bt_role {
    BT_ROLE_CLIENT,          // REPLY REQRDY DROP SACK
    BT_ROLE_SERVER,          // REQUEST SACK CANCEL
    BT_ROLE_ROUTER,          // REQUEST FEEDBACK
    BT_ROLE_ROUTER_REQUESTS, // REQUEST only (the request port)
    BT_ROLE_ROUTER_FEEDBACK, // FEEDBACK only (the feedback port)
    BT_ROLE_MEMBER,          // RAFT_REQUEST (the port between members)
    BT_ROLE_ANY,             // every type of §2 (tools)
};

struct bt_r2p2_hdr {
    uint8_t type;   // enum bt_type
    uint8_t policy; // enum bt_policy
    bool first, last;
    bool ext;    // X: the sender understands extensions
    bool legacy; // 16-byte FEEDBACK of a peer that predates extensions
    uint16_t req_id;
    uint16_t count_or_index; // first: packets of the message; else index 1…count-1
    uint16_t hdr_size;       // 8 + options
    struct bt_options opt;
    const uint8_t *payload; // decode only
    size_t payload_len;     // decode only
};

// Reads the UDP payload p[0..n). BT_M_OK, or the case that rejects it. On any
// case but BT_M1 and BT_M2 the fixed fields (type … count_or_index) are filled
// so that the caller can answer a bad REQUEST with DROP; on BT_M6 and
// BT_M_OPT_CRITICAL everything is filled, the forwarded identity too.
// Decides M-1, M-2, M-3, M-5 (types 5-7 give M-26 to who is no member), M-6 (policy above 3),
// M-7, M-8, M-9 (index 0), M-10 (F|L consistency is M-8) and the OPT cases.
// A FEEDBACK of exactly 16 bytes is legacy: bytes 1 and 3-7 are ignored.
enum bt_mcase bt_r2p2_decode(const uint8_t *p, size_t n, enum bt_role role, struct bt_r2p2_hdr *out);

// A packet that is a message of its own, with a header of `size` bytes, options included; request id and X as they
// like. size: a constant, 8 to 64.
static inline bool bt_r2p2_is_single(const uint8_t *p, size_t n, enum bt_type type, uint8_t size)
{
    const uint64_t any = UINT64_C(0x00000020ffff0000); // X, req_id
    const uint64_t single = (uint64_t)BT_R2P2_MAGIC << 56 | (uint64_t)size << 48 | (uint64_t)type << 44 |
                            UINT64_C(0xc0) << 32 /* F, L */ | 1u /* count */;
    uint64_t word; // compared as it stands in the packet: the constants are swapped, once and for all
    if (n < size) {
        return false;
    }
    memcpy(&word, p, sizeof word);
    return (word & htobe64(~any)) == htobe64(single);
}

// The bytes that nearly every packet starts with: the same without options. For readers that would otherwise spend most
// of their time on finding out that nothing is special.
static inline bool bt_r2p2_is_plain(const uint8_t *p, size_t n, enum bt_type type)
{
    return bt_r2p2_is_single(p, n, type, BT_R2P2_HEADER);
}

// Begins the header of a message's first packet: no options, and what is said of them by others without meaning.
static inline void bt_r2p2_start(struct bt_r2p2_hdr *h, enum bt_type type, uint8_t policy, bool ext)
{
    h->type = (uint8_t)type;
    h->policy = policy;
    h->first = true;
    h->last = h->legacy = false;
    h->ext = ext;
    h->req_id = h->count_or_index = 0;
    h->opt.present = 0;
}

#define BT_R2P2_FORWARDED 16u // a header with nothing but the IPv4 client a router forwarded it for

// What nearly every client and server reads: a message of one packet, policy 0, with no option, or, if it is a request,
// with nothing but the IPv4 client a router forwarded it for. Returns the header's size, 0 when it is none of these and
// must be looked at in full. type: a constant.
static inline __attribute__((always_inline)) size_t bt_r2p2_usual(const uint8_t *p, size_t n, enum bt_type type)
{
    if (bt_r2p2_is_plain(p, n, type)) {
        return BT_R2P2_HEADER;
    }
    bool forwarded = type == BT_REQUEST && bt_r2p2_is_single(p, n, type, BT_R2P2_FORWARDED) &&
                     bt_get16(p + BT_R2P2_HEADER) == (BT_OPTION_FORWARDED << 8 | 8u);
    return forwarded ? BT_R2P2_FORWARDED : 0;
}

static inline struct bt_addr bt_r2p2_forwarded(const uint8_t *p)
{
    return bt_addr_v4(p + BT_R2P2_HEADER + 4, bt_get16(p + BT_R2P2_HEADER + 2));
}

// Reads what bt_r2p2_usual found to have a header of that size, as bt_r2p2_decode does.
static inline __attribute__((always_inline)) void bt_r2p2_take_usual(const uint8_t *p, size_t n, enum bt_type type,
                                                                     size_t size, struct bt_r2p2_hdr *out)
{
    out->opt.present = 0;
    if (type == BT_REQUEST && size == BT_R2P2_FORWARDED) {
        out->opt.present = BT_HAS_FORWARDED;
        out->opt.forwarded = bt_r2p2_forwarded(p);
    }
    out->hdr_size = (uint16_t)size;
    out->type = (uint8_t)type;
    out->policy = BT_POLICY_UNRESTRICTED;
    out->first = out->last = true;
    out->ext = (p[3] & 0x20u) != 0;
    out->legacy = false;
    out->req_id = bt_get16(p + BT_R2P2_REQ_ID_AT);
    out->count_or_index = 1;
    out->payload = p + size;
    out->payload_len = n - size;
}

// Both. False, *out untouched: it is not usual.
static inline __attribute__((always_inline)) bool bt_r2p2_read_usual(const uint8_t *p, size_t n, enum bt_type type,
                                                                     struct bt_r2p2_hdr *out)
{
    size_t size = bt_r2p2_usual(p, n, type);
    if (size != 0) {
        bt_r2p2_take_usual(p, n, type, size, out);
    }
    return size != 0;
}

// Header bytes needed for h (8 + options), at most 64; 0 when more.
size_t bt_r2p2_header_size(const struct bt_r2p2_hdr *h);

// Writes header and options to p and returns their size, also in h->hdr_size;
// 0 when they do not fit in room or in 64 bytes.
size_t bt_r2p2_encode(uint8_t *p, size_t room, struct bt_r2p2_hdr *h);

// The fixed part of a header of n bytes, options included, as one big-endian number.
static inline uint64_t bt_r2p2_fixed(const struct bt_r2p2_hdr *h, size_t n)
{
    uint32_t high = BT_R2P2_MAGIC << 24 | (uint32_t)n << 16 | (uint32_t)h->type << 12 | (h->policy & 15u) << 8 |
                    (uint32_t)h->first << 7 | (uint32_t)h->last << 6 | (uint32_t)h->ext << 5;
    return (uint64_t)high << 32 | (uint32_t)h->req_id << 16 | h->count_or_index;
}

// The part of bt_r2p2_push_header that concerns options.
bool bt_r2p2_push_options(struct bt_pkt *pkt, struct bt_r2p2_hdr *h);

// Puts header h in front of a packet whose data is the payload. False when the
// headroom is too small (packet unchanged).
static inline bool bt_r2p2_push_header(struct bt_pkt *pkt, struct bt_r2p2_hdr *h)
{
    if (h->opt.present) {
        return bt_r2p2_push_options(pkt, h);
    }
    if (!bt_pkt_push(pkt, BT_R2P2_HEADER)) {
        return false;
    }
    h->hdr_size = BT_R2P2_HEADER;
    h->payload = pkt->data + BT_R2P2_HEADER;
    h->payload_len = pkt->len - BT_R2P2_HEADER;
    bt_put64(pkt->data, bt_r2p2_fixed(h, BT_R2P2_HEADER));
    return true;
}

// The same header for a message of one packet without options, from its fields.
static inline bool bt_r2p2_push_single(struct bt_pkt *pkt, enum bt_type type, uint8_t policy, bool ext, uint16_t req_id)
{
    if (!bt_pkt_push(pkt, BT_R2P2_HEADER)) {
        return false;
    }
    uint64_t fixed = (uint64_t)BT_R2P2_MAGIC << 56 | (uint64_t)BT_R2P2_HEADER << 48 | (uint64_t)type << 44 |
                     UINT64_C(0xc0) << 32 /* F, L */ | 1u /* count */;
    bt_put64(pkt->data, fixed | (uint64_t)(policy & 15u) << 40 | (uint64_t)ext << 37 | (uint32_t)req_id << 16);
    return true;
}

// Adds options behind those the packet already carries (which are kept byte by
// byte, unknown ones too) by growing into the headroom. h: as decoded from
// this packet; brought up to date. False, packet unchanged: no headroom, header
// beyond 64 bytes, or an option of add already present.
bool bt_r2p2_add_options(struct bt_pkt *pkt, struct bt_r2p2_hdr *h, const struct bt_options *add);

// Largest UDP payload of an IP MTU: mtu - 28 for IPv4, mtu - 48 for IPv6.
static inline uint32_t bt_r2p2_datagram_max(uint32_t mtu, bool v4)
{
    return mtu - (v4 ? 28u : 48u);
}

#endif
