// SPDX-License-Identifier: Apache-2.0
// How many hugepages a process gets. The linker puts these in front of the calls that look for them and take them
// (--wrap): the kernel's folder is one made for the purpose, and pages are granted until the test says no.
#include "unit.h"

#include "io/dpdk_internal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define KERNELS "/sys/kernel/mm/hugepages"

enum { SIZE_MIB = 2 }; // of a page, where a row says nothing else

static char root[] = "/tmp/bobtail-pages-XXXXXX";

static struct {
    unsigned granted; // pages, then the kernel maps none
    bool unmapped;    // it maps them, but what is behind them is not granted: a signal at the first touch
    bool nowhere;     // there is no such folder
    bool no_process;  // nor a child
    bool no_memory;   // nor memory to share with one
    unsigned open_dirs, open_files;
    unsigned taken; // of the child
} kernel;

DIR *__real_opendir(const char *name);
int __real_closedir(DIR *d);
FILE *__real_fopen64(const char *path, const char *mode);
int __real_fclose(FILE *f);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
pid_t __real_fork(void);
DIR *__wrap_opendir(const char *name);
int __wrap_closedir(DIR *d);
FILE *__wrap_fopen64(const char *path, const char *mode);
int __wrap_fclose(FILE *f);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
pid_t __wrap_fork(void);

DIR *__wrap_opendir(const char *name)
{
    assert_string_equal(name, KERNELS);
    DIR *d = kernel.nowhere ? NULL : __real_opendir(root);
    kernel.open_dirs += d != NULL;
    return d;
}

int __wrap_closedir(DIR *d)
{
    kernel.open_dirs--;
    return __real_closedir(d);
}

FILE *__wrap_fopen64(const char *path, const char *mode)
{
    char here[400];
    if (strncmp(path, KERNELS "/", sizeof KERNELS) != 0) {
        return __real_fopen64(path, mode);
    }
    snprintf(here, sizeof here, "%s%s", root, path + strlen(KERNELS));
    FILE *f = __real_fopen64(here, mode);
    kernel.open_files += f != NULL;
    return f;
}

int __wrap_fclose(FILE *f)
{
    kernel.open_files--;
    return __real_fclose(f);
}

pid_t __wrap_fork(void)
{
    return kernel.no_process ? -1 : __real_fork();
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if ((flags & MAP_HUGETLB) == 0) {
        return kernel.no_memory ? MAP_FAILED : __real_mmap64(at, len, prot, flags, fd, offset);
    }
    bool granted = kernel.taken++ < kernel.granted;
    size_t asked = (size_t)1 << (flags >> 26 & 63); // the size of a page is asked for, and its bytes
    if (asked != len || (!granted && !kernel.unmapped)) {
        return MAP_FAILED;
    }
    return __real_mmap64(at, 4096, granted ? prot : PROT_NONE, flags & ~(MAP_HUGETLB | 63 << 26), fd, offset);
}

// A folder with the pages of a size that are free; `text` NULL: without the file that says so.
static void size_is(unsigned kib, const char *text, bool there)
{
    char folder[100];
    char file[120];
    snprintf(folder, sizeof folder, "%s/hugepages-%ukB", root, kib);
    snprintf(file, sizeof file, "%s/free_hugepages", folder);
    if (!there) {
        (void)unlink(file);
        assert_int_equal(rmdir(folder), 0);
        return;
    }
    assert_int_equal(mkdir(folder, 0700), 0);
    if (text != NULL) {
        FILE *f = __real_fopen64(file, "w");
        assert_non_null(f);
        fputs(text, f);
        assert_int_equal(__real_fclose(f), 0);
    }
}

static void free_pages_of_all_sizes_are_added(void **state)
{
    char other[100];
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    snprintf(other, sizeof other, "%s/others-64kB", root);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(bt_dpdk_free_hugepages(), 0);
    size_is(2048, "12\n", true);
    assert_int_equal(bt_dpdk_free_hugepages(), 24);
    size_is(1048576, "3\n", true);
    assert_int_equal(bt_dpdk_free_hugepages(), 24 + 3072);
    size_is(64, "33\n", true); // less than 3 MiB
    size_is(128, "many\n", true);
    size_is(256, NULL, true);
    assert_int_equal(bt_dpdk_free_hugepages(), 24 + 3072 + 2);
    for (unsigned kib = 64; kib <= 256; kib *= 2) {
        size_is(kib, NULL, false);
    }
    size_is(1048576, NULL, false);
    size_is(2048, NULL, false);
    assert_int_equal(rmdir(other), 0);
    kernel.nowhere = true;
    assert_int_equal(bt_dpdk_free_hugepages(), 0);
    assert_int_equal(kernel.open_dirs + kernel.open_files, 0);
}

// As many as are wanted and granted: by the kernel's word, or by no signal at the first touch.
static void usable_are_those_that_are_granted(void **state)
{
    static const struct {
        const char *free;
        uint64_t want;
        unsigned granted;
        bool unmapped;
        uint64_t usable;
    } rows[] = {
        {"10\n", 10, 10, false, 10}, // no more than wanted
        {"10\n", 9, 10, false, 10},  // in whole pages
        {"3\n", 10, 10, false, 3 * SIZE_MIB},
        {"10\n", 20, 4, false, 4 * SIZE_MIB},
        {"10\n", 20, 4, true, 4 * SIZE_MIB},
        {"10\n", 20, 0, true, 0},
        {"10\n", 0, 10, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&kernel, 0, sizeof kernel);
        kernel.granted = rows[i].granted;
        kernel.unmapped = rows[i].unmapped;
        size_is(1024 * SIZE_MIB, rows[i].free, true);
        assert_int_equal(bt_dpdk_usable_hugepages(rows[i].want), rows[i].usable);
        assert_int_equal(kernel.taken, 0); // a child took them
        size_is(1024 * SIZE_MIB, NULL, false);
        assert_int_equal(kernel.open_dirs + kernel.open_files, 0);
    }
}

static void without_a_child_or_memory_none_are_usable(void **state)
{
    static bool *const missing[] = {&kernel.no_process, &kernel.no_memory};
    (void)state;
    size_is(1024 * SIZE_MIB, "10\n", true);
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        memset(&kernel, 0, sizeof kernel);
        kernel.granted = 10;
        *missing[i] = true;
        assert_int_equal(bt_dpdk_usable_hugepages(8), 0);
        *missing[i] = false;
        assert_int_equal(bt_dpdk_usable_hugepages(8), 8);
    }
    size_is(1024 * SIZE_MIB, NULL, false);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_pages_of_all_sizes_are_added),
        cmocka_unit_test(usable_are_those_that_are_granted),
        cmocka_unit_test(without_a_child_or_memory_none_are_usable),
    };
    return cmocka_run_group_tests_name("hugepages", tests, make_root, remove_root);
}
