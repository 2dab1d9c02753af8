// SPDX-License-Identifier: Apache-2.0
// See ram.h.
#include "ram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ram *of(struct bt_disk *d)
{
    return (struct ram *)d;
}

static struct ram_file *find(struct ram *r, struct bt_disk_file id)
{
    for (uint32_t i = 0; i < r->files; i++) {
        if (r->file[i].id.kind == id.kind && r->file[i].id.number == id.number) {
            return &r->file[i];
        }
    }
    return NULL;
}

static int ram_create(struct bt_disk *d, struct bt_disk_file id)
{
    struct ram *r = of(d);
    if (find(r, id) != NULL) {
        return EEXIST;
    }
    if (r->files == RAM_FILES) {
        return ENOSPC;
    }
    r->file[r->files++] = (struct ram_file){.id = id};
    return 0;
}

static void write_at(struct ram_file *f, uint64_t offset, const uint8_t *p, uint64_t n)
{
    if (offset + n > f->room) {
        uint64_t room = 2 * (offset + n);
        f->bytes = realloc(f->bytes, room);
        if (f->bytes == NULL) {
            abort();
        }
        memset(f->bytes + f->room, 0, room - f->room);
        f->room = room;
    }
    if (n > 0) {
        memcpy(f->bytes + offset, p, n);
    }
    f->size = offset + n > f->size ? offset + n : f->size;
}

static int ram_write(struct bt_disk *d, struct bt_disk_file id, uint64_t offset, const uint8_t *p, uint32_t n)
{
    struct ram_file *f = find(of(d), id);
    if (f == NULL) {
        return ENOENT;
    }
    of(d)->writes++;
    write_at(f, offset, p, of(d)->write_code == 0 ? n : n / 2 / 512 * 512);
    return of(d)->write_code;
}

static int ram_sync(struct bt_disk *d, struct bt_disk_file id)
{
    of(d)->syncs++;
    return find(of(d), id) == NULL ? ENOENT : of(d)->sync_code;
}

static int ram_sync_names(struct bt_disk *d)
{
    return of(d)->sync_code;
}

static int ram_remove(struct bt_disk *d, struct bt_disk_file id)
{
    struct ram_file *f = find(of(d), id);
    if (f == NULL) {
        return ENOENT;
    }
    free(f->bytes);
    *f = of(d)->file[--of(d)->files];
    return 0;
}

static int ram_read(struct bt_disk *d, struct bt_disk_file id, uint64_t offset, uint8_t *p, uint32_t n, uint32_t *got)
{
    const struct ram_file *f = find(of(d), id);
    *got = 0;
    if (f == NULL) {
        return ENOENT;
    }
    if (offset < f->size) {
        *got = f->size - offset < n ? (uint32_t)(f->size - offset) : n;
        memcpy(p, f->bytes + offset, *got);
    }
    return 0;
}

static int ram_size(struct bt_disk *d, struct bt_disk_file id, uint64_t *bytes)
{
    const struct ram_file *f = find(of(d), id);
    *bytes = f == NULL ? 0 : f->size;
    return f == NULL ? ENOENT : 0;
}

static int ram_list(struct bt_disk *d, struct bt_disk_file *files, uint32_t max, uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < of(d)->files; i++) {
        if (*count == max) {
            return E2BIG;
        }
        files[(*count)++] = of(d)->file[i].id;
    }
    return 0;
}

void ram_init(struct ram *r)
{
    static const struct bt_disk_ops ops = {.create = ram_create,
                                           .write = ram_write,
                                           .sync = ram_sync,
                                           .sync_names = ram_sync_names,
                                           .remove = ram_remove,
                                           .read = ram_read,
                                           .size = ram_size,
                                           .list = ram_list};
    memset(r, 0, sizeof *r);
    r->disk.ops = &ops;
}

void ram_free(struct ram *r)
{
    for (uint32_t i = 0; i < r->files; i++) {
        free(r->file[i].bytes);
    }
    r->files = 0;
}

bool ram_put(struct ram *r, struct bt_disk_file id, const uint8_t *bytes, uint64_t n)
{
    if (find(r, id) != NULL) {
        ram_remove(&r->disk, id);
    }
    if (ram_create(&r->disk, id) != 0) {
        return false;
    }
    write_at(find(r, id), 0, bytes, n);
    return true;
}

void ram_copy(struct ram *to, const struct ram *from)
{
    ram_init(to);
    for (uint32_t i = 0; i < from->files; i++) {
        ram_put(to, from->file[i].id, from->file[i].bytes, from->file[i].size);
    }
}

struct ram_file *ram_newest(struct ram *r, uint8_t kind)
{
    struct ram_file *best = NULL;
    for (uint32_t i = 0; i < r->files; i++) {
        if (r->file[i].id.kind == kind && (best == NULL || r->file[i].id.number > best->id.number)) {
            best = &r->file[i];
        }
    }
    return best;
}
