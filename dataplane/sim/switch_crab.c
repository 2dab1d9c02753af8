// SPDX-License-Identifier: Apache-2.0
// See switch_crab.h.
#include "switch_crab.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "stream.h"
#include "tcp/crab.h"
#include "wire/checksum.h"
#include "wire/frame.h"

#define VIP    0x0a090909u
#define SERVER 0x0a010000u /* the first one */

enum {
    PORT = 80,
    SERVERS_MAX = 8,
    SYNS = 24, /* that may be repeated */
    PACKET_MOST = 1500,
    EPISODE = 1000,
    OPTIONS_AT = BT_TCP_HEAD,
    SUM_AT = 16,
};

struct packet {
    uint8_t p[PACKET_MOST];
    uint32_t n;
};

struct story {
    struct bt_rng rng;
    FILE *out;
    struct bt_crab *crab;
    void *mem, *pool;
    uint64_t now; /* microseconds */
    struct packet syns[SYNS];
    uint32_t kept;
};

static uint32_t below(struct story *s, uint32_t n)
{
    return sim_below(&s->rng, n);
}

static void *room(size_t bytes)
{
    void *mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (mem == NULL) {
        abort();
    }
    return memset(mem, 0, bytes);
}

static void fresh(struct story *s)
{
    struct bt_crab_backend servers[SERVERS_MAX];
    uint32_t n = below(s, SERVERS_MAX + 1);
    struct bt_crab_vip_config vip = {.addr = bt_addr_v4u(VIP, PORT)};
    vip.fallback = below(s, 4) == 0 ? BT_CRAB_FALLBACK_DROP : BT_CRAB_FALLBACK_DIRECT_RETURN;
    vip.assume_capable = below(s, 2) == 0;
    struct bt_crab_config cfg = {.vips = &vip, .n_vips = 1};
    for (uint32_t i = 0; i < n; i++) {
        servers[i] = (struct bt_crab_backend){bt_addr_v4u(SERVER + i, 0), .weight = 1, .capable = true, .up = true};
    }
    free(s->mem);
    free(s->pool);
    s->mem = room(bt_crab_bytes(&cfg));
    s->pool = room(bt_crab_pool_bytes(SERVERS_MAX));
    s->crab = bt_crab_init(s->mem, bt_crab_bytes(&cfg), &cfg);
    bt_crab_swap(s->crab, 0, bt_crab_pool_build(s->pool, servers, n, 1));
    s->kept = 0;
    fprintf(s->out, "E %u %d %d\n", n, vip.fallback == BT_CRAB_FALLBACK_DROP, vip.assume_capable);
}

struct piece {
    uint8_t n, p[12];
};

/* What TCPs write, and what nobody should. */
static const struct piece pieces[] = {
    {4, {2, 4, 5, 0xb4}},
    {4, {1, 3, 3, 7}},
    {4, {3, 3, 8, 1}},
    {4, {1, 1, 4, 2}},
    {4, {4, 2, 1, 1}},
    {4, {1, 1, 1, 1}},
    {12, {4, 2, 8, 10, 1, 2, 3, 4, 0x2a, 6, 0, 0}},
    {12, {1, 1, 8, 10, 1, 2, 3, 4, 0x2a, 6, 0, 0}},
    {8, {0x2a, 6, 0, 0, 0, 0, 1, 1}},
    {8, {0x2a, 6, 0, 0, 0, 0, 1, 1}},
    {8, {1, 1, 0x2a, 6, 0, 0, 0, 0}},
    {8, {0x2a, 6, 192, 0, 2, 1, 1, 1}},
    {8, {1, 1, 0x2a, 6, 192, 0, 2, 1}},
    {8, {0x2a, 8, 192, 0, 2, 1, 0, 1}}, /* the mark of the fall-back */
    {8, {1, 0x2a, 6, 0, 0, 0, 0, 1}},   /* in the middle of a word */
    {12, {34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1}},
    {4, {0x2a, 5, 0, 0}},
    {4, {30, 40, 0, 0}}, /* beyond the header */
    {4, {0, 0, 0, 0}},
};

/* Common ones mostly. */
static uint32_t options(struct story *s, uint8_t *p)
{
    uint32_t n = 0, most = sizeof pieces / sizeof *pieces;
    for (uint32_t k = below(s, 6); k > 0; k--) {
        const struct piece *o = &pieces[below(s, below(s, 3) == 0 ? most : 12)];
        if (n + o->n <= BT_TCP_MOST_OPTIONS) {
            memcpy(p + n, o->p, o->n);
            n += o->n;
        }
    }
    return n;
}

static void sum_tcp(uint8_t *p, uint32_t head, uint32_t total)
{
    uint8_t *tcp = p + head;
    bt_put16(tcp + SUM_AT, 0);
    uint64_t sum = bt_csum_bytes(0, p + 12, 8);
    sum = bt_csum_field(bt_csum_field(sum, BT_PROTO_TCP), (uint16_t)(total - head));
    bt_csum_store(tcp + SUM_AT, bt_csum_bytes(sum, tcp, total - head));
}

static void sum_ip(uint8_t *p, uint32_t head)
{
    bt_put16(p + 10, 0);
    bt_csum_store(p + 10, bt_csum_bytes(0, p, head));
}

/* One thing about the packet is not as it should be; now and then. */
static void break_it(struct story *s, struct packet *k)
{
    uint8_t *p = k->p;
    switch (below(s, 40)) {
    case 0:
        p[8] = (uint8_t)below(s, 2);
        break;
    case 1:
        bt_put16(p + 6, (uint16_t)(0x2000u >> below(s, 14)));
        break;
    case 2:
        bt_put16(p + 2, (uint16_t)(k->n - below(s, 40)));
        break;
    case 3:
        bt_put32(p + 16, VIP + 1);
        break;
    case 4:
        bt_put16(p + 22, PORT + 1);
        break;
    case 5:
        p[32] = (uint8_t)(below(s, 16) << 4);
        break;
    case 6:
        p[36] ^= 1; /* TCP's checksum */
        break;
    default:
        break;
    }
    sum_ip(p, 20);
    p[11] ^= below(s, 40) == 0;
}

static void make(struct story *s, struct packet *k)
{
    uint8_t *p = k->p, *tcp = p + 20;
    uint32_t flags = below(s, 5) > 0 ? BT_TCP_SYN | (below(s, 4) == 0 ? 0xc0u : 0) : below(s, 256);
    memset(p, 0, sizeof k->p);
    uint32_t head = BT_TCP_HEAD + options(s, tcp + OPTIONS_AT), data = below(s, 3) == 0 ? below(s, 200) : 0;
    k->n = 20 + head + data;
    p[0] = 0x45;
    bt_put16(p + 2, (uint16_t)k->n);
    bt_put16(p + 6, 0x4000);
    p[8] = 64;
    p[9] = BT_PROTO_TCP;
    bt_put32(p + 12, 0x0a000100u + below(s, 200));
    bt_put32(p + 16, VIP);
    bt_put16(tcp, (uint16_t)(1024u + below(s, 60000)));
    bt_put16(tcp + 2, PORT);
    bt_put32(tcp + 4, (uint32_t)bt_rng_next(&s->rng));
    tcp[12] = (uint8_t)(head / 4u << 4);
    tcp[13] = (uint8_t)flags;
    bt_put16(tcp + 14, 64240);
    for (uint32_t i = 0; i < data; i++) {
        tcp[head + i] = (uint8_t)below(s, 256);
    }
    sum_tcp(p, 20, k->n);
    break_it(s, k);
}

static void hex(const struct story *s, const uint8_t *p, uint32_t n)
{
    fputc(' ', s->out);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(s->out, "%02x", p[i]);
    }
}

/* The last of the counters that went up says most: those of single options stand between. */
static const char *what(const uint64_t *before, const uint64_t *after, const struct bt_counter_desc *d, unsigned n)
{
    for (unsigned i = n; i-- > 0;) {
        bool note = i >= BT_CRAB_FOREIGN_ADDRESS && i <= BT_CRAB_MALFORMED_OPTIONS;
        if (!note && i != BT_CRAB_REPEATED && after[i] != before[i]) {
            return i == BT_CRAB_INSERTED ? "inserted" : i == BT_CRAB_REDIRECTED ? "redirected" : d[i].value;
        }
    }
    return "none";
}

static void segment(struct story *s)
{
    struct packet k;
    uint64_t before[BT_CRAB_COUNTERS];
    const struct bt_counter_desc *d;
    unsigned n;
    s->now += below(s, 8) == 0 ? below(s, 1000000) : below(s, 1000);
    if (s->kept > 0 && below(s, 4) == 0) {
        k = s->syns[below(s, s->kept < SYNS ? s->kept : SYNS)];
    } else {
        make(s, &k);
        s->syns[s->kept++ % SYNS] = k;
    }
    const uint64_t *now = bt_crab_counters(s->crab, &d, &n);
    memcpy(before, now, sizeof before);
    struct packet in = k;
    struct bt_crab_packet pkt = {.p = k.p, .len = k.n, .room = PACKET_MOST - k.n};
    bool goes_on = bt_crab_take(s->crab, s->now * UINT64_C(1000), &pkt);
    fprintf(s->out, "S %llu %s", (unsigned long long)s->now, what(before, now, d, n));
    hex(s, in.p, in.n);
    if (goes_on) {
        hex(s, pkt.p, pkt.len);
        fputc('\n', s->out);
    } else {
        fputs(" -\n", s->out);
    }
}

void sim_switch_crab(uint64_t seed, uint64_t segments, FILE *out)
{
    struct story s = {.out = out};
    sim_stream_seed(&s.rng, seed, SIM_STREAM_GARBAGE);
    for (uint64_t i = 0; i < segments; i++) {
        if (i % EPISODE == 0) {
            fresh(&s);
        }
        segment(&s);
    }
    free(s.mem);
    free(s.pool);
}
