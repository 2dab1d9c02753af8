// SPDX-License-Identifier: Apache-2.0
// A device or an io for which there is no memory: it says so, and leaves nothing behind. The linker puts these in front
// of the calls that give memory (--wrap); one piece, known by its size, is not to be had.
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"
#include "link/link.h"

#include <errno.h>
#include <rte_mempool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static struct {
    size_t n, size; // of the piece; n 0: however many
    bool no_link, no_bell;
    unsigned refused;
} memory;

void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_eventfd(unsigned count, int flags);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_eventfd(unsigned count, int flags);

void *__wrap_calloc(size_t n, size_t size)
{
    bool refused = memory.size == size && (memory.n == 0 || memory.n == n);
    memory.refused += refused;
    return refused ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    assert_true(alignment == 64 && size % alignment == 0);
    memory.refused += memory.no_link;
    return memory.no_link ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_eventfd(unsigned count, int flags)
{
    memory.refused += memory.no_bell;
    errno = EMFILE;
    return memory.no_bell ? -1 : __real_eventfd(count, flags);
}

static void a_device_without_memory_says_so(void **state)
{
    static const size_t pieces[][2] = {
        {1, sizeof(struct bt_dpdk_device)}, {65536, sizeof(void *)}, {2, sizeof(struct bt_link_static)}};
    struct bt_link_static peers[2] = {{.ip = dpdk_address(false, 8, 0), .mac = {2}},
                                      {.ip = dpdk_address(false, 9, 0), .mac = {2}}};
    struct bt_link_prefix own[2];
    char err[400];
    (void)state;
    dpdk_addresses(1, own);
    struct bt_dpdk_device_config cfg = {
        .port = "net_ring_a", .addrs = own, .n_addrs = 2, .statics = peers, .n_statics = 2, .buffers = 1024};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        memset(&memory, 0, sizeof memory);
        memory.n = pieces[i][0];
        memory.size = pieces[i][1];
        assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
        assert_string_equal(err, "out of memory");
        assert_int_equal(memory.refused, 1);
        assert_null(rte_mempool_lookup("bobtail0"));
    }
    memset(&memory, 0, sizeof memory);
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    assert_non_null(dev);
    assert_non_null(rte_mempool_lookup("bobtail0"));
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

static void an_io_without_memory_says_so(void **state)
{
    static const struct {
        size_t n, size;
        bool no_link, no_bell;
        const char *says;
    } rows[] = {
        {1, sizeof(struct bt_dpdk), false, false, "out of memory"},
        {4, sizeof(struct bt_dpdk_port), false, false, "out of memory or file descriptors for 3 local ports"},
        {0, 0, false, true, "out of memory or file descriptors for 3 local ports"},
        {3, sizeof(struct bt_addr), false, false, "out of memory for 3 local ports"},
        {0, 0, true, false, "out of memory for 3 local ports"},
        {BT_DPDK_COUNTERS + BT_LINK_COUNTERS, sizeof(struct bt_counter_desc), false, false, "out of memory"},
        {BT_DPDK_COUNTERS + BT_LINK_COUNTERS, sizeof(uint64_t), false, false, "out of memory"},
    };
    struct bt_addr locals[3];
    char err[400];
    (void)state;
    memset(&memory, 0, sizeof memory);
    struct bt_dpdk_device *dev = hosts_device(1, 2, BT_DPDK_CHECKSUMS_AUTO);
    for (uint16_t i = 0; i < 3; i++) {
        locals[i] = dpdk_address(false, 1, (uint16_t)(7000 + i));
    }
    struct bt_dpdk_config cfg = {.locals = locals, .n_locals = 3};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&memory, 0, sizeof memory);
        memory.n = rows[i].n;
        memory.size = rows[i].size;
        memory.no_link = rows[i].no_link;
        memory.no_bell = rows[i].no_bell;
        assert_null(bt_dpdk_open(dev, &cfg, err, sizeof err));
        assert_string_equal(err, rows[i].says);
        assert_int_equal(memory.refused, 1);
        assert_null(atomic_load(&dev->io[0]));
        assert_null(atomic_load(&dev->listener[7000]));
    }
    memset(&memory, 0, sizeof memory);
    struct bt_io *io = bt_dpdk_open(dev, &cfg, err, sizeof err);
    assert_non_null(io);
    io->ops->close(io);
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_without_memory_says_so),
        cmocka_unit_test(an_io_without_memory_says_so),
    };
    return cmocka_run_group_tests_name("memory", tests, hosts_start, NULL);
}
