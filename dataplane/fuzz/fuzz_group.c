// SPDX-License-Identifier: Apache-2.0
// The first byte chooses: messages of a replication group through the parser alone, where what is accepted must be
// written back to the same bytes; or a whole member, or the aggregator, which answer whatever comes without falling.
#include "input.h"
#include "replica/aggregator.h"
#include "replica/replica.h"

#define CLUSTER UINT64_C(0x1122334455667788)

enum { GROUP = 9, MESSAGE = 1452 };

struct member {
    struct bt_replica *r;
    uint64_t issued;
};

static void parse(const uint8_t *p, size_t n)
{
    static struct bt_group_message m;
    static uint8_t again[BT_GROUP_MESSAGE_MAX];
    struct bt_group_fault f = bt_group_decode(p, n, &m);
    CHECK(f.at <= n || f.error == BT_GROUP_BAD_LONG);
    if (f.error == BT_GROUP_OK) {
        CHECK(bt_group_encode(again, sizeof again, &m) == n);
        CHECK(memcmp(again, p, n) == 0);
    }
}

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    static struct bt_group_message m;
    (void)ctx;
    CHECK(to != 0);
    CHECK(bt_group_decode(message, n, &m).error == BT_GROUP_OK);
}

static void on_store(void *ctx, const struct bt_store_op *op)
{
    struct member *m = ctx;
    CHECK(op->generation == m->issued + 1);
    m->issued = op->generation;
}

static void on_restore(void *ctx, uint64_t last_index, const uint8_t *bytes, uint64_t n)
{
    (void)ctx;
    CHECK(last_index > 0 && (bytes != NULL || n == 0));
}

static void start(struct member *m, void *mem, const struct bt_replica_config *c)
{
    static const struct bt_replica_ops ops = {.send = on_send, .store = on_store, .restore = on_restore};
    struct bt_recovery fresh = {0};
    for (uint16_t id = 1; id <= 3; id++) {
        fresh.snapshot.config.member[fresh.snapshot.config.count++] = (struct bt_group_member){id, BT_GROUP_VOTER};
    }
    CHECK(bt_replica_start(mem, c, &ops, m, &fresh, &m->r) == BT_REPLICA_OK);
}

// A message of this group: its header is right, so that what is behind it is reached. Returns its bytes.
static size_t make(uint8_t p[MESSAGE], struct input *in)
{
    static struct bt_group_message header;
    uint8_t n = in8(in);
    header.header = (struct bt_group_header){.version = BT_GROUP_VERSION,
                                             .type = BT_GROUP_TAKE_OVER,
                                             .from = in8(in) % 5,
                                             .group = GROUP,
                                             .term = in8(in),
                                             .cluster = CLUSTER};
    size_t at = bt_group_encode(p, MESSAGE, &header);
    p[1] = in8(in) % 14;
    if (p[1] == BT_GROUP_COMMITTED || p[1] == BT_GROUP_PROBE_REPLY) {
        p[2] = p[3] = 0xff; // the aggregator's
    }
    for (uint32_t i = 0; i < n; i++) {
        p[at++] = in8(in);
    }
    return at;
}

static void give(struct member *m, struct input *in, uint64_t now)
{
    static uint8_t p[MESSAGE];
    size_t n = make(p, in);
    bt_replica_receive(m->r, now, p, n);
}

// Whatever it is told, its commit falls only with a flush; also as a switch (W-11).
static void aggregate(struct input *in)
{
    static const struct bt_aggregator_ops ops = {.send = on_send};
    static struct bt_aggregator a;
    static uint8_t p[MESSAGE];
    bt_aggregator_start(
        &a, &(struct bt_aggregator_config){.cluster = CLUSTER, .group = GROUP, .as_switch = in8(in) % 2}, &ops, NULL);
    while (in->left > 0) {
        uint64_t flushes = a.counter[BT_AGGREGATOR_FLUSHES_TOTAL], commit = bt_aggregator_status(&a).commit;
        size_t n = make(p, in);
        bt_aggregator_receive(&a, p, n);
        CHECK(a.counter[BT_AGGREGATOR_FLUSHES_TOTAL] > flushes || bt_aggregator_status(&a).commit >= commit);
    }
}

// One that came to this member by itself; a Raft group has none.
static void request(struct member *m, struct input *in, uint64_t now)
{
    uint8_t id = in8(in);
    struct bt_replica_request q = {.client = bt_addr_v4u(0x0a000001, 4000),
                                   .req_id = id % 8,
                                   .read_only = id % 2,
                                   .body = (const uint8_t *)"request",
                                   .length = id % 8};
    bt_replica_request(m->r, now, &q);
    bt_replica_announce(m->r, now);
}

static void step(struct member *m, struct input *in, uint64_t *now)
{
    uint64_t index;
    uint8_t verb = in8(in);
    *now += (uint64_t)in8(in) * 1000000;
    switch (verb % 8) {
    case 0:
        bt_replica_tick(m->r, *now);
        break;
    case 1:
        bt_replica_stored(m->r, *now, in8(in) < 8 ? in8(in) : m->issued, BT_STORE_DURABLE);
        break;
    case 2:
        bt_replica_propose(m->r, *now, (const uint8_t *)"command", in8(in) % 8, &index);
        break;
    case 3:
        bt_replica_change(m->r, *now, (enum bt_replica_change)(in8(in) % 3), in8(in) % 8);
        break;
    case 4:
        bt_replica_applied(m->r, bt_replica_status(m->r).commit);
        bt_replica_snapshot(m->r, *now, bt_replica_status(m->r).applied, (const uint8_t *)"state", 5);
        break;
    case 7:
        request(m, in, *now);
        break;
    default:
        give(m, in, *now);
    }
    struct bt_replica_status s = bt_replica_status(m->r);
    CHECK(s.applied <= s.commit && s.commit <= s.last && s.durable <= s.last && s.first <= s.last + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] % 2 == 0) {
        parse(data + (size > 0), size > 0 ? size - 1 : 0);
        return 0;
    }
    static struct bt_replica_config c = {.cluster = CLUSTER,
                                         .group = GROUP,
                                         .id = 1,
                                         .pipeline = 2,
                                         .election_ns = 50000000,
                                         .heartbeat_ns = 10000000,
                                         .seed = 1,
                                         .log_slots = 128,
                                         .body_bytes = 4096,
                                         .keep_entries = 2,
                                         .message_bytes = MESSAGE,
                                         .snapshot_bytes = 512};
    if ((data[0] & 4) != 0) {
        struct input in = {data + 1, size - 1};
        aggregate(&in);
        return 0;
    }
    bool apart = (data[0] & 2) != 0;
    c.apart = (struct bt_replica_apart){0};
    if (apart) {
        c.apart = (struct bt_replica_apart){.kept_requests = 4,
                                            .recent_pairs = 8,
                                            .bound = 2,
                                            .keep_ns = 100000000,
                                            .quarantine_ns = 20000000,
                                            .recover_ns = 1000000,
                                            .aggregator = true};
    }
    struct input in = {data + 1, size - 1};
    struct member m = {0};
    uint64_t now = 0;
    void *mem = malloc(bt_replica_bytes(&c));
    start(&m, mem, &c);
    while (in.left > 0) {
        step(&m, &in, &now);
    }
    free(mem);
    return 0;
}
