// SPDX-License-Identifier: Apache-2.0
// What the members of a group know of one another, the same on all of them at the same index: which disk stands behind
// an id, where it is reached, and who was removed. Part of the replicated state: changed by entries of the log
// only, and carried by snapshots.
#ifndef BT_RUN_ROSTER_H
#define BT_RUN_ROSTER_H

#include "run/command.h"

#define BT_ROSTER_MAX 256u // ids ever known; then the one that was removed first is forgotten

struct bt_roster_row {
    uint16_t id;
    bool member, removed, registered, reached; // in the configuration; was, and is not any more; disk; addresses
    uint64_t disk;
    uint64_t index; // of the entry that registered or removed it last
    struct bt_addr address, client;
    char name[BT_COMMAND_NAME];
};

struct bt_roster {
    struct bt_roster_row row[BT_ROSTER_MAX];
    uint32_t count;
    uint64_t registered_at; // index of the last registration
    bool formed;            // all founding members have been here; clients are served
    bool keyed;             // body_key is known: the first one that the log named
    uint8_t body_key[BT_COMMAND_KEY_LEN];
};

const struct bt_roster_row *bt_roster_find(const struct bt_roster *r, uint16_t id);

/* What entries say. The first disk of an id is its disk for ever. */
void bt_roster_register(struct bt_roster *r, uint64_t index, uint16_t id, uint64_t disk);
void bt_roster_address(struct bt_roster *r, uint64_t index, const struct bt_command *c);
void bt_roster_config(struct bt_roster *r, uint64_t index, const struct bt_group_config *c);

void bt_roster_key(struct bt_roster *r, const uint8_t key[BT_COMMAND_KEY_LEN]);

// Bytes of it in a snapshot; 0 when room is too small.
size_t bt_roster_write(const struct bt_roster *r, uint8_t *p, size_t room);
// Reads p[0..n); how many bytes it took, 0: that is none.
size_t bt_roster_read(struct bt_roster *r, const uint8_t *p, size_t n);

#endif
