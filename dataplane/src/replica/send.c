// SPDX-License-Identifier: Apache-2.0
// See send.h.
#include "replica/send.h"

struct bt_group_message *replica_message(struct bt_replica *r, enum bt_group_type type)
{
    r->out.header = (struct bt_group_header){.version = BT_GROUP_VERSION,
                                             .type = (uint8_t)type,
                                             .from = r->conf.id,
                                             .group = r->conf.group,
                                             .term = r->term,
                                             .cluster = r->conf.cluster};
    return &r->out;
}

void replica_send(struct bt_replica *r, uint16_t to)
{
    size_t n = bt_group_encode(r->message, r->conf.message_bytes, &r->out);
    if (n == 0) {
        replica_count(r, BT_REPLICA_UNSENT_TOTAL);
        return;
    }
    r->ops.send(r->ctx, to, r->message, n);
}

void replica_send_vote_reply(struct bt_replica *r, uint16_t to, uint32_t flags, uint64_t asked)
{
    replica_message(r, BT_GROUP_VOTE_REPLY)->vote = (struct bt_group_vote){.flags = flags, .asked = asked};
    replica_send(r, to);
}

void replica_send_ack(struct bt_replica *r)
{
    if (r->failed) {
        replica_count(r, BT_REPLICA_STORE_FAILED_TOTAL);
        return;
    }
    r->ack_due = !replica_settled(r) || r->log.durable < r->verified;
    if (!replica_settled(r) || r->leader == 0) {
        return;
    }
    uint64_t match = r->verified < r->log.durable ? r->verified : r->log.durable;
    replica_message(r, BT_GROUP_APPEND_REPLY)->append_reply = (struct bt_group_append_reply){
        .flags = BT_GROUP_YES, .index = match, .last = r->log.last, .applied = r->applied};
    replica_send(r, r->leader);
}

void replica_send_bodyless(struct bt_replica *r, uint16_t to)
{
    replica_message(r, BT_GROUP_APPEND_REPLY)->append_reply = (struct bt_group_append_reply){
        .flags = BT_GROUP_BODYLESS, .index = r->log.last + 1, .last = r->log.last, .applied = r->applied};
    replica_send(r, to);
}

void replica_send_refusal(struct bt_replica *r, uint16_t to, uint64_t refused, uint64_t last)
{
    replica_message(r, BT_GROUP_APPEND_REPLY)->append_reply =
        (struct bt_group_append_reply){.index = refused, .last = last, .applied = r->applied};
    replica_send(r, to);
}
