// SPDX-License-Identifier: Apache-2.0
// What a copy of another group's disk may hold: the first byte chooses between the state of a snapshot,
// an entry of the log, and edits of the files of a sound disk. What is taken names the new group and nobody of the old
// one; what is refused says why and leaves nothing behind.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "input.h"
#include "run/command.h"
#include "run/disk_folder.h"
#include "run/restore.h"
#include "run/roster.h"
#include "run/state.h"
#include "run/storage.h"

static const struct bt_restore_as as = {{9, 8, 7}, 3};

static void state(const uint8_t *p, size_t n)
{
    static struct bt_roster r;
    uint8_t *copy = malloc(n + 1); // so that a byte behind it is seen
    uint64_t length = 0;
    CHECK(copy != NULL);
    memcpy(copy, p, n);
    uint8_t *out = bt_restore_state(copy, n, as.cluster, as.id, &length);
    if (out != NULL) {
        uint64_t old = bt_get32(copy + 32), fresh = bt_get32(out + 32);
        CHECK(length == n - old + fresh && memcmp(out + 8, as.cluster, 16) == 0);
        CHECK(bt_get64(out + 24) == bt_get64(copy + 24));
        CHECK(bt_roster_read(&r, out + BT_STATE_HEAD, fresh) == fresh && r.count == 1 && r.row[0].id == as.id);
        CHECK(memcmp(out + BT_STATE_HEAD + fresh, copy + BT_STATE_HEAD + old, n - BT_STATE_HEAD - old) == 0);
    }
    free(out);
    free(copy);
}

static void entry(const uint8_t *p, size_t n)
{
    struct bt_command c;
    if (n == 0 || n > 65536) {
        return;
    }
    struct bt_entry e = {
        .index = 1, .term = 1, .kind = p[0] % BT_ENTRY_KINDS, .body = p + 1, .length = (uint32_t)n - 1};
    struct bt_entry out = bt_restore_entry(&e);
    bool clients = e.kind == BT_ENTRY_COMMAND && bt_command_get(e.body, e.length, &c) &&
                   (c.kind == BT_COMMAND_WRITE || c.kind == BT_COMMAND_READ);
    CHECK(out.index == e.index && out.term == e.term);
    if (clients || bt_group_is_request(&e)) {
        CHECK(out.kind == e.kind && out.body == e.body && out.length == e.length);
    }
    CHECK(out.kind != BT_ENTRY_CONFIG);
}

/* --- whole disks --- */

enum { FILES_MOST = 8, FILE_MOST = 1 << 16, EDIT = 5 };

struct disk_file {
    char name[64];
    uint8_t bytes[FILE_MOST];
    size_t n;
};

static struct disk_file sound[FILES_MOST], edited[FILES_MOST];
static uint32_t n_files;

static void give(struct bt_storage *s, struct bt_store_op op)
{
    static uint64_t generation;
    op.generation = ++generation;
    while (!bt_storage_give(s, &op)) {
        usleep(1000);
    }
}

// Of a member that ran: entries of clients and of the group, a snapshot, entries behind it.
static void live(const char *folder)
{
    char why[256];
    uint8_t room[256], bytes[BT_STATE_HEAD + 5] = {0};
    struct bt_recovery nothing;
    struct bt_storage_config c = {.folder = folder, .id = 4, .policy = BT_STORE_VOLATILE, .cluster = {1, 2, 3}};
    c.first = (struct bt_group_config){.count = 1, .member = {{4, BT_GROUP_VOTER}}};
    struct bt_storage *s = bt_storage_open(&c, &nothing, why, sizeof why);
    CHECK(s != NULL && bt_storage_start(s));
    give(s, (struct bt_store_op){.kind = BT_STORE_HARD_STATE, .hard_state = {.term = 9, .vote = 4}});
    for (uint64_t i = 1; i <= 20; i++) {
        struct bt_command w = {.kind = BT_COMMAND_WRITE, .body = (const uint8_t *)"write", .n = 5};
        struct bt_entry e = {.index = i, .term = 7, .kind = BT_ENTRY_COMMAND, .body = room};
        e.length = bt_command_put(room, sizeof room, &w);
        give(s, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {&e, 1}});
    }
    bt_put32(bytes, BT_STATE_MAGIC);
    bt_put32(bytes + 4, BT_STATE_VERSION);
    bt_put64(bytes + 24, 10);
    give(s, (struct bt_store_op){.kind = BT_STORE_SNAPSHOT, .snapshot = {10, 7, c.first, bytes, sizeof bytes}});
    give(s, (struct bt_store_op){.kind = BT_STORE_COMPACT, .to = 10});
    bt_storage_close(s);
}

static void read_file(const char *folder, const char *name)
{
    struct disk_file *d = &sound[n_files++];
    char path[RUN_DISK_PATH];
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    d->n = fread(d->bytes, 1, FILE_MOST, f); // a segment is longer, and empty behind that
    fclose(f);
}

static void make_sound(const char *folder)
{
    struct dirent **list;
    live(folder);
    int n = scandir(folder, &list, run_disk_wanted, run_disk_by_name);
    CHECK(n > 0);
    for (int i = 0; i < n; i++) {
        if (n_files < FILES_MOST) {
            read_file(folder, list[i]->d_name);
        }
        free(list[i]);
    }
    free(list);
    CHECK(run_disk_remove(folder));
}

static void write_files(const char *folder)
{
    CHECK(mkdir(folder, 0700) == 0);
    for (uint32_t i = 0; i < n_files; i++) {
        char path[RUN_DISK_PATH];
        snprintf(path, sizeof path, "%s/%s", folder, edited[i].name);
        FILE *f = fopen(path, "wb");
        CHECK(f != NULL && fwrite(edited[i].bytes, 1, edited[i].n, f) == edited[i].n && fclose(f) == 0);
    }
}

// Edits: a file and what is done, where in it u16, a byte: cut there, or written there, from the front or the end.
static void edit(const uint8_t *p)
{
    struct disk_file *d = &edited[(p[0] >> 2) % n_files];
    size_t at = (size_t)bt_get16(p + 1) << 8 | p[3];
    at = d->n == 0 ? 0 : (p[0] & 2) != 0 ? d->n - 1 - at % d->n : at % d->n;
    if ((p[0] & 1) != 0) {
        d->n = at;
    } else if (at < d->n) {
        d->bytes[at] ^= p[4];
    }
}

static void disk(const uint8_t *p, size_t n)
{
    char dir[] = "/dev/shm/bobtail-fuzz-XXXXXX", from[64], to[64], why[512] = "";
    struct bt_restored done;
    struct stat st;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(from, sizeof from, "%s/from", dir);
    snprintf(to, sizeof to, "%s/to", dir);
    if (n_files == 0) {
        make_sound(from);
    }
    memcpy(edited, sound, sizeof sound);
    for (size_t at = 0; at + EDIT <= n; at += EDIT) {
        edit(p + at);
    }
    write_files(from);
    bool taken = bt_disk_restore(from, to, &as, &done, why, sizeof why);
    CHECK(taken ? stat(to, &st) == 0 : stat(to, &st) != 0 && why[0] != '\0');
    CHECK(taken || n >= EDIT); // as it was written it is sound
    (void)run_disk_remove(from);
    (void)run_disk_remove(to);
    CHECK(rmdir(dir) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {state, entry, disk};
    if (size > 0) {
        readers[data[0] % 3](data + 1, size - 1);
    }
    return 0;
}
