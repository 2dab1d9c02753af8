// SPDX-License-Identifier: Apache-2.0
// An aggregator as its program runs it, packet after packet: raw ones, messages with a right header behind the right
// tag, a wrong one, or one signed for another way. What no member signed changes nothing. What leaves is signed, is
// read by whoever gets it, and goes to members that the document names; a leader's message is passed on byte by byte,
// as its disk's; terms and commits only rise; no buffer is lost.
#include "base/bytes.h"
#include "input.h"
#include "run/aggregator.h"
#include "run/cluster.h"

enum { PACKETS = 64, STEPS = 48, MEMBERS = 4, GROUP = 9, MESSAGE = 600 };

static struct bt_pool_fixed pool;
static uint8_t *pool_mem;
static struct bt_group_document document;
static const struct bt_keyring keys = {.key = {{.id = 1, .bytes = {9, 8, 7}}}};
static const struct bt_key wrong = {.id = 1, .bytes = {1}};

// What is given to it.
struct given {
    uint8_t message[MESSAGE];
    size_t n;
    uint64_t disk;
};

static struct bt_addr at(uint8_t host, uint16_t port)
{
    return bt_addr_v4u(0x0a000000u | host, port);
}

static void prepare(void)
{
    document = (struct bt_group_document){.number = GROUP, .n_members = MEMBERS, .cluster = {1, 2, 3}};
    for (uint8_t i = 0; i < MEMBERS; i++) {
        document.member[i].id = i + 1;
        document.member[i].address = at((uint8_t)(i + 1), 8100);
    }
}

// The header is right but for its type, its sender and its term; then come fields as somebody may write them.
static void draw(struct input *in, struct given *g)
{
    static const uint8_t types[] = {BT_GROUP_PROBE, BT_GROUP_SHARED, BT_GROUP_SHARED_REPLY, BT_GROUP_COMMITTED};
    struct bt_group_message m = {.header = {.version = BT_GROUP_VERSION,
                                            .type = types[in8(in) & 3u],
                                            .from = (uint16_t)(1 + in8(in) % 6),
                                            .group = GROUP,
                                            .term = 1 + (in8(in) & 3u),
                                            .cluster = bt_member_wire_cluster(document.cluster)}};
    uint8_t epoch = in8(in) & 1u, index = in8(in) & 15u;
    switch (m.header.type) {
    case BT_GROUP_PROBE:
        m.probe = (struct bt_group_probe){
            .flags = BT_GROUP_DURABLE, .epoch = epoch, .floor = index & 3u, .config = {.count = 3}};
        for (uint16_t i = 0; i < 3; i++) {
            m.probe.config.member[i] =
                (struct bt_group_member){.id = (uint16_t)(i + 1 + epoch), .role = BT_GROUP_VOTER};
        }
        break;
    case BT_GROUP_SHARED:
        m.append = (struct bt_group_append){.prev_index = index, .prev_term = 1, .epoch = epoch};
        break;
    case BT_GROUP_SHARED_REPLY:
        m.append_reply =
            (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = index, .last = index, .epoch = epoch};
        break;
    default:
        m.header.from = BT_GROUP_AGGREGATOR;
        break;
    }
    g->n = bt_group_encode(g->message, sizeof g->message, &m);
    for (uint8_t damage = in8(in); (damage & 3u) == 0 && g->n > 0 && in->left > 1; damage = in8(in)) {
        g->message[in8(in) % g->n] = in8(in);
    }
    g->disk = in8(in);
}

static void sent(struct bt_aggregator_front *f, const struct given *g, const struct bt_pkt *pkt)
{
    static struct bt_group_message m;
    struct bt_group_packet p;
    const struct bt_group_document_member *to = NULL;
    for (size_t i = 0; i < document.n_members; i++) {
        to = bt_addr_eq(&pkt->dst, &document.member[i].address) ? &document.member[i] : to;
    }
    CHECK(to != NULL);
    CHECK(bt_group_packet_open(pkt, &keys, &p) == BT_GROUP_PACKET_OK && !p.is_note);
    CHECK(bt_group_decode(p.message, p.n, &m).error == BT_GROUP_OK);
    if (m.header.type == BT_GROUP_SHARED) {
        CHECK(p.n == g->n && memcmp(p.message, g->message, g->n) == 0 && p.disk == g->disk);
        CHECK(m.header.from != to->id);
        return;
    }
    CHECK(m.header.from == BT_GROUP_AGGREGATOR && p.disk == 0);
    CHECK(m.header.type == BT_GROUP_PROBE_REPLY || m.header.type == BT_GROUP_COMMITTED);
    CHECK(m.header.type != BT_GROUP_COMMITTED || m.committed.commit == bt_aggregator_front_status(f).commit);
}

static bool same(const struct bt_aggregator_status *a, const struct bt_aggregator_status *b)
{
    return a->known == b->known && a->leader == b->leader && a->term == b->term && a->epoch == b->epoch &&
           a->floor == b->floor && a->last == b->last && a->commit == b->commit;
}

static void step(struct bt_aggregator_front *f, struct input *in, struct bt_txq *txq)
{
    struct given g = {.n = 0};
    struct bt_aggregator_status before = bt_aggregator_front_status(f), after;
    struct bt_pkt *pkt = bt_pool_get(&pool.pool);
    CHECK(pkt != NULL);
    pkt->src = at((uint8_t)(1 + in8(in) % MEMBERS), 8100);
    pkt->dst = at(60, 8300);
    uint8_t how = in8(in) & 7u;
    if (how == 0) {
        in_raw(in, pkt, in8(in));
    } else {
        draw(in, &g);
        CHECK(bt_group_packet_write(pkt, g.message, g.n, g.disk, how == 1 ? &wrong : &keys.key[0]));
        pkt->src.port ^= how == 2; // signed for another way
    }
    bt_aggregator_front_receive(f, pkt);
    after = bt_aggregator_front_status(f);
    CHECK(how > 2 || same(&before, &after));
    CHECK(after.term >= before.term);
    bool same_table = before.known && after.known && after.term == before.term && after.epoch == before.epoch &&
                      after.floor == before.floor;
    CHECK(!same_table || after.commit >= before.commit);
    while ((pkt = bt_txq_pop(txq)) != NULL) {
        CHECK(how > 2);
        sent(f, &g, pkt);
        bt_pool_put(&pool.pool, pkt);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct bt_txq txq;
    if (pool_mem == NULL) {
        pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
        CHECK(pool_mem != NULL);
        bt_pool_fixed_init(&pool, pool_mem, PACKETS);
    }
    prepare();
    bt_txq_init(&txq);
    struct bt_aggregator_front *f =
        bt_aggregator_front_open(&(struct bt_aggregator_front_config){.document = &document,
                                                                      .address = at(60, 8300),
                                                                      .keys = keys,
                                                                      .pool = &pool.pool,
                                                                      .txq = &txq,
                                                                      .as_switch = in8(&in) & 1u});
    CHECK(f != NULL);
    for (int i = 0; i < STEPS && in.left > 0; i++) {
        step(f, &in, &txq);
    }
    bt_aggregator_front_close(f);
    CHECK(pool.left == PACKETS);
    return 0;
}
