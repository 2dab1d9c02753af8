// SPDX-License-Identifier: Apache-2.0
// See restore.h: which copies beside the newest one may go.
#include "run/restore.h"

#include "run/disk_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char unfinished[] = ".part"; // of a copy that is being made

struct copy {
    char *name;
    struct timespec made;
};

struct copies {
    struct copy *copy;
    size_t count;
};

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

// Newest first.
static int by_time(const void *a, const void *b)
{
    const struct copy *x = a, *y = b;
    if (x->made.tv_sec != y->made.tv_sec) {
        return x->made.tv_sec < y->made.tv_sec ? 1 : -1;
    }
    return x->made.tv_nsec < y->made.tv_nsec ? 1 : x->made.tv_nsec > y->made.tv_nsec ? -1 : 0;
}

static bool join(char path[RUN_DISK_PATH], const char *folder, const char *name)
{
    return snprintf(path, RUN_DISK_PATH, "%s/%s", folder, name) < RUN_DISK_PATH;
}

// A whole copy of a disk of this cluster: a folder, and no link to one.
static bool is_copy(const char *folder, const char *name, const uint8_t cluster[16], struct stat *st)
{
    char path[RUN_DISK_PATH], why[RUN_DISK_PATH];
    uint8_t its[16];
    return !ends_with(name, unfinished) && join(path, folder, name) && lstat(path, st) == 0 && S_ISDIR(st->st_mode) &&
           run_disk_cluster(path, its, why, sizeof why) && memcmp(its, cluster, 16) == 0;
}

static bool add(struct copies *c, const char *name, const struct stat *st)
{
    struct copy *more = realloc(c->copy, (c->count + 1) * sizeof *more);
    char *mine = strdup(name);
    if (more != NULL) {
        c->copy = more;
    }
    if (more == NULL || mine == NULL) {
        free(mine);
        return false;
    }
    c->copy[c->count++] = (struct copy){mine, st->st_mtim};
    return true;
}

static void let_go(struct copies *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->copy[i].name);
    }
    free(c->copy);
}

// All of this cluster in the folder but the one named.
static bool find(struct copies *c, const char *folder, const char *but, const uint8_t cluster[16])
{
    DIR *dir = opendir(folder);
    bool ok = dir != NULL;
    for (struct dirent *d; ok && (d = readdir(dir)) != NULL;) {
        struct stat st;
        if (d->d_name[0] != '.' && strcmp(d->d_name, but) != 0 && is_copy(folder, d->d_name, cluster, &st)) {
            ok = add(c, d->d_name, &st);
        }
    }
    int why = errno;
    if (dir != NULL) {
        closedir(dir);
    }
    errno = why;
    return ok;
}

bool bt_disk_prune(const char *newest, unsigned keep, unsigned *removed, char *err, size_t errlen)
{
    char folder[RUN_DISK_PATH], path[RUN_DISK_PATH];
    uint8_t cluster[16];
    struct copies c = {0};
    const char *slash = strrchr(newest, '/'), *name = slash != NULL ? slash + 1 : newest;
    int n = snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - newest) : 1,
                     slash != NULL ? newest : ".");
    *removed = 0;
    if (n <= 0 || (size_t)n >= sizeof folder || *name == '\0') {
        return run_disk_say(err, errlen, "%s: no folder beside which copies could be", newest);
    }
    bool ok = run_disk_cluster(newest, cluster, err, errlen);
    if (ok && !find(&c, folder, name, cluster)) {
        ok = run_disk_say(err, errlen, "%s: %s", folder, strerror(errno));
    }
    if (ok) {
        qsort(c.copy, c.count, sizeof *c.copy, by_time);
    }
    for (size_t i = keep - 1; ok && i < c.count; i++) { // the newest counts
        ok = join(path, folder, c.copy[i].name) && run_disk_remove(path);
        *removed += ok;
        if (!ok) {
            run_disk_say(err, errlen, "%s/%s: %s", folder, c.copy[i].name, strerror(errno));
        }
    }
    let_go(&c);
    return ok;
}
