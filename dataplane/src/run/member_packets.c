// SPDX-License-Identifier: Apache-2.0
// Packets between members: the tag first, then whose disk speaks, then the core.
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "run/member_internal.h"

enum { TYPE_AT = 1, FROM_AT = 2, TERM_AT = 8 };
static const uint64_t NOTE_PAUSE_NS = 20000000, HELLO_PAUSE_NS = 300000000;

/* --- who is where --- */

const struct member_heard *member_heard_of(const struct bt_member *m, uint16_t id)
{
    for (uint32_t i = 0; i < m->n_heard; i++) {
        if (m->heard[i].id == id) {
            return &m->heard[i];
        }
    }
    return NULL;
}

static struct member_heard *hear(struct bt_member *m, uint16_t id)
{
    for (uint32_t i = 0; i < m->n_heard; i++) {
        if (m->heard[i].id == id) {
            return &m->heard[i];
        }
    }
    if (m->n_heard == MEMBER_HEARD) { // ids that are registered are known from the roster
        for (uint32_t i = 0; i < m->n_heard; i++) {
            const struct bt_roster_row *row = bt_roster_find(&m->roster, m->heard[i].id);
            if (row != NULL && row->removed) {
                m->heard[i] = (struct member_heard){.id = id};
                return &m->heard[i];
            }
        }
        return NULL;
    }
    m->heard[m->n_heard] = (struct member_heard){.id = id};
    return &m->heard[m->n_heard++];
}

void member_know_disk(struct bt_member *m, uint16_t id, uint64_t disk)
{
    struct member_heard *h = hear(m, id);
    if (h != NULL) {
        h->disk = disk;
    }
}

// Where it spoke from last, else what the document says, else what the log says.
bool member_address(const struct bt_member *m, uint16_t id, struct bt_addr *member, struct bt_addr *client)
{
    const struct member_heard *h = member_heard_of(m, id);
    const struct bt_group_document_member *d = bt_group_document_by_id(&m->document, id);
    const struct bt_roster_row *row = bt_roster_find(&m->roster, id);
    bool spoke = h != NULL && h->spoke, known = true;
    memset(member, 0, sizeof *member);
    memset(client, 0, sizeof *client);
    if (d != NULL) {
        *member = d->address;
        *client = d->client;
    } else if (row != NULL && row->reached) {
        *member = row->address;
        *client = row->client;
    } else {
        known = false;
    }
    if (spoke) {
        *member = h->address;
        memcpy(client->ip, h->address.ip, sizeof client->ip);
    }
    return known || spoke;
}

const char *member_name(const struct bt_member *m, uint16_t id)
{
    const struct bt_group_document_member *d = bt_group_document_by_id(&m->document, id);
    const struct bt_roster_row *row = bt_roster_find(&m->roster, id);
    return d != NULL ? d->name : row != NULL ? row->name : "";
}

/* --- out --- */

// key NULL: to a switch, which reads no tag.
static void send_signed(struct bt_member *m, const struct bt_addr *dst, const uint8_t *p, size_t n,
                        const struct bt_key *key)
{
    struct bt_pkt *pkt = bt_pool_get(m->conf.pool);
    if (pkt == NULL) {
        member_count(m, BT_MEMBER_NO_BUFFER);
        return;
    }
    pkt->src = m->conf.members;
    pkt->dst = *dst;
    pkt->local = BT_MEMBER_MEMBERS;
    if (!bt_group_packet_write(pkt, p, n, m->disk, key)) {
        member_count(m, BT_MEMBER_NO_BUFFER);
        bt_pool_put(m->conf.pool, pkt);
        return;
    }
    bt_txq_push(m->conf.txq, pkt);
    member_count(m, BT_MEMBER_SENT);
}

static void send_to(struct bt_member *m, const struct bt_addr *dst, const uint8_t *p, size_t n)
{
    const struct bt_key *key = bt_keyring_signer(&m->conf.keys);
    if (key == NULL) {
        member_count(m, BT_MEMBER_NO_BUFFER);
        return;
    }
    send_signed(m, dst, p, n, key);
}

// who answers to the aggregator is counted there by its number alone, so it must be the number's own disk.
static bool has_the_disk_of_its_number(const struct bt_member *m)
{
    const struct bt_roster_row *row = bt_roster_find(&m->roster, m->id);
    return row != NULL && row->registered && row->disk == m->disk;
}

static void send_to_aggregator(struct bt_member *m, const uint8_t *message, size_t n)
{
    const struct bt_addr *to = &m->document.aggregator.address;
    if (message[TYPE_AT] == BT_GROUP_PROBE && !m->roster.formed) {
        return; // before every first voter is known by its disk nobody counts for the leader
    }
    if (message[TYPE_AT] == BT_GROUP_SHARED_REPLY && !has_the_disk_of_its_number(m)) {
        member_count(m, BT_MEMBER_UNREGISTERED);
    } else if (m->document.aggregator.messages == BT_GROUP_BY_SOURCE) {
        send_signed(m, to, message, n, NULL);
    } else {
        send_to(m, to, message, n);
    }
}

void member_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct bt_member *m = ctx;
    struct bt_addr member, client;
    if (to == BT_GROUP_AGGREGATOR) {
        send_to_aggregator(m, message, n);
        return;
    }
    if (!member_address(m, to, &member, &client)) {
        member_count(m, BT_MEMBER_NO_ADDRESS);
        return;
    }
    send_to(m, &member, message, n);
}

// Tells somebody that it is refused, so that it does not try for ever.
static void send_note(struct bt_member *m, const struct bt_pkt *to, uint16_t id, uint64_t disk, uint8_t why)
{
    uint8_t p[BT_GROUP_NOTE];
    if (to == NULL || m->now < m->note_at) {
        return;
    }
    m->note_at = m->now + NOTE_PAUSE_NS;
    bt_group_note_write(p, &(struct bt_group_note){.why = why,
                                                   .id = id,
                                                   .group = (uint32_t)m->document.number,
                                                   .cluster = bt_member_wire_cluster(m->document.cluster),
                                                   .disk = disk});
    member_count(m, BT_MEMBER_NOTES_SENT);
    send_to(m, &to->src, p, sizeof p);
}

void member_hello_turn(struct bt_member *m)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    uint8_t p[BT_GROUP_NOTE];
    for (uint16_t i = 0; i < s.config->count; i++) {
        if (s.config->member[i].id == m->id && s.config->member[i].role == BT_GROUP_VOTER) {
            return; // it stands for election, and is told then
        }
    }
    if (s.leader != 0 || m->now < m->hello_at) {
        return;
    }
    m->hello_at = m->now + HELLO_PAUSE_NS;
    bt_group_note_write(p, &(struct bt_group_note){.why = BT_NOTE_HELLO,
                                                   .id = m->id,
                                                   .group = (uint32_t)m->document.number,
                                                   .cluster = bt_member_wire_cluster(m->document.cluster),
                                                   .disk = m->disk});
    for (size_t i = 0; i < m->document.n_members; i++) {
        if (m->document.member[i].id != m->id) {
            send_to(m, &m->document.member[i].address, p, sizeof p);
        }
    }
}

/* --- in --- */

static bool of_our_group(const struct bt_member *m, const uint8_t *message)
{
    return bt_get32(message + 4) == (uint32_t)m->document.number &&
           bt_get64(message + 16) == bt_member_wire_cluster(m->document.cluster);
}

// The disk that an id speaks with is always the same one: the registered one, or, before any is, the first one heard.
// pkt: where it is told otherwise; NULL: nowhere.
static bool is_its_disk(struct bt_member *m, const struct bt_pkt *pkt, uint16_t from, uint64_t disk)
{
    const struct bt_roster_row *row = bt_roster_find(&m->roster, from);
    if (row != NULL && row->removed) {
        member_count(m, BT_MEMBER_BAD_REMOVED_MEMBER);
        send_note(m, pkt, from, disk, BT_NOTE_REMOVED);
        return false;
    }
    const struct member_heard *h = member_heard_of(m, from);
    bool registered = row != NULL && row->registered;
    uint64_t right = registered ? row->disk : h != NULL ? h->disk : disk;
    if (right != disk) {
        member_count(m, BT_MEMBER_BAD_WRONG_DISK);
        if (registered) {
            send_note(m, pkt, from, disk, BT_NOTE_WRONG_DISK);
        }
        return false;
    }
    return true;
}

static void remember(struct bt_member *m, const struct bt_pkt *pkt, uint16_t from, uint64_t disk)
{
    struct member_heard *h = hear(m, from);
    if (h != NULL) {
        h->address = pkt->src;
        h->disk = disk;
        h->spoke = true;
    }
}

// Whether the message is read. A leader's message by way of the aggregator has its disk, and another's address; what
// the aggregator says by itself has no disk.
static bool may_speak(struct bt_member *m, const struct bt_pkt *pkt, const struct bt_group_packet *p)
{
    uint16_t from = bt_get16(p->message + FROM_AT);
    if (!of_our_group(m, p->message) || from == 0 || from == m->id) {
        return true; // the core counts it
    }
    if (from == BT_GROUP_AGGREGATOR) {
        m->counter[BT_MEMBER_BAD_WRONG_DISK] += p->disk != 0;
        return p->disk == 0;
    }
    bool direct = p->message[TYPE_AT] != BT_GROUP_SHARED;
    if (!is_its_disk(m, direct ? pkt : NULL, from, p->disk)) {
        return false;
    }
    if (direct) {
        remember(m, pkt, from, p->disk);
    }
    return true;
}

static void on_refusal(struct bt_member *m, const struct bt_group_note *note)
{
    if (note->id != m->id || note->disk != m->disk) {
        member_count(m, BT_MEMBER_BAD_NOTE);
    } else if (note->why == BT_NOTE_REMOVED) {
        member_refused(m);
    } else {
        member_stop(m, BT_MEMBER_REFUSED, "WrongDisk",
                    "the group knows another disk of member %u: remove this member and add one with a new id", m->id);
    }
}

static void on_note(struct bt_member *m, const struct bt_pkt *pkt, const struct bt_group_packet *p)
{
    struct bt_group_note note;
    bool ours = bt_group_note_read(p->message, p->n, &note) && note.group == (uint32_t)m->document.number &&
                note.cluster == bt_member_wire_cluster(m->document.cluster);
    if (!ours) {
        member_count(m, BT_MEMBER_BAD_NOTE);
    } else if (note.why != BT_NOTE_HELLO) {
        on_refusal(m, &note);
    } else if (note.id != 0 && note.id != m->id && note.disk == p->disk && is_its_disk(m, pkt, note.id, note.disk)) {
        remember(m, pkt, note.id, note.disk);
    }
}

// W-8, R-345: a switch signs nothing. Its packets are believed by where they come from, and only where the document
// says so.
static bool is_from_switch(const struct bt_member *m, const struct bt_pkt *pkt)
{
    const struct bt_group_document_aggregator *a = &m->document.aggregator;
    return a->messages == BT_GROUP_BY_SOURCE && bt_addr_eq(&pkt->src, &a->address);
}

// Of what came without a tag: only what an aggregator says, and in a term that this member knows of. A new leader's
// signs of life have a tag, so that nobody without the key makes a term up.
static bool a_switch_may_say(struct bt_member *m, const struct bt_group_packet *p)
{
    uint8_t type = p->message[TYPE_AT];
    bool its = type == BT_GROUP_SHARED || type == BT_GROUP_COMMITTED || type == BT_GROUP_PROBE_REPLY;
    if (p->is_note || !its) {
        member_count(m, BT_MEMBER_BAD_UNSAID);
        return false;
    }
    if (bt_get64(p->message + TERM_AT) > bt_replica_status(m->core).term) {
        member_count(m, BT_MEMBER_BAD_AHEAD);
        return false;
    }
    return true;
}

void member_receive(struct bt_member *m, struct bt_pkt *pkt)
{
    struct bt_group_packet p;
    enum bt_group_packet_result r = bt_group_packet_open(pkt, &m->conf.keys, &p);
    bool untagged = r == BT_GROUP_PACKET_UNTAGGED && is_from_switch(m, pkt);
    if (untagged) {
        r = bt_group_packet_open_untagged(pkt, &p);
    }
    if (r != BT_GROUP_PACKET_OK) {
        m->counter[BT_MEMBER_BAD_FORM + r - 1]++;
        return;
    }
    if (!member_runs(m)) {
        member_count(m, BT_MEMBER_BAD_NOT_RUNNING);
        return;
    }
    if (untagged && !a_switch_may_say(m, &p)) {
        return;
    }
    if (p.is_note) {
        on_note(m, pkt, &p);
        return;
    }
    if (!may_speak(m, pkt, &p)) {
        return;
    }
    member_heard_leader(m, p.message, p.n);
    member_count(m, BT_MEMBER_ACCEPTED);
    bt_replica_receive(m->core, m->now, p.message, p.n);
}
