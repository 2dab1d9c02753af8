// SPDX-License-Identifier: Apache-2.0
// See error.h.
#include "store/error.h"

struct text {
    char *out;
    size_t room, used;
};

static void put(struct text *t, const char *s)
{
    while (*s != '\0' && t->used + 1 < t->room) {
        t->out[t->used++] = *s++;
    }
}

static void put_number(struct text *t, uint64_t n)
{
    char digits[21];
    char *p = digits + sizeof digits - 1;
    *p = '\0';
    do {
        *--p = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    put(t, p);
}

static const struct {
    const char *begin, *remedy;
} words[BT_STORE_TROUBLES] = {
    [BT_STORE_FINE] = {"nothing is wrong", ""},
    [BT_STORE_DAMAGED] = {"damaged", "; this member must not start: remove its disk and add a new member"},
    [BT_STORE_CLUSTER] = {"refused: the disk belongs to another cluster",
                          "; give this member an empty disk, or the cluster its own one"},
    [BT_STORE_MEMBER] = {"refused: the disk belongs to another member", "; give each member its own disk"},
    [BT_STORE_POLICY] = {"refused: storage Volatile over a durable log", "; remove the disk's files, or keep Always"},
    [BT_STORE_VERSION] = {"refused: written by another version of the format", "; start the release that wrote it"},
    [BT_STORE_ROOM] = {"more on the disk than there is room for", ""},
    [BT_STORE_DISK] = {"the disk failed", ""},
    [BT_STORE_REFUSED] = {"refused operation", ""},
};

size_t bt_store_error_text(const struct bt_store_error *e, char *out, size_t room)
{
    struct text t = {out, room, 0};
    put(&t, words[e->trouble].begin);
    if (e->file.kind != 0) {
        put(&t, e->file.kind == BT_DISK_SEGMENT ? " at segment " : " at snapshot ");
        put_number(&t, e->file.number);
        put(&t, ", byte ");
        put_number(&t, e->byte);
    }
    if (e->what != NULL) {
        put(&t, ": ");
        put(&t, e->what);
    }
    if (e->code != 0) {
        put(&t, ", error ");
        put_number(&t, (uint64_t)e->code);
    }
    put(&t, words[e->trouble].remedy);
    if (room > 0) {
        out[t.used] = '\0';
    }
    return t.used;
}
