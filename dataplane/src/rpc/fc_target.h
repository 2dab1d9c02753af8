// SPDX-License-Identifier: Apache-2.0
// An address that a client sends to, under flow control (F-40 to F-48): of a server, or of a router with servers behind
// it. Each server speaks for itself, so each that was heard has its own count; a request is charged to one that has
// room, whichever server it then gets.
#ifndef BT_RPC_FC_TARGET_H
#define BT_RPC_FC_TARGET_H

#include "base/addr.h"
#include "rpc/fc_sender.h"

#define BT_FC_VOICES 64u // servers behind one address; of more, those heard last
#define BT_FC_NOBODY UINT32_MAX

struct bt_fc_voice {
    struct bt_addr from; // port 0: nobody
    uint64_t heard_ns;   // 0: never
    struct bt_fc_sender sender;
};

struct bt_fc_target {
    struct bt_addr to;
    uint32_t unanswered;
    uint32_t voices, turn;         // places ever used; where the next look begins
    uint64_t held_until, swept_ns; // the router said so; when those long unheard were last forgotten
    uint64_t used_ns;
    struct bt_fc_voice voice[BT_FC_VOICES];
};

// One token, until somebody has said what they think.
void bt_fc_target_init(struct bt_fc_target *t, const struct bt_addr *to);
// Whom the request is charged to; BT_FC_NOBODY: it would probably wait for too long, and *retry_after_ns is when asking
// again makes sense.
uint32_t bt_fc_target_take(struct bt_fc_target *t, uint64_t now, uint64_t *retry_after_ns);
// A request that was charged to `voice` was answered, refused or given up: before what came with it is told.
void bt_fc_target_ended(struct bt_fc_target *t, uint32_t voice);
// The 16 bits of a packet from `from`. From `to` itself, behind which others were heard, they are the router's own: its
// silence is everybody's.
void bt_fc_target_signalled(struct bt_fc_target *t, uint64_t now, const struct bt_addr *from, uint16_t bits);
// A reply without a signal: `from` does not take part.
void bt_fc_target_unsignalled(struct bt_fc_target *t, uint64_t now, const struct bt_addr *from);

#endif
