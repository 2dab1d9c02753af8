// SPDX-License-Identifier: Apache-2.0
#include "syn.h"

#include "base/bytes.h"

const uint8_t syn_linux_options[28] = {2, 4, 5, 180, 4, 2, 8,  10, 1, 2, 3, 4, 0, 0,
                                       0, 0, 1, 3,   3, 7, 42, 6,  0, 0, 0, 0, 1, 1};

struct syn syn_plain(void)
{
    return (struct syn){.src = 0x0a000001,
                        .dst = 0x0a090909,
                        .seq = 0x12345678,
                        .sport = 40000,
                        .dport = 80,
                        .flags = BT_TCP_SYN,
                        .ttl = 64};
}

static uint32_t sum16(uint32_t sum, const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
    return sum;
}

static uint16_t folded(uint32_t sum)
{
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static uint32_t tcp_sum(const uint8_t *p)
{
    uint32_t head = (p[0] & 15u) * 4u, n = bt_get16(p + 2) - head;
    return sum16(sum16(6 + n, p + 12, 8), p + head, n);
}

uint32_t syn_write(const struct syn *s, uint8_t p[SYN_MOST])
{
    uint32_t padded = (s->options_len + 3) & ~3u, ip_head = 20 + s->ip_options_len;
    uint32_t total = ip_head + 20 + padded + s->data_len;
    uint8_t *t = p + ip_head;
    memset(p, 0, SYN_MOST);
    p[0] = (uint8_t)(0x40 | ip_head / 4);
    bt_put16(p + 2, (uint16_t)total);
    p[8] = s->ttl;
    p[9] = 6;
    bt_put32(p + 12, s->src);
    bt_put32(p + 16, s->dst);
    if (s->ip_options_len != 0)
        memcpy(p + 20, s->ip_options, s->ip_options_len);
    bt_put16(p + 10, (uint16_t)~folded(sum16(0, p, ip_head)));
    bt_put16(t, s->sport);
    bt_put16(t + 2, s->dport);
    bt_put32(t + 4, s->seq);
    t[12] = (uint8_t)((20 + padded) / 4 << 4);
    t[13] = s->flags;
    bt_put16(t + 14, 64240);
    memset(t + 20, 1, padded);
    if (s->options_len != 0)
        memcpy(t + 20, s->options, s->options_len);
    if (s->data_len != 0)
        memcpy(t + 20 + padded, s->data, s->data_len);
    bt_put16(t + 16, (uint16_t)~folded(tcp_sum(p)));
    return total;
}

bool syn_sums_right(const uint8_t *p)
{
    return folded(sum16(0, p, (p[0] & 15u) * 4u)) == 0xffff && folded(tcp_sum(p)) == 0xffff;
}
