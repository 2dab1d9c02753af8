// SPDX-License-Identifier: Apache-2.0
// Clients' requests: into the log of the leader, or refused with the reason; and their answers.
#include <string.h>

#include "rpc/error.h"
#include "run/member_internal.h"

enum { LEAST_REASON = BT_DROP_NOT_LEADER };

/* --- the service --- */

void member_execute(struct bt_member *m, const struct iovec *iov, int iovcnt, bool read_only)
{
    const struct r2p2_replica_service *s = m->conf.service;
    struct iovec copy[48]; // a request is at most so many packets
    int n = iovcnt < (int)(sizeof copy / sizeof *copy) ? iovcnt : (int)(sizeof copy / sizeof *copy);
    memcpy(copy, iov, (size_t)n * sizeof *copy);
    m->answering = ++m->handles;
    m->read_only = read_only;
    m->answered = false;
    m->reply_n = 0;
    s->recv(s->arg, m->answering, copy, n);
    m->answering = 0;
}

int bt_member_respond(struct bt_member *m, uint64_t handle, const struct iovec *iov, int iovcnt)
{
    size_t n = 0;
    if (m == NULL || handle == 0 || handle != m->answering || m->answered || iovcnt < 0) {
        return R2P2_ERR_BAD_ARGUMENT;
    }
    for (int i = 0; i < iovcnt; i++) {
        if (iov[i].iov_len > MEMBER_REPLY_MAX - n) {
            return R2P2_ERR_TOO_LARGE;
        }
        n += iov[i].iov_len;
    }
    m->answered = true;
    for (int i = 0; i < iovcnt; i++) {
        if (iov[i].iov_len != 0) {
            memcpy(m->reply + m->reply_n, iov[i].iov_base, iov[i].iov_len);
        }
        m->reply_n += (uint32_t)iov[i].iov_len;
    }
    return 0;
}

bool bt_member_read_only(const struct bt_member *m, uint64_t handle)
{
    return m != NULL && handle != 0 && handle == m->answering && m->read_only;
}

/* --- answers --- */

static void reply(struct bt_member *m, uint64_t handle, const struct iovec *iov, int n)
{
    int r = bt_server_reply(m->server, m->now, handle, iov, n, m->conf.txq);
    if (r == BT_RPC_NO_BUFFER || r == BT_RPC_TOO_LARGE) { // it was executed: no DROP
        bt_server_forget(m->server, m->now, handle, m->conf.txq);
    }
}

void member_answer(struct bt_member *m, const struct member_waiter *w, uint8_t status, const uint8_t *bytes, uint32_t n)
{
    struct iovec iov[2] = {{.iov_base = &status, .iov_len = w->with_session ? 1 : 0},
                           {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n}};
    reply(m, w->handle, w->with_session ? iov : iov + 1, w->with_session ? 2 : 1);
}

static void refuse(struct bt_member *m, uint64_t handle, enum bt_drop_reason reason)
{
    struct bt_server_why why = {.n = BT_DROP_WHY};
    struct bt_drop_why says = {.reason = (uint8_t)reason};
    struct bt_addr member;
    uint16_t leader = m->core != NULL ? bt_replica_status(m->core).leader : 0;
    if (leader != 0 && leader != m->id && member_address(m, leader, &member, &says.client)) {
        says.leader = leader;
    }
    if (reason == BT_DROP_NOT_LEADER && bt_group_document_is_apart(&m->document) && m->document.n_boxes != 0) {
        // Whoever leads: requests go through a box, which takes the leader's place in what a client is told.
        says.leader = m->id;
        says.client = m->document.box[m->box_turn++ % m->document.n_boxes].client;
    }
    bt_drop_why_write(why.bytes, &says);
    m->counter[BT_MEMBER_DROP_FIRST + reason]++;
    bt_server_drop_why(m->server, m->now, handle, &why, m->conf.txq);
}

/* --- what waits --- */

static struct member_waiter *oldest(struct bt_member *m)
{
    return &m->waiter[m->waiter_head & (MEMBER_WAITERS - 1)];
}

static void drop_oldest(struct bt_member *m)
{
    m->waiter_head++;
    m->waiters--;
}

static void wait_for(struct bt_member *m, const struct member_waiter *w)
{
    m->waiter[(m->waiter_head + m->waiters++) & (MEMBER_WAITERS - 1)] = *w;
}

bool member_waiter_take(struct bt_member *m, const struct bt_entry *e, struct member_waiter *w)
{
    while (m->waiters != 0 && oldest(m)->index <= e->index) {
        *w = *oldest(m);
        drop_oldest(m);
        if (w->index == e->index && w->term == e->term) {
            return true;
        }
        bt_server_forget(m->server, m->now, w->handle, m->conf.txq); // another leader's entry took its place, maybe
    }
    return false;
}

void member_requests_turn(struct bt_member *m)
{
    bool leads = member_runs(m) && bt_replica_status(m->core).role == BT_REPLICA_LEADER;
    while (!leads && m->waiters != 0 && m->now - oldest(m)->since > MEMBER_PATIENCE_NS) {
        bt_server_forget(m->server, m->now, oldest(m)->handle, m->conf.txq);
        drop_oldest(m);
    }
}

/* --- requests --- */

static void unordered(struct bt_member *m, const struct bt_server_request *rq)
{
    struct iovec iov[48];
    int n = bt_msg_iov(&rq->msg, iov, sizeof iov / sizeof *iov);
    if (n > (int)(sizeof iov / sizeof *iov)) {
        refuse(m, rq->handle, BT_DROP_TOO_LONG);
        return;
    }
    member_execute(m, iov, n, true);
    reply(m, rq->handle, &(struct iovec){.iov_base = m->reply, .iov_len = m->reply_n}, 1);
}

// As a command into the scratch room; its bytes, 0: it is too long.
static uint32_t write_command(struct bt_member *m, const struct bt_server_request *rq)
{
    bool write = rq->policy == BT_POLICY_REPLICATED_WRITE;
    struct bt_command c = {.kind = write ? BT_COMMAND_WRITE : BT_COMMAND_READ,
                           .with_session = write && rq->session != 0,
                           .session = rq->session,
                           .seq = rq->session_seq};
    uint32_t head = BT_COMMAND_HEAD + (c.with_session ? BT_COMMAND_SESSION : 0);
    if (rq->msg.len > MEMBER_REQUEST_MAX - head) {
        return 0;
    }
    bt_command_put(m->scratch, MEMBER_REQUEST_MAX, &c);
    bt_msg_copy(&rq->msg, m->scratch + head, rq->msg.len);
    return head + rq->msg.len;
}

static enum bt_drop_reason reason_of(enum bt_replica_result r)
{
    switch (r) {
    case BT_REPLICA_TOO_LONG:
        return BT_DROP_TOO_LONG;
    case BT_REPLICA_FULL:
        return BT_DROP_BUSY;
    case BT_REPLICA_FAILED:
        return BT_DROP_DISK;
    case BT_REPLICA_TRANSFERRING:
        return BT_DROP_MOVING;
    default:
        return BT_DROP_NOT_LEADER;
    }
}

static void ordered(struct bt_member *m, const struct bt_server_request *rq)
{
    uint64_t index;
    bool leads = bt_replica_status(m->core).role == BT_REPLICA_LEADER;
    if (bt_group_document_is_apart(&m->document)) {
        refuse(m, rq->handle, BT_DROP_NOT_LEADER); // it came past the box, to this member alone
        return;
    }
    if (m->disk_failed || !leads || !m->roster.formed) {
        refuse(m, rq->handle, m->disk_failed ? BT_DROP_DISK : leads ? BT_DROP_FORMING : BT_DROP_NOT_LEADER);
        return;
    }
    if (m->waiters >= (uint64_t)m->document.in_flight) {
        refuse(m, rq->handle, BT_DROP_BUSY);
        return;
    }
    uint32_t n = write_command(m, rq);
    enum bt_replica_result r =
        n != 0 ? bt_replica_propose(m->core, m->now, m->scratch, n, &index) : BT_REPLICA_TOO_LONG;
    if (r != BT_REPLICA_OK) {
        refuse(m, rq->handle, reason_of(r));
        return;
    }
    wait_for(m, &(struct member_waiter){.index = index,
                                        .term = bt_replica_status(m->core).term,
                                        .handle = rq->handle,
                                        .since = m->now,
                                        .with_session = rq->policy == BT_POLICY_REPLICATED_WRITE && rq->session != 0});
}

void member_on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct bt_member *m = arg;
    (void)txq; // the one of the call in progress
    if (!member_runs(m) || (m->phase == BT_MEMBER_FAILED && !m->disk_failed)) {
        refuse(m, rq->handle, m->phase == BT_MEMBER_FAILED ? BT_DROP_DISK : BT_DROP_REFUSED);
    } else if (rq->policy < BT_POLICY_REPLICATED_WRITE && !member_diverged(m)) {
        unordered(m, rq);
    } else {
        ordered(m, rq);
    }
}
