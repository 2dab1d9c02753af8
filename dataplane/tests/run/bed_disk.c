// SPDX-License-Identifier: Apache-2.0
// The disks of a bed's members: files whose syncs wait or fail when they are told to.
#include "bed_parts.h"

#include "unit.h"

#include <time.h>

static struct bed_disk *of(struct bt_disk *d)
{
    return (struct bed_disk *)d;
}

#define PASS(name, params, args)                                                                                       \
    static int disk_##name params                                                                                      \
    {                                                                                                                  \
        struct bt_disk *f = &of(d)->files.disk;                                                                        \
        return f->ops->name args;                                                                                      \
    }
PASS(create, (struct bt_disk * d, struct bt_disk_file x), (f, x))
PASS(write, (struct bt_disk * d, struct bt_disk_file x, uint64_t at, const uint8_t *p, uint32_t n), (f, x, at, p, n))
PASS(sync_names, (struct bt_disk * d), (f))
PASS(remove, (struct bt_disk * d, struct bt_disk_file x), (f, x))
PASS(read, (struct bt_disk * d, struct bt_disk_file x, uint64_t at, uint8_t *p, uint32_t n, uint32_t *got),
     (f, x, at, p, n, got))
PASS(size, (struct bt_disk * d, struct bt_disk_file x, uint64_t *bytes), (f, x, bytes))
PASS(list, (struct bt_disk * d, struct bt_disk_file *x, uint32_t most, uint32_t *n), (f, x, most, n))

static int disk_sync(struct bt_disk *d, struct bt_disk_file x)
{
    struct bed_disk *b = of(d);
    while (atomic_load(&b->stalled)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    int fails = atomic_load(&b->fails);
    return fails != 0 ? fails : b->files.disk.ops->sync(&b->files.disk, x);
}

struct bt_disk *bed_disk_open(struct bed *b, uint16_t id, const char *folder)
{
    static const struct bt_disk_ops ops = {.create = disk_create,
                                           .write = disk_write,
                                           .sync = disk_sync,
                                           .sync_names = disk_sync_names,
                                           .remove = disk_remove,
                                           .read = disk_read,
                                           .size = disk_size,
                                           .list = disk_list};
    char why[200];
    b->disk[id].disk.ops = &ops;
    assert_true(bt_files_open(&b->disk[id].files, folder, why, sizeof why));
    return &b->disk[id].disk;
}
