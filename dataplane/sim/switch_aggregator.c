// SPDX-License-Identifier: Apache-2.0
// See switch_aggregator.h.
#include "switch_aggregator.h"

#include <stdlib.h>
#include <string.h>

#include "replica/aggregator.h"
#include "stream.h"

enum {
    GROUP = 77,
    MEMBERS = 9, /* that a switch has registers for */
    KEPT = 32,   /* messages that may come again, or late */
    ROOM = 1500,
    EPISODE = 2000,
    STRANGER = 60000,
};

#define CLUSTER UINT64_C(0x0102030405060708)
#define HALF    (UINT64_C(1) << 32)

struct message {
    uint8_t p[ROOM];
    size_t n;
    uint16_t from;
};

struct story {
    struct bt_rng rng;
    FILE *out;
    struct bt_aggregator a;
    struct bt_group_config config; /* of the tables */
    uint64_t epoch;
    /* what a group would be at */
    uint16_t leader;
    uint64_t term, floor, end, held[MEMBERS];
    struct message kept[KEPT];
    uint32_t kept_n;
    /* what came of the last message */
    uint16_t to[BT_GROUP_MEMBERS_MAX];
    uint32_t to_n;
    struct message sent;
};

static uint32_t below(struct story *s, uint32_t n)
{
    return sim_below(&s->rng, n);
}

static bool once_in(struct story *s, uint32_t n)
{
    return below(s, n) == 0;
}

/* --- the switch --- */

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct story *s = ctx;
    if (n > ROOM || (s->to_n > 0 && (n != s->sent.n || memcmp(s->sent.p, message, n) != 0))) {
        abort(); // one message makes one message, for one or for many
    }
    memcpy(s->sent.p, message, n);
    s->sent.n = n;
    s->to[s->to_n++] = to;
}

static void fresh(struct story *s)
{
    static const struct bt_aggregator_ops ops = {.send = on_send};
    struct bt_aggregator_config c = {.cluster = CLUSTER, .group = GROUP, .as_switch = true};
    bt_aggregator_start(&s->a, &c, &ops, s);
}

static void tell_table(struct story *s)
{
    fprintf(s->out, " %llu", (unsigned long long)s->epoch);
    for (int i = 0; i < s->config.count; i++) {
        fprintf(s->out, " %u:%u", s->config.member[i].id, s->config.member[i].role);
    }
    fputc('\n', s->out);
}

/* --- the group --- */

static void choose_members(struct story *s)
{
    uint16_t id = 0;
    s->config.count = (uint16_t)(once_in(s, 3) ? MEMBERS : 1 + below(s, MEMBERS));
    for (int i = 0; i < s->config.count; i++) {
        id = (uint16_t)(id + 1 + (once_in(s, 4) ? below(s, 900) : 0));
        bool votes = i == 0 || !once_in(s, 6);
        s->config.member[i] = (struct bt_group_member){.id = id, .role = votes ? BT_GROUP_VOTER : BT_GROUP_LEARNER};
    }
}

static void lead(struct story *s)
{
    s->term += 1 + (once_in(s, 8) ? below(s, 1u << 30) : 0);
    s->leader = s->config.member[below(s, s->config.count)].id;
    s->floor = s->end;
    for (int i = 0; i < MEMBERS; i++) {
        s->held[i] = s->floor > 8 ? s->floor - below(s, 8) : s->floor;
    }
}

/* Where indices begin: anywhere, and often near where their halves or their signs end. */
static void begin(struct story *s)
{
    static const uint64_t places[] = {1,       5, HALF / 2 - 40, HALF - 60, 7 * HALF - 30, 7 * HALF + HALF / 2 - 20,
                                      9 * HALF};
    s->term = once_in(s, 3) ? HALF - 1 - below(s, 1u << 31) : below(s, 9);
    s->end = places[below(s, sizeof places / sizeof *places)];
    s->end += below(s, 30);
    s->epoch = s->end - below(s, (uint32_t)(s->end < 1000 ? s->end : 1000));
    s->kept_n = 0;
    choose_members(s);
    lead(s);
    fresh(s);
    fprintf(s->out, "E %u %llu", GROUP, (unsigned long long)CLUSTER);
    tell_table(s);
}

/* --- its messages --- */

static struct bt_group_message *of(struct story *s, enum bt_group_type type, uint16_t from)
{
    static struct bt_group_message m;
    m = (struct bt_group_message){.header = {.version = BT_GROUP_VERSION,
                                             .type = (uint8_t)type,
                                             .from = from,
                                             .group = GROUP,
                                             .term = s->term,
                                             .cluster = CLUSTER}};
    return &m;
}

static const struct bt_group_message *probe(struct story *s)
{
    struct bt_group_message *m = of(s, BT_GROUP_PROBE, s->leader);
    m->probe = (struct bt_group_probe){
        .flags = once_in(s, 5) ? 0 : BT_GROUP_DURABLE, .epoch = s->epoch, .floor = s->floor, .config = s->config};
    return m;
}

static const struct bt_group_message *entries(struct story *s)
{
    struct bt_group_message *m = of(s, BT_GROUP_SHARED, once_in(s, 20) ? s->config.member[0].id : s->leader);
    struct bt_group_append *a = &m->append;
    uint64_t back = once_in(s, 6) ? below(s, 6) : 0;
    a->epoch = s->epoch;
    a->prev_index = s->end > back ? s->end - back : s->end;
    a->prev_term = 1;
    a->commit = a->prev_index;
    a->count = once_in(s, 5) ? 0 : 1 + below(s, once_in(s, 9) ? 20 : 3);
    for (uint32_t i = 0; i < a->count; i++) {
        a->entry[i] = (struct bt_entry){.term = 1, .kind = BT_ENTRY_NOOP};
    }
    if (a->prev_index + a->count > s->end) {
        s->end = a->prev_index + a->count;
    }
    return m;
}

static const struct bt_group_message *answer(struct story *s)
{
    int i = (int)below(s, s->config.count);
    struct bt_group_message *m = of(s, BT_GROUP_SHARED_REPLY, s->config.member[i].id);
    if (s->held[i] < s->end) {
        s->held[i] = once_in(s, 3) ? s->held[i] + below(s, (uint32_t)(s->end - s->held[i]) + 1) : s->end;
    }
    uint64_t index = s->held[i];
    m->append_reply = (struct bt_group_append_reply){.flags = once_in(s, 12) ? 0 : BT_GROUP_YES,
                                                     .index = index,
                                                     .last = index,
                                                     .applied = index - below(s, index < 9 ? (uint32_t)index : 9),
                                                     .epoch = s->epoch};
    return m;
}

/* Something about it is not as it should be. */
static void twist(struct story *s, struct bt_group_message *m)
{
    switch (below(s, 9)) {
    case 0:
        m->header.term += below(s, 3);
        break;
    case 1:
        m->header.term += HALF;
        break;
    case 2:
        m->header.term -= m->header.term > 1;
        break;
    case 3:
        m->header.cluster ^= UINT64_C(1) << below(s, 64);
        break;
    case 4:
        m->header.group++;
        break;
    case 5:
        m->header.from = STRANGER;
        break;
    case 6:
        m->header.type = BT_GROUP_TAKE_OVER;
        break;
    case 7:
        m->header.from = s->config.member[below(s, s->config.count)].id;
        break;
    default:
        if (m->header.type == BT_GROUP_SHARED_REPLY) {
            m->append_reply.index += HALF;
        }
    }
}

/* Bits that the decoder and a switch judge alike: of version and type, and one above all flags, counts and indices. But
   an answer does not become entries: those who get them judge what is behind their header. */
static void flip(struct story *s, struct message *k)
{
    uint32_t at = below(s, 3);
    if (at < 2) {
        k->p[at] ^= (uint8_t)(2u << below(s, 7));
    } else if (k->n > BT_GROUP_HEADER) {
        k->p[BT_GROUP_HEADER] ^= 0x80;
    }
}

static void next_message(struct story *s, struct message *k)
{
    uint32_t what = below(s, 40);
    if (what < 7 && s->kept_n > 0) { // once more, or late
        *k = s->kept[below(s, s->kept_n < KEPT ? s->kept_n : KEPT)];
        return;
    }
    bool known = s->a.known && s->a.term == s->term;
    const struct bt_group_message *m = what < 9 || (!known && what < 20) ? probe(s)
                                       : what < 22                       ? entries(s)
                                                                         : answer(s);
    if (once_in(s, 25)) {
        twist(s, (struct bt_group_message *)m);
    }
    k->from = m->header.from;
    k->n = bt_group_encode(k->p, sizeof k->p, m);
    if (once_in(s, 50)) {
        flip(s, k);
    }
    s->kept[s->kept_n++ % KEPT] = *k;
}

/* --- what becomes of one --- */

static bool in_table(const struct story *s, uint16_t id)
{
    for (int i = 0; i < s->config.count; i++) {
        if (s->config.member[i].id == id) {
            return true;
        }
    }
    return false;
}

static uint64_t epoch_of(const struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_PROBE:
        return m->probe.epoch;
    case BT_GROUP_SHARED:
        return m->append.epoch;
    default:
        return m->append_reply.epoch;
    }
}

/* The tables are asked before the registers: who is it of, and is it of their epoch? NULL: they let it pass. */
static const char *refused(const struct story *s, const struct message *k)
{
    static struct bt_group_message m;
    if (bt_group_decode(k->p, k->n, &m).error != BT_GROUP_OK) {
        return NULL;
    }
    if (!in_table(s, k->from)) {
        return "source";
    }
    bool ours = m.header.cluster == CLUSTER && m.header.group == GROUP && m.header.type != BT_GROUP_TAKE_OVER;
    if (!ours) {
        return NULL;
    }
    if (m.header.from != k->from) {
        return "stranger";
    }
    return m.header.term >> 32 == 0 && epoch_of(&m) != s->epoch ? "epoch" : NULL;
}

/* The last of the counters that went up says most; that of flushes stands between. */
static const char *received(struct story *s, const struct message *k)
{
    uint64_t before[BT_AGGREGATOR_COUNTERS];
    memcpy(before, s->a.counter, sizeof before);
    bt_aggregator_receive(&s->a, k->p, k->n);
    for (unsigned i = BT_AGGREGATOR_COUNTERS; i-- > 0;) {
        if (i != BT_AGGREGATOR_FLUSHES_TOTAL && s->a.counter[i] != before[i]) {
            return bt_aggregator_counter_name((enum bt_aggregator_counter)i);
        }
    }
    return "none";
}

static void hex(FILE *out, const struct message *k)
{
    fputc(' ', out);
    for (size_t i = 0; i < k->n; i++) {
        fprintf(out, "%02x", k->p[i]);
    }
}

static void give(struct story *s)
{
    struct message k;
    next_message(s, &k);
    s->to_n = 0;
    const char *what = refused(s, &k);
    if (what == NULL) {
        what = received(s, &k);
    }
    fprintf(s->out, "M %u %s", k.from, what);
    hex(s->out, &k);
    fputc(' ', s->out);
    if (s->to_n == 0) {
        fputs("- -\n", s->out);
        return;
    }
    for (uint32_t i = 0; i < s->to_n; i++) {
        fprintf(s->out, "%s%u", i > 0 ? "," : "", s->to[i]);
    }
    hex(s->out, &s->sent);
    fputc('\n', s->out);
}

/* Between messages: elections, memberships, restarts, an index of the next half. */
static void happen(struct story *s)
{
    if (once_in(s, 150)) {
        lead(s);
    }
    if (once_in(s, 400)) {
        s->epoch = ++s->end;
        choose_members(s);
        lead(s);
        fputc('T', s->out);
        tell_table(s);
    }
    if (once_in(s, 300)) {
        fresh(s);
        fputs("R\n", s->out);
    }
    if (once_in(s, 100)) {
        s->floor = s->end; // the leader left, and probes anew in the same term
    }
    if (once_in(s, 700)) {
        s->end += HALF / 4 * (1 + below(s, 3));
    }
}

void sim_switch_aggregator(uint64_t seed, uint64_t messages, FILE *out)
{
    static struct story s;
    s = (struct story){.out = out};
    sim_stream_seed(&s.rng, seed, SIM_STREAM_GARBAGE);
    for (uint64_t i = 0; i < messages; i++) {
        if (i % EPISODE == 0) {
            begin(&s);
        }
        happen(&s);
        give(&s);
    }
}
