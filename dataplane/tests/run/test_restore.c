// SPDX-License-Identifier: Apache-2.0
// A copy of a member's disk, and the first disk of another group made from one: what clients wrote is
// there, what the old group said of itself is not, and what is no disk is refused.
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "run/command.h"
#include "run/restore.h"
#include "run/roster.h"
#include "run/state.h"
#include "run/storage.h"

static char dir[64], from[96], to[96], why[512];
static uint8_t old_cluster[16] = {1, 2, 3}, new_cluster[16] = {9, 8, 7};
static const struct bt_restore_as as = {{9, 8, 7}, 1};

static int begin(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bobtail-restore-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    snprintf(from, sizeof from, "%s/from", dir);
    snprintf(to, sizeof to, "%s/to", dir);
    return 0;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static struct bt_storage *disk(const char *folder, const uint8_t cluster[16], uint16_t id, struct bt_recovery *found)
{
    struct bt_storage_config c = {.folder = folder, .id = id, .policy = BT_STORE_ALWAYS};
    c.first =
        (struct bt_group_config){.count = 3, .member = {{4, BT_GROUP_VOTER}, {5, BT_GROUP_VOTER}, {6, BT_GROUP_VOTER}}};
    memcpy(c.cluster, cluster, 16);
    struct bt_storage *s = bt_storage_open(&c, found, why, sizeof why);
    if (s == NULL) {
        print_message("%s\n", why);
    }
    assert_non_null(s);
    return s;
}

static uint64_t generation;

static void give(struct bt_storage *s, struct bt_store_op op)
{
    op.generation = ++generation;
    assert_true(bt_storage_give(s, &op));
}

static struct bt_entry command(uint8_t *room, uint64_t index, const struct bt_command *c)
{
    return (struct bt_entry){
        .index = index, .term = 7, .kind = BT_ENTRY_COMMAND, .body = room, .length = bt_command_put(room, 256, c)};
}

// Entry `index`: a write that says which it is, or what a group says of itself.
static void append(struct bt_storage *s, uint64_t index, enum bt_command_kind kind)
{
    uint8_t room[256], text[32];
    struct bt_command c = {.kind = (uint8_t)kind, .id = 5, .disk = 77, .body = text};
    c.n = (uint32_t)snprintf((char *)text, sizeof text, "write %d", (int)index);
    c.member = c.client = bt_addr_v4u(0x0a000001, 8100);
    c.config = (struct bt_group_config){.count = 1, .member = {{4, BT_GROUP_VOTER}}};
    struct bt_entry e = command(room, index, &c);
    give(s, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {&e, 1}});
}

static void append_config(struct bt_storage *s, uint64_t index)
{
    uint8_t room[256];
    struct bt_group_config c = {.count = 2, .member = {{4, BT_GROUP_VOTER}, {5, BT_GROUP_VOTER}}};
    struct bt_entry e = {.index = index,
                         .term = 7,
                         .kind = BT_ENTRY_CONFIG,
                         .body = room,
                         .length = (uint32_t)bt_group_config_encode(room, sizeof room, &c)};
    give(s, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {&e, 1}});
}

// The state of a member at `index`, with the roster of the old group, no sessions, and "state" of the service.
static uint64_t old_state(uint8_t *p, size_t room, uint64_t index)
{
    static struct bt_roster r;
    struct bt_group_config c = {.count = 1, .member = {{4, BT_GROUP_VOTER}}};
    memset(&r, 0, sizeof r);
    bt_roster_config(&r, 1, &c);
    bt_roster_register(&r, 2, 4, 4444);
    r.formed = true;
    size_t n = bt_roster_write(&r, p + BT_STATE_HEAD, room - BT_STATE_HEAD);
    memset(p, 0, BT_STATE_HEAD);
    bt_put32(p, BT_STATE_MAGIC);
    bt_put32(p + 4, BT_STATE_VERSION);
    memcpy(p + 8, old_cluster, 16);
    bt_put64(p + 24, index);
    bt_put32(p + 32, (uint32_t)n);
    memcpy(p + BT_STATE_HEAD + n, "state", 5);
    return BT_STATE_HEAD + n + 5;
}

// What a member that ran leaves: 200 entries, and behind a snapshot at 100 those that follow it.
static void lived(bool with_snapshot)
{
    struct bt_recovery nothing;
    uint8_t state[1024];
    struct bt_storage *s = disk(from, old_cluster, 4, &nothing);
    assert_true(bt_storage_start(s));
    generation = 0;
    give(s, (struct bt_store_op){.kind = BT_STORE_HARD_STATE, .hard_state = {.term = 9, .vote = 5}});
    for (uint64_t i = 1; i <= 200; i++) {
        switch (i % 50) {
        case 10:
            append_config(s, i);
            break;
        case 11:
            append(s, i, BT_COMMAND_REGISTER);
            break;
        case 12:
            append(s, i, BT_COMMAND_ADDRESS);
            break;
        case 13:
            append(s, i, BT_COMMAND_FORMED);
            break;
        default:
            append(s, i, BT_COMMAND_WRITE);
        }
    }
    if (with_snapshot) {
        struct bt_group_config c = {.count = 2, .member = {{4, BT_GROUP_VOTER}, {5, BT_GROUP_VOTER}}};
        uint64_t n = old_state(state, sizeof state, 100);
        give(s, (struct bt_store_op){.kind = BT_STORE_SNAPSHOT, .snapshot = {100, 7, c, state, n}});
        give(s, (struct bt_store_op){.kind = BT_STORE_COMPACT, .to = 100});
    }
    bt_storage_close(s);
}

// Every entry behind `first`: writes as they were, of the group itself nothing.
static void are_writes_alone(const struct bt_recovery *found, uint64_t first)
{
    uint64_t next = first + 1;
    for (uint64_t i = 0; i < found->count; i++) {
        const struct bt_entry *e = &found->entry[i];
        struct bt_command c;
        char text[32];
        if (e->index <= first) {
            continue;
        }
        assert_int_equal(e->index, next++);
        assert_int_equal(e->term, 7);
        if (e->index % 50 >= 10 && e->index % 50 <= 13) {
            assert_int_equal(e->kind, BT_ENTRY_NOOP);
            assert_int_equal(e->length, 0);
            continue;
        }
        assert_true(e->kind == BT_ENTRY_COMMAND && bt_command_get(e->body, e->length, &c));
        int n = snprintf(text, sizeof text, "write %d", (int)e->index);
        assert_true(c.kind == BT_COMMAND_WRITE && c.n == (uint32_t)n && memcmp(c.body, text, (size_t)n) == 0);
    }
    assert_int_equal(next, 201);
}

static void restored(bool with_snapshot)
{
    struct bt_restored done;
    struct bt_recovery found;
    lived(with_snapshot);
    if (!bt_disk_restore(from, to, &as, &done, why, sizeof why)) {
        fail_msg("%s", why);
    }
    assert_int_equal(done.last_index, 200);
    assert_int_equal(done.last_term, 7);
    assert_int_equal(done.snapshot_index, with_snapshot ? 100 : 0);
    struct bt_storage *s = disk(to, new_cluster, 1, &found);
    const struct bt_store_ids *ids = bt_storage_ids(s);
    assert_int_equal(bt_get16(ids->member + 14), 1);
    assert_int_equal(found.hard_state.term, 10); // above all that the old group knew
    assert_int_equal(found.hard_state.vote, 0);
    assert_true(found.snapshot.config.count == 1 && found.snapshot.config.member[0].id == 1 &&
                found.snapshot.config.member[0].role == BT_GROUP_VOTER);
    are_writes_alone(&found, with_snapshot ? 100 : 0);
    if (with_snapshot) {
        static struct bt_roster r;
        const uint8_t *p = found.snapshot.bytes;
        uint64_t n = bt_get32(p + 32);
        assert_memory_equal(p + 8, new_cluster, 16);
        assert_int_equal(bt_get64(p + 24), 100);
        memset(&r, 0, sizeof r);
        assert_int_equal(bt_roster_read(&r, p + BT_STATE_HEAD, n), n);
        assert_true(r.count == 1 && r.row[0].id == 1 && r.row[0].member && !r.row[0].registered && !r.formed);
        assert_int_equal(found.snapshot.length, BT_STATE_HEAD + n + 5);
        assert_memory_equal(p + BT_STATE_HEAD + n, "state", 5);
    }
    bt_storage_close(s);
    s = disk(from, old_cluster, 4, &found); // the one it came from is as it was
    assert_int_equal(found.hard_state.term, 9);
    bt_storage_close(s);
}

static void r390_a_log_goes_on_in_another_group(void **state)
{
    (void)state;
    restored(false);
}

static void r390_a_snapshot_goes_on_in_another_group(void **state)
{
    (void)state;
    restored(true);
}

static void r389_a_copy_is_the_same_disk(void **state)
{
    struct bt_restored done;
    struct bt_recovery found;
    (void)state;
    lived(true);
    assert_true(bt_disk_copy(from, to, &done, why, sizeof why));
    assert_true(done.last_index == 200 && done.snapshot_index == 100);
    struct bt_storage *s = disk(to, old_cluster, 4, &found);
    assert_int_equal(found.hard_state.term, 9);
    assert_int_equal(found.hard_state.vote, 5);
    assert_int_equal(found.entry[found.count - 1].index, 200);
    bt_storage_close(s);
}

static void r389_a_copy_is_taken_while_the_member_writes(void **state)
{
    struct bt_restored done = {.last_index = 0};
    struct bt_recovery nothing;
    (void)state;
    lived(false);
    struct bt_storage *s = disk(from, old_cluster, 4, &nothing);
    assert_true(bt_storage_start(s));
    generation = 0;
    uint64_t index = 201;
    for (int copy = 0; copy < 5; copy++) {
        for (int i = 0; i < 40; i++) {
            append(s, index++, BT_COMMAND_WRITE);
        }
        snprintf(to, sizeof to, "%s/copy-%d", dir, copy);
        if (!bt_disk_copy(from, to, &done, why, sizeof why)) {
            fail_msg("%s", why);
        }
        assert_true(done.last_index >= 200 && done.last_index < index);
    }
    bt_storage_close(s);
}

// A byte of each: the snapshot made a new one, and the one before may be there still, which nobody reads any more.
static unsigned damage_segments(void)
{
    unsigned n = 0;
    for (int i = 1; i < 10; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/segment-%020d", from, i);
        FILE *f = fopen(path, "r+");
        if (f != NULL) {
            assert_int_equal(fseek(f, 100, SEEK_SET), 0);
            assert_int_equal(fputc('x', f), 'x');
            assert_int_equal(fclose(f), 0);
            n++;
        }
    }
    return n;
}

static void r389_what_is_no_disk_is_refused(void **state)
{
    struct bt_restored done;
    (void)state;
    assert_false(bt_disk_copy(from, to, &done, why, sizeof why));
    assert_int_equal(access(to, F_OK), -1);
    lived(true);
    assert_true(bt_disk_copy(from, to, &done, why, sizeof why));
    assert_false(bt_disk_copy(from, to, &done, why, sizeof why)); // nothing is written over
    assert_non_null(strstr(why, "is there already"));
    assert_false(bt_disk_restore(from, to, &as, &done, why, sizeof why));
    assert_true(damage_segments() > 0);
    snprintf(to, sizeof to, "%s/another", dir);
    assert_false(bt_disk_restore(from, to, &as, &done, why, sizeof why));
    assert_int_equal(access(to, F_OK), -1);
}

static void not_copied(const char *target, const char *format, const char *about)
{
    struct bt_restored done;
    char text[300];
    assert_false(bt_disk_copy(from, target, &done, why, sizeof why));
    snprintf(text, sizeof text, format, about);
    assert_string_equal(why, text);
    assert_int_equal(access(target, F_OK), -1);
}

// why, and of which folder.
static void r389_what_cannot_be_copied_is_told(void **state)
{
    char nowhere[140], part[160];
    (void)state;
    not_copied(to, "%s: No such file or directory", from);
    assert_int_equal(mkdir(from, 0700), 0);
    not_copied(to, "%s: holds no log of a member", from);
    assert_int_equal(rmdir(from), 0);
    lived(false);
    snprintf(nowhere, sizeof nowhere, "%s/none/to", dir);
    snprintf(part, sizeof part, "%s.part", nowhere);
    not_copied(nowhere, "%s: No such file or directory", part);
}

// a snapshot that no member wrote begins no group, and leaves nothing in the new disk's place.
static void r390_a_snapshot_that_is_no_state_begins_no_group(void **state)
{
    struct bt_restored done;
    struct bt_recovery nothing;
    char path[120], text[160];
    (void)state;
    struct bt_storage *s = disk(from, old_cluster, 4, &nothing);
    struct bt_group_config c = {.count = 1, .member = {{4, BT_GROUP_VOTER}}};
    assert_true(bt_storage_start(s));
    generation = 0;
    give(s, (struct bt_store_op){.kind = BT_STORE_SNAPSHOT, .snapshot = {100, 7, c, (const uint8_t *)"nonsense", 8}});
    bt_storage_close(s);
    assert_false(bt_disk_restore(from, to, &as, &done, why, sizeof why));
    snprintf(text, sizeof text, "%s.part: cannot be written", to);
    assert_string_equal(why, text);
    assert_int_equal(access(to, F_OK), -1);
    snprintf(path, sizeof path, "%s.from", to); // the copy that it was to be made of
    assert_int_equal(access(path, F_OK), -1);
    s = disk(from, old_cluster, 4, &nothing);
    assert_int_equal(nothing.snapshot.last_index, 100);
    bt_storage_close(s);
}

static void is_as_old(const char *name, long ago)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    struct timespec then[2] = {{.tv_sec = time(NULL) - ago}, {.tv_sec = time(NULL) - ago}};
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

// A copy of `from` with this name, made so many seconds ago.
static void copy_made(const char *name, long ago)
{
    char path[128];
    struct bt_restored found;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_true(bt_disk_copy(from, path, &found, why, sizeof why));
    is_as_old(name, ago);
}

static bool is_there(const char *name)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &st) == 0;
}

static void a_disk_of(const uint8_t cluster[16], const char *folder)
{
    struct bt_recovery found;
    struct bt_storage *s = disk(folder, cluster, 5, &found);
    assert_true(bt_storage_start(s));
    generation = 0;
    append(s, 1, BT_COMMAND_WRITE);
    bt_storage_close(s);
}

// the oldest copies of this group go; what is another group's, unfinished, or no copy stays.
static void r389_old_copies_make_room(void **state)
{
    char path[128], newest[128];
    unsigned removed = 9;
    (void)state;
    a_disk_of(new_cluster, from);
    copy_made("other", 1000);
    assert_int_equal(rename(from, to), 0);
    a_disk_of(old_cluster, from);
    copy_made("a", 500);
    copy_made("b", 300); // a name says nothing of its age
    copy_made("d", 100);
    copy_made("c", 0);
    copy_made("e", 400);
    snprintf(path, sizeof path, "%s/a", dir);
    snprintf(newest, sizeof newest, "%s/f.part", dir);
    assert_int_equal(rename(path, newest), 0);
    snprintf(path, sizeof path, "%s/strangers", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(newest, sizeof newest, "%s/link", dir);
    snprintf(path, sizeof path, "%s/e", dir);
    assert_int_equal(symlink(path, newest), 0);
    snprintf(newest, sizeof newest, "%s/c", dir);
    assert_true(bt_disk_prune(newest, 100, &removed, why, sizeof why));
    assert_int_equal(removed, 0);
    assert_true(bt_disk_prune(newest, 3, &removed, why, sizeof why)); // `from` is a disk of this group, too
    assert_int_equal(removed, 2);
    assert_true(is_there("c") && is_there("from") && is_there("d"));
    assert_false(is_there("b") || is_there("e"));
    assert_true(is_there("other") && is_there("to") && is_there("f.part") && is_there("strangers") && is_there("link"));
}

// what is no copy, and a copy in which somebody keeps a file, are told, and nothing of others is removed.
static void r389_what_cannot_make_room_is_told(void **state)
{
    char path[128];
    unsigned removed = 9;
    (void)state;
    a_disk_of(old_cluster, from);
    copy_made("old", 10);
    copy_made("new", 0);
    snprintf(path, sizeof path, "%s/old/mine", dir);
    fclose(fopen(path, "w"));
    is_as_old("old", 10);
    snprintf(path, sizeof path, "%s/new", dir);
    assert_false(bt_disk_prune(path, 1, &removed, why, sizeof why));
    assert_non_null(strstr(why, "/old: "));
    assert_int_equal(removed, 1); // `from`
    assert_true(is_there("old/mine"));
    snprintf(path, sizeof path, "%s/none", dir);
    assert_false(bt_disk_prune(path, 1, &removed, why, sizeof why));
    assert_non_null(strstr(why, "no segment"));
    assert_false(bt_disk_prune("/", 1, &removed, why, sizeof why));
}

static void r390_bytes_that_are_no_state(void **state)
{
    uint8_t p[1024];
    uint64_t length;
    (void)state;
    uint64_t n = old_state(p, sizeof p, 5);
    for (uint64_t cut = 0; cut < BT_STATE_HEAD; cut++) {
        assert_null(bt_restore_state(p, cut, new_cluster, 1, &length));
    }
    bt_put32(p + 32, (uint32_t)(n - BT_STATE_HEAD + 1)); // a roster longer than all there is
    assert_null(bt_restore_state(p, n, new_cluster, 1, &length));
    p[0] ^= 1;
    assert_null(bt_restore_state(p, n, new_cluster, 1, &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(r390_a_log_goes_on_in_another_group, begin, end),
        cmocka_unit_test_setup_teardown(r390_a_snapshot_goes_on_in_another_group, begin, end),
        cmocka_unit_test_setup_teardown(r389_a_copy_is_the_same_disk, begin, end),
        cmocka_unit_test_setup_teardown(r389_a_copy_is_taken_while_the_member_writes, begin, end),
        cmocka_unit_test_setup_teardown(r389_what_is_no_disk_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(r389_what_cannot_be_copied_is_told, begin, end),
        cmocka_unit_test_setup_teardown(r390_a_snapshot_that_is_no_state_begins_no_group, begin, end),
        cmocka_unit_test_setup_teardown(r389_old_copies_make_room, begin, end),
        cmocka_unit_test_setup_teardown(r389_what_cannot_make_room_is_told, begin, end),
        cmocka_unit_test(r390_bytes_that_are_no_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
