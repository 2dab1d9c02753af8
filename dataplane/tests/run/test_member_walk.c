// SPDX-License-Identifier: Apache-2.0
// A leader that does what its document wants: whom it hands the leadership to and whom not, and that who
// is new comes before who is too many goes.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <string.h>

static struct bed b;
static uint16_t l, one, two; // the leader, and the others

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

static void formed(unsigned places)
{
    bed_open(&b, 3, places);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, ready, id);
    }
    l = bed_leader(&b);
    one = (uint16_t)(l % 3 + 1);
    two = (uint16_t)(one % 3 + 1);
    bed_until(&b, level, one);
    bed_until(&b, level, two);
}

static void steps(unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        bed_step(&b);
    }
}

static void reconfigure_all(void)
{
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b.member[id] != NULL) {
            bt_member_reconfigure(b.member[id], &b.document, &b.keys);
        }
    }
}

static void avoid(const uint16_t *ids)
{
    for (b.document.n_avoided = 0; ids[b.document.n_avoided] != 0; b.document.n_avoided++) {
        b.document.avoided[b.document.n_avoided] = ids[b.document.n_avoided];
    }
    reconfigure_all();
}

static void want(const uint16_t *ids)
{
    b.document.wanted_given = true;
    for (b.document.n_wanted = 0; ids[b.document.n_wanted] != 0; b.document.n_wanted++) {
        b.document.wanted[b.document.n_wanted] = ids[b.document.n_wanted];
    }
    reconfigure_all();
}

// Who leads once this one does not.
static uint16_t next_leader(void)
{
    for (int ms = 0; bed_leader(&b) == l || bed_leader(&b) == 0; ms++) {
        assert_true(ms < 60000);
        bed_step(&b);
    }
    return bed_leader(&b);
}

static void r351_it_hands_over_to_who_is_not_avoided(void **state)
{
    (void)state;
    for (int second = 0; second < 2; second++) { // whichever of the two it is
        formed(3);
        avoid((uint16_t[]){l, second ? one : two, 0});
        assert_int_equal(next_leader(), second ? two : one);
        steps(300); // and there it stays
        assert_int_equal(bed_leader(&b), second ? two : one);
        bed_close(&b);
    }
}

static void r351_where_all_are_avoided_it_stays(void **state)
{
    (void)state;
    formed(3);
    uint64_t term = bed_status(&b, l).core.term;
    avoid((uint16_t[]){1, 2, 3, 0});
    steps(500);
    assert_int_equal(bed_leader(&b), l);
    assert_int_equal(bed_status(&b, l).core.term, term);
    bed_close(&b);
}

static void r351_it_does_not_hand_over_to_who_is_silent(void **state)
{
    (void)state;
    formed(3);
    b.cut[one] = true;
    steps(150);
    avoid((uint16_t[]){l, two, 0}); // only the silent one is left
    steps(300);
    assert_int_equal(bed_leader(&b), l);
    b.cut[one] = false;
    assert_int_equal(next_leader(), one);
    bed_close(&b);
}

static void r351_it_hands_over_to_who_is_wanted(void **state)
{
    (void)state;
    formed(3);
    want((uint16_t[]){two, 0}); // neither this leader nor the other one
    assert_int_equal(next_leader(), two);
    for (int ms = 0; bed_status(&b, two).n_removed != 2; ms++) {
        assert_true(ms < 60000);
        bed_step(&b);
    }
    struct bt_member_status s = bed_status(&b, two);
    assert_true(s.peers == 1 && s.peer[0].id == two);
    bed_close(&b);
}

// Somebody new who does not come up holds the others up, and nobody goes before.
static void r388_who_is_too_many_goes_last(void **state)
{
    (void)state;
    formed(4);
    want((uint16_t[]){l, one, 4, 0});
    steps(1000);
    struct bt_member_status s = bed_status(&b, l);
    assert_true(s.peers == 4 && s.voters == 3 && s.n_removed == 0);
    assert_true(!s.peer[3].voter && s.peer[3].id == 4);
    bed_start(&b, 4);
    for (int ms = 0; bed_leader(&b) == 0 || bed_status(&b, bed_leader(&b)).n_removed == 0; ms++) {
        assert_true(ms < 60000);
        bed_step(&b);
    }
    s = bed_status(&b, bed_leader(&b));
    assert_true(s.peers == 3 && s.voters == 3 && s.removed[0] == two);
    bed_close(&b);
}

static void r388_without_wanted_voters_nobody_comes_or_goes(void **state)
{
    (void)state;
    formed(4);
    bed_start(&b, 4);
    reconfigure_all();
    uint64_t last = bed_status(&b, l).core.last;
    steps(500);
    struct bt_member_status s = bed_status(&b, l);
    assert_true(s.peers == 3 && s.n_removed == 0 && s.core.last == last);
    want((uint16_t[]){1, 2, 3, 0}); // nor where they are as they are wanted
    steps(500);
    assert_int_equal(bed_status(&b, l).core.last, last);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r351_it_hands_over_to_who_is_not_avoided),
        cmocka_unit_test(r351_where_all_are_avoided_it_stays),
        cmocka_unit_test(r351_it_does_not_hand_over_to_who_is_silent),
        cmocka_unit_test(r351_it_hands_over_to_who_is_wanted),
        cmocka_unit_test(r388_who_is_too_many_goes_last),
        cmocka_unit_test(r388_without_wanted_voters_nobody_comes_or_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
