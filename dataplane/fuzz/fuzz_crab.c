// SPDX-License-Identifier: Apache-2.0
// Whatever comes to a CRAB balancer's VIPs, one of IPv4 and one of IPv6 (C-2 to C-5, C-9, C-20 to C-28): the input is a
// few packets, each of raw bytes or of a SYN that is almost right. Nothing outside the packet is touched, every segment
// is counted once, what goes on parses again and says what the rules want, and a checksum that was right stays right.
#include "input.h"

#include "base/bytes.h"
#include "tcp/crab.h"
#include "wire/checksum.h"
#include "wire/frame.h"

enum { SERVERS = 3, VIP = 0x0a090909, FIRST = 0x0a010001, ROOM = 256, GUARD = 16, FAMILIES = 2 };

struct bed {
    _Alignas(64) uint8_t mem[1 << 16];
    struct bt_crab *crab;
    struct bt_crab_encoding enc;
};

static struct bed bed;

// a.b.c.d, or fd00::a.b.c.d.
static struct bt_addr address(bool six, uint32_t ip)
{
    struct bt_addr a = {.ip = {0xfd}};
    if (!six) {
        return bt_addr_v4u(ip, 0);
    }
    bt_put32(a.ip + 12, ip);
    return a;
}

// Which servers are up and capable makes 64 pools of a family; a table takes milliseconds to fill, so each is filled
// once.
static struct bt_crab_pool *pool_of(bool six, uint8_t how)
{
    static struct bt_crab_pool *pools[FAMILIES][1 << 2 * SERVERS];
    struct bt_crab_pool **pool = &pools[six][how % (1 << 2 * SERVERS)];
    struct bt_crab_backend servers[SERVERS];
    for (uint32_t i = 0; i < SERVERS && *pool == NULL; i++) {
        servers[i] = (struct bt_crab_backend){
            .ip = address(six, FIRST + i), .weight = 1, .capable = how >> i & 1, .up = how >> (i + SERVERS) & 1};
    }
    if (*pool == NULL) {
        void *mem = aligned_alloc(64, (bt_crab_pool_bytes(SERVERS) + 63) & ~(size_t)63);
        CHECK(mem != NULL);
        *pool = bt_crab_pool_build(mem, servers, SERVERS, 1);
    }
    memset((*pool)->picked, 0, SERVERS * sizeof *(*pool)->picked);
    return *pool;
}

static void start(struct input *in)
{
    uint8_t how = in8(in);
    struct bt_crab_vip_config vips[FAMILIES];
    struct bt_crab_config cfg = {.vips = vips, .n_vips = FAMILIES, .recent_sets = 1, .seed = 1};
    for (unsigned six = 0; six < FAMILIES; six++) {
        vips[six] = (struct bt_crab_vip_config){
            .addr = address(six, VIP), .policy = how % BT_CRAB_POLICIES, .assume_capable = how & 64};
        vips[six].addr.port = 80;
    }
    bed.enc = (how & 128) != 0 ? (struct bt_crab_encoding){253, 0xc4ab} : (struct bt_crab_encoding){BT_CRAB_KIND, 0};
    cfg.encoding = bed.enc;
    CHECK(bt_crab_bytes(&cfg) <= sizeof bed.mem);
    memset(bed.mem, 0, sizeof bed.mem);
    bed.crab = bt_crab_init(bed.mem, sizeof bed.mem, &cfg);
    CHECK(bed.crab != NULL);
    uint8_t who = in8(in);
    for (unsigned six = 0; six < FAMILIES; six++) {
        bt_crab_swap(bed.crab, six, pool_of(six, who));
    }
}

// Of the n bytes behind `head`, which begin with TCP.
static uint64_t tcp_sum(const uint8_t *p, uint32_t head, uint32_t n)
{
    bool six = p[0] >> 4 == 6;
    uint64_t sum = bt_csum_bytes(0, p + (six ? 8 : 12), six ? 32 : 8);
    return bt_csum_bytes(bt_csum_field(bt_csum_field(sum, 6), (uint16_t)n), p + head, n);
}

static bool tcp_sum_right(const uint8_t *p, const struct bt_crab_segment *s)
{
    return bt_csum_ok(tcp_sum(p, s->ip_head, s->total - s->ip_head));
}

static void mend_tcp(uint8_t *p, uint32_t head, uint32_t n, bool syn)
{
    if (n < head + 20) {
        return;
    }
    uint8_t *tcp = p + head;
    bt_put16(tcp + 2, 80);
    tcp[12] = (uint8_t)((n - head) / 4 < 15 ? (n - head) / 4 << 4 : 0xf0);
    tcp[13] = syn ? BT_TCP_SYN : tcp[13];
    tcp[16] = tcp[17] = 0;
    bt_csum_store(tcp + 16, tcp_sum(p, head, n - head));
}

// A packet of the input's bytes, headers mended as the first byte says, so that more than one in 65,536 gets far.
static uint32_t packet(struct input *in, uint8_t *p)
{
    uint8_t mend = in8(in);
    uint32_t n = in8(in) % 120u;
    for (uint32_t i = 0; i < n; i++) {
        p[i] = in8(in);
    }
    if (n < 40 || (mend & 1) == 0) {
        return n;
    }
    struct bt_addr vip = address((mend & 8) != 0, VIP);
    if ((mend & 8) != 0) {
        p[0] = 0x60;
        bt_put16(p + 4, (uint16_t)(n - BT_IP6_HEAD));
        p[6] = (mend & 2) != 0 ? p[6] : 6; // an extension header, perhaps
        memcpy(p + 24, vip.ip, 16);
        mend_tcp(p, BT_IP6_HEAD, n, (mend & 4) != 0);
        return n;
    }
    uint32_t head = 20u + (mend >> 1 & 1) * 4u;
    p[0] = (uint8_t)(0x40 | head / 4);
    bt_put16(p + 2, (uint16_t)n);
    p[6] = p[7] = 0;
    p[9] = 6;
    memcpy(p + 16, vip.ip + 12, 4);
    mend_tcp(p, head, n, (mend & 4) != 0);
    p[10] = p[11] = 0;
    bt_csum_store(p + 10, bt_csum_bytes(0, p, head));
    return n;
}

static uint64_t counted(uint64_t c[BT_CRAB_COUNTERS])
{
    const struct bt_counter_desc *desc;
    unsigned n;
    const uint64_t *now = bt_crab_counters(bed.crab, &desc, &n);
    uint64_t ends = now[BT_CRAB_REDIRECTED] + now[BT_CRAB_FALLBACK_SYN] + now[BT_CRAB_FALLBACK_NO_CAPABLE] +
                    now[BT_CRAB_FALLBACK_NO_SPACE] + now[BT_CRAB_FALLBACK_OTHER];
    for (int i = BT_CRAB_DROP_TRUNCATED; i < BT_CRAB_COUNTERS; i++) {
        ends += now[i];
    }
    memcpy(c, now, n * sizeof *c);
    return ends;
}

// What is said of every packet that goes on: a was it, b is it.
static void judge(const struct bt_crab_segment *a, const struct bt_crab_segment *b, bool redirected,
                  const struct bt_addr *hop)
{
    uint32_t number = bt_get32(hop->ip + 12);
    struct bt_addr server = address(!a->v4, number), vip = address(!a->v4, VIP);
    CHECK(number >= FIRST && number < FIRST + SERVERS && bt_addr_eq(hop, &server));
    CHECK(b->v4 == a->v4 && b->ttl == a->ttl - 1 && bt_addr_eq(&b->src, &a->src) && b->seq == a->seq);
    CHECK(b->dst.port == a->dst.port);
    if (redirected) {
        CHECK(bt_addr_ip_eq(&b->address, &vip) && bt_addr_ip_eq(&b->dst, hop));
    } else {
        CHECK(bt_addr_ip_eq(&b->dst, &vip) && b->total == a->total);
    }
}

static void one(struct input *in, uint64_t now)
{
    uint8_t *p = malloc(ROOM + GUARD), before[ROOM];
    uint64_t was[BT_CRAB_COUNTERS], is[BT_CRAB_COUNTERS];
    struct bt_crab_segment a, b;
    CHECK(p != NULL);
    memset(p, 0, ROOM);
    memset(p + ROOM, 0x5a, GUARD);
    uint32_t n = packet(in, p);
    bool parses = bt_crab_segment_parse(p, n, true, &bed.enc, &a) == BT_CRAB_SEGMENT_OK;
    bool right = parses && tcp_sum_right(p, &a);
    memcpy(before, p, ROOM);
    counted(was);
    struct bt_crab_packet taken = {.p = p, .len = n, .room = ROOM - n};
    bool sent = bt_crab_take(bed.crab, now, &taken);
    CHECK(counted(is) == is[BT_CRAB_RX] && is[BT_CRAB_RX] == was[BT_CRAB_RX] + 1);
    for (unsigned i = 0; i < GUARD; i++) {
        CHECK(p[ROOM + i] == 0x5a);
    }
    if (sent) {
        CHECK(parses && bt_crab_segment_parse(p, taken.len, true, &bed.enc, &b) == BT_CRAB_SEGMENT_OK);
        CHECK(b.total == taken.len && tcp_sum_right(p, &b) == right);
        judge(&a, &b, is[BT_CRAB_REDIRECTED] > was[BT_CRAB_REDIRECTED], &taken.hop);
    } else {
        CHECK(memcmp(before, p, ROOM) == 0);
    }
    free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    start(&in);
    for (uint64_t now = 1; in.left > 0 && now < 64; now++) {
        one(&in, now * ((uint64_t)in8(&in) << 24));
    }
    return 0;
}
