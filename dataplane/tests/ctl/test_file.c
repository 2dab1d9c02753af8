// SPDX-License-Identifier: Apache-2.0
// Documents in files: how large they may be, how one takes the place of another, and what is said when it cannot.
#include "unit.h"

#include "ctl/config.h"
#include "ctl/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96];
static struct bt_ctl_error error;

static int make_folder(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bobtail-file-XXXXXX");
    bool made = mkdtemp(dir) != NULL;
    snprintf(path, sizeof path, "%s/document", dir);
    return made ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir); // nothing else was left behind
}

static void a_document_has_room_for_a_mebibyte(void **state)
{
    size_t len = 7;
    (void)state;
    assert_null(bt_file_read(path, &len, &error));
    assert_string_equal(error.code, "InvalidConfig");
    assert_non_null(strstr(error.message, "/document: No such file or directory"));
    assert_int_equal(len, 7);
    assert_null(bt_file_read(dir, &len, &error));
    assert_non_null(strstr(error.message, ": Is a directory"));
    char *text = malloc(BT_CONFIG_BYTES_MAX + 1);
    memset(text, 'x', BT_CONFIG_BYTES_MAX + 1);
    text[BT_CONFIG_BYTES_MAX - 1] = 'z';
    assert_true(bt_file_replace(path, text, BT_CONFIG_BYTES_MAX, &error));
    char *read = bt_file_read(path, &len, &error);
    assert_non_null(read);
    assert_int_equal(len, BT_CONFIG_BYTES_MAX);
    assert_memory_equal(read, text, len);
    free(read);
    assert_true(bt_file_replace(path, text, BT_CONFIG_BYTES_MAX + 1, &error));
    assert_null(bt_file_read(path, &len, &error));
    assert_non_null(strstr(error.message, "/document: is larger than 1 MiB"));
    assert_true(bt_file_replace(path, "", 0, &error)); // takes its place
    read = bt_file_read(path, &len, &error);
    assert_non_null(read);
    assert_int_equal(len, 0);
    free(read);
    free(text);
}

static void a_file_is_replaced_whole_or_stays(void **state)
{
    char far[1100], nowhere[120], full[96];
    struct stat st;
    (void)state;
    mode_t mask = umask(0);
    assert_true(bt_file_replace(path, "old", 3, &error));
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    memset(far, 'x', sizeof far);
    far[1020] = '\0'; // with ".new" it is one too long
    assert_false(bt_file_replace(far, "new", 3, &error));
    assert_string_equal(error.code, "Internal");
    assert_non_null(strstr(error.message, "xxx: the path is too long"));
    snprintf(nowhere, sizeof nowhere, "%s/none/document", dir);
    assert_false(bt_file_replace(nowhere, "new", 3, &error));
    assert_non_null(strstr(error.message, "/none/document: No such file or directory"));
    assert_int_equal(strncmp(error.message, "cannot write ", 13), 0);
    snprintf(full, sizeof full, "%s/folder", dir);
    assert_int_equal(mkdir(full, 0700), 0);
    assert_false(bt_file_replace(full, "new", 3, &error)); // written, but it cannot take that place
    assert_non_null(strstr(error.message, "/folder: Is a directory"));
    assert_int_equal(rmdir(full), 0);
}

static void only_so_much_is_read_of_a_memfd(void **state)
{
    (void)state;
    int fd = memfd_create("document", MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, "12345", 5), 5);
    assert_null(bt_memfd_read(fd, 5, &error));
    assert_string_equal(error.field, "memfd");
    assert_string_equal(error.message, "must be a memfd sealed against write, shrink and grow");
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    assert_null(bt_memfd_read(fd, 5, &error));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    assert_null(bt_memfd_read(fd, 6, &error));
    assert_string_equal(error.field, "size");
    assert_string_equal(error.message, "the memfd holds fewer than 6 bytes");
    for (size_t n = 4; n <= 5; n++) {
        char *text = bt_memfd_read(fd, n, &error);
        assert_non_null(text);
        assert_memory_equal(text, "12345", n);
        free(text);
    }
    close(fd);
    assert_null(bt_memfd_read(fd, 5, &error));
    assert_string_equal(error.field, "memfd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_document_has_room_for_a_mebibyte, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_file_is_replaced_whole_or_stays, make_folder, drop_folder),
        cmocka_unit_test(only_so_much_is_read_of_a_memfd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
