// SPDX-License-Identifier: Apache-2.0
// The service of a bed's members: it counts.
#include "bed_parts.h"

#include "unit.h"

#include "base/bytes.h"

static void on_recv(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    struct bed_service *s = arg;
    uint8_t out[8];
    assert_int_equal(iovcnt, 1);
    assert_int_equal(iov[0].iov_len, 8);
    if (!bt_member_read_only(*s->member, handle)) {
        s->sum += bt_get64(iov[0].iov_base);
        s->executed++;
    }
    bt_put64(out, s->sum);
    struct iovec answer = {out, sizeof out};
    assert_int_equal(bt_member_respond(*s->member, handle, &answer, 1), 0);
    assert_int_equal(bt_member_respond(*s->member, handle, &answer, 1), R2P2_ERR_BAD_ARGUMENT); // once
}

static size_t on_snapshot(void *arg, uint8_t *out, size_t room)
{
    const struct bed_service *s = arg;
    if (room < 16) {
        return SIZE_MAX;
    }
    bt_put64(out, s->sum);
    bt_put64(out + 8, s->executed);
    return 16;
}

static int on_restore(void *arg, const uint8_t *bytes, size_t n)
{
    struct bed_service *s = arg;
    if (n != 0 && n != 16) {
        return -1;
    }
    s->saving = false;
    s->sum = n != 0 ? bt_get64(bytes) : 0;
    s->executed = n != 0 ? bt_get64(bytes + 8) : 0;
    return 0;
}

static uint64_t on_hash(void *arg)
{
    const struct bed_service *s = arg;
    return s->sum * UINT64_C(0x9e3779b97f4a7c15) + s->executed;
}

/* --- its snapshots in the background --- */

static int on_snapshot_begin(void *arg)
{
    struct bed_service *s = arg;
    assert_false(s->saving);
    if (s->refusals > 0) {
        s->refusals--;
        return -1;
    }
    s->saving = true;
    s->waits = s->turns;
    s->frozen[0] = s->sum;
    s->frozen[1] = s->executed;
    return 0;
}

static size_t on_snapshot_end(void *arg, uint8_t *out, size_t room)
{
    struct bed_service *s = arg;
    assert_true(s->saving); // nobody asks after one that was not begun, or that a restore made void
    if (s->waits > 0) {
        s->waits--;
        return R2P2_REPLICA_NOT_YET;
    }
    s->saving = false;
    assert_true(room >= 16);
    bt_put64(out, s->frozen[0]);
    bt_put64(out + 8, s->frozen[1]);
    return 16;
}

void bed_in_background(struct bed *b, uint16_t id, unsigned turns)
{
    b->calls[id].snapshot = NULL;
    b->calls[id].snapshot_begin = on_snapshot_begin;
    b->calls[id].snapshot_end = on_snapshot_end;
    b->service[id].turns = turns;
    b->service[id].refusals = 1;
}

void bed_service_start(struct bed *b, uint16_t id)
{
    b->service[id] = (struct bed_service){.member = &b->member[id]};
    b->calls[id] = (struct r2p2_replica_service){.name = "bed",
                                                 .recv = on_recv,
                                                 .snapshot = on_snapshot,
                                                 .restore = on_restore,
                                                 .state_hash = on_hash,
                                                 .arg = &b->service[id]};
}
