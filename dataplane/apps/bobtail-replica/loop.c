// SPDX-License-Identifier: Apache-2.0
// The loop of a member: packets, completions of the disk, timers, and what a control socket asks for.
#include "replica_app.h"

#include "shell/log.h"
#include "shell/stop.h"

#define LOOK_NS UINT64_C(20000000)

static bool take_from(struct replica_app *app, struct bt_io *io, uint32_t local)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(io, local, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_member_receive(app->member, bt_io_now(io), pkts[i]);
    }
    return n == BT_IO_BATCH;
}

// True when there may be more. Messages of members go first: elections wait for them. In a HovercRaft group a batch of
// requests goes before them: the leader's order of one that waits in a socket would be answered by a question for it.
static bool take_packets(struct replica_app *app, struct bt_io *io)
{
    bool apart = bt_group_document_is_apart(&app->document);
    bool more = app->grouped && take_from(app, io, BT_MEMBER_GROUP);
    more |= apart && take_from(app, io, BT_MEMBER_CLIENTS);
    more |= take_from(app, io, BT_MEMBER_MEMBERS);
    more |= !apart && take_from(app, io, BT_MEMBER_CLIENTS);
    return more;
}

static bool leads(const struct replica_app *app)
{
    struct bt_member_status s;
    if (app->member == NULL) {
        return false;
    }
    bt_member_status(app->member, bt_io_now(atomic_load(&app->io)), &s);
    return s.core.role == BT_REPLICA_LEADER && s.phase == BT_MEMBER_RUNNING && s.voters > 1;
}

void replica_leave(struct replica_app *app)
{
    uint16_t to;
    app->leaving = true;
    if (leads(app) && bt_member_transfer(app->member, bt_io_now(atomic_load(&app->io)), 0, &to) == BT_REPLICA_OK) {
        bt_log_info("the leadership is handed over to member %u", to);
    }
}

struct drain {
    bool asked;
    uint64_t deadline_ns, again_ns;
};

// True when the loop may end: told to, and nobody waits for this leader any more.
static bool may_stop(struct replica_app *app, struct drain *d)
{
    unsigned signals = bt_stop_count();
    if (signals == 0) {
        return false;
    }
    uint64_t now = bt_io_now(atomic_load(&app->io));
    if (!d->asked) {
        *d = (struct drain){true, now + (uint64_t)app->opt.drain_seconds * 1000000000u, 0};
    }
    if (!leads(app) || now >= d->deadline_ns || signals > 1) {
        return true;
    }
    if (now >= d->again_ns) {
        replica_leave(app);
        d->again_ns = now + 10 * LOOK_NS;
    }
    return false;
}

void replica_loop(struct replica_app *app)
{
    struct drain drain = {0};
    uint64_t until = 0;
    unsigned packet_turns = 0; // in a row, that left packets behind
    while (!may_stop(app, &drain)) {
        struct bt_io *io = atomic_load(&app->io);
        bt_io_tx(io, &app->txq);
        bt_io_wait(io, until);
        if (app->member == NULL) {
            bt_mailbox_poll(&app->mailbox); // may make one
            until = bt_io_now(io) + LOOK_NS * 50;
            continue;
        }
        uint64_t looked = bt_io_now(io);
        bool more = take_packets(app, io);
        bt_mailbox_poll(&app->mailbox);
        // After a pause the sockets hold what the timers wait for: it goes first, within reason.
        uint64_t now = bt_io_now(io);
        packet_turns = more || now - looked > BT_IO_PAUSE_NS ? packet_turns + 1 : 0;
        bool timers = packet_turns % BT_IO_TURNS_BEFORE_TIMERS == 0;
        bt_member_turn(app->member, now, timers);
        until = timers ? bt_member_next(app->member) : 0;
        if (drain.asked && until > now + LOOK_NS) {
            until = now + LOOK_NS;
        }
    }
    bt_io_tx(atomic_load(&app->io), &app->txq);
}
