// SPDX-License-Identifier: Apache-2.0
// Requests that stand in no log yet, and the pairs that were ordered lately.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "replica/kept.h"

enum { SLOTS = 4, CELL = 16 };

static struct replica_kept kept;
static struct replica_recent recent;
static void *mem;

static struct bt_group_meta pair(uint16_t port, uint16_t req_id, uint32_t length, uint64_t hash)
{
    return (struct bt_group_meta){
        .client = bt_addr_v4u(0x0a000001, port), .req_id = req_id, .length = length, .hash = hash};
}

// The request of this pair, whose body is `length` times its hash.
static bool put(struct bt_group_meta m, uint64_t arrived_ns)
{
    uint8_t body[CELL];
    memset(body, (int)m.hash, sizeof body);
    return replica_kept_put(&kept, &(struct replica_request){.meta = m, .arrived_ns = arrived_ns}, body);
}

static bool holds(struct bt_group_meta m)
{
    uint32_t at = replica_kept_find(&kept, &m);
    if (at == REPLICA_NOBODY) {
        return false;
    }
    const uint8_t *body = replica_kept_body(&kept, at);
    for (uint32_t i = 0; i < m.length; i++) {
        assert_int_equal(body[i], m.hash & 0xff);
    }
    return true;
}

// From the oldest to the newest these hashes, and from the newest back.
static void in_order(const char *hashes)
{
    uint32_t n = (uint32_t)strlen(hashes), at = kept.oldest;
    assert_int_equal(kept.count, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_not_equal(at, REPLICA_NOBODY);
        assert_int_equal(kept.request[at].meta.hash, hashes[i]);
        at = kept.request[at].newer;
    }
    assert_int_equal(at, REPLICA_NOBODY);
    at = kept.newest;
    for (uint32_t i = n; i > 0; i--) {
        assert_int_equal(kept.request[at].meta.hash, hashes[i - 1]);
        at = kept.request[at].older;
    }
    assert_int_equal(at, REPLICA_NOBODY);
}

static int kept_open(void **state)
{
    (void)state;
    mem = malloc(replica_kept_bytes(SLOTS, CELL));
    replica_kept_init(&kept, mem, SLOTS, CELL, 7);
    return mem != NULL ? 0 : -1;
}

static int recent_open(void **state)
{
    (void)state;
    mem = malloc(replica_recent_bytes(SLOTS));
    replica_recent_init(&recent, mem, SLOTS, 7);
    return mem != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    free(mem);
    return 0;
}

static void r315_a_request_is_found_by_its_pair_and_its_body(void **state)
{
    (void)state;
    assert_false(put(pair(1, 1, 3, 'a'), 0));
    assert_true(holds(pair(1, 1, 3, 'a')));
    assert_false(holds(pair(1, 1, 3, 'b')));
    assert_false(holds(pair(1, 1, 2, 'a')));
    assert_false(holds(pair(1, 2, 3, 'a')));
    assert_false(holds(pair(2, 1, 3, 'a')));
    assert_false(put(pair(1, 2, 0, 'b'), 0)); // without a body
    assert_false(put(pair(2, 1, CELL, 'c'), 0));
    assert_true(holds(pair(1, 2, 0, 'b')) && holds(pair(2, 1, CELL, 'c')));
    in_order("abc");
}

static void r315_of_one_pair_the_last_body_is_kept(void **state)
{
    (void)state;
    put(pair(1, 1, 3, 'a'), 0);
    put(pair(1, 2, 3, 'b'), 0);
    assert_false(put(pair(1, 1, 4, 'c'), 0));
    in_order("bc");
    assert_true(holds(pair(1, 1, 4, 'c')));
    assert_false(holds(pair(1, 1, 3, 'a')));
    for (int i = 0; i < 100; i++) { // and its place is free again
        assert_false(put(pair(1, 1, 4, 'd'), 0));
    }
    in_order("bd");
}

static void r315_the_oldest_makes_room(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < SLOTS; i++) {
        assert_false(put(pair(1, i, 1, 'a' + i), i));
    }
    in_order("abcd");
    assert_true(put(pair(1, SLOTS, 1, 'e'), SLOTS));
    in_order("bcde");
    assert_false(holds(pair(1, 0, 1, 'a')));
    assert_true(holds(pair(1, SLOTS, 1, 'e')));
    assert_false(put(pair(1, 2, 1, 'f'), SLOTS)); // in the place of the pair's own
    in_order("bdef");
}

static void r315_any_of_them_is_taken_out(void **state)
{
    static const char *const left[] = {"bcd", "acd", "abd", "abc"};
    (void)state;
    for (uint16_t gone = 0; gone < SLOTS; gone++) {
        replica_kept_init(&kept, mem, SLOTS, CELL, 7);
        for (uint16_t i = 0; i < SLOTS; i++) {
            put(pair(1, i, 1, 'a' + i), 0);
        }
        struct bt_group_meta m = pair(1, gone, 1, 'a' + gone);
        replica_kept_remove(&kept, replica_kept_find(&kept, &m));
        in_order(left[gone]);
        assert_false(holds(m));
        assert_false(put(m, 0)); // there is room for one again
        assert_true(holds(m));
        assert_int_equal(kept.count, SLOTS);
    }
    while (kept.oldest != REPLICA_NOBODY) {
        replica_kept_remove(&kept, kept.oldest);
    }
    in_order("");
    put(pair(3, 3, 3, 'z'), 0);
    in_order("z");
}

static void r315_what_came_before_goes(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < SLOTS; i++) {
        put(pair(1, i, 1, 'a' + i), 10 * (i + 1u));
    }
    assert_int_equal(replica_kept_expire(&kept, 10), 0);
    assert_int_equal(replica_kept_expire(&kept, 21), 2);
    in_order("cd");
    assert_false(holds(pair(1, 1, 1, 'b')));
    assert_int_equal(replica_kept_expire(&kept, UINT64_MAX), 2);
    in_order("");
    assert_int_equal(replica_kept_expire(&kept, UINT64_MAX), 0);
}

static bool ordered_at(uint16_t req_id, uint64_t want)
{
    struct bt_group_meta m = pair(1, req_id, 9, 9); // whatever its body
    uint64_t at = 0;
    bool is = replica_recent_find(&recent, &m, &at);
    return is && at == want;
}

static bool ordered(uint16_t req_id)
{
    struct bt_group_meta m = pair(1, req_id, 9, 9);
    uint64_t at = 0;
    return replica_recent_find(&recent, &m, &at);
}

static void add(uint16_t req_id, uint64_t now)
{
    struct bt_group_meta m = pair(1, req_id, 1, 1);
    replica_recent_add(&recent, &m, now);
}

static void r316_as_many_pairs_are_known_as_there_is_room_for(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < 3 * SLOTS; i++) {
        assert_false(ordered(i));
        add(i, 100 + i);
        for (uint16_t k = 0; k <= i; k++) {
            if (k + SLOTS > i) {
                assert_true(ordered_at(k, 100u + k));
            } else {
                assert_false(ordered(k));
            }
        }
    }
}

static void r316_a_pair_that_is_ordered_again_is_known_since_then(void **state)
{
    (void)state;
    add(1, 100);
    add(2, 101);
    add(1, 102);
    assert_true(ordered_at(1, 102) && ordered_at(2, 101));
    add(3, 103);
    add(4, 104); // takes the place that 1 had first: 1 stays
    assert_true(ordered_at(1, 102) && ordered_at(2, 101) && ordered_at(3, 103) && ordered_at(4, 104));
    add(5, 105);
    assert_true(ordered_at(1, 102) && !ordered(2) && ordered_at(5, 105));
}

static void r316_a_pair_is_forgotten_when_that_is_asked_for(void **state)
{
    (void)state;
    struct bt_group_meta m = pair(1, 1, 1, 1);
    replica_recent_forget(&recent, &m); // nothing was known
    for (uint16_t i = 0; i < SLOTS; i++) {
        add(i, 100 + i);
    }
    replica_recent_forget(&recent, &m);
    assert_false(ordered(1));
    assert_true(ordered_at(0, 100) && ordered_at(2, 102) && ordered_at(3, 103));
    add(1, 110); // in the place of 0
    add(5, 111); // in the place that is empty: 1 itself is elsewhere by now
    assert_true(!ordered(0) && ordered_at(1, 110) && ordered_at(5, 111) && ordered_at(2, 102));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(r315_a_request_is_found_by_its_pair_and_its_body, kept_open, end),
        cmocka_unit_test_setup_teardown(r315_of_one_pair_the_last_body_is_kept, kept_open, end),
        cmocka_unit_test_setup_teardown(r315_the_oldest_makes_room, kept_open, end),
        cmocka_unit_test_setup_teardown(r315_any_of_them_is_taken_out, kept_open, end),
        cmocka_unit_test_setup_teardown(r315_what_came_before_goes, kept_open, end),
        cmocka_unit_test_setup_teardown(r316_as_many_pairs_are_known_as_there_is_room_for, recent_open, end),
        cmocka_unit_test_setup_teardown(r316_a_pair_that_is_ordered_again_is_known_since_then, recent_open, end),
        cmocka_unit_test_setup_teardown(r316_a_pair_is_forgotten_when_that_is_asked_for, recent_open, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
