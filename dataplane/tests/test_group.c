// SPDX-License-Identifier: Apache-2.0
// Messages of a replication group: what is written is read back; what is cut short, too long, unknown or
// contradicts itself is refused with its byte named.
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "wire/group.h"

enum { ROOM = 4096, ENTRIES = 24 + 28 + 18 + 16 + 26 /* of the append: where its requests begin */ };

static uint8_t p[ROOM];

static struct bt_group_message of(enum bt_group_type type)
{
    return (struct bt_group_message){.header = {.version = BT_GROUP_VERSION,
                                                .type = (uint8_t)type,
                                                .from = 3,
                                                .group = 0x01020304,
                                                .term = 0x0000000100000002,
                                                .cluster = 0x1122334455667788}};
}

static struct bt_group_config config(void)
{
    return (struct bt_group_config){.count = 2, .member = {{1, BT_GROUP_VOTER}, {0x0203, BT_GROUP_LEARNER}}};
}

static struct bt_group_meta meta(void)
{
    return (struct bt_group_meta){.client = bt_addr_v4u(0x0a000102, 4000),
                                  .req_id = 0x1234,
                                  .replier = 2,
                                  .length = 5,
                                  .hash = 0x8877665544332211};
}

static struct bt_entry request(uint8_t kind, bool whole)
{
    static uint8_t bytes[BT_GROUP_META + 5];
    struct bt_group_meta m = meta();
    bt_group_meta_put(bytes, &m);
    memcpy(bytes + BT_GROUP_META, "body!", 5);
    return (struct bt_entry){.term = 5, .kind = kind, .body = bytes, .length = BT_GROUP_META + (whole ? 5 : 0)};
}

// The aggregator's, and what only it is told.
static void example_of_aggregator(struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_COMMITTED:
        m->header.from = BT_GROUP_AGGREGATOR;
        m->committed = (struct bt_group_committed){.epoch = 3, .commit = 9, .count = 2, .done = {{2, 8}, {0x0203, 7}}};
        break;
    case BT_GROUP_PROBE:
        m->probe = (struct bt_group_probe){.flags = BT_GROUP_DURABLE, .epoch = 3, .floor = 9, .config = config()};
        break;
    case BT_GROUP_PROBE_REPLY:
        m->header.from = BT_GROUP_AGGREGATOR;
        m->probe = (struct bt_group_probe){.epoch = 3, .floor = 9};
        break;
    case BT_GROUP_SHARED:
        m->append = (struct bt_group_append){.prev_index = 4, .prev_term = 2, .commit = 3, .epoch = 2, .count = 1};
        m->append.entry[0] = request(BT_ENTRY_READ, false);
        break;
    case BT_GROUP_SHARED_REPLY:
        m->append_reply =
            (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = 5, .last = 6, .applied = 4, .epoch = 2};
        break;
    default:
        break;
    }
}

// One message of every type, as long as it gets.
static size_t example(enum bt_group_type type)
{
    static uint8_t body[BT_GROUP_CONFIG_MAX];
    struct bt_group_config c = config();
    struct bt_group_message m = of(type);
    switch (type) {
    case BT_GROUP_VOTE:
        m.vote =
            (struct bt_group_vote){.flags = BT_GROUP_TRANSFER, .asked = m.header.term, .last_index = 9, .last_term = 7};
        break;
    case BT_GROUP_VOTE_REPLY:
        m.vote = (struct bt_group_vote){.flags = BT_GROUP_PRE | BT_GROUP_YES, .asked = 12};
        break;
    case BT_GROUP_APPEND:
        m.append = (struct bt_group_append){.prev_index = 4, .prev_term = 2, .commit = 3, .count = 5};
        m.append.entry[3] = request(BT_ENTRY_WRITE, true);
        m.append.entry[4] = request(BT_ENTRY_READ, false); // its body came apart
        m.append.entry[0] =
            (struct bt_entry){.term = 2, .kind = BT_ENTRY_COMMAND, .body = (const uint8_t *)"ab", .length = 2};
        m.append.entry[1] = (struct bt_entry){.term = 5, .kind = BT_ENTRY_NOOP};
        m.append.entry[2] = (struct bt_entry){.term = 5, .kind = BT_ENTRY_CONFIG, .body = body};
        m.append.entry[2].length = (uint32_t)bt_group_config_encode(body, sizeof body, &c);
        break;
    case BT_GROUP_APPEND_REPLY:
        m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = 5, .last = 6, .applied = 4};
        break;
    case BT_GROUP_SNAPSHOT:
        m.snapshot = (struct bt_group_snapshot){.last_index = 8, .last_term = 2, .total = 10, .offset = 6, .config = c};
        m.snapshot.length = 4;
        m.snapshot.bytes = (const uint8_t *)"tail";
        break;
    case BT_GROUP_SNAPSHOT_REPLY:
        m.snapshot_reply = (struct bt_group_snapshot_reply){.flags = 0, .last_index = 8, .offset = 6};
        break;
    case BT_GROUP_RECOVERY:
        m.recovery = (struct bt_group_recovery){.count = 2, .lack = {{9, meta()}, {11, meta()}}};
        break;
    case BT_GROUP_RECOVERY_REPLY:
        m.recovery_reply = (struct bt_group_recovery_reply){
            .flags = BT_GROUP_YES, .of = {9, meta()}, .body = (const uint8_t *)"body!"};
        break;
    case BT_GROUP_STATE:
        m.states = (struct bt_group_states){
            .flags = BT_GROUP_FENCED, .count = 2, .applied = 9, .at = {{7, 0x1122334455667788}, {9, 1}}};
        break;
    case BT_GROUP_DIVERGED:
        m.states = (struct bt_group_states){.count = 1, .applied = 9, .at = {{7, 0x1122334455667788}}};
        break;
    default:
        example_of_aggregator(&m);
    }
    return bt_group_encode(p, sizeof p, &m);
}

static const enum bt_group_type types[] = {
    BT_GROUP_VOTE,      BT_GROUP_VOTE_REPLY,     BT_GROUP_APPEND,   BT_GROUP_APPEND_REPLY,
    BT_GROUP_SNAPSHOT,  BT_GROUP_SNAPSHOT_REPLY, BT_GROUP_RECOVERY, BT_GROUP_RECOVERY_REPLY,
    BT_GROUP_TAKE_OVER, BT_GROUP_COMMITTED,      BT_GROUP_PROBE,    BT_GROUP_PROBE_REPLY,
    BT_GROUP_SHARED,    BT_GROUP_SHARED_REPLY,   BT_GROUP_STATE,    BT_GROUP_DIVERGED};
enum { TYPES = sizeof types / sizeof types[0] };

static void refused(size_t n, enum bt_group_error error, uint32_t at)
{
    static struct bt_group_message m;
    struct bt_group_fault f = bt_group_decode(p, n, &m);
    assert_string_equal(bt_group_error_name(f.error), bt_group_error_name(error));
    assert_int_equal(f.at, at);
}

static void r345_bytes_of_a_vote_and_of_an_append(void **state)
{
    (void)state;
    static const uint8_t vote[] = {1,    0,    0,    3,    1,    2,    3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0x11, 0x22,
                                   0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0,    2,
                                   0,    0,    0,    0,    0,    0,    0, 9, 0, 0, 0, 0, 0, 0, 0, 7};
    assert_int_equal(example(BT_GROUP_VOTE), sizeof vote);
    assert_memory_equal(p, vote, sizeof vote);
    static const uint8_t append[] = {0,   0,   0, 5, 0, 0, 0, 0,  0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0,
                                     0,   0,   0, 0, 0, 3, 0, 0,  0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 0, 0,
                                     'a', 'b', 0, 0, 0, 0, 0, 0,  0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                     0,   0,   0, 5, 0, 0, 0, 10, 1, 0, 0, 0, 0, 2, 0, 1, 1, 0, 2, 3, 2, 0};
    assert_int_equal(example(BT_GROUP_APPEND),
                     BT_GROUP_HEADER + sizeof append + 2 * (BT_GROUP_ENTRY + BT_GROUP_META) + 5);
    assert_memory_equal(p + BT_GROUP_HEADER, append, sizeof append);
}

static void r345_every_type_is_read_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TYPES; i++) {
        static struct bt_group_message m;
        uint8_t again[ROOM];
        size_t n = example(types[i]);
        assert_true(n >= BT_GROUP_HEADER);
        assert_int_equal(bt_group_decode(p, n, &m).error, BT_GROUP_OK);
        bool aggregators = types[i] == BT_GROUP_COMMITTED || types[i] == BT_GROUP_PROBE_REPLY;
        assert_int_equal(m.header.from, aggregators ? BT_GROUP_AGGREGATOR : 3);
        assert_int_equal(m.header.cluster, 0x1122334455667788);
        assert_int_equal(bt_group_encode(again, sizeof again, &m), n);
        assert_memory_equal(again, p, n);
        assert_int_equal(bt_group_encode(again, n - 1, &m), 0);
    }
}

static void r345_cut_short_anywhere_is_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TYPES; i++) {
        size_t n = example(types[i]);
        for (size_t cut = 0; cut < n; cut++) {
            static struct bt_group_message m;
            struct bt_group_fault f = bt_group_decode(p, cut, &m);
            if (f.error == BT_GROUP_OK) {
                fail_msg("type %u of %zu bytes is accepted with %zu", types[i], n, cut);
            }
            assert_true(f.at <= cut);
        }
        p[n] = 0;
        refused(n + 1, BT_GROUP_BAD_LONG, (uint32_t)n);
    }
    static uint8_t large[BT_GROUP_MESSAGE_MAX + 1];
    static struct bt_group_message m;
    assert_int_equal(bt_group_decode(large, sizeof large, &m).error, BT_GROUP_BAD_LONG);
}

// However much room there is: what nobody would take is not written.
static void r345_no_message_is_longer_than_the_longest(void **state)
{
    (void)state;
    static uint8_t body[BT_GROUP_MESSAGE_MAX], large[2 * BT_GROUP_MESSAGE_MAX];
    struct bt_group_message m = of(BT_GROUP_APPEND);
    const uint32_t most = BT_GROUP_MESSAGE_MAX - BT_GROUP_HEADER - 28 - BT_GROUP_ENTRY;
    m.append = (struct bt_group_append){.prev_index = 4, .prev_term = 2, .commit = 3, .count = 1};
    m.append.entry[0] = (struct bt_entry){.term = 2, .kind = BT_ENTRY_COMMAND, .body = body, .length = most};
    assert_int_equal(bt_group_encode(large, sizeof large, &m), BT_GROUP_MESSAGE_MAX);
    assert_int_equal(bt_group_encode(large, BT_GROUP_MESSAGE_MAX, &m), BT_GROUP_MESSAGE_MAX);
    static struct bt_group_message back;
    assert_int_equal(bt_group_decode(large, BT_GROUP_MESSAGE_MAX, &back).error, BT_GROUP_OK);
    m.append.entry[0].length++;
    assert_int_equal(bt_group_encode(large, sizeof large, &m), 0);
}

// The configuration by itself, as an entry or a file has it: its bytes and no more.
static void r345_a_configuration_has_its_own_bytes(void **state)
{
    (void)state;
    struct bt_group_config c = config(), back;
    uint8_t bytes[BT_GROUP_CONFIG_MAX + 1] = {0};
    size_t n = bt_group_config_encode(bytes, sizeof bytes, &c);
    assert_int_equal(n, 10);
    assert_int_equal(bt_group_config_decode(bytes, n, &back).error, BT_GROUP_OK);
    assert_int_equal(back.count, 2);
    assert_true(back.member[0].id == 1 && back.member[0].role == BT_GROUP_VOTER);
    assert_true(back.member[1].id == 0x0203 && back.member[1].role == BT_GROUP_LEARNER);
    struct bt_group_fault f = bt_group_config_decode(bytes, n + 1, &back);
    assert_int_equal(f.error, BT_GROUP_BAD_LONG);
    assert_int_equal(f.at, n);
    for (size_t cut = 0; cut < n; cut++) {
        assert_int_not_equal(bt_group_config_decode(bytes, cut, &back).error, BT_GROUP_OK);
        assert_int_equal(bt_group_config_encode(bytes, cut, &c), 0);
    }
}

static void r345_what_a_header_may_not_say(void **state)
{
    (void)state;
    size_t n = example(BT_GROUP_TAKE_OVER);
    p[0] = 2;
    refused(n, BT_GROUP_BAD_VERSION, 0);
    for (unsigned type = 0; type < 256; type++) {
        bool known = false;
        for (unsigned i = 0; i < TYPES; i++) {
            known = known || types[i] == type;
        }
        n = example(BT_GROUP_TAKE_OVER);
        p[1] = (uint8_t)type;
        if (!known) {
            refused(n, BT_GROUP_BAD_TYPE, 1); // 4 to 6 too, until something here reads them
        }
    }
    n = example(BT_GROUP_TAKE_OVER);
    bt_put16(p + 2, 0);
    refused(n, BT_GROUP_BAD_FROM, 2);
    n = example(BT_GROUP_TAKE_OVER);
    bt_put64(p + 8, 0);
    refused(n, BT_GROUP_BAD_TERM, 8);
}

struct wrong {
    enum bt_group_type type;
    uint32_t at;   // which byte is changed
    uint8_t bytes; // how many there: the value's size
    uint64_t value;
    enum bt_group_error error;
    uint32_t named; // the byte that the refusal names
};

static void put(const struct wrong *w)
{
    for (uint32_t i = 0; i < w->bytes; i++) {
        p[w->at + i] = (uint8_t)(w->value >> (8 * (w->bytes - 1 - i)));
    }
}

static void r345_what_a_body_may_not_say(void **state)
{
    (void)state;
    static const struct wrong wrongs[] = {
        {BT_GROUP_VOTE, 24, 4, 8, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_VOTE, 28, 8, 77, BT_GROUP_BAD_TERM, 28},                    // not the term it is of
        {BT_GROUP_VOTE, 44, 8, UINT64_C(0x100000002), BT_GROUP_BAD_TERM, 44}, // a log of the asked term
        {BT_GROUP_VOTE, 36, 8, 0, BT_GROUP_BAD_TERM, 44},                     // a term without an entry
        {BT_GROUP_VOTE, 36, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 36},
        {BT_GROUP_VOTE_REPLY, 24, 4, 2, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_VOTE_REPLY, 28, 8, 0, BT_GROUP_BAD_TERM, 28},
        {BT_GROUP_APPEND, 24, 4, 65, BT_GROUP_BAD_COUNT, 24},
        {BT_GROUP_APPEND, 24, 4, 2, BT_GROUP_BAD_LONG, 24 + 28 + 18 + 16}, // fewer than there are
        {BT_GROUP_APPEND, 28, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 28},
        {BT_GROUP_APPEND, 36, 8, UINT64_C(0x100000003), BT_GROUP_BAD_TERM, 36}, // above the message's
        {BT_GROUP_APPEND, 52, 8, 1, BT_GROUP_BAD_TERM, 52},                     // falling
        {BT_GROUP_APPEND, 52, 8, UINT64_C(0x100000003), BT_GROUP_BAD_TERM, 52},
        {BT_GROUP_APPEND, 60, 4, 0xffffffff, BT_GROUP_BAD_SHORT, ENTRIES + 52 + 5 + 52},
        {BT_GROUP_APPEND, 64, 1, 5, BT_GROUP_BAD_KIND, 64},
        {BT_GROUP_APPEND, 64, 1, 3, BT_GROUP_BAD_META, 68}, // a request too short for its metadata
        {BT_GROUP_APPEND, ENTRIES + 8, 4, 40, BT_GROUP_BAD_META, ENTRIES + 16 + 24},      // neither apart nor whole
        {BT_GROUP_APPEND, ENTRIES + 16 + 20, 2, 0, BT_GROUP_BAD_META, ENTRIES + 16 + 20}, // nobody answers
        {BT_GROUP_APPEND, ENTRIES + 16 + 22, 2, 1, BT_GROUP_BAD_RESERVED, ENTRIES + 16 + 22},
        {BT_GROUP_APPEND, ENTRIES + 16 + 24, 4, 6, BT_GROUP_BAD_META, ENTRIES + 16 + 24},
        {BT_GROUP_RECOVERY, 24, 4, 17, BT_GROUP_BAD_COUNT, 24},
        {BT_GROUP_RECOVERY, 24, 4, 0, BT_GROUP_BAD_COUNT, 24},
        {BT_GROUP_RECOVERY, 28, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 28},
        {BT_GROUP_RECOVERY, 36 + 20, 2, 0, BT_GROUP_BAD_META, 36 + 20},
        {BT_GROUP_RECOVERY_REPLY, 24, 4, 1, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_RECOVERY_REPLY, 24, 4, 0, BT_GROUP_BAD_LONG, 36 + 36}, // not held, and yet a body
        {BT_GROUP_RECOVERY_REPLY, 36 + 24, 4, 6, BT_GROUP_BAD_SHORT, 36 + 36 + 5},
        {BT_GROUP_APPEND, 64, 1, 0, BT_GROUP_BAD_LONG, 68}, // an entry that does nothing, with a body
        {BT_GROUP_APPEND, 65, 1, 1, BT_GROUP_BAD_RESERVED, 65},
        {BT_GROUP_APPEND, 66, 2, 1, BT_GROUP_BAD_RESERVED, 65},
        {BT_GROUP_APPEND, 102, 2, 17, BT_GROUP_BAD_COUNT, 102}, // its configuration: too many members
        {BT_GROUP_APPEND, 104, 2, 0, BT_GROUP_BAD_CONFIG, 104}, // member 0
        {BT_GROUP_APPEND, 106, 1, 2, BT_GROUP_BAD_CONFIG, 102}, // nobody votes
        {BT_GROUP_APPEND, 107, 1, 1, BT_GROUP_BAD_RESERVED, 107},
        {BT_GROUP_APPEND, 108, 2, 1, BT_GROUP_BAD_CONFIG, 108}, // ids do not rise
        {BT_GROUP_APPEND, 110, 1, 3, BT_GROUP_BAD_CONFIG, 110}, // an unknown role
        {BT_GROUP_APPEND_REPLY, 24, 4, 1, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_APPEND_REPLY, 28, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 28},
        {BT_GROUP_SNAPSHOT, 28, 8, 0, BT_GROUP_BAD_INDEX, 28},
        {BT_GROUP_SNAPSHOT, 36, 8, 0, BT_GROUP_BAD_TERM, 36},
        {BT_GROUP_SNAPSHOT, 52, 8, 7, BT_GROUP_BAD_INDEX, 52}, // beyond its end
        {BT_GROUP_SNAPSHOT, 44, 8, 5, BT_GROUP_BAD_INDEX, 52},
        {BT_GROUP_SNAPSHOT_REPLY, 28, 8, 0, BT_GROUP_BAD_INDEX, 28},
    };
    for (unsigned i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        size_t n = example(wrongs[i].type);
        put(&wrongs[i]);
        refused(n, wrongs[i].error, wrongs[i].named);
    }
}

static void r344_r345_what_is_wrong_in_words_of_the_aggregator_is_named(void **state)
{
    (void)state;
    static const struct wrong wrongs[] = {
        {BT_GROUP_APPEND, 2, 2, BT_GROUP_AGGREGATOR, BT_GROUP_BAD_FROM, 2}, // it leads nobody
        {BT_GROUP_COMMITTED, 2, 2, 3, BT_GROUP_BAD_FROM, 2},                // and nobody else announces
        {BT_GROUP_PROBE_REPLY, 2, 2, 3, BT_GROUP_BAD_FROM, 2},
        {BT_GROUP_APPEND, 104, 2, BT_GROUP_AGGREGATOR, BT_GROUP_BAD_CONFIG, 104}, // nor is it a member
        {BT_GROUP_COMMITTED, 24, 4, 17, BT_GROUP_BAD_COUNT, 24},
        {BT_GROUP_COMMITTED, 36, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 36},
        {BT_GROUP_COMMITTED, 46, 2, 1, BT_GROUP_BAD_RESERVED, 46},
        {BT_GROUP_COMMITTED, 56, 2, 2, BT_GROUP_BAD_CONFIG, 56}, // ids do not rise
        {BT_GROUP_PROBE, 24, 4, 1, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_PROBE, 36, 8, 2, BT_GROUP_BAD_INDEX, 36}, // committed less than the membership
        {BT_GROUP_PROBE, 44, 2, 0, BT_GROUP_BAD_CONFIG, 44},
        {BT_GROUP_SHARED, 52, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 52},
        {BT_GROUP_SHARED_REPLY, 52, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 52},
    };
    for (unsigned i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        size_t n = example(wrongs[i].type);
        put(&wrongs[i]);
        refused(n, wrongs[i].error, wrongs[i].named);
    }
}

static void r391_what_is_wrong_in_words_of_states_is_named(void **state)
{
    (void)state;
    static const struct wrong wrongs[] = {
        {BT_GROUP_STATE, 24, 4, 1, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_STATE, 28, 4, 9, BT_GROUP_BAD_COUNT, 28},
        {BT_GROUP_STATE, 32, 8, UINT64_MAX, BT_GROUP_BAD_INDEX, 32},
        {BT_GROUP_STATE, 40, 8, 0, BT_GROUP_BAD_INDEX, 40},
        {BT_GROUP_STATE, 56, 8, 7, BT_GROUP_BAD_INDEX, 56}, // twice
        {BT_GROUP_DIVERGED, 24, 4, BT_GROUP_FENCED, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_DIVERGED, 28, 4, 0, BT_GROUP_BAD_COUNT, 28}, // then it says nothing
        {BT_GROUP_APPEND_REPLY, 24, 4, BT_GROUP_YES | BT_GROUP_BODYLESS, BT_GROUP_BAD_FLAGS, 24},
        {BT_GROUP_SHARED_REPLY, 24, 4, BT_GROUP_BODYLESS, BT_GROUP_BAD_FLAGS, 24},
    };
    for (unsigned i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        size_t n = example(wrongs[i].type);
        put(&wrongs[i]);
        refused(n, wrongs[i].error, wrongs[i].named);
    }
}

static void r345_no_damage_is_read_beyond_the_message(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS(20000); seed++) {
        struct bt_rng rng;
        bt_rng_seed(&rng, seed);
        size_t n = example(types[bt_rng_below(&rng, TYPES)]);
        for (uint32_t flips = 1 + bt_rng_below(&rng, 4); flips > 0; flips--) {
            p[bt_rng_below(&rng, (uint32_t)n)] ^= (uint8_t)(1u << bt_rng_below(&rng, 8));
        }
        static struct bt_group_message m;
        struct bt_group_fault f = bt_group_decode(p, n, &m);
        if (f.error == BT_GROUP_OK) {
            uint8_t again[ROOM];
            if (bt_group_encode(again, sizeof again, &m) != n || memcmp(again, p, n) != 0) {
                fail_msg("seed %llu: what is read is not what was written", (unsigned long long)seed);
            }
        } else if (f.at > n) {
            fail_msg("seed %llu: byte %u of %zu is named", (unsigned long long)seed, f.at, n);
        }
    }
}

// the same key and bytes give the same hash; another of either gives another.
static void r308_a_bodys_hash_depends_on_key_and_body(void **state)
{
    (void)state;
    uint8_t key[16] = "0123456789abcde", other[16] = "0123456789abcdf";
    uint64_t h = bt_group_body_hash(key, (const uint8_t *)"body!", 5);
    assert_true(h == bt_group_body_hash(key, (const uint8_t *)"body!", 5));
    assert_true(h != bt_group_body_hash(key, (const uint8_t *)"body?", 5));
    assert_true(h != bt_group_body_hash(key, (const uint8_t *)"body!", 4));
    assert_true(h != bt_group_body_hash(other, (const uint8_t *)"body!", 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r345_bytes_of_a_vote_and_of_an_append),
        cmocka_unit_test(r345_every_type_is_read_back),
        cmocka_unit_test(r345_cut_short_anywhere_is_refused),
        cmocka_unit_test(r345_no_message_is_longer_than_the_longest),
        cmocka_unit_test(r345_a_configuration_has_its_own_bytes),
        cmocka_unit_test(r345_what_a_header_may_not_say),
        cmocka_unit_test(r345_what_a_body_may_not_say),
        cmocka_unit_test(r308_a_bodys_hash_depends_on_key_and_body),
        cmocka_unit_test(r344_r345_what_is_wrong_in_words_of_the_aggregator_is_named),
        cmocka_unit_test(r391_what_is_wrong_in_words_of_states_is_named),
        cmocka_unit_test(r345_no_damage_is_read_beyond_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
