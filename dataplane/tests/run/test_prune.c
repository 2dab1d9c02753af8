// SPDX-License-Identifier: Apache-2.0
// Copies of a disk beside one another: how old they are to the nanosecond, what stands in their way, and what a
// crash left of one.
#include "bed.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/disk_folder.h"
#include "run/restore.h"

static struct bed b;
static char why[1200];
static struct bt_restored found;
static unsigned removed;

static const char *path_of(const char *name)
{
    static char paths[4][200];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", b.folder, name);
    return p;
}

// A bed whose member 1 has stopped, and left a disk.
static int begin(void **state)
{
    (void)state;
    bed_open(&b, 1, 1);
    bed_stop(&b, 1);
    removed = 9;
    return 0;
}

static int end(void **state)
{
    char command[200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s/*", b.folder);
    int failed = system(command);
    bed_close(&b);
    return failed;
}

static void copy_made(const char *name, long second, long nanosecond)
{
    struct timespec then[2] = {{second, nanosecond}, {second, nanosecond}};
    if (!bt_disk_copy(path_of("m1"), path_of(name), &found, why, sizeof why)) {
        fail_msg("%s", why);
    }
    assert_int_equal(utimensat(AT_FDCWD, path_of(name), then, 0), 0);
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void r389_the_older_one_goes_however_little_older_it_is(void **state)
{
    static const struct {
        long at[2][2]; // seconds and nanoseconds of "a" and "b"
        bool a_goes;
    } rows[] = {{{{50, 5}, {50, 6}}, true},  {{{50, 6}, {50, 5}}, false}, {{{49, 9}, {50, 1}}, true},
                {{{50, 1}, {49, 9}}, false}, {{{50, 0}, {51, 0}}, true},  {{{51, 0}, {50, 999999999}}, false}};
    (void)state;
    copy_made("newest", 100, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        copy_made("a", rows[i].at[0][0], rows[i].at[0][1]);
        copy_made("b", rows[i].at[1][0], rows[i].at[1][1]);
        assert_int_equal(rename(path_of("m1"), path_of("kept.part")), 0); // what is unfinished is no copy
        bool pruned = bt_disk_prune(path_of("newest"), 2, &removed, why, sizeof why);
        assert_int_equal(rename(path_of("kept.part"), path_of("m1")), 0);
        assert_true(pruned && removed == 1);
        assert_true(is_there("a") == !rows[i].a_goes && is_there("b") == rows[i].a_goes);
        assert_int_equal(rename(path_of("m1"), path_of("kept.part")), 0);
        assert_true(bt_disk_prune(path_of("newest"), 1, &removed, why, sizeof why));
        assert_int_equal(rename(path_of("kept.part"), path_of("m1")), 0);
        assert_true(removed == 1 && !is_there("a") && !is_there("b") && is_there("newest"));
    }
}

static void r389_copies_are_beside_the_newest_one_wherever_that_is(void **state)
{
    char home[1000], longest[1000];
    (void)state;
    copy_made("a", 50, 0);
    copy_made("newest", 100, 0);
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(b.folder), 0);
    bool pruned = bt_disk_prune("newest", 2, &removed, why, sizeof why); // where we are; "m1" is younger than "a"
    assert_int_equal(chdir(home), 0);
    assert_true(pruned && removed == 1 && !is_there("a") && is_there("m1"));
    memset(longest, 'l', sizeof longest);
    snprintf(longest + 600, sizeof longest - 600, "/newest");
    longest[0] = '/';
    assert_false(bt_disk_prune(longest, 1, &removed, why, sizeof why));
    assert_non_null(strstr(why, "/newest: no folder beside which copies could be"));
    assert_false(bt_disk_prune("folder/", 1, &removed, why, sizeof why));
    assert_string_equal(why, "folder/: no folder beside which copies could be");
    assert_int_equal(removed, 0);
}

static void an_empty_file(const char *name)
{
    int fd = open(path_of(name), O_CREAT | O_EXCL | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

// A crash leaves segments without a byte, and copies that were never finished: neither stands in the way.
static void r389_what_a_crash_left_does_not_stand_in_the_way(void **state)
{
    (void)state;
    an_empty_file("m1/segment-00000000000000000000");
    an_empty_file("m1/segment-00000000000000000099");
    an_empty_file("m1/of somebody else");
    assert_int_equal(mkdir(path_of("copy.part"), 0700), 0);
    an_empty_file("copy.part/segment-00000000000000000007");
    copy_made("copy", 100, 0);
    assert_true(is_there("copy") && !is_there("copy.part"));
    assert_false(is_there("copy/of somebody else"));
    assert_true(is_there("m1/of somebody else"));
    assert_int_equal(mkdir(path_of("to.part"), 0700), 0);
    an_empty_file("to.part/snapshot-00000000000000000007");
    assert_int_equal(mkdir(path_of("to.from"), 0700), 0);
    const struct bt_restore_as as = {{9, 8, 7}, 1};
    assert_true(bt_disk_restore(path_of("copy"), path_of("to"), &as, &found, why, sizeof why));
    assert_true(is_there("to") && !is_there("to.part") && !is_there("to.from"));
}

// What the newest file names was copied before it.
static void r389_files_are_copied_oldest_first(void **state)
{
    static const char *const names[] = {"snapshot-00000000000000000002", "segment-00000000000000000003",
                                        "segment-00000000000000000010", "snapshot-00000000000000000011"};
    struct dirent **list;
    (void)state;
    assert_int_equal(mkdir(path_of("disk"), 0700), 0);
    an_empty_file("disk/segments");
    for (int i = 3; i >= 0; i--) {
        char name[60];
        snprintf(name, sizeof name, "disk/%s", names[i]);
        an_empty_file(name);
    }
    assert_int_equal(scandir(path_of("disk"), &list, run_disk_wanted, run_disk_by_name), 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(list[i]->d_name, names[i]);
        free(list[i]);
    }
    free(list);
}

static void r389_a_process_without_standard_input_copies_as_well(void **state)
{
    (void)state;
    int input = dup(STDIN_FILENO);
    assert_true(input > 0);
    close(STDIN_FILENO);
    bool copied = bt_disk_copy(path_of("m1"), path_of("copy"), &found, why, sizeof why);
    bool pruned = bt_disk_prune(path_of("copy"), 5, &removed, why, sizeof why);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
    assert_true(copied && pruned && removed == 0 && is_there("copy"));
}

// One with a stranger's file in it cannot be removed to make room: it is said, and no disk is lost.
static void r389_an_unfinished_copy_with_a_strangers_file_is_told(void **state)
{
    char text[300];
    (void)state;
    assert_int_equal(mkdir(path_of("copy.part"), 0700), 0);
    an_empty_file("copy.part/mine");
    assert_false(bt_disk_copy(path_of("m1"), path_of("copy"), &found, why, sizeof why));
    snprintf(text, sizeof text, "%s: %s", path_of("copy.part"), strerror(EEXIST));
    assert_string_equal(why, text);
    assert_true(is_there("copy.part/mine") && !is_there("copy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(r389_the_older_one_goes_however_little_older_it_is, begin, end),
        cmocka_unit_test_setup_teardown(r389_copies_are_beside_the_newest_one_wherever_that_is, begin, end),
        cmocka_unit_test_setup_teardown(r389_what_a_crash_left_does_not_stand_in_the_way, begin, end),
        cmocka_unit_test_setup_teardown(r389_files_are_copied_oldest_first, begin, end),
        cmocka_unit_test_setup_teardown(r389_a_process_without_standard_input_copies_as_well, begin, end),
        cmocka_unit_test_setup_teardown(r389_an_unfinished_copy_with_a_strangers_file_is_told, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
