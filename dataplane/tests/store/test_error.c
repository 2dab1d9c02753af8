// SPDX-License-Identifier: Apache-2.0
// Why a store cannot be opened, for people: every trouble in its own words, where and what, and
// what to do; in as much room as there is.
#include "unit.h"

#include "store/error.h"

#include <string.h>

static void is(const struct bt_store_error *e, const char *text)
{
    char out[300];
    memset(out, 'x', sizeof out);
    assert_int_equal(bt_store_error_text(e, out, sizeof out), strlen(text));
    assert_string_equal(out, text);
}

static void every_trouble_has_its_words(void **state)
{
    static const char *const words[BT_STORE_TROUBLES] = {
        [BT_STORE_FINE] = "nothing is wrong",
        [BT_STORE_DAMAGED] = "damaged; this member must not start: remove its disk and add a new member",
        [BT_STORE_CLUSTER] =
            "refused: the disk belongs to another cluster; give this member an empty disk, or the cluster "
            "its own one",
        [BT_STORE_MEMBER] = "refused: the disk belongs to another member; give each member its own disk",
        [BT_STORE_POLICY] = "refused: storage Volatile over a durable log; remove the disk's files, or keep Always",
        [BT_STORE_VERSION] = "refused: written by another version of the format; start the release that wrote it",
        [BT_STORE_ROOM] = "more on the disk than there is room for",
        [BT_STORE_DISK] = "the disk failed",
        [BT_STORE_REFUSED] = "refused operation",
    };
    (void)state;
    for (int t = 0; t < BT_STORE_TROUBLES; t++) {
        is(&(struct bt_store_error){.trouble = (enum bt_store_trouble)t}, words[t]);
    }
}

static void where_and_what_and_how(void **state)
{
    (void)state;
    struct bt_store_error e = {.trouble = BT_STORE_DISK, .file = {.number = 0, .kind = BT_DISK_SEGMENT}};
    is(&e, "the disk failed at segment 0, byte 0");
    e.file = (struct bt_disk_file){.number = UINT64_MAX, .kind = BT_DISK_SNAPSHOT};
    e.byte = 10;
    is(&e, "the disk failed at snapshot 18446744073709551615, byte 10");
    e.what = "cannot do";
    is(&e, "the disk failed at snapshot 18446744073709551615, byte 10: cannot do");
    e.code = 107;
    is(&e, "the disk failed at snapshot 18446744073709551615, byte 10: cannot do, error 107");
    e.file.kind = 0; // none in particular
    is(&e, "the disk failed: cannot do, error 107");
    e.what = NULL;
    is(&e, "the disk failed, error 107");
}

static void in_as_much_room_as_there_is(void **state)
{
    static const char text[] = "the disk failed at segment 7, byte 512, error 5";
    const struct bt_store_error e = {
        .trouble = BT_STORE_DISK, .file = {.number = 7, .kind = BT_DISK_SEGMENT}, .byte = 512, .code = 5};
    (void)state;
    for (size_t room = 0; room < sizeof text + 3; room++) {
        char out[sizeof text + 8];
        size_t most = room == 0 ? 0 : room - 1 < sizeof text - 1 ? room - 1 : sizeof text - 1;
        memset(out, 'x', sizeof out);
        assert_int_equal(bt_store_error_text(&e, out, room), most);
        assert_memory_equal(out, text, most);
        assert_int_equal(out[most], room == 0 ? 'x' : '\0');
        assert_int_equal(out[most + 1], 'x');
    }
}

// What comes after the first trouble follows from it.
static void the_first_trouble_is_kept(void **state)
{
    struct bt_store_error e = {.trouble = BT_STORE_FINE};
    const struct bt_store_error first = {.trouble = BT_STORE_DAMAGED, .byte = 5},
                                second = {.trouble = BT_STORE_DISK, .code = 5};
    (void)state;
    assert_false(bt_store_trouble(&e, &first));
    assert_false(bt_store_trouble(&e, &second));
    assert_true(e.trouble == BT_STORE_DAMAGED && e.byte == 5 && e.code == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_trouble_has_its_words),
        cmocka_unit_test(where_and_what_and_how),
        cmocka_unit_test(in_as_much_room_as_there_is),
        cmocka_unit_test(the_first_trouble_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
