// SPDX-License-Identifier: Apache-2.0
// A member of a HovercRaft group: requests that flow-control boxes send to all members, their answers
// from here when this member is the one to answer, and the word to the boxes that they were answered.
#include <sodium/randombytes.h>
#include <string.h>

#include "base/bytes.h"
#include "rpc/error.h"
#include "run/boxed.h"
#include "run/member_internal.h"
#include "wire/feedback.h"

/* --- when requests arrived: for the time they took --- */

static struct member_arrival *place_of(struct bt_member *m, const struct bt_addr *client, uint16_t req_id)
{
    uint64_t h = bt_addr_half(client, 8) * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)client->port << 16 | req_id);
    return &m->arrival[(h ^ h >> 29) % MEMBER_ARRIVALS];
}

static void note_arrival(struct bt_member *m, const struct bt_addr *client, uint16_t req_id, uint64_t at)
{
    *place_of(m, client, req_id) = (struct member_arrival){.client = *client, .req_id = req_id, .at_ns = at};
}

static uint64_t arrived(struct bt_member *m, const struct bt_addr *client, uint16_t req_id)
{
    const struct member_arrival *a = place_of(m, client, req_id);
    return a->req_id == req_id && bt_addr_eq(&a->client, client) ? a->at_ns : 0;
}

/* --- in --- */

bool member_is_boxed(const struct bt_member *m, const struct bt_pkt *pkt, struct bt_r2p2_hdr *h)
{
    return bt_group_document_is_apart(&m->document) && bt_boxed_is(pkt, h);
}

void member_boxed(struct bt_member *m, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    // W-8: a switch signs nothing. What it sends is believed by where it comes from, only where the document says so.
    bool unsigned_may = bt_group_document_has_switch_at(&m->document, &pkt->src);
    enum bt_group_packet_result bad = bt_boxed_open(pkt, h, &m->conf.keys, unsigned_may);
    if (bad != BT_GROUP_PACKET_OK) {
        m->counter[BT_MEMBER_BOXED_BAD_FORM + bad - 1]++;
        return;
    }
    // A key that the core has not yet would give the request another hash than all others find.
    if (!member_runs(m) || m->phase != BT_MEMBER_RUNNING || !m->roster.formed || !m->key_given) {
        member_count(m, BT_MEMBER_BOXED_EARLY); // as if lost on the way: only a box may refuse
        return;
    }
    struct bt_replica_request q = {.client = h->opt.forwarded,
                                   .req_id = h->req_id,
                                   .read_only = h->policy == BT_POLICY_REPLICATED_READ,
                                   .body = m->scratch,
                                   .length = bt_boxed_command(h, m->scratch, MEMBER_REQUEST_MAX)};
    enum bt_replica_result r = q.length != 0 ? bt_replica_request(m->core, m->now, &q) : BT_REPLICA_TOO_LONG;
    if (r == BT_REPLICA_OK) {
        note_arrival(m, &q.client, q.req_id, pkt->t_rx_ns != 0 ? pkt->t_rx_ns : m->now);
    }
    member_count(m, r == BT_REPLICA_OK         ? BT_MEMBER_BOXED_TAKEN
                    : r == BT_REPLICA_TOO_LONG ? BT_MEMBER_BOXED_TOO_LONG
                                               : BT_MEMBER_BOXED_AGAIN);
}

/* --- out --- */

static void tell_box(struct bt_member *m, const struct bt_group_document_box *box, const struct bt_group_meta *of)
{
    struct bt_feedback fb = {.version = bt_addr_is_v4(&of->client) ? 1 : 2,
                             .flags = BT_FEEDBACK_PAIR,
                             .req_id = of->req_id,
                             .client = of->client,
                             .n = 1,
                             .incarnation = m->conf.incarnation};
    struct bt_pkt *pkt = bt_pool_get(m->conf.pool);
    const struct bt_key *key = bt_keyring_signer(&m->conf.keys);
    struct bt_r2p2_hdr h;
    if (pkt == NULL || key == NULL) {
        member_count(m, BT_MEMBER_NO_BUFFER);
        if (pkt != NULL) {
            bt_pool_put(m->conf.pool, pkt);
        }
        return;
    }
    pkt->src = m->conf.clients;
    pkt->dst = box->feedback;
    pkt->local = BT_MEMBER_CLIENTS;
    uint32_t n = fb.version == 1 ? BT_FEEDBACK_V1_SIZE : BT_FEEDBACK_V2_SIZE;
    bt_feedback_encode(bt_pkt_append(pkt, n), n, &fb);
    bt_r2p2_start(&h, BT_FEEDBACK, BT_POLICY_UNRESTRICTED, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = of->req_id;
    h.opt.present = BT_HAS_TAG;
    h.opt.key_id = key->id;
    h.opt.tag_flags = 0;
    memset(h.opt.tag, 0, sizeof h.opt.tag);
    bt_r2p2_push_header(pkt, &h);
    bt_tag_sign(pkt->data, pkt->len, &h, key, &pkt->src, &pkt->dst);
    bt_txq_push(m->conf.txq, pkt);
    member_count(m, BT_MEMBER_FEEDBACK_SENT);
}

// To the client, from the port it would have asked; then to the boxes (R-39: behind the last packet of the answer).
static void answer(struct bt_member *m, const struct bt_group_meta *of, const struct bt_command *c, uint8_t status,
                   const uint8_t *bytes, uint32_t n)
{
    struct member_waiter w = {.with_session = c->with_session};
    struct bt_server_adopted a = {.client = of->client,
                                  .req_id = of->req_id,
                                  .policy = c->kind == BT_COMMAND_WRITE ? BT_POLICY_REPLICATED_WRITE
                                                                        : BT_POLICY_REPLICATED_READ,
                                  .ext = c->ext,
                                  .t_first_ns = arrived(m, &of->client, of->req_id)};
    int r = bt_server_adopt(m->server, m->now, &a, &w.handle, m->conf.txq);
    if (r != 0) {
        member_count(m, r == BT_RPC_NO_BUFFER ? BT_MEMBER_NO_BUFFER : BT_MEMBER_ANSWERED_BEFORE);
        return;
    }
    member_count(m, BT_MEMBER_ANSWERED);
    member_answer(m, &w, status, bytes, n);
    for (size_t i = 0; i < m->document.n_boxes; i++) {
        tell_box(m, &m->document.box[i], of);
    }
}

/* --- what is too old to be answered (I-13) --- */

// A client's request id may stand for another request by then. Gaps below three signs of life are nothing special.
static bool long_ago(const struct bt_member *m, uint64_t then, uint64_t now)
{
    uint64_t quarantine = bt_rpc_timers_for(m->document.device).quarantine_ns;
    uint64_t quiet = 3 * (uint64_t)m->document.heartbeat_ms * 1000000;
    return then != 0 && now > then && now - then > (quarantine > quiet ? quarantine : quiet);
}

static void mute(struct bt_member *m, uint64_t to)
{
    m->mute_to = to > m->mute_to ? to : m->mute_to;
}

// Its process did: what it has in its log, and what waits in its sockets, is as old.
void member_stood_still(struct bt_member *m, uint64_t now)
{
    if (bt_group_document_is_apart(&m->document) && m->core != NULL && long_ago(m, m->now, now)) {
        m->mute_until_ns = now + MEMBER_CATCH_UP_NS;
        mute(m, bt_replica_status(m->core).last);
    }
}

// After a long silence: what is committed by now was ordered meanwhile.
void member_heard_leader(struct bt_member *m, const uint8_t *message, size_t n)
{
    static const uint8_t commit_at[] = {[BT_GROUP_APPEND] = BT_GROUP_HEADER + 20,
                                        [BT_GROUP_SHARED] = BT_GROUP_HEADER + 20,
                                        [BT_GROUP_COMMITTED] = BT_GROUP_HEADER + 12};
    size_t at = message[1] < sizeof commit_at ? commit_at[message[1]] : 0;
    if (!bt_group_document_is_apart(&m->document) || at == 0 || n < at + 8) {
        return;
    }
    if (long_ago(m, m->append_ns, m->now)) {
        m->mute_until_ns = m->now + MEMBER_CATCH_UP_NS;
    }
    m->append_ns = m->now;
    if (m->now < m->mute_until_ns) {
        mute(m, bt_get64(message + at));
    }
}

void member_apply_request(struct bt_member *m, const struct bt_entry *e)
{
    struct bt_group_meta of = bt_group_meta_get(e->body);
    struct bt_command c;
    unsigned duty = bt_replica_duty(m->core, e);
    enum bt_command_kind kind = e->kind == BT_ENTRY_WRITE ? BT_COMMAND_WRITE : BT_COMMAND_READ;
    const uint8_t *reply = m->reply;
    enum bt_session_status status = BT_SESSION_DONE;
    uint32_t n = 0;
    if (!bt_command_get(e->body + BT_GROUP_META, e->length - BT_GROUP_META, &c) || c.kind != kind) {
        member_stop(m, BT_MEMBER_FAILED, "State", "entry %llu is no request: another version of this program wrote it",
                    (unsigned long long)e->index);
        return;
    }
    if (kind == BT_COMMAND_WRITE) {
        status = member_execute_write(m, e, &c, &reply, &n);
    } else if ((duty & BT_REPLICA_EXECUTE) != 0) {
        struct iovec iov = {.iov_base = (void *)(uintptr_t)c.body, .iov_len = c.n};
        member_execute(m, &iov, 1, true);
        member_count(m, BT_MEMBER_APPLIED_READS);
        n = m->reply_n;
    }
    if ((duty & BT_REPLICA_ANSWER) == 0) {
        return;
    }
    if (e->index <= m->mute_to) {
        member_count(m, BT_MEMBER_ANSWER_TOO_LATE);
        return;
    }
    answer(m, &of, &c, (uint8_t)status, reply, status == BT_SESSION_DONE ? n : 0);
}

/* --- the key of the bodies' hash --- */

bool member_wants_key(const struct bt_member *m)
{
    return bt_group_document_is_apart(&m->document) && !m->roster.keyed;
}

// Clients must not know it, and keys of tags come and go: it is drawn once, and the log carries it.
void member_draw_key(struct bt_command *c)
{
    *c = (struct bt_command){.kind = BT_COMMAND_KEY};
    randombytes_buf(c->key, sizeof c->key);
    c->key[0] |= 1; // never all 0
}

void member_apart_turn(struct bt_member *m)
{
    if (!bt_group_document_is_apart(&m->document)) {
        return;
    }
    if (m->roster.keyed && !m->key_given) {
        bt_replica_body_key(m->core, m->roster.body_key);
        m->key_given = true;
    }
    bt_replica_announce(m->core, m->now); // what was applied makes room for more to answer
}
