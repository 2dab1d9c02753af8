// SPDX-License-Identifier: Apache-2.0
// Changing a segment. Checksums are adjusted by what changed (RFC 1624), so that a damaged segment stays damaged and
// one with data in its SYN costs no more than one without.
#include "tcp/crab_segment.h"

#include "base/bytes.h"
#include "wire/checksum.h"
#include "wire/frame.h"

#include <assert.h>
#include <string.h>

enum { IP4_TOTAL = 2, IP4_TTL = 8, IP4_SUM = 10, IP4_DST = 16, IP6_BODY = 4, IP6_HOPS = 7, IP6_DST = 24 };
enum { TCP_OFFSET = 12, TCP_SUM = 16, NOP = 1 };

// An address as it stands in a packet of its family.
static const uint8_t *wire_of(const struct bt_addr *a, uint32_t *n)
{
    bool v4 = bt_addr_is_v4(a);
    *n = v4 ? 4 : 16;
    return a->ip + (v4 ? 12 : 0);
}

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

void bt_crab_write_address(uint8_t *p, const struct bt_crab_segment *s, const struct bt_addr *vip)
{
    uint32_t n;
    const uint8_t *address = wire_of(vip, &n);
    uint8_t *tcp = p + s->ip_head;
    replace(tcp, s->option, address, n, tcp + TCP_SUM);
}

// Either encoding fills as many bytes: the shorter one has two NOPs, the other an experiment's number.
uint32_t bt_crab_insert_bytes(const struct bt_crab_segment *s)
{
    const uint32_t n = s->v4 ? BT_CRAB_PADDED : BT_CRAB_PADDED6, counted = s->v4 ? 0 : BT_IP6_HEAD;
    bool fits = s->tcp_head - BT_TCP_HEAD + n <= BT_TCP_MOST_OPTIONS && s->total - counted + n <= UINT16_MAX;
    return fits ? n : 0;
}

void bt_crab_write_option(uint8_t *o, const struct bt_crab_encoding *enc, const struct bt_addr *vip)
{
    uint32_t n;
    const uint8_t *address = wire_of(vip, &n);
    o[0] = enc->kind;
    if (enc->kind < 253) {
        o[1] = (uint8_t)(2 + n);
        memcpy(o + 2, address, n);
        o[2 + n] = o[3 + n] = NOP;
    } else {
        o[1] = (uint8_t)(4 + n);
        bt_put16(o + 2, enc->experiment);
        memcpy(o + 4, address, n);
    }
}

// The length in the IP header; that of IPv6 counts what stands behind it, and no checksum covers it.
static void write_length(uint8_t *p, const struct bt_crab_segment *s)
{
    uint8_t total[2];
    if (s->v4) {
        bt_put16(total, (uint16_t)s->total);
        replace(p, IP4_TOTAL, total, 2, p + IP4_SUM);
    } else {
        bt_put16(p + IP6_BODY, (uint16_t)(s->total - BT_IP6_HEAD));
    }
}

// What follows the fixed header moves by an even number of bytes, so its part of the sum stays; new are the option, the
// data offset, and the TCP length of the pseudo-header (not the IP length, which the published P4 program takes: C-22).
void bt_crab_insert(uint8_t *p, struct bt_crab_segment *s, const struct bt_crab_encoding *enc,
                    const struct bt_addr *vip)
{
    uint32_t n = bt_crab_insert_bytes(s);
    uint8_t *tcp = p + s->ip_head, *at = tcp + BT_TCP_HEAD, offset[2];
    assert(n != 0);
    memmove(at + n, at, s->total - s->ip_head - BT_TCP_HEAD);
    bt_crab_write_option(at, enc, vip);
    uint64_t sum = bt_csum_bytes(without(tcp + TCP_SUM, at, 0), at, n);
    bt_csum_store(tcp + TCP_SUM, bt_csum_field(sum, (uint16_t)n));
    s->tcp_head = (uint8_t)(s->tcp_head + n);
    s->total += n;
    offset[0] = (uint8_t)((tcp[TCP_OFFSET] & 15u) | (s->tcp_head / 4u) << 4);
    offset[1] = tcp[TCP_OFFSET + 1];
    replace(tcp, TCP_OFFSET, offset, 2, tcp + TCP_SUM);
    write_length(p, s);
    s->option = (uint8_t)(BT_TCP_HEAD + (enc->kind < 253 ? 2 : 4));
    s->address = *vip;
    s->address.port = 0;
    s->named = true;
}

void bt_crab_pass_on(uint8_t *p, struct bt_crab_segment *s)
{
    s->ttl--;
    if (s->v4) {
        replace(p, IP4_TTL, &s->ttl, 1, p + IP4_SUM);
    } else {
        p[IP6_HOPS] = s->ttl;
    }
}

void bt_crab_redirect(uint8_t *p, struct bt_crab_segment *s, const struct bt_addr *dip)
{
    uint32_t n, at = s->v4 ? IP4_DST : IP6_DST;
    const uint8_t *to = wire_of(dip, &n);
    uint8_t *tcp_sum = p + s->ip_head + TCP_SUM;
    uint64_t sum = without(tcp_sum, p + at, n); // of the pseudo-header
    bt_csum_store(tcp_sum, bt_csum_bytes(sum, to, n));
    if (s->v4) {
        replace(p, at, to, n, p + IP4_SUM);
    } else {
        memcpy(p + at, to, n);
    }
    memcpy(s->dst.ip, dip->ip, sizeof s->dst.ip);
    bt_crab_pass_on(p, s);
}
