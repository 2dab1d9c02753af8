// SPDX-License-Identifier: Apache-2.0
// Taking a segment apart. Every length is checked before the byte behind it is read: these bytes come from anywhere.
#include "tcp/crab_segment.h"

#include "base/bytes.h"
#include "wire/checksum.h"
#include "wire/frame.h"

enum { MORE_OR_OFFSET = 0x3fff, OPTION_END = 0, OPTION_NOP = 1, LENGTH = 6, EXPERIMENT_LENGTH = 8 };

static bool is_ours(const uint8_t *o, uint32_t len, const struct bt_crab_encoding *enc)
{
    if (o[0] != enc->kind)
        return false;
    if (enc->kind < 253)
        return len == LENGTH;
    return len == EXPERIMENT_LENGTH && bt_get16(o + 2) == enc->experiment;
}

// C-2 to C-4: any offset, any padding; a length below 2 or beyond the header ends it. The first valid option counts.
static void read_options(const uint8_t *tcp, const struct bt_crab_encoding *enc, struct bt_crab_segment *s)
{
    for (uint32_t at = BT_TCP_HEAD; at < s->tcp_head;) {
        uint8_t kind = tcp[at];
        if (kind == OPTION_END)
            return;
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
        if (is_ours(tcp + at, len, enc)) {
            if (s->option == 0) {
                s->option = (uint8_t)(at + len - 4);
                s->address = bt_get32(tcp + at + len - 4);
            } else {
                s->duplicates++;
            }
        }
        at += len;
    }
}

static enum bt_crab_segment_error read_ip(const uint8_t *p, uint32_t len, bool verify, struct bt_crab_segment *s)
{
    if (len < BT_IP4_HEAD)
        return BT_CRAB_SEGMENT_TRUNCATED;
    uint32_t head = (p[0] & 15u) * 4u;
    if (p[0] >> 4 != 4 || head < BT_IP4_HEAD)
        return BT_CRAB_SEGMENT_HEADER;
    s->total = bt_get16(p + 2);
    if (s->total < head || s->total > len)
        return BT_CRAB_SEGMENT_TRUNCATED;
    if (verify && !bt_csum_ok(bt_csum_bytes(0, p, head)))
        return BT_CRAB_SEGMENT_IP_SUM;
    if ((bt_get16(p + 6) & MORE_OR_OFFSET) != 0)
        return BT_CRAB_SEGMENT_FRAGMENT;
    s->ip_head = (uint8_t)head;
    s->ttl = p[8];
    s->src = bt_get32(p + 12);
    s->dst = bt_get32(p + 16);
    return BT_CRAB_SEGMENT_OK;
}

enum bt_crab_segment_error bt_crab_segment_parse(const uint8_t *p, uint32_t len, bool verify,
                                                 const struct bt_crab_encoding *enc, struct bt_crab_segment *s)
{
    *s = (struct bt_crab_segment){0};
    enum bt_crab_segment_error e = read_ip(p, len, verify, s);
    if (e != BT_CRAB_SEGMENT_OK)
        return e;
    const uint8_t *tcp = p + s->ip_head;
    uint32_t body = (uint32_t)s->total - s->ip_head;
    if (body < BT_TCP_HEAD)
        return BT_CRAB_SEGMENT_TRUNCATED;
    uint32_t head = (tcp[12] >> 4) * 4u;
    if (head < BT_TCP_HEAD)
        return BT_CRAB_SEGMENT_HEADER;
    if (head > body)
        return BT_CRAB_SEGMENT_TRUNCATED;
    s->tcp_head = (uint8_t)head;
    s->sport = bt_get16(tcp);
    s->dport = bt_get16(tcp + 2);
    s->seq = bt_get32(tcp + 4);
    s->flags = tcp[13];
    if (bt_crab_is_syn(s) || bt_crab_is_syn_ack(s))
        read_options(tcp, enc, s);
    return BT_CRAB_SEGMENT_OK;
}
