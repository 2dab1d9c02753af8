// SPDX-License-Identifier: Apache-2.0
// See keys.h.
#include "ctl/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEX_DIGITS = 32, FILE_MAX = 64 };

// 32 hexadecimal digits, white space at the end allowed.
static bool parse_key(const char *text, size_t len, uint8_t key[16])
{
    size_t got;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' ')) {
        len--;
    }
    return len == HEX_DIGITS && sodium_hex2bin(key, 16, text, len, NULL, &got, NULL) == 0 && got == 16;
}

static bool load_one(const char *dir, int64_t id, const char *field, uint8_t key[16], struct bt_ctl_error *e)
{
    char path[1024];
    char text[FILE_MAX];
    if (dir == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, field,
                             "key %" PRId64 " is wanted but this program was started without --key-dir", id);
    }
    snprintf(path, sizeof path, "%s/%" PRId64, dir, id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, field, "cannot read key %" PRId64 ": %.200s: %s", id, path,
                             strerror(errno));
    }
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    bool ok = n > 0 && (size_t)n < sizeof text && parse_key(text, (size_t)n, key);
    sodium_memzero(text, sizeof text);
    return ok || bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, field,
                               "%.200s must hold 32 hexadecimal digits (128 bits) and nothing else", path);
}

bool bt_keys_load(const char *dir, const struct bt_config *c, struct bt_keyring *out, struct bt_ctl_error *e)
{
    return bt_keys_load_ids(dir, c->key_ids, c->n_key_ids, out, e);
}

bool bt_keys_load_ids(const char *dir, const int64_t *ids, size_t n, struct bt_keyring *out, struct bt_ctl_error *e)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        char field[32];
        snprintf(field, sizeof field, "keyIds[%zu]", i);
        if (!load_one(dir, ids[i], field, out->key[i].bytes, e)) {
            return false;
        }
        out->key[i].id = (uint8_t)ids[i];
    }
    return true;
}
