// SPDX-License-Identifier: Apache-2.0
// See memory.h: one file in memory, mapped twice.
#include "run/memory.h"

#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

bool bt_run_memory_open(struct bt_run_memory *m, uint32_t packets)
{
    *m = (struct bt_run_memory){.bytes = bt_pool_fixed_bytes(packets)};
    int fd = memfd_create("bobtail-packets", MFD_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    void *at = MAP_FAILED, *seen = MAP_FAILED;
    if (ftruncate(fd, (off_t)m->bytes) == 0) {
        at = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        seen = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (at == MAP_FAILED || seen == MAP_FAILED) {
        if (at != MAP_FAILED) {
            munmap(at, m->bytes);
        }
        if (seen != MAP_FAILED) {
            munmap(seen, m->bytes);
        }
        return false;
    }
    m->at = at;
    m->read_only = (uint8_t *)seen - m->at;
    bt_pool_fixed_init(&m->pool, m->at, packets);
    return true;
}

void bt_run_memory_close(struct bt_run_memory *m)
{
    if (m->at != NULL) {
        munmap(m->at + m->read_only, m->bytes);
        munmap(m->at, m->bytes);
        m->at = NULL;
    }
}

void *bt_run_table_open(size_t bytes)
{
    size_t all = (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    uint8_t *room = mmap(NULL, all + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return NULL;
    }
    size_t before = (size_t)(-(uintptr_t)room & (HUGE_PAGE - 1));
    if (before != 0) {
        munmap(room, before);
    }
    if (before != HUGE_PAGE) {
        munmap(room + before + all, HUGE_PAGE - before);
    }
    (void)madvise(room + before, all, MADV_HUGEPAGE); // not everywhere: then it is ordinary memory
    return room + before;
}

void bt_run_table_close(void *table, size_t bytes)
{
    if (table != NULL) {
        munmap(table, (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1));
    }
}
