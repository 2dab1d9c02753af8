// SPDX-License-Identifier: Apache-2.0
// A member's folder: which files are kept open, what each operation returns where the system refuses it,
// and that nothing stays open behind it.
#include "descriptors.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/files.h"

static char dir[64], why[5000];
static struct bt_files f;
static int before; // descriptors that were open

static int begin(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bobtail-files-XXXXXX");
    before = descriptors();
    return mkdtemp(dir) == NULL || !bt_files_open(&f, dir, why, sizeof why);
}

static int end(void **state)
{
    char command[100];
    (void)state;
    bt_files_close(&f);
    assert_int_equal(descriptors(), before);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static struct bt_disk_file segment(uint64_t number)
{
    return (struct bt_disk_file){.number = number, .kind = BT_DISK_SEGMENT};
}

static int create(uint64_t number)
{
    return f.disk.ops->create(&f.disk, segment(number));
}

static int write_to(uint64_t number, const char *text)
{
    return f.disk.ops->write(&f.disk, segment(number), 2, (const uint8_t *)text, (uint32_t)strlen(text));
}

static int read_from(uint64_t number, uint32_t *got)
{
    uint8_t p[16];
    return f.disk.ops->read(&f.disk, segment(number), 0, p, sizeof p, got);
}

static int sync_it(uint64_t number)
{
    return f.disk.ops->sync(&f.disk, segment(number));
}

static char *path_of(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static char *path_of_segment(uint64_t number)
{
    char name[40];
    snprintf(name, sizeof name, "segment-%020d", (int)number);
    return path_of(name);
}

static void r365_four_files_are_kept_open_those_used_last(void **state)
{
    uint32_t got;
    (void)state;
    assert_int_equal(descriptors(), before + 1);
    for (uint64_t number = 1; number <= BT_FILES_OPEN; number++) {
        assert_int_equal(create(number), 0);
        assert_int_equal(descriptors(), before + 1 + (int)number);
    }
    assert_int_equal(create(5), 0); // in the place of the first one
    assert_int_equal(descriptors(), before + 1 + BT_FILES_OPEN);
    for (uint64_t number = 1; number <= 5; number++) {
        assert_int_equal(unlink(path_of_segment(number)), 0);
    }
    for (uint64_t number = 2; number <= 5; number++) { // without its name, a file that is open is still the same
        assert_int_equal(write_to(number, "abc"), 0);
        assert_int_equal(sync_it(number), 0);
        assert_int_equal(read_from(number, &got), 0);
        assert_int_equal(got, 5);
    }
    assert_int_equal(write_to(1, "abc"), ENOENT);
    assert_int_equal(f.disk.ops->remove(&f.disk, segment(3)), ENOENT); // and it is closed all the same
    assert_int_equal(descriptors(), before + BT_FILES_OPEN);
    assert_int_equal(write_to(3, "abc"), ENOENT);
    assert_int_equal(write_to(4, "abc"), 0);
}

static void r365_every_descriptor_ends_with_the_process_image(void **state)
{
    struct stat st;
    (void)state;
    assert_int_equal(create(1), 0);
    assert_int_equal(fcntl(f.folder, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(f.open[0].fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(stat(path_of_segment(1), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); // a client's bytes are nobody else's
}

static void r365_names_are_read_back_as_they_were_written(void **state)
{
    const struct bt_disk_file snapshot = {.number = UINT64_C(12345678901234567890), .kind = BT_DISK_SNAPSHOT};
    struct bt_disk_file found[3];
    uint64_t bytes = 9;
    uint32_t n = 9;
    (void)state;
    assert_int_equal(create(7), 0);
    assert_int_equal(f.disk.ops->create(&f.disk, snapshot), 0);
    assert_int_equal(access(path_of("snapshot-12345678901234567890"), F_OK), 0);
    assert_int_equal(f.disk.ops->list(&f.disk, found, 1, &n), E2BIG);
    assert_int_equal(f.disk.ops->list(&f.disk, found, 2, &n), 0); // as many as there are
    assert_int_equal(n, 2);
    unsigned s = found[0].kind == BT_DISK_SEGMENT ? 0 : 1;
    assert_true(found[s].kind == BT_DISK_SEGMENT && found[s].number == 7);
    assert_true(found[1 - s].kind == BT_DISK_SNAPSHOT && found[1 - s].number == snapshot.number);
    assert_int_equal(f.disk.ops->size(&f.disk, snapshot, &bytes), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(write_to(7, "abc"), 0);
    assert_int_equal(f.disk.ops->size(&f.disk, segment(7), &bytes), 0);
    assert_int_equal(bytes, 5);
    assert_int_equal(f.disk.ops->sync_names(&f.disk), 0);
}

static void r372_what_is_not_there_is_told(void **state)
{
    uint64_t bytes;
    uint32_t got = 9;
    (void)state;
    assert_int_equal(write_to(1, "abc"), ENOENT);
    assert_int_equal(sync_it(1), ENOENT);
    assert_int_equal(read_from(1, &got), ENOENT);
    assert_int_equal(got, 0);
    assert_int_equal(f.disk.ops->size(&f.disk, segment(1), &bytes), ENOENT);
    assert_int_equal(f.disk.ops->remove(&f.disk, segment(1)), ENOENT);
    assert_int_equal(mkdir(path_of_segment(2), 0700), 0); // nor is a folder a file, or a link what it names
    assert_int_equal(f.disk.ops->size(&f.disk, segment(2), &bytes), EINVAL);
    assert_int_equal(write_to(2, "abc"), EISDIR);
    assert_int_equal(symlink("/etc/passwd", path_of_segment(3)), 0);
    assert_int_equal(f.disk.ops->size(&f.disk, segment(3), &bytes), EINVAL);
    assert_int_equal(read_from(3, &got), ELOOP);
    assert_int_equal(descriptors(), before + 1);
}

// In the place of a descriptor that is kept open, one of another kind.
static void put_in_place(int fd, const char *path, int flags)
{
    int other = open(path, flags);
    assert_true(other >= 0);
    assert_int_equal(dup2(other, fd), fd);
    close(other);
}

static void r372_what_the_system_refuses_is_told(void **state)
{
    struct bt_disk_file found[4];
    uint32_t got, n = 9;
    (void)state;
    assert_int_equal(create(1), 0);
    assert_int_equal(write_to(1, "abc"), 0);
    put_in_place(f.open[0].fd, path_of_segment(1), O_RDONLY);
    assert_int_equal(write_to(1, "abc"), EBADF);
    assert_int_equal(read_from(1, &got), 0);
    put_in_place(f.open[0].fd, path_of_segment(1), O_WRONLY);
    assert_int_equal(read_from(1, &got), EBADF);
    assert_int_equal(got, 0);
    put_in_place(f.open[0].fd, "/dev/null", O_RDWR);
    assert_int_equal(sync_it(1), EINVAL);
    put_in_place(f.folder, "/dev/null", O_RDONLY);
    assert_int_equal(f.disk.ops->sync_names(&f.disk), EINVAL);
    assert_int_equal(f.disk.ops->list(&f.disk, found, 4, &n), ENOTDIR);
    assert_int_equal(n, 0);
    assert_int_equal(create(2), ENOTDIR);
    assert_int_equal(descriptors(), before + 2);
}

static void r372_a_process_without_descriptors_is_told(void **state)
{
    struct bt_disk_file found[4];
    struct rlimit was, none;
    uint32_t n = 9;
    (void)state;
    assert_int_equal(create(1), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = (rlim_t)f.folder + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int created = create(2), listed = f.disk.ops->list(&f.disk, found, 4, &n), written = write_to(1, "abc");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(created, EMFILE);
    assert_int_equal(listed, EMFILE);
    assert_int_equal(written, 0);
    assert_int_equal(n, 0);
    assert_int_equal(create(2), 0);
}

// Of a program without a standard input the first descriptor is a file like any other.
static void r365_a_process_without_standard_input_has_files_as_well(void **state)
{
    uint32_t got = 0;
    (void)state;
    int input = dup(STDIN_FILENO);
    assert_true(input > 0);
    close(STDIN_FILENO);
    int created = create(1), written = write_to(1, "abc"), read_back = read_from(1, &got), synced = sync_it(1);
    int first = f.open[0].fd;
    f.disk.ops->remove(&f.disk, segment(1));
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
    assert_int_equal(first, STDIN_FILENO);
    assert_true(created == 0 && written == 0 && read_back == 0 && got == 5 && synced == 0);
}

/* --- opening a folder --- */

static void not_opened(const char *path, int code)
{
    struct bt_files other;
    char text[sizeof why];
    int open_before = descriptors();
    assert_false(bt_files_open(&other, path, why, sizeof why));
    assert_int_equal(errno, code);
    snprintf(text, sizeof text, "storage: %s: %s", path,
             code == EWOULDBLOCK ? "another process has it open" : strerror(code));
    assert_string_equal(why, text);
    assert_int_equal(descriptors(), open_before);
}

static void r365_a_folder_that_cannot_be_opened_says_why(void **state)
{
    (void)state;
    not_opened(dir, EWOULDBLOCK);
    not_opened(path_of("no/such"), ENOENT);
    assert_int_equal(create(1), 0);
    not_opened(path_of_segment(1), ENOTDIR);
    static char deep[1200];
    size_t n = (size_t)snprintf(deep, sizeof deep, "%s", dir);
    while (n < 1024) { // a parent whose name is longer than there is room for
        assert_true(n + 202 < sizeof deep);
        memset(deep + n, 'd', 200);
        deep[n] = '/';
        n += 200;
        deep[n] = '\0';
        assert_int_equal(mkdir(deep, 0700), 0);
    }
    strcpy(deep + n, "/x");
    not_opened(deep, ENAMETOOLONG);
}

static void r365_a_folder_is_made_where_its_parent_is(void **state)
{
    struct bt_files other;
    struct stat st;
    char home[1000];
    (void)state;
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(dir), 0);
    int open_before = descriptors();
    bool opened = bt_files_open(&other, "here", why, sizeof why); // its parent is where we are
    assert_int_equal(chdir(home), 0);
    assert_true(opened);
    assert_int_equal(descriptors(), open_before + 1);
    bt_files_close(&other);
    assert_int_equal(stat(path_of("here"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_true(bt_files_open(&other, path_of("here"), why, sizeof why)); // and again: nobody holds it
    bt_files_close(&other);
}

int main(void)
{
#define IN_A_FOLDER(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(r365_four_files_are_kept_open_those_used_last),
        IN_A_FOLDER(r365_every_descriptor_ends_with_the_process_image),
        IN_A_FOLDER(r365_names_are_read_back_as_they_were_written),
        IN_A_FOLDER(r372_what_is_not_there_is_told),
        IN_A_FOLDER(r372_what_the_system_refuses_is_told),
        IN_A_FOLDER(r372_a_process_without_descriptors_is_told),
        IN_A_FOLDER(r365_a_process_without_standard_input_has_files_as_well),
        IN_A_FOLDER(r365_a_folder_that_cannot_be_opened_says_why),
        IN_A_FOLDER(r365_a_folder_is_made_where_its_parent_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
