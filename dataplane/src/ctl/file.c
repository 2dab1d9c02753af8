// SPDX-License-Identifier: Apache-2.0
// See file.h.
#include "ctl/file.h"

#include "ctl/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_all(int fd, char *text, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(fd, text + got, len - got);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -1 : (ssize_t)got;
        }
        got += (size_t)n;
    }
    return (ssize_t)got;
}

char *bt_file_read(const char *path, size_t *len, struct bt_ctl_error *e)
{
    char *text = NULL;
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        text = malloc(BT_CONFIG_BYTES_MAX + 1);
        got = text != NULL ? read_all(fd, text, BT_CONFIG_BYTES_MAX + 1) : -1;
        int saved = errno;
        close(fd);
        errno = saved;
    }
    if (got < 0 || (size_t)got > BT_CONFIG_BYTES_MAX) {
        bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, NULL, "%.200s: %s", path,
                      got < 0 ? strerror(errno) : "is larger than 1 MiB");
        free(text);
        return NULL;
    }
    *len = (size_t)got;
    return text;
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return true;
}

// Without this a crash of the machine could forget the rename.
static void sync_folder(const char *path)
{
    char folder[1024];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    snprintf(folder, sizeof folder, "%.*s", n != 0 ? (int)n : 1, n != 0 ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

bool bt_file_replace(const char *path, const char *text, size_t len, struct bt_ctl_error *e)
{
    char fresh[1024];
    if ((size_t)snprintf(fresh, sizeof fresh, "%s.new", path) >= sizeof fresh) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "%.200s: the path is too long", path);
    }
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    bool ok = fd >= 0 && write_all(fd, text, len) && fsync(fd) == 0;
    int saved = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (ok && rename(fresh, path) == 0) {
        sync_folder(path);
        return true;
    }
    errno = ok ? errno : saved;
    bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "cannot write %.200s: %s", path, strerror(errno));
    unlink(fresh);
    return false;
}

char *bt_memfd_read(int fd, size_t size, struct bt_ctl_error *e)
{
    const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & wanted) != wanted) {
        bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "memfd", "must be a memfd sealed against write, shrink and grow");
        return NULL;
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)size) {
        bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "size", "the memfd holds fewer than %zu bytes", size);
        return NULL;
    }
    char *text = malloc(size);
    if (text == NULL || pread(fd, text, size, 0) != (ssize_t)size) {
        bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "cannot read the memfd: %s", strerror(errno));
        free(text);
        return NULL;
    }
    return text;
}
