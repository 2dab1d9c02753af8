// SPDX-License-Identifier: Apache-2.0
// What is committed takes effect: in order, once, on every member; a read only where a client waits for it.
#include <string.h>

#include "run/member_internal.h"

// Once, whatever is asked again; how it stands, and the answer.
enum bt_session_status member_execute_write(struct bt_member *m, const struct bt_entry *e, const struct bt_command *c,
                                            const uint8_t **reply, uint32_t *n)
{
    enum bt_session_status status = BT_SESSION_NEW;
    if (c->with_session) {
        status = bt_sessions_ask(&m->sessions, e->index, c->session, c->seq, reply, n);
    }
    if (status == BT_SESSION_NEW) {
        struct iovec iov = {.iov_base = (void *)(uintptr_t)c->body, .iov_len = c->n};
        member_execute(m, &iov, 1, false);
        member_count(m, BT_MEMBER_APPLIED_WRITES);
        *reply = m->reply;
        *n = m->reply_n;
        status = BT_SESSION_DONE;
        if (c->with_session) {
            bt_sessions_done(&m->sessions, c->session, *reply, *n);
        }
    } else if (status == BT_SESSION_OPENED) {
        member_count(m, BT_MEMBER_SESSIONS_OPENED);
        status = BT_SESSION_DONE;
    } else {
        member_count(m, BT_MEMBER_REPEATED);
    }
    return status;
}

static void apply_write(struct bt_member *m, const struct bt_entry *e, const struct bt_command *c)
{
    struct member_waiter w;
    const uint8_t *reply = NULL;
    uint32_t n = 0;
    enum bt_session_status status = member_execute_write(m, e, c, &reply, &n);
    if (member_waiter_take(m, e, &w)) {
        member_answer(m, &w, (uint8_t)status, reply, status == BT_SESSION_DONE ? n : 0);
    }
}

static void apply_read(struct bt_member *m, const struct bt_entry *e, const struct bt_command *c)
{
    struct member_waiter w;
    if (!member_waiter_take(m, e, &w)) {
        return;
    }
    struct iovec iov = {.iov_base = (void *)(uintptr_t)c->body, .iov_len = c->n};
    member_execute(m, &iov, 1, true);
    member_count(m, BT_MEMBER_APPLIED_READS);
    member_answer(m, &w, 0, m->reply, m->reply_n);
}

static bool same_config(const struct bt_group_config *a, const struct bt_group_config *b)
{
    bool same = a->count == b->count;
    for (uint16_t i = 0; same && i < a->count; i++) {
        same = a->member[i].id == b->member[i].id && a->member[i].role == b->member[i].role;
    }
    return same;
}

// All founding members have been here. One that was founded with another list than theirs is a danger to them.
static void apply_formed(struct bt_member *m, const struct bt_command *c)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    if (m->founder && s.config_index == 0 && !same_config(s.config, &c->config)) {
        member_stop(m, BT_MEMBER_FAILED, "FoundedOtherwise",
                    "this member was started with other initialMembers than the group: remove its disk and start it "
                    "with the group's document");
        return;
    }
    m->roster.formed = true;
}

static void apply_command(struct bt_member *m, const struct bt_entry *e)
{
    struct bt_command c;
    if (!bt_command_get(e->body, e->length, &c)) {
        member_stop(m, BT_MEMBER_FAILED, "State", "entry %llu is no command: another version of this program wrote it",
                    (unsigned long long)e->index);
        return;
    }
    switch (c.kind) {
    case BT_COMMAND_WRITE:
        apply_write(m, e, &c);
        break;
    case BT_COMMAND_READ:
        apply_read(m, e, &c);
        break;
    case BT_COMMAND_REGISTER:
        bt_roster_register(&m->roster, e->index, c.id, c.disk);
        break;
    case BT_COMMAND_ADDRESS:
        bt_roster_address(&m->roster, e->index, &c);
        break;
    case BT_COMMAND_FORMED:
        apply_formed(m, &c);
        break;
    case BT_COMMAND_KEY:
        bt_roster_key(&m->roster, c.key);
        break;
    default:
        break;
    }
}

static void apply_one(struct bt_member *m, const struct bt_entry *e)
{
    struct bt_group_config config;
    if (e->kind == BT_ENTRY_COMMAND) {
        apply_command(m, e);
    } else if (bt_group_is_request(e)) {
        member_apply_request(m, e);
    } else if (e->kind == BT_ENTRY_CONFIG && bt_group_config_decode(e->body, e->length, &config).error == BT_GROUP_OK) {
        bt_roster_config(&m->roster, e->index, &config);
        const struct bt_roster_row *own = bt_roster_find(&m->roster, m->id);
        if (own != NULL && own->removed) {
            member_refused(m);
        }
    }
    m->applied = e->index;
    m->applied_bytes += e->length;
}

void member_apply_turn(struct bt_member *m)
{
    struct bt_entry e;
    uint64_t commit = bt_replica_status(m->core).commit;
    while (m->applied < commit && (m->phase == BT_MEMBER_RUNNING || m->disk_failed) && !member_diverged(m)) {
        if (!bt_replica_entry(m->core, m->applied + 1, &e)) {
            member_stop(m, BT_MEMBER_FAILED, "State", "entry %llu is committed and not there",
                        (unsigned long long)m->applied + 1);
            return;
        }
        apply_one(m, &e);
        if (m->phase == BT_MEMBER_RUNNING || m->disk_failed) {
            bt_replica_applied(m->core, m->applied);
            member_states_applied(m, &e);
        }
    }
}
