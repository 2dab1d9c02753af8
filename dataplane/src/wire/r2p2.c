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
    [BT_ROLE_SERVER] = BIT(BT_REQUEST) | BIT(BT_SACK),
    [BT_ROLE_ROUTER] = BIT(BT_REQUEST) | BIT(BT_FEEDBACK),
    [BT_ROLE_ROUTER_REQUESTS] = BIT(BT_REQUEST),
    [BT_ROLE_ROUTER_FEEDBACK] = BIT(BT_FEEDBACK),
    [BT_ROLE_ANY] = 0x1ffu,
};

static enum bt_mcase check_type(uint8_t type, enum bt_role role)
{
    if (legal_types[role] & BIT(type))
        return BT_M_OK;
    return BIT(type) & RAFT_TYPES ? BT_M26 : BT_M5;
}

static enum bt_mcase check_shape(const struct bt_r2p2_hdr *h)
{
    bool whole = h->type != BT_REQUEST && h->type != BT_REPLY && !(BIT(h->type) & RAFT_TYPES);
    if (whole && !(h->first && h->last))
        return BT_M7;
    if (!h->first)
        return h->count_or_index == 0 ? BT_M9 : BT_M_OK;
    if (h->count_or_index == 0)
        return BT_M7;
    return h->last != (h->count_or_index == 1) ? BT_M8 : BT_M_OK;
}

static void read_fixed(const uint8_t *p, struct bt_r2p2_hdr *h)
{
    h->type = p[2] >> 4;
    h->policy = p[2] & 15;
    h->first = p[3] & FLAG_F;
    h->last = p[3] & FLAG_L;
    h->ext = p[3] & FLAG_X;
    h->legacy = false;
    h->req_id = bt_get16(p + 4);
    h->count_or_index = bt_get16(p + 6);
    h->hdr_size = p[1];
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

enum bt_mcase bt_r2p2_decode(const uint8_t *p, size_t n, enum bt_role role, struct bt_r2p2_hdr *out)
{
    if (n < BT_R2P2_HEADER)
        return BT_M1;
    if (p[0] != BT_R2P2_MAGIC)
        return BT_M2;
    read_fixed(p, out);
    enum bt_mcase m = check_type(out->type, role);
    if (m)
        return m;
    if (out->type == BT_FEEDBACK && n == 16) {
        read_legacy_feedback(p, out);
        return BT_M_OK;
    }
    size_t size = p[1];
    if (size < BT_R2P2_HEADER || size > n)
        return BT_M3;
    m = check_shape(out);
    if (m)
        return m;
    if (size > BT_R2P2_HEADER) {
        if ((size & 3) || size > BT_R2P2_HEADER_MAX)
            return BT_M_OPT_SIZE;
        m = bt_options_decode(p + BT_R2P2_HEADER, size - BT_R2P2_HEADER, BT_R2P2_HEADER, &out->opt);
        if (m && m != BT_M_OPT_CRITICAL)
            return m;
    }
    out->payload = p + size;
    out->payload_len = n - size;
    // Last, so that whom to answer with DROP is known by now.
    return out->policy > BT_POLICY_REPLICATED_READ ? BT_M6 : m;
}

size_t bt_r2p2_header_size(const struct bt_r2p2_hdr *h)
{
    size_t n = BT_R2P2_HEADER + bt_options_size(&h->opt);
    return n <= BT_R2P2_HEADER_MAX ? n : 0;
}

size_t bt_r2p2_encode(uint8_t *p, size_t room, struct bt_r2p2_hdr *h)
{
    size_t n = bt_r2p2_header_size(h);
    if (n == 0 || n > room)
        return 0;
    h->hdr_size = (uint16_t)n;
    p[0] = BT_R2P2_MAGIC;
    p[1] = (uint8_t)n;
    p[2] = (uint8_t)((h->type << 4) | (h->policy & 15));
    p[3] = (uint8_t)((h->first ? FLAG_F : 0) | (h->last ? FLAG_L : 0) | (h->ext ? FLAG_X : 0));
    bt_put16(p + 4, h->req_id);
    bt_put16(p + 6, h->count_or_index);
    if (h->opt.present)
        bt_options_encode(p + BT_R2P2_HEADER, BT_R2P2_HEADER, &h->opt);
    return n;
}

bool bt_r2p2_push_header(struct bt_pkt *pkt, struct bt_r2p2_hdr *h)
{
    size_t n = bt_r2p2_header_size(h);
    if (n == 0 || !bt_pkt_push(pkt, (uint32_t)n))
        return false;
    bt_r2p2_encode(pkt->data, n, h);
    h->payload = pkt->data + n;
    h->payload_len = pkt->len - n;
    return true;
}

static void merge_options(struct bt_options *into, const struct bt_options *add)
{
    into->present |= add->present;
    if (add->present & BT_HAS_FORWARDED)
        into->forwarded = add->forwarded;
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
    if (add->present & BT_HAS_TRACE)
        into->trace = add->trace;
    if (add->present & BT_HAS_ROUTER)
        into->router_id = add->router_id;
}

bool bt_r2p2_add_options(struct bt_pkt *pkt, struct bt_r2p2_hdr *h, const struct bt_options *add)
{
    struct bt_options more = *add;
    uint32_t size = (uint32_t)bt_options_size(&more), old = h->hdr_size;
    if ((h->opt.present & more.present) || old + size > BT_R2P2_HEADER_MAX || !bt_pkt_push(pkt, size))
        return false;
    memmove(pkt->data, pkt->data + size, old);
    bt_options_encode(pkt->data + old, old, &more);
    h->hdr_size = (uint16_t)(old + size);
    pkt->data[1] = (uint8_t)h->hdr_size;
    merge_options(&h->opt, &more);
    h->payload = pkt->data + h->hdr_size;
    h->payload_len = pkt->len - h->hdr_size;
    return true;
}
