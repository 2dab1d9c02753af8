// SPDX-License-Identifier: Apache-2.0
// See restore.h.
#include "run/restore.h"

#include "base/bytes.h"
#include "run/disk_folder.h"
#include "run/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    COPIES_MOST = 50, // a member that writes all the time removes files while they are copied
    ENTRIES_AT_ONCE = 64,
};

static bool copy_bytes(int in, int out)
{
    static _Thread_local char buffer[1 << 16];
    for (;;) {
        ssize_t n = read(in, buffer, sizeof buffer);
        if (n <= 0) {
            return n == 0 && fsync(out) == 0;
        }
        for (ssize_t at = 0; at < n;) {
            ssize_t k = write(out, buffer + at, (size_t)(n - at));
            if (k < 0) {
                return false;
            }
            at += k;
        }
    }
}

static bool copy_file(const char *from, const char *to, const char *name)
{
    char path[RUN_DISK_PATH];
    snprintf(path, sizeof path, "%s/%s", from, name);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s", to, name);
    int out = in >= 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    bool done = out >= 0 && copy_bytes(in, out);
    int why = errno;
    if (in >= 0) {
        close(in);
    }
    if (out >= 0) {
        close(out);
    }
    errno = why;
    return done;
}

// Oldest first: what the newest file names is there, or was removed meanwhile and then it is tried again.
static bool copy_folder(const char *from, const char *to, char *err, size_t errlen)
{
    struct dirent **list;
    int n = scandir(from, &list, run_disk_wanted, run_disk_by_name);
    bool ok = n > 0 && mkdir(to, 0700) == 0;
    if (n <= 0) {
        run_disk_say(err, errlen, "%s: %s", from, n == 0 ? "holds no log of a member" : strerror(errno));
    } else if (!ok) {
        run_disk_say(err, errlen, "%s: %s", to, strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        if (ok && !copy_file(from, to, list[i]->d_name)) {
            ok = run_disk_say(err, errlen, "%s/%s: %s", from, list[i]->d_name, strerror(errno));
        }
        free(list[i]);
    }
    if (n >= 0) {
        free(list);
    }
    return ok;
}

static struct bt_storage *open_disk(const char *folder, struct bt_recovery *found, char *err, size_t errlen)
{
    struct bt_storage_config c = {.folder = folder, .policy = BT_STORE_ALWAYS};
    return run_disk_cluster(folder, c.cluster, err, errlen) ? bt_storage_open(&c, found, err, errlen) : NULL;
}

static struct bt_restored told(const struct bt_recovery *r)
{
    struct bt_restored out = {r->snapshot.last_index, r->snapshot.last_term, r->snapshot.last_index};
    if (r->count > 0 && r->entry[r->count - 1].index > out.last_index) {
        out.last_index = r->entry[r->count - 1].index;
        out.last_term = r->entry[r->count - 1].term;
    }
    return out;
}

// A copy that opens, tried until one does.
static struct bt_storage *copied(const char *from, const char *to, struct bt_recovery *found, char *err, size_t errlen)
{
    struct bt_storage *disk = NULL;
    for (int i = 0; i < COPIES_MOST && disk == NULL; i++) {
        (void)run_disk_remove(to);
        if (copy_folder(from, to, err, errlen)) {
            disk = open_disk(to, found, err, errlen);
        }
    }
    if (disk == NULL) {
        (void)run_disk_remove(to);
    }
    return disk;
}

static bool is_free(const char *to, char *err, size_t errlen)
{
    struct stat st;
    return stat(to, &st) != 0 || run_disk_say(err, errlen, "%s is there already", to);
}

// In place only when it is whole, and then for good.
static bool put(const char *made, const char *to, char *err, size_t errlen)
{
    char parent[RUN_DISK_PATH];
    if (rename(made, to) != 0) {
        return run_disk_say(err, errlen, "%s: %s", to, strerror(errno));
    }
    snprintf(parent, sizeof parent, "%s/..", to);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool durable = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return durable || run_disk_say(err, errlen, "%s: %s", parent, strerror(errno));
}

bool bt_disk_copy(const char *from, const char *to, struct bt_restored *out, char *err, size_t errlen)
{
    char part[RUN_DISK_PATH];
    struct bt_recovery found;
    snprintf(part, sizeof part, "%s.part", to);
    struct bt_storage *disk = is_free(to, err, errlen) ? copied(from, part, &found, err, errlen) : NULL;
    if (disk == NULL) {
        return false;
    }
    *out = told(&found);
    bt_storage_close(disk);
    return put(part, to, err, errlen);
}

/* --- another group --- */

struct restoring {
    struct bt_storage *to;
    uint64_t generation;
};

static bool give(struct restoring *r, struct bt_store_op *op)
{
    op->generation = ++r->generation;
    for (int i = 0; i < 60000; i++) { // as long as the disk needs, a minute at most
        if (bt_storage_give(r->to, op)) {
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static bool give_entries(struct restoring *r, const struct bt_recovery *found)
{
    struct bt_entry batch[ENTRIES_AT_ONCE];
    uint32_t n = 0;
    for (uint64_t i = 0; i < found->count; i++) {
        if (found->entry[i].index > found->snapshot.last_index) {
            batch[n++] = bt_restore_entry(&found->entry[i]);
        }
        if (n == ENTRIES_AT_ONCE || (n > 0 && i + 1 == found->count)) {
            struct bt_store_op op = {.kind = BT_STORE_APPEND, .append = {.entry = batch, .count = n}};
            if (!give(r, &op)) {
                return false;
            }
            n = 0;
        }
    }
    return true;
}

// All of it is on the disk.
static bool await(struct restoring *r)
{
    struct bt_storage_completion c = {.generation = 0};
    for (int i = 0; i < 60000; i++) {
        if (bt_storage_completed(r->to, &c) && (c.result == BT_STORE_FAILED || c.generation >= r->generation)) {
            return c.result != BT_STORE_FAILED;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

// The snapshot's bytes, rewritten, in *state: they must stay until all is on the disk.
static bool fill(struct restoring *r, const struct bt_recovery *found, const struct bt_storage_config *c,
                 uint8_t **state)
{
    struct bt_restored last = told(found);
    uint64_t term = found->hard_state.term > last.last_term ? found->hard_state.term : last.last_term;
    struct bt_store_op op = {.kind = BT_STORE_HARD_STATE, .hard_state = {.term = term + 1}};
    if (!give(r, &op)) {
        return false;
    }
    if (found->snapshot.last_index > 0) {
        struct bt_snapshot s = {found->snapshot.last_index, found->snapshot.last_term, c->first, NULL, 0};
        *state = bt_restore_state(found->snapshot.bytes, found->snapshot.length, c->cluster, c->id, &s.length);
        s.bytes = *state;
        struct bt_store_op snapshot = {.kind = BT_STORE_SNAPSHOT, .snapshot = s};
        struct bt_store_op compact = {.kind = BT_STORE_COMPACT, .to = s.last_index};
        if (*state == NULL || !give(r, &snapshot) || !give(r, &compact)) {
            return false;
        }
    }
    return give_entries(r, found) && await(r);
}

static bool rewritten(const struct bt_recovery *found, const struct bt_storage_config *c, char *err, size_t errlen)
{
    uint8_t *state = NULL;
    struct bt_recovery nothing;
    struct restoring r = {.to = bt_storage_open(c, &nothing, err, errlen)};
    if (r.to == NULL) {
        return false;
    }
    bool done = bt_storage_start(r.to) && fill(&r, found, c, &state);
    if (!done) {
        run_disk_say(err, errlen, "%s: %s", c->folder,
                     bt_storage_code(r.to) != 0 ? bt_storage_why(r.to) : "cannot be written");
    }
    bt_storage_close(r.to);
    free(state);
    return done;
}

bool bt_disk_restore(const char *from, const char *to, const struct bt_restore_as *as, struct bt_restored *out,
                     char *err, size_t errlen)
{
    char source[RUN_DISK_PATH], part[RUN_DISK_PATH];
    struct bt_recovery found;
    struct bt_storage_config c = {.folder = part, .id = as->id, .policy = BT_STORE_ALWAYS};
    c.first = (struct bt_group_config){.count = 1, .member = {{.id = as->id, .role = BT_GROUP_VOTER}}};
    memcpy(c.cluster, as->cluster, sizeof c.cluster);
    snprintf(source, sizeof source, "%s.from", to);
    snprintf(part, sizeof part, "%s.part", to);
    (void)run_disk_remove(part);
    struct bt_storage *disk = is_free(to, err, errlen) ? copied(from, source, &found, err, errlen) : NULL;
    if (disk == NULL) {
        return false;
    }
    *out = told(&found);
    bool done = rewritten(&found, &c, err, errlen);
    bt_storage_close(disk);
    (void)run_disk_remove(source);
    return done ? put(part, to, err, errlen) : false;
}
