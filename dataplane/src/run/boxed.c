// SPDX-License-Identifier: Apache-2.0
// See boxed.h.
#include "run/boxed.h"

#include "replica/replica.h"
#include "run/command.h"

bool bt_boxed_is(const struct bt_pkt *pkt, struct bt_r2p2_hdr *h)
{
    return bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, h) == BT_M_OK && h->type == BT_REQUEST && h->first &&
           h->policy >= BT_POLICY_REPLICATED_WRITE && (h->opt.present & (BT_HAS_FORWARDED | BT_HAS_TAG)) != 0;
}

enum bt_group_packet_result bt_boxed_open(const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h,
                                          const struct bt_keyring *keys, bool unsigned_may)
{
    switch (bt_tag_verify(pkt->data, pkt->len, h, keys, &pkt->src, &pkt->dst)) {
    case BT_TAG_VALID:
        break;
    case BT_TAG_ABSENT:
        if (unsigned_may) {
            break;
        }
        return BT_GROUP_PACKET_UNTAGGED;
    case BT_TAG_UNKNOWN_KEY:
        return BT_GROUP_PACKET_UNKNOWN_KEY;
    case BT_TAG_WRONG:
        return BT_GROUP_PACKET_WRONG_TAG;
    }
    bool whole = h->last && (h->opt.present & BT_HAS_FORWARDED) != 0 && !bt_addr_bad_source(&h->opt.forwarded);
    return whole ? BT_GROUP_PACKET_OK : BT_GROUP_PACKET_FORM;
}

uint32_t bt_boxed_command(const struct bt_r2p2_hdr *h, uint8_t *out, uint32_t room)
{
    bool write = h->policy == BT_POLICY_REPLICATED_WRITE;
    struct bt_command c = {.kind = write ? BT_COMMAND_WRITE : BT_COMMAND_READ,
                           .with_session = write && (h->opt.present & BT_HAS_SESSION) != 0 && h->opt.session != 0,
                           .ext = h->ext,
                           .body = h->payload,
                           .n = (uint32_t)h->payload_len};
    if (c.with_session) {
        c.session = h->opt.session;
        c.seq = h->opt.session_seq;
    }
    return bt_command_put(out, room, &c);
}

uint32_t bt_boxed_most(uint32_t mtu)
{
    return bt_replica_request_most(bt_group_packet_most(mtu)) - BT_COMMAND_HEAD - BT_COMMAND_SESSION;
}
