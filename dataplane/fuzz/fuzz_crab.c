// SPDX-License-Identifier: Apache-2.0
// Whatever comes to a CRAB balancer's VIPs (C-2 to C-5, C-20 to C-28): the input is a few packets, each of raw bytes or
// of a SYN that is almost right. Nothing outside the packet is touched, every segment is counted once, what goes on
// parses again and says what the rules want, and a checksum that was right stays right.
#include "input.h"

#include "base/bytes.h"
#include "tcp/crab.h"
#include "wire/checksum.h"

enum { SERVERS = 3, VIP = 0x0a090909, ROOM = 256, GUARD = 16 };

struct bed {
    _Alignas(64) uint8_t mem[1 << 16];
    struct bt_crab *crab;
    struct bt_crab_encoding enc;
};

static struct bed bed;

// Which servers are up and capable makes 64 pools; a table takes milliseconds to fill, so each is filled once.
static struct bt_crab_pool *pool_of(uint8_t how)
{
    static struct bt_crab_pool *pools[1 << 2 * SERVERS];
    struct bt_crab_pool **pool = &pools[how % (1 << 2 * SERVERS)];
    struct bt_crab_backend servers[SERVERS];
    for (uint32_t i = 0; i < SERVERS && *pool == NULL; i++) {
        servers[i] = (struct bt_crab_backend){
            .ip = 0x0a010001 + i, .weight = 1, .capable = how >> i & 1, .up = how >> (i + SERVERS) & 1};
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
    struct bt_crab_vip_config vip = {
        .ip = VIP, .port = 80, .policy = how % BT_CRAB_POLICIES, .assume_capable = how & 64};
    struct bt_crab_config cfg = {.vips = &vip, .n_vips = 1, .recent_sets = 1, .seed = 1};
    bed.enc = (how & 128) != 0 ? (struct bt_crab_encoding){253, 0xc4ab} : (struct bt_crab_encoding){BT_CRAB_KIND, 0};
    cfg.encoding = bed.enc;
    CHECK(bt_crab_bytes(&cfg) <= sizeof bed.mem);
    memset(bed.mem, 0, sizeof bed.mem);
    bed.crab = bt_crab_init(bed.mem, sizeof bed.mem, &cfg);
    CHECK(bed.crab != NULL);
    bt_crab_swap(bed.crab, 0, pool_of(in8(in)));
}

static bool tcp_sum_right(const uint8_t *p)
{
    uint32_t head = (p[0] & 15u) * 4u, n = bt_get16(p + 2) - head;
    uint64_t sum = bt_csum_field(bt_csum_field(bt_csum_bytes(0, p + 12, 8), 6), (uint16_t)n);
    return bt_csum_ok(bt_csum_bytes(sum, p + head, n));
}

// A packet of the input's bytes, headers mended as the first byte says, so that more than one in 65,536 gets far.
static uint32_t packet(struct input *in, uint8_t *p)
{
    uint8_t mend = in8(in);
    uint32_t n = in8(in) % 120u;
    for (uint32_t i = 0; i < n; i++)
        p[i] = in8(in);
    if (n < 40 || (mend & 1) == 0)
        return n;
    uint32_t head = 20u + (mend >> 1 & 1) * 4u;
    p[0] = (uint8_t)(0x40 | head / 4);
    bt_put16(p + 2, (uint16_t)n);
    p[6] = p[7] = 0;
    p[9] = 6;
    bt_put32(p + 16, VIP);
    if (n >= head + 20) {
        bt_put16(p + head + 2, 80);
        p[head + 12] = (uint8_t)((n - head) / 4 < 15 ? (n - head) / 4 << 4 : 0xf0);
        p[head + 13] = (mend & 4) != 0 ? BT_TCP_SYN : p[head + 13];
        p[head + 16] = p[head + 17] = 0;
        uint64_t sum = bt_csum_field(bt_csum_field(bt_csum_bytes(0, p + 12, 8), 6), (uint16_t)(n - head));
        bt_csum_store(p + head + 16, bt_csum_bytes(sum, p + head, n - head));
    }
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
    for (int i = BT_CRAB_DROP_TRUNCATED; i < BT_CRAB_COUNTERS; i++)
        ends += now[i];
    memcpy(c, now, n * sizeof *c);
    return ends;
}

static void one(struct input *in, uint64_t now)
{
    uint8_t *p = malloc(ROOM + GUARD), before[ROOM];
    uint64_t was[BT_CRAB_COUNTERS], is[BT_CRAB_COUNTERS];
    struct bt_crab_segment a, b;
    uint32_t hop = 0, len = 0;
    CHECK(p != NULL);
    memset(p, 0, ROOM);
    memset(p + ROOM, 0x5a, GUARD);
    uint32_t n = packet(in, p);
    bool parses = bt_crab_segment_parse(p, n, true, &bed.enc, &a) == BT_CRAB_SEGMENT_OK;
    bool right = parses && tcp_sum_right(p);
    memcpy(before, p, ROOM);
    counted(was);
    bool sent = bt_crab_take(bed.crab, now, p, n, ROOM - n, &hop, &len);
    CHECK(counted(is) == is[BT_CRAB_RX] && is[BT_CRAB_RX] == was[BT_CRAB_RX] + 1);
    for (unsigned i = 0; i < GUARD; i++)
        CHECK(p[ROOM + i] == 0x5a);
    if (sent) {
        bool redirected = is[BT_CRAB_REDIRECTED] > was[BT_CRAB_REDIRECTED];
        CHECK(parses && hop >= 0x0a010001 && hop < 0x0a010001 + SERVERS);
        CHECK(bt_crab_segment_parse(p, len, true, &bed.enc, &b) == BT_CRAB_SEGMENT_OK);
        CHECK(tcp_sum_right(p) == right && b.ttl == a.ttl - 1 && b.src == a.src && b.seq == a.seq);
        CHECK(redirected ? b.address == VIP && b.dst == hop : b.dst == a.dst && len == a.total);
    } else {
        CHECK(memcmp(before, p, ROOM) == 0);
    }
    free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    start(&in);
    for (uint64_t now = 1; in.left > 0 && now < 64; now++)
        one(&in, now * ((uint64_t)in8(&in) << 24));
    return 0;
}
