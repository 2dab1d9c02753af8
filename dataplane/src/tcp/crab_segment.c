// SPDX-License-Identifier: Apache-2.0
// Taking a segment apart. Every length is checked before the byte behind it is read: these bytes come from anywhere.
#include "tcp/crab_segment.h"

#include "base/bytes.h"
#include "wire/checksum.h"
#include "wire/frame.h"

enum { MORE_OR_OFFSET = 0x3fff, OPTION_END = 0, OPTION_NOP = 1, HEAD = 2, EXPERIMENT_HEAD = 4 };

// Each family has its own length, and the other one's is not the option (C-3, C-9).
static bool is_ours(const uint8_t *o, uint32_t len, const struct bt_crab_encoding *enc, uint32_t address)
{
    if (o[0] != enc->kind) {
        return false;
    }
    if (enc->kind < 253) {
        return len == HEAD + address;
    }
    return len == EXPERIMENT_HEAD + address && bt_get16(o + 2) == enc->experiment;
}

static void note_address(const uint8_t *at, struct bt_crab_segment *s)
{
    static const uint8_t none[16];
    if (s->v4) {
        s->address = bt_addr_v4(at, 0);
    } else {
        memcpy(s->address.ip, at, 16);
    }
    s->named = memcmp(at, none, s->v4 ? 4 : 16) != 0;
}

// C-2 to C-4: any offset, any padding; a length below 2 or beyond the header ends it. The first valid option counts.
static void read_options(const uint8_t *tcp, const struct bt_crab_encoding *enc, struct bt_crab_segment *s)
{
    const uint32_t address = s->v4 ? 4 : 16;
    for (uint32_t at = BT_TCP_HEAD; at < s->tcp_head;) {
        uint8_t kind = tcp[at];
        if (kind == OPTION_END) {
            return;
        }
        if (kind == OPTION_NOP) {
            at++;
            continue;
        }
        uint32_t left = s->tcp_head - at;
        uint32_t len = left >= 2 ? tcp[at + 1] : 0;
        if (len < 2 || len > left) {
            s->malformed = true;
            return;
        }
        if (is_ours(tcp + at, len, enc, address)) {
            if (s->option == 0) {
                s->option = (uint8_t)(at + len - address);
                note_address(tcp + s->option, s);
            } else {
                s->duplicates++;
            }
        }
        at += len;
    }
}

static enum bt_crab_segment_error read_ip4(const uint8_t *p, uint32_t len, bool verify, struct bt_crab_segment *s)
{
    uint32_t head = (p[0] & 15u) * 4u;
    if (len < BT_IP4_HEAD) {
        return BT_CRAB_SEGMENT_TRUNCATED;
    }
    if (head < BT_IP4_HEAD) {
        return BT_CRAB_SEGMENT_HEADER;
    }
    s->total = bt_get16(p + 2);
    if (s->total < head || s->total > len) {
        return BT_CRAB_SEGMENT_TRUNCATED;
    }
    if (verify && !bt_csum_ok(bt_csum_bytes(0, p, head))) {
        return BT_CRAB_SEGMENT_IP_SUM;
    }
    if ((bt_get16(p + 6) & MORE_OR_OFFSET) != 0) {
        return BT_CRAB_SEGMENT_FRAGMENT;
    }
    s->v4 = true;
    s->ip_head = (uint8_t)head;
    s->ttl = p[8];
    s->src = bt_addr_v4(p + 12, 0);
    s->dst = bt_addr_v4(p + 16, 0);
    return BT_CRAB_SEGMENT_OK;
}

static enum bt_crab_segment_error read_ip6(const uint8_t *p, uint32_t len, struct bt_crab_segment *s)
{
    static const enum bt_crab_segment_error means[] = {
        [BT_FRAME_TRUNCATED] = BT_CRAB_SEGMENT_TRUNCATED, [BT_FRAME_HEADER] = BT_CRAB_SEGMENT_HEADER,
        [BT_FRAME_OPTIONS] = BT_CRAB_SEGMENT_EXTENSION,   [BT_FRAME_FRAGMENT] = BT_CRAB_SEGMENT_FRAGMENT,
        [BT_FRAME_MAPPED] = BT_CRAB_SEGMENT_HEADER,
    };
    struct bt_ip ip;
    enum bt_frame_error e = bt_ip6_judge(p, len, &ip);
    if (e != BT_FRAME_OK) {
        return means[e];
    }
    if (ip.proto != BT_PROTO_TCP) {
        return BT_CRAB_SEGMENT_HEADER;
    }
    s->total = BT_IP6_HEAD + ip.body_len;
    s->ip_head = BT_IP6_HEAD;
    s->ttl = ip.ttl;
    s->src = ip.src;
    s->dst = ip.dst;
    return BT_CRAB_SEGMENT_OK;
}

static enum bt_crab_segment_error read_ip(const uint8_t *p, uint32_t len, bool verify, struct bt_crab_segment *s)
{
    if (len == 0) {
        return BT_CRAB_SEGMENT_TRUNCATED;
    }
    switch (p[0] >> 4) {
    case 4:
        return read_ip4(p, len, verify, s);
    case 6:
        return read_ip6(p, len, s);
    default:
        return len < BT_IP4_HEAD ? BT_CRAB_SEGMENT_TRUNCATED : BT_CRAB_SEGMENT_HEADER;
    }
}

enum bt_crab_segment_error bt_crab_segment_parse(const uint8_t *p, uint32_t len, bool verify,
                                                 const struct bt_crab_encoding *enc, struct bt_crab_segment *s)
{
    *s = (struct bt_crab_segment){0};
    enum bt_crab_segment_error e = read_ip(p, len, verify, s);
    if (e != BT_CRAB_SEGMENT_OK) {
        return e;
    }
    const uint8_t *tcp = p + s->ip_head;
    uint32_t body = s->total - s->ip_head;
    if (body < BT_TCP_HEAD) {
        return BT_CRAB_SEGMENT_TRUNCATED;
    }
    uint32_t head = (tcp[12] >> 4) * 4u;
    if (head < BT_TCP_HEAD) {
        return BT_CRAB_SEGMENT_HEADER;
    }
    if (head > body) {
        return BT_CRAB_SEGMENT_TRUNCATED;
    }
    s->tcp_head = (uint8_t)head;
    bt_addr_set_port(&s->src, bt_get16(tcp));
    bt_addr_set_port(&s->dst, bt_get16(tcp + 2));
    s->seq = bt_get32(tcp + 4);
    s->flags = tcp[13];
    if (bt_crab_is_syn(s) || bt_crab_is_syn_ack(s)) {
        read_options(tcp, enc, s);
    }
    return BT_CRAB_SEGMENT_OK;
}
