// SPDX-License-Identifier: Apache-2.0
// What a member's program does with its disk instead of running: a copy of it, or the first disk of another group.
#include "replica_app.h"

#include "run/restore.h"
#include "shell/log.h"

#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

enum { FIRST_MEMBER = 1 };

static bool read_cluster(const char *text, uint8_t cluster[16])
{
    size_t n = 0;
    return strlen(text) == 32 && sodium_hex2bin(cluster, 16, text, 32, NULL, &n, NULL) == 0 && n == 16;
}

// The copy is made: that older ones could not be removed does not make it worse, and doing it again would not help.
static void prune(const struct replica_options *o)
{
    char why[512];
    unsigned removed = 0;
    if (!bt_disk_prune(o->backup_to, o->backup_keep, &removed, why, sizeof why)) {
        bt_log_error("older copies stay, and take room: %s", why);
    }
    bt_log_info("%u older copies removed; the %" PRIu32 " newest stay", removed, o->backup_keep);
}

static int backup(const struct replica_options *o)
{
    char why[512];
    struct bt_restored done;
    if (!bt_disk_copy(o->data, o->backup_to, &done, why, sizeof why)) {
        bt_log_error("no backup: %s", why);
        return 1;
    }
    bt_log_info("%s is a copy of %s up to entry %" PRIu64 " of term %" PRIu64 ", with a snapshot at %" PRIu64,
                o->backup_to, o->data, done.last_index, done.last_term, done.snapshot_index);
    if (o->backup_keep != 0) {
        prune(o);
    }
    return 0;
}

// A pod may start again after it was done: what is there stays.
static int restore(const struct replica_options *o)
{
    char why[512];
    struct bt_restored done;
    struct stat st;
    struct bt_restore_as as = {.id = FIRST_MEMBER};
    if (!read_cluster(o->cluster, as.cluster)) {
        bt_log_error("--cluster must be 32 hexadecimal digits; got \"%s\"", o->cluster);
        return 2;
    }
    if (stat(o->data, &st) == 0) {
        bt_log_info("%s is there and stays as it is", o->data);
        return 0;
    }
    if (!bt_disk_restore(o->restore_from, o->data, &as, &done, why, sizeof why)) {
        bt_log_error("not restored: %s", why);
        return 1;
    }
    bt_log_info("%s begins cluster %s with %s up to entry %" PRIu64 " of term %" PRIu64 ", with a snapshot at %" PRIu64,
                o->data, o->cluster, o->restore_from, done.last_index, done.last_term, done.snapshot_index);
    return 0;
}

int replica_copies(const struct replica_options *o)
{
    return o->backup_to != NULL ? backup(o) : restore(o);
}
