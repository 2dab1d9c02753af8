// SPDX-License-Identifier: Apache-2.0
// Memory that runs out while something is opened, at each of its allocations in turn: it is not opened, says so, and
// nothing stays behind (AddressSanitizer looks for that); the next time it is.
#include "bed_parts.h"
#include "starve.h"
#include "descriptors.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/restore.h"
#include "run/storage.h"

enum { MOST = 1000 }; // allocations of one thing that is opened

static struct bed b;
static char why[512];

static void r376_a_disk_for_which_there_is_no_memory_is_not_opened(void **state)
{
    struct bt_recovery found;
    unsigned n = 0;
    (void)state;
    bed_open(&b, 0, 1);
    struct bt_storage_config c = {.folder = b.folder, .first = {.count = 1, .member = {{1, BT_GROUP_VOTER}}}};
    struct bt_storage *s = NULL;
    int before = descriptors();
    for (; n < MOST; n++) {
        why[0] = '\0';
        starve_after(n);
        s = bt_storage_open(&c, &found, why, sizeof why);
        if (!starve_ended()) {
            break;
        }
        assert_null(s);
        assert_string_equal(why, "storage: no memory");
        assert_int_equal(descriptors(), before);
    }
    assert_non_null(s);
    assert_true(n >= 5 && n < MOST);
    bt_storage_close(s);
    char command[200];
    snprintf(command, sizeof command, "rm -f %s/segment-*", b.folder);
    assert_int_equal(system(command), 0);
    bed_close(&b);
}

// Either there is no member, or it says what it lacks.
static void a_member_for_which_there_is_no_memory_is_none_or_says_so(void **state)
{
    unsigned n = 0, none = 0, failed = 0;
    (void)state;
    bed_open(&b, 0, 1);
    b.document.n_founders = 1;
    memcpy(b.document.founder[0], "m1", 3);
    for (; n < MOST; n++) {
        starve_after(n);
        bool there = bed_try(&b, 1), starved = starve_ended();
        if (!starved) {
            break;
        }
        if (!there) {
            none++;
            bt_files_close(&b.disk[1].files);
            continue;
        }
        struct bt_member_status s = bed_status(&b, 1);
        assert_int_equal(s.phase, BT_MEMBER_FAILED);
        if (strcmp(s.reason, "NoMemory") == 0) {
            assert_memory_equal(s.message, "a member of these limits needs ", 31);
        } else {
            assert_string_equal(s.reason, "DiskFailed");
            assert_string_equal(s.message, "storage: no memory");
        }
        assert_string_equal(b.said, s.message);
        failed++;
        bed_stop(&b, 1);
        bed_lose_disk(&b, 1);
    }
    assert_true(none >= 4 && failed >= 6 && n < MOST);
    assert_int_equal(bed_status(&b, 1).phase, BT_MEMBER_RUNNING);
    bed_close(&b);
}

static void a_member_whose_thread_does_not_start_says_so(void **state)
{
    struct bt_restored found;
    char from[160], to[160], text[200];
    (void)state;
    bed_open(&b, 1, 1);
    bed_stop(&b, 1);
    starve_threads_after(0);
    bed_start(&b, 1);
    assert_true(starve_ended());
    struct bt_member_status s = bed_status(&b, 1);
    assert_true(s.phase == BT_MEMBER_FAILED && !s.ready && s.core.term == 0);
    assert_string_equal(s.reason, "NoThread");
    assert_string_equal(s.message, "the storage thread does not start");
    assert_string_equal(b.said, s.message);
    bed_step(&b);
    bed_stop(&b, 1);
    const struct bt_restore_as as = {{9, 8, 7}, 1}; // nor is anything restored
    snprintf(from, sizeof from, "%s/m1", b.folder);
    snprintf(to, sizeof to, "%s/m2", b.folder);
    starve_threads_after(0);
    assert_false(bt_disk_restore(from, to, &as, &found, why, sizeof why));
    assert_true(starve_ended());
    snprintf(text, sizeof text, "%s.part: cannot be written", to);
    assert_string_equal(why, text);
    assert_true(access(to, F_OK) != 0);
    assert_true(bt_disk_restore(from, to, &as, &found, why, sizeof why)); // what is left of the first try is no matter
    bed_close(&b);
}

static void r333_a_box_for_which_there_is_no_memory_stays_as_it_was(void **state)
{
    unsigned n = 0;
    (void)state;
    bed_open_hovercraft(&b, 1, false);
    struct bt_box_front_config c = {.document = &b.document,
                                    .clients = bed_address(BED_BOX, 8000),
                                    .feedback = bed_address(BED_BOX, 9000),
                                    .keys = b.keys,
                                    .mtu = 1500,
                                    .pool = &b.pool.pool,
                                    .txq = &b.txq};
    for (struct bt_box_front *box = NULL; box == NULL; n++) {
        starve_after(n);
        box = bt_box_front_open(&c, b.now);
        assert_true(starve_ended() == (box == NULL));
        bt_box_front_close(box);
    }
    assert_true(n >= 3);
    struct bt_group_document next = b.document;
    next.in_flight++;
    starve_after(0);
    assert_false(bt_box_front_reconfigure(b.box, b.now, &next, &b.keys));
    assert_true(starve_ended());
    assert_int_equal(bt_box_front_limit(b.box), b.document.in_flight);
    assert_true(bt_box_front_reconfigure(b.box, b.now, &next, &b.keys));
    assert_int_equal(bt_box_front_limit(b.box), next.in_flight);
    struct bt_aggregator_front_config a = {.document = &b.document, .pool = &b.pool.pool, .txq = &b.txq};
    starve_after(0);
    assert_null(bt_aggregator_front_open(&a));
    assert_true(starve_ended());
    bed_close(&b);
}

// of copies, and of what is to become another group's disk.
static void r389_copies_for_which_there_is_no_memory_stay(void **state)
{
    struct bt_restored found;
    char from[160], copy[2][160], command[320];
    unsigned n = 0, removed = 9;
    (void)state;
    bed_open(&b, 1, 1);
    bed_stop(&b, 1);
    snprintf(from, sizeof from, "%s/m1", b.folder);
    for (int i = 0; i < 2; i++) {
        snprintf(copy[i], sizeof copy[i], "%s/copy-%d", b.folder, i);
        assert_true(bt_disk_copy(from, copy[i], &found, why, sizeof why));
    }
    for (bool done = false; !done; n++) {
        starve_after(n);
        done = bt_disk_prune(copy[1], 3, &removed, why, sizeof why);
        assert_true(starve_ended() == !done);
        assert_true(done || strstr(why, strerror(ENOMEM)) != NULL);
        assert_int_equal(removed, 0);
    }
    assert_true(n >= 3);
    const struct bt_restore_as as = {{9, 8, 7}, 1};
    snprintf(command, sizeof command, "%s/restored", b.folder);
    starve_after(5);
    bool done = bt_disk_restore(copy[1], command, &as, &found, why, sizeof why);
    assert_true(starve_ended() && (done || access(command, F_OK) != 0));
    snprintf(command, sizeof command, "rm -rf %s/copy-* %s/restored*", b.folder, b.folder);
    assert_int_equal(system(command), 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r376_a_disk_for_which_there_is_no_memory_is_not_opened),
        cmocka_unit_test(a_member_for_which_there_is_no_memory_is_none_or_says_so),
        cmocka_unit_test(a_member_whose_thread_does_not_start_says_so),
        cmocka_unit_test(r333_a_box_for_which_there_is_no_memory_stays_as_it_was),
        cmocka_unit_test(r389_copies_for_which_there_is_no_memory_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
