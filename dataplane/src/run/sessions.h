// SPDX-License-Identifier: Apache-2.0
// Writes that are asked for again are executed once: who asks is a session, which has one write under
// way at a time and numbers them from 1. The last number and its reply are kept. The same on all members at the same
// index: changed by entries of the log only, and carried by snapshots. When there are too many, whoever was silent for
// longest is forgotten, and told so when it comes back.
#ifndef BT_RUN_SESSIONS_H
#define BT_RUN_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_SESSIONS_MAX   1024u
#define BT_SESSIONS_REPLY 1024u // longest reply that is kept

/* The first byte of a reply to a write with a session. */
enum bt_session_status {
    BT_SESSION_DONE = 0,    // executed once; the reply follows
    BT_SESSION_NO_COPY = 1, // executed once, before; its reply was too long to be kept
    BT_SESSION_UNKNOWN = 2, // the session is not known (any more): not executed now, maybe before
    BT_SESSION_OLD = 3,     // a later write of the session was executed: not executed now, maybe before
    BT_SESSION_NEW = 255,   // never in a reply: to be executed
};

struct bt_session {
    uint64_t id, seq, index; // index: of the entry it was last heard of
    uint32_t length;         // of the reply
    bool kept;
    uint8_t reply[BT_SESSIONS_REPLY];
};

struct bt_sessions {
    uint64_t id[BT_SESSIONS_MAX]; // of slot[i], to be searched through
    struct bt_session slot[BT_SESSIONS_MAX];
    uint32_t count;
};

// What is to become of a write at this index. *reply, *n: of BT_SESSION_DONE.
enum bt_session_status bt_sessions_ask(struct bt_sessions *s, uint64_t index, uint64_t session, uint64_t seq,
                                       const uint8_t **reply, uint32_t *n);

// The write that bt_sessions_ask called new was executed.
void bt_sessions_done(struct bt_sessions *s, uint64_t session, const uint8_t *reply, uint32_t n);

// Bytes of them in a snapshot; 0 when room is too small.
size_t bt_sessions_write(const struct bt_sessions *s, uint8_t *p, size_t room);
// Reads p[0..n); how many bytes it took, 0: those are none.
size_t bt_sessions_read(struct bt_sessions *s, const uint8_t *p, size_t n);

#endif
