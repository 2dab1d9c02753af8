// SPDX-License-Identifier: Apache-2.0
// See group_packet.h.
#include "wire/group_packet.h"

#include <string.h>

#include "base/bytes.h"

enum { NOTE_VERSION = 0, DROP_VERSION = 1 };

static enum bt_group_packet_result look_into(const struct bt_r2p2_hdr *h, struct bt_group_packet *out)
{
    if (h->payload_len < BT_GROUP_HEADER + BT_GROUP_TRAILER) {
        return BT_GROUP_PACKET_SHORT;
    }
    out->message = h->payload;
    out->n = h->payload_len - BT_GROUP_TRAILER;
    out->disk = bt_get64(h->payload + out->n);
    out->is_note = h->payload[0] == NOTE_VERSION;
    return BT_GROUP_PACKET_OK;
}

enum bt_group_packet_result bt_group_packet_open(const struct bt_pkt *pkt, const struct bt_keyring *keys,
                                                 struct bt_group_packet *out)
{
    struct bt_r2p2_hdr h;
    enum bt_mcase m = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_MEMBER, &h);
    if (m != BT_M_OK || !h.first || !h.last) {
        return BT_GROUP_PACKET_FORM;
    }
    switch (bt_tag_verify(pkt->data, pkt->len, &h, keys, &pkt->src, &pkt->dst)) {
    case BT_TAG_VALID:
        break;
    case BT_TAG_ABSENT:
        return BT_GROUP_PACKET_UNTAGGED;
    case BT_TAG_UNKNOWN_KEY:
        return BT_GROUP_PACKET_UNKNOWN_KEY;
    case BT_TAG_WRONG:
        return BT_GROUP_PACKET_WRONG_TAG;
    }
    return look_into(&h, out);
}

enum bt_group_packet_result bt_group_packet_open_untagged(const struct bt_pkt *pkt, struct bt_group_packet *out)
{
    struct bt_r2p2_hdr h;
    enum bt_mcase m = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_MEMBER, &h);
    return m != BT_M_OK || !h.first || !h.last || h.opt.present != 0 ? BT_GROUP_PACKET_FORM : look_into(&h, out);
}

bool bt_group_packet_write(struct bt_pkt *pkt, const uint8_t *message, size_t n, uint64_t disk,
                           const struct bt_key *key)
{
    struct bt_r2p2_hdr h;
    uint8_t *to = bt_pkt_append(pkt, (uint32_t)n + BT_GROUP_TRAILER);
    if (to == NULL) {
        return false;
    }
    memcpy(to, message, n);
    bt_put64(to + n, disk);
    bt_r2p2_start(&h, BT_RAFT_REQUEST, BT_POLICY_UNRESTRICTED, true);
    h.last = true;
    h.count_or_index = 1;
    if (key == NULL) {
        return bt_r2p2_push_header(pkt, &h);
    }
    h.opt.present = BT_HAS_TAG;
    h.opt.key_id = key->id;
    h.opt.tag_flags = 0;
    memset(h.opt.tag, 0, sizeof h.opt.tag);
    return bt_r2p2_push_header(pkt, &h) && bt_tag_sign(pkt->data, pkt->len, &h, key, &pkt->src, &pkt->dst);
}

uint32_t bt_group_packet_most(uint32_t mtu)
{
    return bt_r2p2_datagram_max(mtu, false) - BT_GROUP_TAG_ROOM - BT_GROUP_TRAILER;
}

void bt_group_note_write(uint8_t p[BT_GROUP_NOTE], const struct bt_group_note *note)
{
    p[0] = NOTE_VERSION;
    p[1] = note->why;
    bt_put16(p + 2, note->id);
    bt_put32(p + 4, note->group);
    bt_put64(p + 8, note->cluster);
    bt_put64(p + 16, note->disk);
}

bool bt_group_note_read(const uint8_t *p, size_t n, struct bt_group_note *note)
{
    if (n != BT_GROUP_NOTE || p[0] != NOTE_VERSION || p[1] < BT_NOTE_WRONG_DISK || p[1] > BT_NOTE_HELLO) {
        return false;
    }
    *note = (struct bt_group_note){.why = p[1],
                                   .id = bt_get16(p + 2),
                                   .group = bt_get32(p + 4),
                                   .cluster = bt_get64(p + 8),
                                   .disk = bt_get64(p + 16)};
    return true;
}

void bt_drop_why_write(uint8_t p[BT_DROP_WHY], const struct bt_drop_why *why)
{
    p[0] = DROP_VERSION;
    p[1] = why->reason;
    bt_put16(p + 2, why->leader);
    memcpy(p + 4, why->client.ip, sizeof why->client.ip);
    bt_put16(p + 20, why->client.port);
    bt_put16(p + 22, 0);
}
