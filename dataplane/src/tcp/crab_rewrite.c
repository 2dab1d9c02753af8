// SPDX-License-Identifier: Apache-2.0
// Changing a segment. Checksums are adjusted by what changed (RFC 1624), so that a damaged segment stays damaged and
// one with data in its SYN costs no more than one without.
#include "tcp/crab_segment.h"

#include "base/bytes.h"
#include "wire/checksum.h"
#include "wire/frame.h"

#include <assert.h>
#include <string.h>

enum { IP_TOTAL = 2, IP_TTL = 8, IP_SUM = 10, IP_DST = 16, TCP_OFFSET = 12, TCP_SUM = 16, NOP = 1 };

// The checksum field as an unfolded sum of everything else, with the old words taken out.
static uint64_t without(const uint8_t check[2], const uint8_t *old, uint32_t n)
{
    uint16_t v;
    memcpy(&v, check, sizeof v);
    uint64_t sum = (uint16_t)~v;
    return bt_csum_add(sum, (uint16_t)~bt_csum_fold(bt_csum_bytes(0, old, n)));
}

// Replaces n bytes at `at`, which may lie across the 16-bit words the checksum of [base..) is made of.
static void replace(uint8_t *base, uint32_t at, const uint8_t *with, uint32_t n, uint8_t check[2])
{
    uint32_t from = at & ~1u, to = (at + n + 1) & ~1u;
    uint64_t sum = without(check, base + from, to - from);
    memcpy(base + at, with, n);
    bt_csum_store(check, bt_csum_bytes(sum, base + from, to - from));
}

void bt_crab_write_address(uint8_t *p, const struct bt_crab_segment *s, uint32_t vip)
{
    uint8_t address[4], *tcp = p + s->ip_head;
    bt_put32(address, vip);
    replace(tcp, s->option, address, sizeof address, tcp + TCP_SUM);
}

// Either encoding fills eight bytes: six and two NOPs, or eight with the experiment's number.
uint32_t bt_crab_insert_bytes(const struct bt_crab_segment *s)
{
    const uint32_t n = BT_CRAB_PADDED;
    bool fits = s->tcp_head - BT_TCP_HEAD + n <= BT_TCP_MOST_OPTIONS && s->total + n <= UINT16_MAX;
    return fits ? n : 0;
}

void bt_crab_write_option(uint8_t *o, const struct bt_crab_encoding *enc, uint32_t vip)
{
    o[0] = enc->kind;
    if (enc->kind < 253) {
        o[1] = 6;
        bt_put32(o + 2, vip);
        o[6] = o[7] = NOP;
    } else {
        o[1] = 8;
        bt_put16(o + 2, enc->experiment);
        bt_put32(o + 4, vip);
    }
}

// What follows the fixed header moves by an even number of bytes, so its part of the sum stays; new are the option, the
// data offset, and the TCP length of the pseudo-header (not the IP length, which the published P4 program takes: C-22).
void bt_crab_insert(uint8_t *p, struct bt_crab_segment *s, const struct bt_crab_encoding *enc, uint32_t vip)
{
    uint32_t n = bt_crab_insert_bytes(s);
    uint8_t *tcp = p + s->ip_head, *at = tcp + BT_TCP_HEAD, total[2], offset[2];
    assert(n != 0);
    memmove(at + n, at, (uint32_t)s->total - s->ip_head - BT_TCP_HEAD);
    bt_crab_write_option(at, enc, vip);
    uint64_t sum = bt_csum_bytes(without(tcp + TCP_SUM, at, 0), at, n);
    bt_csum_store(tcp + TCP_SUM, bt_csum_field(sum, (uint16_t)n));
    s->tcp_head = (uint8_t)(s->tcp_head + n);
    s->total = (uint16_t)(s->total + n);
    offset[0] = (uint8_t)((tcp[TCP_OFFSET] & 15u) | (s->tcp_head / 4u) << 4);
    offset[1] = tcp[TCP_OFFSET + 1];
    replace(tcp, TCP_OFFSET, offset, 2, tcp + TCP_SUM);
    bt_put16(total, s->total);
    replace(p, IP_TOTAL, total, 2, p + IP_SUM);
    s->option = (uint8_t)(BT_TCP_HEAD + (enc->kind < 253 ? 2 : 4));
    s->address = vip;
}

void bt_crab_pass_on(uint8_t *p, struct bt_crab_segment *s)
{
    s->ttl--;
    replace(p, IP_TTL, &s->ttl, 1, p + IP_SUM);
}

void bt_crab_redirect(uint8_t *p, struct bt_crab_segment *s, uint32_t dip)
{
    uint8_t to[4], *tcp_sum = p + s->ip_head + TCP_SUM;
    bt_put32(to, dip);
    uint64_t sum = without(tcp_sum, p + IP_DST, 4); // of the pseudo-header
    bt_csum_store(tcp_sum, bt_csum_bytes(sum, to, 4));
    replace(p, IP_DST, to, 4, p + IP_SUM);
    s->dst = dip;
    bt_crab_pass_on(p, s);
}
