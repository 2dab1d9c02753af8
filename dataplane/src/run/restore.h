// SPDX-License-Identifier: Apache-2.0
// Copies of a member's disk, and the first disk of another group made from one.
//
// A copy is taken while the member runs: files are read one after the other, and what comes out is opened as after a
// crash. A new group begins with all that the copied disk held, also with what nobody knows to be committed: it may
// have been answered. It has another cluster id and one voter; who was a member before is a stranger to it.
#ifndef BT_RUN_RESTORE_H
#define BT_RUN_RESTORE_H

#include "replica/entry.h"

#include <stdbool.h>
#include <stddef.h>

struct bt_restored {
    uint64_t last_index, last_term, snapshot_index;
};

// Copies the disk in the folder `from` to the folder `to`, which must not be there; its parent must. The copy was
// opened and is whole. False with a message in err, and nothing at `to`.
bool bt_disk_copy(const char *from, const char *to, struct bt_restored *found, char *err, size_t errlen);

// Removes the oldest copies in the folder of the copy `newest`, so that `keep` (at least 1, with the newest) are left.
// Only whole copies of the same cluster's disks are counted or removed. False with a message in err; *removed so far.
bool bt_disk_prune(const char *newest, unsigned keep, unsigned *removed, char *err, size_t errlen);

struct bt_restore_as {
    uint8_t cluster[16];
    uint16_t id;
};

// Makes at `to`, as above, the disk of a member that is the one voter of a new cluster. `from` is a disk or a copy of
// one, and stays as it is.
bool bt_disk_restore(const char *from, const char *to, const struct bt_restore_as *as, struct bt_restored *found,
                     char *err, size_t errlen);

// restore_state.c: a snapshot's bytes p[0..n) for another cluster whose one voter is `id`; malloc'ed. NULL when it is
// no snapshot of a member.
uint8_t *bt_restore_state(const uint8_t *p, uint64_t n, const uint8_t cluster[16], uint16_t id, uint64_t *length);

// What an entry is in another group: a client's write or read as it was, all that the old group said of itself nothing.
struct bt_entry bt_restore_entry(const struct bt_entry *e);

#endif
