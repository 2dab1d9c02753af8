// SPDX-License-Identifier: Apache-2.0
// The storage thread at its limits: what it says when it cannot be opened, what it holds when nothing
// was said of it, whose disk it makes, and what it tells of a disk that failed.
#include "bed_parts.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "run/storage.h"

static struct bed b; // of which only the first disk is used
static char why[300];
static struct bt_store_error error;
static struct bt_recovery found;

static int begin(void **state)
{
    (void)state;
    memset(&b, 0, sizeof b);
    memset(&error, 0, sizeof error);
    strcpy(b.folder, "/tmp/bobtail-limits-XXXXXX");
    why[0] = '\0';
    return mkdtemp(b.folder) == NULL;
}

static int end(void **state)
{
    char command[200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", b.folder);
    return system(command);
}

static struct bt_storage_config config(void)
{
    return (struct bt_storage_config){.cluster = "some cluster",
                                      .folder = b.folder,
                                      .first = {.count = 1, .member = {{.id = 1, .role = BT_GROUP_VOTER}}},
                                      .error = &error};
}

static struct bt_storage *opened(const struct bt_storage_config *c)
{
    why[0] = '\0';
    struct bt_storage *s = bt_storage_open(c, &found, why, sizeof why);
    assert_string_equal(why, "");
    assert_non_null(s);
    return s;
}

static bool append(struct bt_storage *s, uint64_t index, const uint8_t *body, uint32_t length)
{
    struct bt_entry e = {.index = index, .term = 1, .kind = BT_ENTRY_COMMAND, .body = body, .length = length};
    return bt_storage_give(
        s, &(struct bt_store_op){.generation = index, .kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}});
}

// Looks until there is news of this generation, or of a failure: nobody is woken here.
static struct bt_storage_completion awaited(struct bt_storage *s, uint64_t generation)
{
    struct bt_storage_completion c;
    while (!bt_storage_completed(s, &c) || (c.generation < generation && c.result != BT_STORE_FAILED)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return c;
}

static void r376_numbers_that_are_out_of_bounds_are_said(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct bt_storage_config c = config();
        c.batch_bytes = what == 0 ? 100 : 0;
        c.segment_bytes = what == 1 ? 4096 : 0;
        c.files_max = what == 2 ? 3 : 0;
        assert_null(bt_storage_open(&c, &found, why, sizeof why));
        assert_string_equal(why, "storage: segment_bytes, batch_bytes or files_max is out of bounds");
        assert_int_equal(error.trouble, BT_STORE_FINE); // of the disk
    }
    struct bt_storage_config c = config();
    bt_storage_close(opened(&c)); // and the folder was let go
}

static void r365_why_a_disk_cannot_be_opened_is_told_to_programs_as_well(void **state)
{
    char text[400];
    (void)state;
    struct bt_storage_config c = config();
    struct bt_storage *s = opened(&c);
    assert_null(bt_storage_open(&c, &found, why, sizeof why));
    snprintf(text, sizeof text, "storage: %s: another process has it open", b.folder);
    assert_string_equal(why, text);
    assert_true(error.trouble == BT_STORE_DISK && error.code == EWOULDBLOCK);
    bt_storage_close(s);
    c.cluster[0] ^= 1;
    assert_null(bt_storage_open(&c, &found, why, sizeof why));
    assert_string_equal(why,
                        "storage: refused: the disk belongs to another cluster; give this member an empty disk, or "
                        "the cluster its own one");
    assert_true(error.trouble == BT_STORE_CLUSTER && error.code == 0);
    c.error = NULL; // who does not ask is not told
    assert_null(bt_storage_open(&c, &found, why, sizeof why));
    c.cluster[0] ^= 1;
    c.member_expected[5] = 1;
    assert_null(bt_storage_open(&c, &found, why, sizeof why));
    assert_string_equal(why, "storage: refused: the disk belongs to another member; give each member its own disk");
}

static void r383_a_new_disk_is_its_member_s_and_no_two_are_alike(void **state)
{
    struct bt_store_ids ids[2];
    static const uint8_t zeros[14];
    (void)state;
    for (uint16_t i = 0; i < 2; i++) {
        struct bt_storage_config c = config();
        char folder[160];
        snprintf(folder, sizeof folder, "%s/%u", b.folder, i);
        c.folder = folder;
        c.id = 0x1234;
        struct bt_storage *s = opened(&c);
        ids[i] = *bt_storage_ids(s);
        bt_storage_close(s);
        assert_memory_equal(ids[i].cluster, c.cluster, 16);
        assert_int_equal(bt_get16(ids[i].member + 14), 0x1234);
        assert_memory_not_equal(ids[i].member, zeros, sizeof zeros);
        s = opened(&c); // for good
        assert_memory_equal(&ids[i], bt_storage_ids(s), sizeof ids[i]);
        bt_storage_close(s);
        memcpy(c.member_expected, ids[i].member, 16);
        bt_storage_close(opened(&c));
    }
    assert_memory_not_equal(ids[0].member, ids[1].member, 14);
}

// Nothing said: an entry of nearly a MiB, and four MiB of operations that wait.
static void r348_what_it_holds_when_nothing_was_said(void **state)
{
    enum { LONGEST = (1 << 20) - BT_RECORD_BYTES - 8, QUEUE = 4 << 20 };
    (void)state;
    uint8_t *body = calloc(1, QUEUE + 1);
    assert_non_null(body);
    struct bt_storage_config c = config();
    struct bt_storage *s = opened(&c);
    assert_false(append(s, 1, body, QUEUE)); // before the thread runs: it is never taken
    assert_int_equal(bt_storage_count(s, BT_STORAGE_QUEUE_FULL), 1);
    for (uint64_t index = 1; index <= 3; index++) {
        assert_true(append(s, index, body, LONGEST));
    }
    assert_true(append(s, 4, body, 1000000));
    assert_false(append(s, 5, body, 100000));
    assert_int_equal(bt_storage_count(s, BT_STORAGE_QUEUE_FULL), 2);
    assert_int_equal(bt_storage_count(s, BT_STORAGE_OPERATIONS), 0);
    assert_true(bt_storage_start(s));
    struct bt_storage_completion done = awaited(s, 4);
    assert_true(done.generation == 4 && done.result == BT_STORE_DURABLE);
    assert_int_equal(bt_storage_count(s, BT_STORAGE_OPERATIONS), 4);
    assert_int_equal(bt_storage_count(s, BT_STORAGE_COMMITS), 1);
    assert_false(bt_storage_completed(s, &done)); // told once
    assert_int_equal(done.generation, 4);
    assert_true(append(s, 5, body, LONGEST + 1));
    done = awaited(s, 5);
    assert_true(done.generation == 4 && done.result == BT_STORE_FAILED);
    assert_string_equal(bt_storage_why(s), "refused operation: an entry longer than a batch");
    assert_int_equal(bt_storage_code(s), 0);
    bt_storage_close(s);
    s = opened(&c);
    assert_int_equal(found.count, 4);
    assert_int_equal(found.entry[2].length, LONGEST);
    bt_storage_close(s);
    free(body);
}

static void r372_the_first_failure_is_kept(void **state)
{
    char folder[160];
    (void)state;
    snprintf(folder, sizeof folder, "%s/m1", b.folder);
    struct bt_storage_config c = config();
    c.disk = bed_disk_open(&b, 1, folder);
    struct bt_storage *s = opened(&c);
    assert_true(bt_storage_start(s));
    assert_true(append(s, 1, (const uint8_t *)"one", 3));
    assert_int_equal(awaited(s, 1).result, BT_STORE_DURABLE);
    assert_string_equal(bt_storage_why(s), "");
    assert_int_equal(bt_storage_code(s), 0);
    atomic_store(&b.disk[1].fails, ENOSPC);
    assert_true(append(s, 2, (const uint8_t *)"two", 3));
    assert_int_equal(awaited(s, 2).result, BT_STORE_FAILED);
    assert_int_equal(bt_storage_code(s), ENOSPC);
    assert_string_equal(bt_storage_why(s), "the disk failed at segment 1, byte 0: cannot sync, error 28");
    atomic_store(&b.disk[1].fails, EIO); // what comes of it later is not why
    assert_true(append(s, 3, (const uint8_t *)"three", 5));
    bt_storage_close(s);
    bt_files_close(&b.disk[1].files);
}

int main(void)
{
#define IN_A_FOLDER(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(r376_numbers_that_are_out_of_bounds_are_said),
        IN_A_FOLDER(r365_why_a_disk_cannot_be_opened_is_told_to_programs_as_well),
        IN_A_FOLDER(r383_a_new_disk_is_its_member_s_and_no_two_are_alike),
        IN_A_FOLDER(r348_what_it_holds_when_nothing_was_said),
        IN_A_FOLDER(r372_the_first_failure_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
