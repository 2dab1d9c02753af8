// SPDX-License-Identifier: Apache-2.0
// See restore.h: what of a group's state belongs to its clients, and goes on, and what to its members, and does not.
#include "run/restore.h"

#include "base/bytes.h"
#include "run/command.h"
#include "run/roster.h"
#include "run/state.h"

#include <stdlib.h>
#include <string.h>

enum { ROSTER_ROOM = 256 }; // of one member

uint8_t *bt_restore_state(const uint8_t *p, uint64_t n, const uint8_t cluster[16], uint16_t id, uint64_t *length)
{
    const struct bt_group_config config = {.count = 1, .member = {{.id = id, .role = BT_GROUP_VOTER}}};
    if (n < BT_STATE_HEAD || bt_get32(p) != BT_STATE_MAGIC || bt_get32(p + 4) != BT_STATE_VERSION) {
        return NULL;
    }
    uint64_t old = bt_get32(p + 32), index = bt_get64(p + 24);
    struct bt_roster *roster = old <= n - BT_STATE_HEAD ? calloc(1, sizeof *roster) : NULL;
    uint8_t *out = roster != NULL ? malloc(n - old + ROSTER_ROOM) : NULL;
    if (out != NULL) {
        bt_roster_config(roster, index, &config);
        size_t fresh = bt_roster_write(roster, out + BT_STATE_HEAD, ROSTER_ROOM);
        memcpy(out, p, BT_STATE_HEAD);
        memcpy(out + 8, cluster, 16);
        bt_put32(out + 32, (uint32_t)fresh);
        memcpy(out + BT_STATE_HEAD + fresh, p + BT_STATE_HEAD + old, n - BT_STATE_HEAD - old);
        *length = n - old + fresh;
    }
    free(roster);
    return out;
}

static bool of_the_group(const struct bt_entry *e)
{
    struct bt_command c;
    if (e->kind == BT_ENTRY_CONFIG) {
        return true;
    }
    return e->kind == BT_ENTRY_COMMAND && bt_command_get(e->body, e->length, &c) && c.kind != BT_COMMAND_WRITE &&
           c.kind != BT_COMMAND_READ;
}

struct bt_entry bt_restore_entry(const struct bt_entry *e)
{
    struct bt_entry out = *e;
    if (of_the_group(e)) {
        out.kind = BT_ENTRY_NOOP;
        out.length = 0;
    }
    return out;
}
