// SPDX-License-Identifier: Apache-2.0
// Writes that are asked for again are executed once: who asks is a session, which has one write under
// way at a time and numbers them upwards. The last number and its reply are kept. The same on all members at the same
// index: changed by entries of the log only, and carried by snapshots. When there are too many, whoever was silent for
// longest is forgotten, and told so when it comes back.
//
// Number 0 opens a session, and the answer is the number to go on from: the index of that entry. No write is executed
// whose number is above the index of its own entry. So a session that was forgotten, and is opened again by a late
// copy, begins above all that was executed of it: a late copy of a write is OLD, never NEW. A session may also begin
// with number 1 unopened, as before there was number 0; that one write is executed again when a copy comes after its
// session was forgotten.
#ifndef BT_REPLICA_SESSIONS_H
#define BT_REPLICA_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_SESSIONS_MAX   1024u
#define BT_SESSIONS_OPEN  8u    // bytes of the answer to number 0: the number to go on from
#define BT_SESSIONS_REPLY 1024u // longest reply that is kept

/* The first byte of a reply to a write with a session. */
enum bt_session_status {
    BT_SESSION_DONE = 0,    // executed once; the reply follows
    BT_SESSION_NO_COPY = 1, // executed once, before; its reply was too long to be kept
    BT_SESSION_UNKNOWN = 2, // the session is not known (any more), or not up to there: not executed now, maybe before
    BT_SESSION_OLD = 3,     // a later write of the session was executed: not executed now, maybe before
    // Never in a reply:
    BT_SESSION_OPENED = 254, // number 0, nothing to be executed; the answer is BT_SESSION_DONE
    BT_SESSION_NEW = 255,    // to be executed
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
    uint32_t most; // above so many one is forgotten, the same on all members; 0: BT_SESSIONS_MAX
    uint8_t opened[BT_SESSIONS_OPEN];
};

// What is to become of a write at this index. *reply, *n: of BT_SESSION_DONE and BT_SESSION_OPENED.
enum bt_session_status bt_sessions_ask(struct bt_sessions *s, uint64_t index, uint64_t session, uint64_t seq,
                                       const uint8_t **reply, uint32_t *n);

// The write that bt_sessions_ask called new was executed.
void bt_sessions_done(struct bt_sessions *s, uint64_t session, const uint8_t *reply, uint32_t n);

// Bytes of them in a snapshot; 0 when room is too small.
size_t bt_sessions_write(const struct bt_sessions *s, uint8_t *p, size_t room);
// Reads p[0..n); how many bytes it took, 0: those are none.
size_t bt_sessions_read(struct bt_sessions *s, const uint8_t *p, size_t n);

#endif
