// SPDX-License-Identifier: Apache-2.0
// See aggregator.h. Terms and indices only rise, whatever is repeated or comes late: a register is replaced by what is
// above it, and by nothing else.
#include "replica/aggregator.h"

static void count(struct bt_aggregator *a, enum bt_aggregator_counter c)
{
    a->counter[c]++;
}

/* --- registers --- */

// What a register keeps of a value: a switch the low half (W-11).
static uint64_t kept(const struct bt_aggregator *a, uint64_t v)
{
    return a->conf.as_switch ? (uint32_t)v : v;
}

// What has another high half does not come this far, so that low halves are enough, however far apart they are.
static bool above(const struct bt_aggregator *a, uint64_t x, uint64_t y)
{
    return a->conf.as_switch ? (uint32_t)x > (uint32_t)y : x > y;
}

// The whole index: its high half is that of the floor.
static uint64_t whole(const struct bt_aggregator *a, uint64_t index)
{
    return a->conf.as_switch ? a->floor >> 32 << 32 | (uint32_t)index : index;
}

static bool same_half(const struct bt_aggregator *a, uint64_t index)
{
    return !a->conf.as_switch || index >> 32 == a->floor >> 32;
}

static void clear(struct bt_aggregator *a, uint64_t term)
{
    count(a, BT_AGGREGATOR_FLUSHES_TOTAL);
    a->term = term;
    a->last = a->commit = kept(a, a->floor);
    a->pending = false;
    for (int i = 0; i < (int)BT_GROUP_MEMBERS_MAX; i++) {
        a->match[i] = a->completed[i] = 0;
        a->heard[i] = a->told[i] = false;
    }
}

/* --- the table --- */

static int member(const struct bt_aggregator *a, uint16_t id)
{
    for (int i = 0; i < a->config.count; i++) {
        if (a->config.member[i].id == id) {
            return i;
        }
    }
    return -1;
}

// the leader counts where what it sends is durable there; else one more follower, which is safe in any case.
static uint32_t quorum_of(const struct bt_aggregator *a, bool leader_durable)
{
    uint32_t voters = 0;
    for (int i = 0; i < a->config.count; i++) {
        voters += a->config.member[i].role == BT_GROUP_VOTER;
    }
    int leader = member(a, a->leader);
    bool counts = leader_durable && leader >= 0 && a->config.member[leader].role == BT_GROUP_VOTER;
    return voters / 2 + 1 - counts;
}

// An earlier one that comes late names a membership that is no more.
static bool newer_table(const struct bt_aggregator *a, const struct bt_group_message *m)
{
    if (!a->known || m->header.term != a->table_term) {
        return !a->known || m->header.term > a->table_term;
    }
    if (m->probe.epoch != a->epoch) {
        return m->probe.epoch > a->epoch;
    }
    return m->probe.floor >> 32 > a->floor >> 32;
}

static void send(struct bt_aggregator *a, uint16_t to, size_t n)
{
    if (n > 0) {
        a->ops.send(a->ctx, to, a->message, n);
    }
}

static struct bt_group_message *word(struct bt_aggregator *a, enum bt_group_type type)
{
    a->out.header = (struct bt_group_header){.version = BT_GROUP_VERSION,
                                             .type = (uint8_t)type,
                                             .from = BT_GROUP_AGGREGATOR,
                                             .group = a->conf.group,
                                             .term = a->table_term,
                                             .cluster = a->conf.cluster};
    return &a->out;
}

static void probe(struct bt_aggregator *a, const struct bt_group_message *m)
{
    const struct bt_group_probe *p = &m->probe;
    if (m->header.term < a->term || (a->known && m->header.term < a->table_term)) {
        count(a, BT_AGGREGATOR_STALE_TOTAL);
        return;
    }
    bool of_table = a->known && m->header.term == a->table_term && p->epoch == a->epoch;
    if (newer_table(a, m) && (!of_table || m->header.from == a->leader)) { // a term has one leader
        a->known = true;
        a->leader = m->header.from;
        a->table_term = m->header.term;
        a->epoch = p->epoch;
        a->floor = p->floor;
        a->config = p->config;
        a->quorum = quorum_of(a, (p->flags & BT_GROUP_DURABLE) != 0);
        clear(a, m->header.term);
    }
    if (m->header.from != a->leader || p->epoch != a->epoch) {
        count(a, BT_AGGREGATOR_EPOCH_TOTAL);
        return;
    }
    if (!same_half(a, p->floor)) { // late: the leader left since, and came back
        count(a, BT_AGGREGATOR_HIGH_TOTAL);
        return;
    }
    count(a, BT_AGGREGATOR_PROBES_TOTAL);
    word(a, BT_GROUP_PROBE_REPLY)->probe = (struct bt_group_probe){.epoch = a->epoch, .floor = a->floor};
    send(a, a->leader, bt_group_encode(a->message, sizeof a->message, &a->out));
}

/* --- entries of a leader --- */

// A term that was not probed for: somebody else leads now, and who is in the group is not known.
static void step_aside(struct bt_aggregator *a, uint64_t term)
{
    a->known = false;
    clear(a, term);
}

static bool may_pass(struct bt_aggregator *a, const struct bt_group_message *m)
{
    if (m->header.term < a->term) {
        count(a, BT_AGGREGATOR_STALE_TOTAL);
        return false;
    }
    if (m->header.term > a->term) {
        bool of_table = a->known && m->header.term == a->table_term; // the registers alone are new
        if (of_table) {
            clear(a, m->header.term);
        } else {
            step_aside(a, m->header.term);
        }
    }
    if (!a->known || m->append.epoch != a->epoch) {
        count(a, BT_AGGREGATOR_EPOCH_TOTAL);
        return false;
    }
    if (m->header.from != a->leader) {
        count(a, BT_AGGREGATOR_STRANGER_TOTAL);
        return false;
    }
    if (!same_half(a, m->append.prev_index) || !same_half(a, m->append.prev_index + m->append.count)) {
        count(a, BT_AGGREGATOR_HIGH_TOTAL);
        return false;
    }
    if (above(a, a->floor, m->append.prev_index)) {
        count(a, BT_AGGREGATOR_LOW_TOTAL);
        return false;
    }
    return true;
}

static void pass(struct bt_aggregator *a, const struct bt_group_message *m, const uint8_t *message, size_t n)
{
    uint64_t end = m->append.prev_index + m->append.count;
    if (!may_pass(a, m)) {
        return;
    }
    if (above(a, end, a->last)) {
        a->last = kept(a, end);
    } else {
        a->pending = true; // nothing new, or what was announced did not arrive (R-343: any end but a later one)
    }
    count(a, BT_AGGREGATOR_PASSED_TOTAL);
    for (int i = 0; i < a->config.count; i++) {
        if (a->config.member[i].id != a->leader) {
            a->ops.send(a->ctx, a->config.member[i].id, message, n);
        }
    }
}

/* --- answers of followers --- */

static bool held(const struct bt_aggregator *a, uint64_t index)
{
    uint32_t holders = 0;
    for (int i = 0; i < a->config.count; i++) {
        bool voter = a->config.member[i].role == BT_GROUP_VOTER && a->config.member[i].id != a->leader;
        holders += voter && a->heard[i] && !above(a, index, a->match[i]);
    }
    return holders >= a->quorum;
}

// The largest index that a quorum holds.
static uint64_t quorum_index(const struct bt_aggregator *a)
{
    uint64_t best = a->commit;
    for (int i = 0; i < a->config.count; i++) {
        if (a->heard[i] && above(a, a->match[i], best) && held(a, a->match[i])) {
            best = a->match[i];
        }
    }
    return best;
}

// What may be announced. A switch looks at what this answer says, and at nothing else.
static uint64_t announceable(const struct bt_aggregator *a, uint64_t said)
{
    if (!a->conf.as_switch) {
        return quorum_index(a);
    }
    return above(a, said, a->commit) && held(a, said) ? kept(a, said) : a->commit;
}

static void announce(struct bt_aggregator *a)
{
    struct bt_group_committed *c = &word(a, BT_GROUP_COMMITTED)->committed;
    c->epoch = a->epoch;
    c->commit = whole(a, a->commit);
    c->count = 0;
    for (int i = 0; i < a->config.count; i++) {
        if (a->told[i]) {
            c->done[c->count++] =
                (struct bt_group_done){.id = a->config.member[i].id, .applied = whole(a, a->completed[i])};
        }
    }
    count(a, BT_AGGREGATOR_ANNOUNCED_TOTAL);
    size_t n = bt_group_encode(a->message, sizeof a->message, &a->out);
    for (int i = 0; i < a->config.count; i++) {
        send(a, a->config.member[i].id, n);
    }
}

// The place of the follower whose answer counts, or -1.
static int who(struct bt_aggregator *a, const struct bt_group_message *m)
{
    const struct bt_group_append_reply *r = &m->append_reply;
    int i = member(a, m->header.from);
    enum bt_aggregator_counter why = BT_AGGREGATOR_COUNTERS;
    if (m->header.term != a->term) {
        why = BT_AGGREGATOR_STALE_TOTAL;
    } else if (!a->known || r->epoch != a->epoch) {
        why = BT_AGGREGATOR_EPOCH_TOTAL;
    } else if (i < 0 || m->header.from == a->leader) {
        why = BT_AGGREGATOR_STRANGER_TOTAL;
    } else if ((r->flags & BT_GROUP_YES) == 0) {
        why = BT_AGGREGATOR_REFUSALS_TOTAL;
    } else if (!same_half(a, r->index)) {
        why = BT_AGGREGATOR_HIGH_TOTAL;
    }
    if (why != BT_AGGREGATOR_COUNTERS) {
        count(a, why);
        return -1;
    }
    return i;
}

static void raise(const struct bt_aggregator *a, bool *heard, uint64_t *reg, uint64_t value)
{
    if (!*heard || above(a, value, *reg)) {
        *reg = kept(a, value);
    }
    *heard = true;
}

static void answer(struct bt_aggregator *a, const struct bt_group_message *m)
{
    int i = who(a, m);
    if (i < 0) {
        return;
    }
    count(a, BT_AGGREGATOR_ANSWERS_TOTAL);
    raise(a, &a->heard[i], &a->match[i], m->append_reply.index);
    if (same_half(a, m->append_reply.applied)) {
        raise(a, &a->told[i], &a->completed[i], m->append_reply.applied);
    }
    uint64_t c = announceable(a, m->append_reply.index);
    if (!above(a, c, a->commit) && !a->pending) {
        count(a, BT_AGGREGATOR_NOTHING_NEW_TOTAL);
        return;
    }
    a->commit = c;
    a->pending = false;
    announce(a);
}

/* --- the door --- */

void bt_aggregator_start(struct bt_aggregator *a, const struct bt_aggregator_config *c,
                         const struct bt_aggregator_ops *ops, void *ctx)
{
    *a = (struct bt_aggregator){.conf = *c, .ops = *ops, .ctx = ctx};
}

void bt_aggregator_flush(struct bt_aggregator *a)
{
    clear(a, 0);
}

static bool concerns(const struct bt_group_message *m)
{
    return m->header.type == BT_GROUP_PROBE || m->header.type == BT_GROUP_SHARED ||
           m->header.type == BT_GROUP_SHARED_REPLY;
}

void bt_aggregator_receive(struct bt_aggregator *a, const uint8_t *message, size_t n)
{
    struct bt_group_message *m = &a->in;
    if (bt_group_decode(message, n, m).error != BT_GROUP_OK) {
        count(a, BT_AGGREGATOR_MALFORMED_TOTAL);
        return;
    }
    if (m->header.cluster != a->conf.cluster || m->header.group != a->conf.group) {
        count(a, BT_AGGREGATOR_FOREIGN_TOTAL);
        return;
    }
    if (a->conf.as_switch && concerns(m) && m->header.term >> 32 != 0) {
        count(a, BT_AGGREGATOR_HIGH_TOTAL);
        return;
    }
    switch (m->header.type) {
    case BT_GROUP_PROBE:
        probe(a, m);
        break;
    case BT_GROUP_SHARED:
        pass(a, m, message, n);
        break;
    case BT_GROUP_SHARED_REPLY:
        answer(a, m);
        break;
    default:
        count(a, BT_AGGREGATOR_UNKNOWN_TOTAL);
    }
}

struct bt_aggregator_status bt_aggregator_status(const struct bt_aggregator *a)
{
    return (struct bt_aggregator_status){.known = a->known,
                                         .leader = a->leader,
                                         .term = a->term,
                                         .epoch = a->epoch,
                                         .floor = a->floor,
                                         .last = whole(a, a->last),
                                         .commit = whole(a, a->commit)};
}

const char *bt_aggregator_counter_name(enum bt_aggregator_counter c)
{
#define BT_AGGREGATOR_COUNTER_WORD(name, word) word,
    static const char *const names[BT_AGGREGATOR_COUNTERS] = {BT_AGGREGATOR_COUNTER_LIST(BT_AGGREGATOR_COUNTER_WORD)};
    return c < BT_AGGREGATOR_COUNTERS ? names[c] : "unknown";
}
