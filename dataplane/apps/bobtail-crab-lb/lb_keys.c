// SPDX-License-Identifier: Apache-2.0
// See lb_keys.h.
#include "lb_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// A line's end behind the key is no part of it: the agents leave it out, too.
static size_t without_line_end(const char *text, size_t n)
{
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) {
        n--;
    }
    return n;
}

static bool read_one(const char *dir, const char *name, bool needed, struct bt_crab_secret *to, struct bt_ctl_error *e)
{
    char path[1024], text[BT_CRAB_SECRET_MOST + 8];
    *to = (struct bt_crab_secret){0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !needed) {
        return true;
    }
    if (fd < 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "key-dir", "cannot read %.200s: %s", path, strerror(errno));
    }
    ssize_t got = read(fd, text, sizeof text);
    close(fd);
    size_t n = got > 0 ? without_line_end(text, (size_t)got) : 0;
    bool whole = got < (ssize_t)sizeof text; // what is behind that many bytes would be left out
    bool right = whole && n >= BT_CRAB_SECRET_LEAST && n <= BT_CRAB_SECRET_MOST;
    if (right) {
        memcpy(to->bytes, text, n);
        to->len = (uint32_t)n;
    }
    sodium_memzero(text, sizeof text);
    return right || (n == 0 && got == 0 && !needed) ||
           bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "key-dir", "%.200s must hold a key of %u to %u bytes", path,
                         BT_CRAB_SECRET_LEAST, BT_CRAB_SECRET_MOST);
}

bool lb_keys_read(const char *dir, struct bt_crab_secret secrets[BT_CRAB_SECRETS], struct bt_ctl_error *e)
{
    struct bt_crab_secret both[BT_CRAB_SECRETS];
    bool ok = read_one(dir, "key", true, &both[0], e) && read_one(dir, "previous", false, &both[1], e);
    if (ok) {
        memcpy(secrets, both, sizeof both);
    }
    sodium_memzero(both, sizeof both);
    return ok;
}
