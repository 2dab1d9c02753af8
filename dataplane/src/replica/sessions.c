// SPDX-License-Identifier: Apache-2.0
// See sessions.h.
#include "replica/sessions.h"

#include <string.h>

#include "base/bytes.h"

// Snapshot: count u32, 0 u32; each: id u64, seq u64, index u64, length u32, kept u8, 3 zeros, the reply.
enum { HEAD = 8, ROW = 32 };

static struct bt_session *find(struct bt_sessions *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->id[i] == id) {
            return &s->slot[i];
        }
    }
    return NULL;
}

static struct bt_session *open_session(struct bt_sessions *s, uint64_t id)
{
    uint32_t at = s->count, most = s->most != 0 ? s->most : BT_SESSIONS_MAX;
    if (at < most) {
        s->count++;
    } else {
        at = 0;
        for (uint32_t i = 1; i < s->count; i++) {
            at = s->slot[i].index < s->slot[at].index ? i : at;
        }
    }
    s->id[at] = id;
    struct bt_session *e = &s->slot[at];
    e->id = id;
    e->seq = e->index = 0;
    e->length = 0;
    e->kept = false;
    return e;
}

// Opened twice is opened once: whoever has written meanwhile goes on where it is.
static enum bt_session_status opened(struct bt_sessions *s, struct bt_session *e, const uint8_t **reply, uint32_t *n)
{
    e->seq = e->seq != 0 ? e->seq : e->index;
    bt_put64(s->opened, e->seq);
    *reply = s->opened;
    *n = sizeof s->opened;
    return BT_SESSION_OPENED;
}

enum bt_session_status bt_sessions_ask(struct bt_sessions *s, uint64_t index, uint64_t session, uint64_t seq,
                                       const uint8_t **reply, uint32_t *n)
{
    struct bt_session *e = find(s, session);
    if ((e == NULL && seq > 1) || seq > index) {
        return BT_SESSION_UNKNOWN;
    }
    if (e == NULL) {
        e = open_session(s, session);
    }
    e->index = index;
    if (seq == 0) {
        return opened(s, e, reply, n);
    }
    if (seq > e->seq) {
        e->seq = seq;
        e->kept = false;
        return BT_SESSION_NEW;
    }
    if (seq < e->seq) {
        return BT_SESSION_OLD;
    }
    *reply = e->reply;
    *n = e->length;
    return e->kept ? BT_SESSION_DONE : BT_SESSION_NO_COPY;
}

void bt_sessions_done(struct bt_sessions *s, uint64_t session, const uint8_t *reply, uint32_t n)
{
    struct bt_session *e = find(s, session);
    if (e == NULL || n > BT_SESSIONS_REPLY) {
        return;
    }
    if (n != 0) {
        memcpy(e->reply, reply, n);
    }
    e->length = n;
    e->kept = true;
}

size_t bt_sessions_write(const struct bt_sessions *s, uint8_t *p, size_t room)
{
    size_t at = HEAD;
    if (room < HEAD) {
        return 0;
    }
    bt_put32(p, s->count);
    bt_put32(p + 4, 0);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct bt_session *e = &s->slot[i];
        uint32_t length = e->kept ? e->length : 0;
        if (room - at < ROW + length) {
            return 0;
        }
        memset(p + at, 0, ROW);
        bt_put64(p + at, e->id);
        bt_put64(p + at + 8, e->seq);
        bt_put64(p + at + 16, e->index);
        bt_put32(p + at + 24, length);
        p[at + 28] = e->kept;
        memcpy(p + at + ROW, e->reply, length);
        at += ROW + length;
    }
    return at;
}

size_t bt_sessions_read(struct bt_sessions *s, const uint8_t *p, size_t n)
{
    size_t at = HEAD;
    if (n < HEAD || bt_get32(p) > BT_SESSIONS_MAX) {
        return 0;
    }
    uint32_t count = bt_get32(p);
    s->count = 0;
    for (; s->count < count; s->count++) {
        struct bt_session *e = &s->slot[s->count];
        if (n - at < ROW) {
            return 0;
        }
        uint32_t length = bt_get32(p + at + 24);
        if (length > BT_SESSIONS_REPLY || n - at - ROW < length || p[at + 28] > 1) {
            return 0;
        }
        e->id = s->id[s->count] = bt_get64(p + at);
        e->seq = bt_get64(p + at + 8);
        e->index = bt_get64(p + at + 16);
        e->length = length;
        e->kept = p[at + 28];
        memcpy(e->reply, p + at + ROW, length);
        at += ROW + length;
    }
    return at;
}
