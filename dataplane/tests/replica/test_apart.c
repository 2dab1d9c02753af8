// SPDX-License-Identifier: Apache-2.0
// HovercRaft at one member, I-7, I-8, I-10, I-13, I-14.
#include "bed.h"

#include <stdlib.h>
#include <string.h>

static struct bed *opened(uint16_t id, uint16_t voters, uint32_t bound)
{
    struct bed *b = bed_open(id, voters);
    struct bt_recovery fresh = {.snapshot = {.config = bed_voters(voters)}};
    b->c.apart = (struct bt_replica_apart){.kept_requests = 8,
                                           .recent_pairs = 64,
                                           .bound = bound,
                                           .keep_ns = 1000 * BED_MS,
                                           .quarantine_ns = 200 * BED_MS,
                                           .recover_ns = BED_MS,
                                           .key = "0123456789abcde"};
    free(b->mem);
    b->mem = malloc(bt_replica_bytes(&b->c));
    assert_non_null(b->mem);
    assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
    bed_wait(b, 0);
    return b;
}

static enum bt_replica_result request(struct bed *b, uint16_t req_id, bool read_only, const char *body)
{
    struct bt_replica_request q = {.client = bt_addr_v4u(0x0a000001, 4000),
                                   .req_id = req_id,
                                   .read_only = read_only,
                                   .body = (const uint8_t *)body,
                                   .length = (uint32_t)strlen(body)};
    return bt_replica_request(b->r, b->now, &q);
}

// The entry of a request as a leader announces it.
static struct bt_entry announced(struct bed *b, uint16_t req_id, uint8_t kind, const char *body)
{
    static uint8_t bytes[4][BT_GROUP_META];
    struct bt_group_meta m = {
        .client = bt_addr_v4u(0x0a000001, 4000), .req_id = req_id, .replier = 3, .length = (uint32_t)strlen(body)};
    m.hash = bt_group_body_hash(b->c.apart.key, (const uint8_t *)body, m.length);
    bt_group_meta_put(bytes[req_id % 4], &m);
    return (struct bt_entry){.term = 1, .kind = kind, .body = bytes[req_id % 4], .length = BT_GROUP_META};
}

static void append(struct bed *b, uint64_t prev, const struct bt_entry *entry, uint32_t count, uint64_t commit)
{
    struct bt_group_message m = bed_message(BT_GROUP_APPEND, 2, 1);
    m.append = (struct bt_group_append){.prev_index = prev, .prev_term = prev > 0, .commit = commit, .count = count};
    memcpy(m.append.entry, entry, count * sizeof *entry);
    bed_deliver(b, &m);
}

static struct bt_group_meta meta_at(struct bed *b, uint64_t index)
{
    struct bt_entry e;
    assert_true(bt_replica_entry(b->r, index, &e));
    return bt_group_meta_get(e.body);
}

static void r307_a_leader_orders_at_once_and_names_repliers_in_turn(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    bed_lead(b);
    uint64_t first = bed_status(b).last + 1;
    unsigned times[4] = {0};
    for (uint16_t id = 0; id < 6; id++) {
        assert_int_equal(request(b, id, true, "read"), BT_REPLICA_OK);
        times[meta_at(b, first + id).replier]++;
    }
    assert_int_equal(times[1], 2);
    assert_int_equal(times[2], 2);
    assert_int_equal(times[3], 2);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_APPEND, 2);
    assert_non_null(m);
    assert_int_equal(m->append.entry[0].length, BT_GROUP_META); // its body is there already
    bed_close(b);
}

static void r316_i14_a_duplicate_is_not_ordered_again(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    bed_lead(b);
    assert_int_equal(request(b, 7, false, "write"), BT_REPLICA_OK);
    uint64_t last = bed_status(b).last;
    assert_int_equal(request(b, 7, false, "write"), BT_REPLICA_ALREADY);
    assert_int_equal(bed_status(b).last, last);
    bed_close(b);
}

static void r322_i10_nobody_has_more_than_the_bound_to_execute(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 2);
    bed_lead(b);
    uint64_t first = bed_status(b).last;
    bt_replica_applied(b->r, first);
    for (uint16_t id = 0; id < 5; id++) {
        request(b, id, false, "write"); // executed by all three
    }
    assert_int_equal(bed_status(b).last, first + 2);
    assert_true(bed_counter(b, BT_REPLICA_NO_REPLIER_TOTAL) > 0);
    bed_forget(b);
    bed_wait(b, 10 * BED_MS);
    assert_true(bed_count(b, BT_GROUP_APPEND) > 0); // waiting stops no sign of life
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 2, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = first + 2, .applied = first + 1};
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).last, first + 3); // one more, of member 2
    assert_int_equal(meta_at(b, first + 3).replier, 2);
    bed_close(b);
}

// Writes are executed by all: one that spoke last, and so has one less before it, is not given all that comes.
static void r324_who_spoke_last_is_not_given_all(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 64);
    bed_lead(b);
    uint64_t first = bed_status(b).last;
    bt_replica_applied(b->r, first);
    request(b, 1, false, "write");
    for (uint16_t from = 2; from <= 3; from++) {
        struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, from, bed_status(b).term);
        m.append_reply = (struct bt_group_append_reply){
            .flags = BT_GROUP_YES, .index = first + 1, .applied = from == 2 ? first + 1 : first};
        bed_deliver(b, &m);
    }
    unsigned times[4] = {0};
    for (uint16_t id = 2; id <= 7; id++) {
        request(b, id, false, "write");
        times[meta_at(b, first + id).replier]++;
    }
    assert_in_range(times[1], 1, 3);
    assert_in_range(times[2], 1, 3);
    assert_in_range(times[3], 1, 3);
    bed_close(b);
}

static void r309_i8_the_beginning_is_acknowledged_and_the_rest_asked_for(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    assert_int_equal(request(b, 1, false, "first"), BT_REPLICA_OK);
    struct bt_entry e[2] = {announced(b, 1, BT_ENTRY_WRITE, "first"), announced(b, 2, BT_ENTRY_READ, "second")};
    append(b, 0, e, 2, 0);
    bed_done(b);
    assert_int_equal(bed_status(b).last, 1);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND_REPLY, 2)->append_reply.index, 1);
    const struct bt_group_message *q = bed_last(b, BT_GROUP_RECOVERY, 2); // the leader first
    assert_non_null(q);
    assert_int_equal(q->recovery.count, 1);
    assert_int_equal(q->recovery.lack[0].index, 2);
    struct bt_group_lack lack = q->recovery.lack[0];
    bed_forget(b);
    bed_wait(b, 2 * BED_MS);
    assert_non_null(bed_last(b, BT_GROUP_RECOVERY, 3)); // then another

    struct bt_group_message m = bed_message(BT_GROUP_RECOVERY_REPLY, 3, 1);
    m.recovery_reply =
        (struct bt_group_recovery_reply){.flags = BT_GROUP_YES, .of = lack, .body = (const uint8_t *)"sekond"};
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_WRONG_BODY_TOTAL), 1);
    m.recovery_reply.body = (const uint8_t *)"second";
    bed_forget(b);
    bed_deliver(b, &m);
    const struct bt_group_message *again = bed_last(b, BT_GROUP_APPEND_REPLY, 2);
    assert_non_null(again);
    assert_int_equal(again->append_reply.index, 2); // the leader begins again behind the first
    append(b, 1, e + 1, 1, 2);
    bed_done(b);
    assert_int_equal(bed_status(b).commit, 2);
    bed_close(b);
}

// Entries behind what is being asked for are not refused: the leader would begin again, and the questions with it.
static void r309_what_follows_a_lack_is_not_refused(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    assert_int_equal(request(b, 1, false, "first"), BT_REPLICA_OK);
    struct bt_entry e[3] = {announced(b, 1, BT_ENTRY_WRITE, "first"), announced(b, 2, BT_ENTRY_WRITE, "second"),
                            announced(b, 3, BT_ENTRY_WRITE, "third")};
    append(b, 0, e, 2, 0);
    bed_done(b);
    uint64_t asked = bed_counter(b, BT_REPLICA_RECOVERIES_TOTAL);
    bed_forget(b);
    append(b, 2, e + 2, 1, 0);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_APPEND_REPLY, 2);
    assert_non_null(m);
    assert_true((m->append_reply.flags & BT_GROUP_YES) != 0 && m->append_reply.index == 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_MISMATCH_TOTAL), 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_RECOVERIES_TOTAL), asked);
    bed_close(b);
}

static void r320_who_has_a_body_gives_it_from_its_log_or_its_set(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    request(b, 1, false, "first");
    request(b, 2, false, "waits");
    struct bt_entry e[3] = {announced(b, 1, BT_ENTRY_WRITE, "first"), announced(b, 2, BT_ENTRY_WRITE, "waits"),
                            announced(b, 3, BT_ENTRY_WRITE, "never")};
    append(b, 0, e, 1, 0);
    struct bt_group_message m = bed_message(BT_GROUP_RECOVERY, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        m.recovery.count = 1;
        m.recovery.lack[0] = (struct bt_group_lack){.index = i + 1, .meta = bt_group_meta_get(e[i].body)};
        bed_deliver(b, &m);
        const struct bt_group_message *a = bed_last(b, BT_GROUP_RECOVERY_REPLY, 3);
        assert_int_equal(a->recovery_reply.of.index, i + 1);
        assert_int_equal((a->recovery_reply.flags & BT_GROUP_YES) != 0, i < 2);
        if (i < 2) {
            assert_memory_equal(a->recovery_reply.body, i == 0 ? "first" : "waits", 5);
        }
    }
    bed_close(b);
}

static void r315_the_set_is_bounded_and_what_nobody_orders_goes(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    for (uint16_t id = 0; id < 9; id++) {
        assert_int_equal(request(b, id, false, "write"), BT_REPLICA_OK); // never refused
    }
    assert_int_equal(bed_counter(b, BT_REPLICA_REQUESTS_EVICTED_TOTAL), 1);
    b->now += 1001 * BED_MS;
    assert_int_equal(request(b, 20, false, "write"), BT_REPLICA_OK);
    assert_int_equal(bed_counter(b, BT_REPLICA_REQUESTS_EXPIRED_TOTAL), 8);
    bed_close(b);
}

static void r317_a_new_leader_orders_what_waits(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    request(b, 1, false, "first");
    request(b, 2, true, "second");
    bed_lead(b);
    struct bt_entry e;
    uint64_t last = bed_status(b).last;
    assert_true(bt_replica_entry(b->r, last - 1, &e) && e.kind == BT_ENTRY_WRITE);
    assert_true(bt_replica_entry(b->r, last, &e) && e.kind == BT_ENTRY_READ);
    assert_memory_equal(e.body + BT_GROUP_META, "second", 6);
    bed_close(b);
}

static void r318_what_was_taken_back_waits_again(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    request(b, 1, false, "first");
    struct bt_entry e = announced(b, 1, BT_ENTRY_WRITE, "first");
    append(b, 0, &e, 1, 0);
    bed_done(b);
    bed_append(b, 3, 2, 0, 0, 0, (uint64_t[]){2, 0}); // another leader's first entry
    bed_done(b);
    assert_int_equal(bed_status(b).last, 1);
    struct bt_group_message m = bed_message(BT_GROUP_RECOVERY, 3, 2);
    m.recovery.count = 1;
    m.recovery.lack[0] = (struct bt_group_lack){.index = 9, .meta = bt_group_meta_get(e.body)};
    bed_deliver(b, &m);
    assert_true((bed_last(b, BT_GROUP_RECOVERY_REPLY, 3)->recovery_reply.flags & BT_GROUP_YES) != 0);
    bed_close(b);
}

static void r399_what_fits_no_hash_does_not_wait_again(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    bed_lead(b);
    request(b, 1, false, "first");
    request(b, 2, false, "second");
    const uint8_t other[16] = {1};
    bt_replica_body_key(b->r, other); // what it ordered was reckoned with another key
    uint64_t term = bed_status(b).term, last = bed_status(b).last;
    bed_append(b, 3, term + 1, last - 2, term, 0, (uint64_t[]){term + 1, 0}); // another leader's first entry
    bed_done(b);
    assert_int_equal(bed_status(b).last, last - 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_WRONG_BODY_TOTAL), 2);
    bed_close(b);
}

static void r328_i13_reads_are_executed_and_answered_by_their_replier_alone(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    struct bt_entry write = announced(b, 1, BT_ENTRY_WRITE, "first"), read = announced(b, 2, BT_ENTRY_READ, "second");
    assert_int_equal(bt_replica_duty(b->r, &write), BT_REPLICA_EXECUTE); // member 3 answers
    assert_int_equal(bt_replica_duty(b->r, &read), 0);
    b->c.id = 3;
    struct bt_recovery fresh = {.snapshot = {.config = bed_voters(3)}};
    assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
    assert_int_equal(bt_replica_duty(b->r, &write), BT_REPLICA_EXECUTE | BT_REPLICA_ANSWER);
    assert_int_equal(bt_replica_duty(b->r, &read), BT_REPLICA_EXECUTE | BT_REPLICA_ANSWER);
    bed_close(b);
}

// The leader sends an entry again and again, and nobody has its body; so many questions in this time.
static uint32_t questions_in_vain(struct bed *b, const struct bt_entry *e, uint64_t ns)
{
    struct bt_group_message no = bed_message(BT_GROUP_RECOVERY_REPLY, 3, 1);
    no.recovery_reply.of = (struct bt_group_lack){.index = 1, .meta = bt_group_meta_get(e->body)};
    uint32_t n = 0;
    for (uint64_t until = b->now + ns; b->now < until; bed_forget(b)) {
        append(b, 0, e, 1, 0);
        bed_wait(b, BED_MS);
        bed_deliver(b, &no);
        n += bed_count(b, BT_GROUP_RECOVERY);
    }
    return n;
}

static void r399_who_asked_in_vain_asks_ever_less(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    struct bt_entry e = announced(b, 1, BT_ENTRY_WRITE, "first");
    assert_in_range(questions_in_vain(b, &e, 1000 * BED_MS), 20, 60);
    assert_in_range(questions_in_vain(b, &e, 10000 * BED_MS), 150, 250); // one in an election's time
    assert_true(bed_counter(b, BT_REPLICA_BODYLESS_TOTAL) > 0);
    bed_close(b);
}

// It got the request itself, before its key was another one, and the leader sends it whole. It fits no more, so it is
// what is asked for, and each message with it begins no new round.
static void r399_what_fits_no_more_is_asked_for_ever_less(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    assert_int_equal(request(b, 1, false, "first"), BT_REPLICA_OK);
    uint8_t whole[BT_GROUP_META + 5];
    struct bt_entry e[2] = {announced(b, 1, BT_ENTRY_WRITE, "first"), announced(b, 2, BT_ENTRY_WRITE, "second")};
    memcpy(whole, e[0].body, BT_GROUP_META);
    memcpy(whole + BT_GROUP_META, "first", 5);
    e[0].body = whole;
    e[0].length = sizeof whole;
    const uint8_t other[16] = {1};
    bt_replica_body_key(b->r, other);
    append(b, 0, e, 2, 0);
    const struct bt_group_message *q = bed_last(b, BT_GROUP_RECOVERY, 2);
    assert_non_null(q);
    assert_int_equal(q->recovery.count, 2);
    assert_int_equal(q->recovery.lack[0].index, 1);
    uint32_t n = 0;
    for (int ms = 0; ms < 1000; ms++) {
        bed_forget(b);
        append(b, 0, e, 2, 0);
        bed_wait(b, BED_MS);
        n += bed_count(b, BT_GROUP_RECOVERY);
    }
    assert_in_range(n, 20, 60);
    bed_close(b);
}

// Asks until the leader is told; how many questions that took.
static uint32_t until_told(struct bed *b, const struct bt_entry *e)
{
    uint64_t before = bed_counter(b, BT_REPLICA_BODYLESS_TOTAL);
    uint32_t n = 0;
    while (bed_counter(b, BT_REPLICA_BODYLESS_TOTAL) == before) {
        bed_forget(b);
        append(b, 0, e, 1, 0);
        bed_wait(b, BED_MS);
        n += bed_count(b, BT_GROUP_RECOVERY);
        assert_true(n < 100);
    }
    return n;
}

static void r399_the_leader_is_told_that_nobody_has_it(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    struct bt_entry e = announced(b, 1, BT_ENTRY_WRITE, "first");
    assert_in_range(until_told(b, &e), 2 * 2 * 3, 2 * 2 * 3 + 4); // twice two rounds of three
    const struct bt_group_message *m = bed_last(b, BT_GROUP_APPEND_REPLY, 2);
    assert_int_equal(m->append_reply.flags, BT_GROUP_BODYLESS);
    assert_int_equal(m->append_reply.index, 1);
    assert_int_equal(m->append_reply.last, 0);

    assert_int_equal(request(b, 1, false, "first"), BT_REPLICA_OK); // it comes after all
    append(b, 0, &e, 1, 0);
    bed_done(b);
    assert_int_equal(bed_status(b).last, 1);
    bed_forget(b);
    struct bt_entry next = announced(b, 2, BT_ENTRY_WRITE, "second"); // which begins afresh
    append(b, 1, &next, 1, 0);
    bed_wait(b, 4 * BED_MS);
    assert_in_range(bed_count(b, BT_GROUP_RECOVERY), 3, 5);
    assert_int_equal(bed_counter(b, BT_REPLICA_BODYLESS_TOTAL), 1);
    bed_close(b);
}

static void lacks_for_good(struct bed *b, uint16_t from, uint64_t index)
{
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, from, bed_status(b).term);
    m.append_reply =
        (struct bt_group_append_reply){.flags = BT_GROUP_BODYLESS, .index = index, .last = index - 1, .applied = 1};
    bed_deliver(b, &m);
}

// a member whose state differs from a majority's is asked for no answer.
static void r392_who_differs_from_a_majority_answers_nothing(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    struct bt_recovery fresh = {.snapshot = {.config = bed_voters(3)}};
    b->c.hash_every = 4;
    assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
    bed_wait(b, 0);
    bed_lead(b);
    bt_replica_applied(b->r, 1);
    bt_replica_hashed(b->r, b->now, 1, 77);
    for (uint16_t from = 2; from <= 3; from++) {
        struct bt_group_message m = bed_message(BT_GROUP_STATE, from, bed_status(b).term);
        m.states = (struct bt_group_states){.count = 1, .applied = 1, .at = {{1, from == 2 ? 77 : 78}}};
        bed_deliver(b, &m);
    }
    assert_int_equal(bed_count(b, BT_GROUP_DIVERGED), 1);
    unsigned times[4] = {0};
    for (uint16_t id = 1; id < 7; id++) {
        assert_int_equal(request(b, id, true, "read"), BT_REPLICA_OK);
        times[meta_at(b, bed_status(b).last).replier]++;
    }
    assert_int_equal(times[1], 3);
    assert_int_equal(times[2], 3);
    assert_int_equal(times[3], 0);
    bed_close(b);
}

static void r399_who_lacks_a_body_for_good_gets_the_leaders_state(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    bed_lead(b);
    request(b, 1, false, "first");
    bed_done(b);
    uint64_t index = bed_status(b).last;
    lacks_for_good(b, 3, index);
    assert_false(bed_status(b).mending); // not committed: nobody can have that state
    bed_ack(b, 2, index);
    assert_int_equal(bed_status(b).commit, index);
    bt_replica_applied(b->r, index);
    assert_true(bed_status(b).mending);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, index, (const uint8_t *)"state", 5), BT_REPLICA_OK);
    bed_done(b);
    assert_false(bed_status(b).mending);
    for (int i = 0; i < 2; i++) {
        bed_forget(b);
        bed_ack(b, 2, index);
        bed_ack(b, 3, index - 1); // a sign of life is no word of the state
        bed_wait(b, 2 * b->c.heartbeat_ns);
        assert_non_null(bed_last(b, BT_GROUP_SNAPSHOT, 3));
        assert_int_equal(bed_last(b, BT_GROUP_SNAPSHOT, 3)->snapshot.last_index, index);
    }
    struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT_REPLY, 3, bed_status(b).term);
    m.snapshot_reply = (struct bt_group_snapshot_reply){.flags = BT_GROUP_YES, .last_index = index};
    bed_deliver(b, &m);
    bed_forget(b);
    for (uint16_t id = 2; id < 8; id++) {
        request(b, id, false, "second");
        assert_int_not_equal(meta_at(b, bed_status(b).last).replier, 3); // what it gets as a state it does not answer
    }
    assert_non_null(bed_last(b, BT_GROUP_APPEND, 3));
    bed_done(b);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 3), BT_REPLICA_BEHIND);
    bed_ack(b, 3, bed_status(b).last); // it goes on by its log
    request(b, 8, false, "second");
    assert_int_equal(meta_at(b, bed_status(b).last).replier, 3);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 3), BT_REPLICA_OK);
    bed_close(b);
}

// The state goes there in pieces, and signs of life are answered in between: what they acknowledge is no reason to
// begin with the first piece again.
static void r399_a_sign_of_life_does_not_begin_the_state_again(void **state)
{
    (void)state;
    static uint8_t bytes[4000];
    struct bed *b = opened(1, 3, 8);
    bed_lead(b);
    request(b, 1, false, "first");
    bed_done(b);
    uint64_t index = bed_status(b).last, offset = 0;
    lacks_for_good(b, 3, index);
    bed_ack(b, 2, index);
    bt_replica_applied(b->r, index);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, index, bytes, sizeof bytes), BT_REPLICA_OK);
    bed_done(b);
    while (offset < sizeof bytes) {
        bed_forget(b);
        bed_ack(b, 2, index);
        bed_ack(b, 3, index - 1);
        bed_wait(b, 2 * b->c.heartbeat_ns);
        const struct bt_group_message *piece = bed_last(b, BT_GROUP_SNAPSHOT, 3);
        assert_non_null(piece);
        assert_int_equal(piece->snapshot.offset, offset);
        offset += piece->snapshot.length;
        struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT_REPLY, 3, bed_status(b).term);
        m.snapshot_reply = (struct bt_group_snapshot_reply){.last_index = index, .offset = offset};
        if (offset < sizeof bytes) {
            bed_deliver(b, &m);
        }
    }
    bed_close(b);
}

static void r399_a_leader_whose_entry_no_majority_can_hold_hands_over(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    bed_lead(b);
    request(b, 1, false, "first");
    bed_done(b);
    uint64_t index = bed_status(b).last;
    lacks_for_good(b, 3, index);
    bed_ack(b, 2, index - 1);
    bed_wait(b, 2 * b->c.heartbeat_ns);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER); // the other one may yet hold it
    lacks_for_good(b, 2, index);
    bed_wait(b, 2 * b->c.heartbeat_ns);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    assert_int_equal(bed_count(b, BT_GROUP_TAKE_OVER), 1);
    bed_close(b);
}

static void a_raft_group_takes_no_requests_and_answers_no_questions(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    assert_int_equal(request(b, 1, false, "write"), BT_REPLICA_FOREIGN);
    struct bt_group_message m = bed_message(BT_GROUP_RECOVERY, 3, 1);
    m.recovery.count = 1;
    m.recovery.lack[0] = (struct bt_group_lack){.index = 9, .meta = {.replier = 1}};
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 1);
    struct bt_entry e = announced(b, 1, BT_ENTRY_WRITE, "first"); // nor entries without their bodies
    append(b, 0, &e, 1, 0);
    assert_int_equal(bed_status(b).last, 0);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 2);
    bed_close(b);
}

static void r320_the_leader_is_asked_first_and_then_one_after_the_other(void **state)
{
    static const uint16_t want[] = {2, 4, 5, 1, 2, 2, 4}; // behind its own place; in that of itself the leader
    (void)state;
    struct bed *b = opened(3, 5, 8);
    struct bt_entry e = announced(b, 1, BT_ENTRY_WRITE, "first");
    append(b, 0, &e, 1, 0);
    bed_wait(b, 12 * BED_MS);
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->sent_n && n < sizeof want / sizeof want[0]; i++) {
        if (b->sent[i].bytes[1] == BT_GROUP_RECOVERY) {
            assert_int_equal(b->sent[i].to, want[n++]);
        }
    }
    assert_int_equal(n, sizeof want / sizeof want[0]);
    bed_close(b);
}

// What was asked for may come from its client, late: then it is asked for no more, and the leader begins again behind
// what is here.
static void r320_a_body_that_comes_by_itself_is_asked_for_no_more(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3, 8);
    struct bt_entry e[3] = {announced(b, 1, BT_ENTRY_WRITE, "first"), announced(b, 2, BT_ENTRY_WRITE, "second"),
                            announced(b, 3, BT_ENTRY_WRITE, "third")};
    append(b, 0, e, 3, 0);
    assert_int_equal(bed_last(b, BT_GROUP_RECOVERY, 2)->recovery.count, 3);
    assert_int_equal(request(b, 1, false, "first"), BT_REPLICA_OK);
    bed_wait(b, 2 * BED_MS);
    const struct bt_group_recovery *q = &bed_last(b, BT_GROUP_RECOVERY, 3)->recovery;
    assert_true(q->count == 2 && q->lack[0].index == 2 && q->lack[1].index == 3);
    bed_forget(b);
    request(b, 3, false, "third");
    assert_int_equal(bed_count(b, BT_GROUP_APPEND_REPLY), 0); // one is lacking yet
    request(b, 2, false, "second");
    assert_int_equal(bed_last(b, BT_GROUP_APPEND_REPLY, 2)->append_reply.last, 0);
    bed_forget(b);
    bed_wait(b, 10 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_RECOVERY), 0);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r307_a_leader_orders_at_once_and_names_repliers_in_turn),
        cmocka_unit_test(r316_i14_a_duplicate_is_not_ordered_again),
        cmocka_unit_test(r322_i10_nobody_has_more_than_the_bound_to_execute),
        cmocka_unit_test(r324_who_spoke_last_is_not_given_all),
        cmocka_unit_test(r309_i8_the_beginning_is_acknowledged_and_the_rest_asked_for),
        cmocka_unit_test(r309_what_follows_a_lack_is_not_refused),
        cmocka_unit_test(r320_who_has_a_body_gives_it_from_its_log_or_its_set),
        cmocka_unit_test(r315_the_set_is_bounded_and_what_nobody_orders_goes),
        cmocka_unit_test(r317_a_new_leader_orders_what_waits),
        cmocka_unit_test(r318_what_was_taken_back_waits_again),
        cmocka_unit_test(r399_what_fits_no_hash_does_not_wait_again),
        cmocka_unit_test(r328_i13_reads_are_executed_and_answered_by_their_replier_alone),
        cmocka_unit_test(r399_who_asked_in_vain_asks_ever_less),
        cmocka_unit_test(r399_what_fits_no_more_is_asked_for_ever_less),
        cmocka_unit_test(r399_the_leader_is_told_that_nobody_has_it),
        cmocka_unit_test(r392_who_differs_from_a_majority_answers_nothing),
        cmocka_unit_test(r399_who_lacks_a_body_for_good_gets_the_leaders_state),
        cmocka_unit_test(r399_a_sign_of_life_does_not_begin_the_state_again),
        cmocka_unit_test(r399_a_leader_whose_entry_no_majority_can_hold_hands_over),
        cmocka_unit_test(a_raft_group_takes_no_requests_and_answers_no_questions),
        cmocka_unit_test(r320_the_leader_is_asked_first_and_then_one_after_the_other),
        cmocka_unit_test(r320_a_body_that_comes_by_itself_is_asked_for_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
