// SPDX-License-Identifier: Apache-2.0
// Memory of a server (Z-07): packets that handlers can read and not write, tables on huge pages; what was taken is
// given back, and what cannot be had is told.
#include "descriptors.h"
#include "starve.h"
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "run/flow.h"
#include "run/memory.h"

enum { HUGE = 2 << 20, PAGE = 4096, PACKETS = 8 };

// Is there memory at this page?
static bool there(const void *at)
{
    unsigned char in;
    return mincore((void *)((uintptr_t)at / PAGE * PAGE), 1, &in) == 0;
}

static void z07_packets_are_seen_twice_and_written_in_one_place(void **state)
{
    struct bt_run_memory m;
    int fds[2], before = descriptors();
    (void)state;
    assert_true(bt_run_memory_open(&m, PACKETS));
    assert_int_equal(descriptors(), before); // the file has no name and no descriptor any more
    assert_int_equal(m.bytes, bt_pool_fixed_bytes(PACKETS));
    assert_int_equal(m.pool.left, PACKETS);
    struct bt_pkt *pkt = bt_pool_get(&m.pool.pool);
    assert_non_null(pkt);
    uint8_t *p = bt_pkt_append(pkt, 5);
    memcpy(p, "bytes", 5);
    assert_memory_equal(p + m.read_only, "bytes", 5);
    assert_ptr_not_equal(p + m.read_only, p);
    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(write(fds[1], "other", 5), 5);
        errno = 0;
        ssize_t n = read(fds[0], i == 0 ? p + m.read_only : p, 5);
        assert_int_equal(n, i == 0 ? -1 : 5);
        assert_int_equal(errno, i == 0 ? EFAULT : 0);
    }
    close(fds[0]);
    close(fds[1]);
    assert_memory_equal(p + m.read_only, "other", 5);
    const uint8_t *first = m.at, *second = m.at + m.read_only;
    bt_pool_put(&m.pool.pool, pkt);
    bt_run_memory_close(&m);
    assert_null(m.at);
    assert_false(there(first) || there(second));
    bt_run_memory_close(&m); // and twice is once
}

static int maps = -1;        // that are still made before one fails; -1: none fails
static void *mapped, *place; // the last one; where the next one is to be, NULL: anywhere

void *__real_mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (maps >= 0 && maps-- == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    at = place != NULL ? place : at;
    return mapped = __real_mmap64(at, n, protection, place != NULL ? flags | MAP_FIXED : flags, fd, offset);
}

// Whichever of the two cannot be had, the other one is given back.
static void half_of_the_memory_is_none(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct bt_run_memory m;
        maps = first ? 0 : 1;
        bool opened = bt_run_memory_open(&m, PACKETS);
        maps = -1;
        assert_false(opened);
        assert_false(there(mapped));
        bt_run_memory_close(&m);
    }
    maps = 0;
    void *table = bt_run_table_open(5);
    maps = -1;
    assert_null(table);
}

// Wherever the kernel has room, what is around it stays, and what is taken too much is given back.
static void a_table_takes_its_own_pages_and_no_others(void **state)
{
    static const size_t offsets[] = {0, PAGE, HUGE - PAGE};
    (void)state;
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const size_t all = 2 * (size_t)HUGE, around = 8 * (size_t)HUGE;
        uint8_t *world = mmap(NULL, around, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(world != MAP_FAILED);
        uint8_t *room = world + (-(uintptr_t)world & (HUGE - 1)) + HUGE + offsets[i], *end = room + all + HUGE;
        place = room;
        uint8_t *table = bt_run_table_open(all);
        place = NULL;
        assert_ptr_equal(mapped, room);
        assert_true((uintptr_t)table % HUGE == 0 && table >= room && table + all <= end);
        assert_true(there(room - 1) && there(end) && there(table) && there(table + all - 1));
        for (uint8_t *at = room; at < end; at += PAGE) {
            assert_int_equal(there(at), at >= table && at < table + all);
        }
        bt_run_table_close(table, all);
        assert_false(there(table) || there(table + all - 1));
        assert_true(there(room - 1) && there(end));
        munmap(world, around);
    }
}

// A process that may not make so large a file.
static void memory_that_cannot_be_had_is_told(void **state)
{
    struct bt_run_memory m;
    struct rlimit was;
    int before = descriptors();
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    struct rlimit little = {.rlim_cur = PAGE, .rlim_max = was.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    bool opened = bt_run_memory_open(&m, PACKETS);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, handler);
    assert_false(opened);
    assert_null(m.at);
    assert_int_equal(descriptors(), before);
    bt_run_memory_close(&m);
}

static void a_table_is_whole_huge_pages_of_zeros(void **state)
{
    static const size_t sizes[] = {1, HUGE - 1, HUGE, HUGE + 1, 3 * HUGE};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t all = (sizes[i] + HUGE - 1) / HUGE * HUGE;
        uint8_t *table = bt_run_table_open(sizes[i]);
        assert_non_null(table);
        assert_int_equal((uintptr_t)table % HUGE, 0);
        for (size_t at = 0; at < all; at += PAGE) {
            assert_int_equal(table[at], 0);
            table[at] = 1;
        }
        assert_true(there(table) && there(table + all - 1));
        bt_run_table_close(table, sizes[i]);
        assert_false(there(table) || there(table + all - 1));
    }
    bt_run_table_close(NULL, 5);
    assert_null(bt_run_table_open(SIZE_MAX / 4)); // more than there are addresses
}

static void flow_control_for_which_there_is_no_memory_is_none(void **state)
{
    const uint64_t seed[2] = {1, 2};
    (void)state;
    for (unsigned n = 0; n < 3; n++) {
        starve_after(n);
        struct bt_flow *f = bt_flow_new(seed);
        assert_true(starve_ended() == (n < 2) && (f == NULL) == (n < 2));
        bt_flow_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z07_packets_are_seen_twice_and_written_in_one_place),
        cmocka_unit_test(a_table_takes_its_own_pages_and_no_others),
        cmocka_unit_test(half_of_the_memory_is_none),
        cmocka_unit_test(memory_that_cannot_be_had_is_told),
        cmocka_unit_test(a_table_is_whole_huge_pages_of_zeros),
        cmocka_unit_test(flow_control_for_which_there_is_no_memory_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
