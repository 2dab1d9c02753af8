// SPDX-License-Identifier: Apache-2.0
// Header codec. Lenient where R-7 says so, strict everywhere else.
#include "wire/r2p2.h"

#include <string.h>

#include "base/bytes.h"

#define FLAG_F 0x80u
#define FLAG_L 0x40u
#define FLAG_X 0x20u

#define NAME(value, text) [value] = text,
static const char *const mcase_names[BT_M_COUNT] = {[BT_M_OK] = "OK", BT_MCASE_LIST(NAME)};
#undef NAME

const char *bt_mcase_name(enum bt_mcase m)
{
    return (unsigned)m < BT_M_COUNT ? mcase_names[m] : "?";
}

#define BIT(type)  (1u << (type))
#define RAFT_TYPES (BIT(BT_RAFT_REQUEST) | BIT(BT_RAFT_REPLY) | BIT(BT_RAFT_MESSAGE))

static const uint32_t legal_types[] = {
    [BT_ROLE_CLIENT] = BIT(BT_REPLY) | BIT(BT_REQRDY) | BIT(BT_DROP) | BIT(BT_SACK),
    [BT_ROLE_SERVER] = BIT(BT_REQUEST) | BIT(BT_SACK) | BIT(BT_CANCEL),
    [BT_ROLE_ROUTER] = BIT(BT_REQUEST) | BIT(BT_FEEDBACK),
    [BT_ROLE_ROUTER_REQUESTS] = BIT(BT_REQUEST),
    [BT_ROLE_ROUTER_FEEDBACK] = BIT(BT_FEEDBACK),
    [BT_ROLE_MEMBER] = BIT(BT_RAFT_REQUEST),
    [BT_ROLE_ANY] = 0x3ffu,
};

static enum bt_mcase check_type(uint8_t type, enum bt_role role)
{
    if (legal_types[role] & BIT(type)) {
        return BT_M_OK;
    }
    return BIT(type) & RAFT_TYPES ? BT_M26 : BT_M5;
}

static enum bt_mcase check_shape(const struct bt_r2p2_hdr *h)
{
    if (h->first && h->last && h->count_or_index == 1) {
        return BT_M_OK; // fits every type
    }
    bool whole = h->type != BT_REQUEST && h->type != BT_REPLY && !(BIT(h->type) & RAFT_TYPES);
    if (whole && !(h->first && h->last)) {
        return BT_M7;
    }
    if (!h->first) {
        return h->count_or_index == 0 ? BT_M9 : BT_M_OK;
    }
    if (h->count_or_index == 0) {
        return BT_M7;
    }
    return h->last != (h->count_or_index == 1) ? BT_M8 : BT_M_OK;
}

static void read_fixed(const uint8_t *p, struct bt_r2p2_hdr *h)
{
    uint64_t v = bt_get64(p);
    uint32_t flags = (uint32_t)(v >> 32);
    h->type = (uint8_t)(v >> 44) & 15;
    h->policy = (uint8_t)(v >> 40) & 15;
    h->first = flags & FLAG_F;
    h->last = flags & FLAG_L;
    h->ext = flags & FLAG_X;
    h->legacy = false;
    h->req_id = (uint16_t)(v >> 16);
    h->count_or_index = (uint16_t)v;
    h->hdr_size = (uint8_t)(v >> 48);
    h->opt.present = 0;
    h->payload = NULL;
    h->payload_len = 0;
}

// only magic and type are set in what the published implementation sends.
static void read_legacy_feedback(const uint8_t *p, struct bt_r2p2_hdr *h)
{
    h->legacy = true;
    h->first = h->last = true;
    h->ext = false;
    h->count_or_index = 1;
    h->hdr_size = BT_R2P2_HEADER;
    h->req_id = bt_get16(p + 8);
    h->payload = p + 8;
    h->payload_len = 8;
}

// Last, so that whom to answer with DROP is known by now.
static enum bt_mcase check_policy(const struct bt_r2p2_hdr *h)
{
    return h->policy > BT_POLICY_REPLICATED_READ ? BT_M6 : BT_M_OK;
}

// Apart from decode, lest the packets without options pay for the call within.
__attribute__((noinline)) static enum bt_mcase read_options(const uint8_t *p, size_t size, struct bt_r2p2_hdr *h)
{
    if ((size & 3) || size > BT_R2P2_HEADER_MAX) {
        return BT_M_OPT_SIZE;
    }
    enum bt_mcase m = bt_options_decode(p + BT_R2P2_HEADER, size - BT_R2P2_HEADER, BT_R2P2_HEADER, &h->opt);
    if (m && m != BT_M_OPT_CRITICAL) {
        return m;
    }
    enum bt_mcase flaw = check_policy(h);
    return flaw ? flaw : m;
}

enum bt_mcase bt_r2p2_decode(const uint8_t *p, size_t n, enum bt_role role, struct bt_r2p2_hdr *out)
{
    if (n < BT_R2P2_HEADER) {
        return BT_M1;
    }
    if (p[0] != BT_R2P2_MAGIC) {
        return BT_M2;
    }
    read_fixed(p, out);
    enum bt_mcase m = check_type(out->type, role);
    if (m) {
        return m;
    }
    if (out->type == BT_FEEDBACK && n == 16) {
        read_legacy_feedback(p, out);
        return BT_M_OK;
    }
    size_t size = p[1];
    if (size < BT_R2P2_HEADER || size > n) {
        return BT_M3;
    }
    m = check_shape(out);
    if (m) {
        return m;
    }
    out->payload = p + size;
    out->payload_len = n - size;
    return size > BT_R2P2_HEADER ? read_options(p, size, out) : check_policy(out);
}

size_t bt_r2p2_header_size(const struct bt_r2p2_hdr *h)
{
    size_t n = BT_R2P2_HEADER + bt_options_size(&h->opt);
    return n <= BT_R2P2_HEADER_MAX ? n : 0;
}

// Header of n bytes, options included.
static void write_header(uint8_t *p, size_t n, struct bt_r2p2_hdr *h)
{
    bt_put64(p, bt_r2p2_fixed(h, n));
    h->hdr_size = (uint16_t)n;
    if (h->opt.present) {
        bt_options_encode(p + BT_R2P2_HEADER, BT_R2P2_HEADER, &h->opt);
    }
}

size_t bt_r2p2_encode(uint8_t *p, size_t room, struct bt_r2p2_hdr *h)
{
    size_t n = bt_r2p2_header_size(h);
    if (n == 0 || n > room) {
        return 0;
    }
    write_header(p, n, h);
    return n;
}

bool bt_r2p2_push_options(struct bt_pkt *pkt, struct bt_r2p2_hdr *h)
{
    size_t n = bt_r2p2_header_size(h);
    if (n == 0 || !bt_pkt_push(pkt, (uint32_t)n)) {
        return false;
    }
    write_header(pkt->data, n, h);
    h->payload = pkt->data + n;
    h->payload_len = pkt->len - n;
    return true;
}

static void merge_options(struct bt_options *into, const struct bt_options *add)
{
    into->present |= add->present;
    if (add->present & BT_HAS_FORWARDED) {
        into->forwarded = add->forwarded;
    }
    if (add->present & BT_HAS_TAG) {
        into->key_id = add->key_id;
        into->tag_flags = add->tag_flags;
        into->tag_offset = add->tag_offset;
        memcpy(into->tag, add->tag, sizeof into->tag);
    }
    if (add->present & BT_HAS_CLASS) {
        into->class_id = add->class_id;
        into->class_flags = add->class_flags;
    }
    if (add->present & BT_HAS_TRACE) {
        into->trace = add->trace;
    }
    if (add->present & BT_HAS_ROUTER) {
        into->router_id = add->router_id;
    }
    if (add->present & BT_HAS_COPY) {
        into->copy = add->copy;
    }
    if (add->present & BT_HAS_SESSION) {
        into->session = add->session;
        into->session_seq = add->session_seq;
    }
    if (add->present & BT_HAS_FLOW) {
        into->flow = add->flow;
    }
}

bool bt_r2p2_add_options(struct bt_pkt *pkt, struct bt_r2p2_hdr *h, const struct bt_options *add)
{
    struct bt_options more = *add;
    uint32_t size = (uint32_t)bt_options_size(&more), old = h->hdr_size;
    if ((h->opt.present & more.present) || old + size > BT_R2P2_HEADER_MAX || !bt_pkt_push(pkt, size)) {
        return false;
    }
    memmove(pkt->data, pkt->data + size, old);
    bt_options_encode(pkt->data + old, old, &more);
    h->hdr_size = (uint16_t)(old + size);
    pkt->data[1] = (uint8_t)h->hdr_size;
    merge_options(&h->opt, &more);
    h->payload = pkt->data + h->hdr_size;
    h->payload_len = pkt->len - h->hdr_size;
    return true;
}
