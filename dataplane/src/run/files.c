// SPDX-License-Identifier: Apache-2.0
// See files.h.
#include "run/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 40, NUMBER_DIGITS = 20 };

static const char *const prefix[] = {[BT_DISK_SEGMENT] = "segment-", [BT_DISK_SNAPSHOT] = "snapshot-"};

static struct bt_files *of(struct bt_disk *d)
{
    return (struct bt_files *)d;
}

static void name_of(struct bt_disk_file f, char *out)
{
    snprintf(out, NAME, "%s%0*" PRIu64, prefix[f.kind], NUMBER_DIGITS, f.number);
}

// False: not a name of ours.
static bool parse(const char *name, struct bt_disk_file *f)
{
    for (uint8_t kind = BT_DISK_SEGMENT; kind <= BT_DISK_SNAPSHOT; kind++) {
        size_t n = strlen(prefix[kind]);
        if (strncmp(name, prefix[kind], n) == 0 && strlen(name + n) == NUMBER_DIGITS &&
            strspn(name + n, "0123456789") == NUMBER_DIGITS) {
            *f = (struct bt_disk_file){.number = strtoull(name + n, NULL, 10), .kind = kind};
            return true;
        }
    }
    return false;
}

static void keep(struct bt_files *f, struct bt_disk_file file, int fd)
{
    unsigned i = f->next++ % BT_FILES_OPEN;
    if (f->open[i].file.kind != 0) {
        close(f->open[i].fd);
    }
    f->open[i].file = file;
    f->open[i].fd = fd;
}

// An open descriptor, or the negative errno. flags: O_CREAT | O_EXCL for a new file.
static int open_file(struct bt_files *f, struct bt_disk_file file, int flags)
{
    char name[NAME];
    name_of(file, name);
    int fd = openat(f->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (fd < 0) {
        return -errno;
    }
    keep(f, file, fd);
    return fd;
}

static int fd_of(struct bt_files *f, struct bt_disk_file file)
{
    for (unsigned i = 0; i < BT_FILES_OPEN; i++) {
        if (f->open[i].file.kind == file.kind && f->open[i].file.number == file.number) {
            return f->open[i].fd;
        }
    }
    return open_file(f, file, 0);
}

static void forget(struct bt_files *f, struct bt_disk_file file)
{
    for (unsigned i = 0; i < BT_FILES_OPEN; i++) {
        if (f->open[i].file.kind == file.kind && f->open[i].file.number == file.number) {
            close(f->open[i].fd);
            f->open[i].file.kind = 0;
        }
    }
}

static int files_create(struct bt_disk *d, struct bt_disk_file file)
{
    int fd = open_file(of(d), file, O_CREAT | O_EXCL);
    return fd < 0 ? -fd : 0;
}

static int files_write(struct bt_disk *d, struct bt_disk_file file, uint64_t offset, const uint8_t *p, uint32_t n)
{
    int fd = fd_of(of(d), file);
    if (fd < 0) {
        return -fd;
    }
    for (uint32_t done = 0; done < n;) {
        ssize_t wrote = pwrite(fd, p + done, n - done, (off_t)(offset + done));
        if (wrote < 0 && errno != EINTR) {
            return errno;
        }
        if (wrote == 0) {
            return EIO;
        }
        done += wrote > 0 ? (uint32_t)wrote : 0;
    }
    return 0;
}

static int files_sync(struct bt_disk *d, struct bt_disk_file file)
{
    int fd = fd_of(of(d), file);
    if (fd < 0) {
        return -fd;
    }
    return fdatasync(fd) == 0 ? 0 : errno;
}

static int files_sync_names(struct bt_disk *d)
{
    return fsync(of(d)->folder) == 0 ? 0 : errno;
}

static int files_remove(struct bt_disk *d, struct bt_disk_file file)
{
    char name[NAME];
    name_of(file, name);
    forget(of(d), file);
    return unlinkat(of(d)->folder, name, 0) == 0 ? 0 : errno;
}

static int files_read(struct bt_disk *d, struct bt_disk_file file, uint64_t offset, uint8_t *p, uint32_t n,
                      uint32_t *got)
{
    int fd = fd_of(of(d), file);
    *got = 0;
    if (fd < 0) {
        return -fd;
    }
    while (*got < n) {
        ssize_t r = pread(fd, p + *got, n - *got, (off_t)(offset + *got));
        if (r < 0 && errno != EINTR) {
            return errno;
        }
        if (r == 0) {
            break;
        }
        *got += r > 0 ? (uint32_t)r : 0;
    }
    return 0;
}

static int files_size(struct bt_disk *d, struct bt_disk_file file, uint64_t *bytes)
{
    char name[NAME];
    struct stat st;
    name_of(file, name);
    if (fstatat(of(d)->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    *bytes = (uint64_t)st.st_size;
    return S_ISREG(st.st_mode) ? 0 : EINVAL;
}

static int files_list(struct bt_disk *d, struct bt_disk_file *files, uint32_t max, uint32_t *count)
{
    int fd = openat(of(d)->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    *count = 0;
    if (dir == NULL) {
        code = errno;
        if (fd >= 0) {
            close(fd);
        }
        return code;
    }
    errno = 0;
    for (struct dirent *e; code == 0 && (e = readdir(dir)) != NULL;) {
        struct bt_disk_file f;
        if (parse(e->d_name, &f)) {
            code = *count == max ? E2BIG : 0;
            if (code == 0) {
                files[(*count)++] = f;
            }
        }
        errno = 0;
    }
    code = code != 0 ? code : errno;
    closedir(dir);
    return code;
}

// The folder's own name must last as well.
static bool sync_parent(const char *path)
{
    char parent[1024];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof parent) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(parent, sizeof parent, "%.*s", n != 0 ? (int)n : 1, n != 0 ? path : ".");
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static bool not_opened(const char *path, int code, char *err, size_t errlen)
{
    snprintf(err, errlen, "storage: %s: %s", path,
             code == EWOULDBLOCK ? "another process has it open" : strerror(code));
    errno = code;
    return false;
}

bool bt_files_open(struct bt_files *f, const char *path, char *err, size_t errlen)
{
    static const struct bt_disk_ops ops = {.create = files_create,
                                           .write = files_write,
                                           .sync = files_sync,
                                           .sync_names = files_sync_names,
                                           .remove = files_remove,
                                           .read = files_read,
                                           .size = files_size,
                                           .list = files_list};
    memset(f, 0, sizeof *f);
    f->disk.ops = &ops;
    bool there = (mkdir(path, 0700) == 0 && sync_parent(path)) || errno == EEXIST;
    f->folder = there ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (f->folder < 0) {
        return not_opened(path, errno, err, errlen);
    }
    if (flock(f->folder, LOCK_EX | LOCK_NB) != 0) {
        int code = errno;
        close(f->folder);
        return not_opened(path, code, err, errlen);
    }
    return true;
}

void bt_files_close(struct bt_files *f)
{
    for (unsigned i = 0; i < BT_FILES_OPEN; i++) {
        if (f->open[i].file.kind != 0) {
            close(f->open[i].fd);
        }
    }
    close(f->folder);
}
