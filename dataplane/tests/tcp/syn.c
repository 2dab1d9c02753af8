// SPDX-License-Identifier: Apache-2.0
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"

#define NET UINT64_C(0xfd97000000000000)

enum { IP4 = 20, IP6 = 40, LINUX = 20 };

bool syn_six;

int syn_four_group(void **state)
{
    (void)state;
    syn_six = false;
    return 0;
}

int syn_six_group(void **state)
{
    (void)state;
    syn_six = true;
    return 0;
}

struct syn syn_plain(void)
{
    return (struct syn){.six = syn_six,
                        .net = NET,
                        .src = 0x0a000001,
                        .dst = 0x0a090909,
                        .seq = 0x12345678,
                        .sport = 40000,
                        .dport = 80,
                        .flags = BT_TCP_SYN,
                        .ttl = 64};
}

static struct bt_addr address(bool six, uint64_t net, uint32_t ip)
{
    struct bt_addr a = {.ip = {0}};
    if (!six) {
        return bt_addr_v4u(ip, 0);
    }
    bt_put64(a.ip, net);
    bt_put32(a.ip + 12, ip);
    return a;
}

struct bt_addr syn_ip(uint32_t ip)
{
    return address(syn_six, NET, ip);
}

struct bt_addr syn_address(const struct syn *s, uint32_t ip)
{
    return address(s->six, s->net, ip);
}

uint32_t syn_number(const struct bt_addr *a)
{
    uint32_t ip = bt_get32(a->ip + 12);
    struct bt_addr same = syn_ip(ip);
    assert_memory_equal(a->ip, same.ip, sizeof same.ip);
    return ip;
}

uint32_t syn_option(uint8_t *o, uint32_t ip)
{
    struct bt_addr a = syn_ip(ip);
    uint32_t n = syn_six ? 16 : 4;
    o[0] = 42;
    o[1] = (uint8_t)(2 + n);
    memset(o + 2, 0, n);
    if (ip != 0) {
        memcpy(o + 2, a.ip + 16 - n, n);
    }
    return 2 + n;
}

void syn_mark(struct syn *s)
{
    static uint8_t options[40] = {2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7};
    uint32_t n = LINUX + syn_option(options + LINUX, 0);
    options[n] = options[n + 1] = 1;
    s->options = options;
    s->options_len = n + 2;
}

static uint32_t sum16(uint32_t sum, const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
    }
    return sum;
}

static uint16_t folded(uint32_t sum)
{
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

// The segment begins `head` bytes behind p; there are no extension headers where sums matter.
static uint32_t tcp_sum(const uint8_t *p, uint32_t head)
{
    bool six = p[0] >> 4 == 6;
    uint32_t n = six ? bt_get16(p + 4) - (head - IP6) : bt_get16(p + 2) - head;
    return sum16(sum16(6 + n, p + (six ? 8 : 12), six ? 32 : 8), p + head, n);
}

static void write_ip4(const struct syn *s, uint8_t *p, uint32_t head, uint32_t total)
{
    p[0] = (uint8_t)(0x40 | head / 4);
    bt_put16(p + 2, (uint16_t)total);
    p[8] = s->ttl;
    p[9] = 6;
    bt_put32(p + 12, s->src);
    bt_put32(p + 16, s->dst);
    if (s->ip_options_len != 0) {
        memcpy(p + IP4, s->ip_options, s->ip_options_len);
    }
    bt_put16(p + 10, (uint16_t)~folded(sum16(0, p, head)));
}

static void write_ip6(const struct syn *s, uint8_t *p, uint32_t total)
{
    struct bt_addr src = syn_address(s, s->src), dst = syn_address(s, s->dst);
    p[0] = 0x60;
    bt_put16(p + 4, (uint16_t)(total - IP6));
    p[6] = s->ip_options_len != 0 ? s->extension : 6;
    p[7] = s->ttl;
    memcpy(p + 8, src.ip, 16);
    memcpy(p + 24, dst.ip, 16);
    if (s->ip_options_len != 0) {
        memcpy(p + IP6, s->ip_options, s->ip_options_len);
    }
}

uint32_t syn_write(const struct syn *s, uint8_t p[SYN_MOST])
{
    uint32_t padded = (s->options_len + 3) & ~3u, ip_head = (s->six ? IP6 : IP4) + s->ip_options_len;
    uint32_t total = ip_head + 20 + padded + s->data_len;
    uint8_t *t = p + ip_head;
    memset(p, 0, SYN_MOST);
    if (s->six) {
        write_ip6(s, p, total);
    } else {
        write_ip4(s, p, ip_head, total);
    }
    bt_put16(t, s->sport);
    bt_put16(t + 2, s->dport);
    bt_put32(t + 4, s->seq);
    t[12] = (uint8_t)((20 + padded) / 4 << 4);
    t[13] = s->flags;
    bt_put16(t + 14, 64240);
    memset(t + 20, 1, padded);
    if (s->options_len != 0) {
        memcpy(t + 20, s->options, s->options_len);
    }
    if (s->data_len != 0) {
        memcpy(t + 20 + padded, s->data, s->data_len);
    }
    bt_put16(t + 16, (uint16_t)~folded(tcp_sum(p, ip_head)));
    return total;
}

bool syn_sums_right(const uint8_t *p)
{
    uint32_t head = p[0] >> 4 == 6 ? IP6 : (p[0] & 15u) * 4u;
    bool ip = p[0] >> 4 == 6 || folded(sum16(0, p, head)) == 0xffff;
    return ip && folded(tcp_sum(p, head)) == 0xffff;
}
