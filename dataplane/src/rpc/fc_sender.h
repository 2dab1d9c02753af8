// SPDX-License-Identifier: Apache-2.0
// Flow control by waiting time, the client's half (F-31 to F-33, F-40 to F-48): may a request be sent to this server
// now, and if not, when.
#ifndef BT_RPC_FC_SENDER_H
#define BT_RPC_FC_SENDER_H

#include <stdbool.h>
#include <stdint.h>

// One per server and connection.
struct bt_fc_sender {
    uint32_t tokens;     // requests that may be unanswered at once
    uint32_t unanswered; // sent, and neither answered nor given up
    bool silent;
    uint64_t silent_until, sent_at;
    uint64_t refused; // sends that failed, since the beginning
};

// One token, until the server has said what it thinks.
void bt_fc_sender_init(struct bt_fc_sender *s);
// True: send one request now; it costs one token, sent again it costs none (F-46). False: it would probably wait for
// too long; *retry_after_ns is when asking again makes sense.
bool bt_fc_try_take(struct bt_fc_sender *s, uint64_t now, uint64_t *retry_after_ns);
// One of the requests was answered, refused or given up: before the signal that came with it.
void bt_fc_ended(struct bt_fc_sender *s);
// The 16 bits of a packet that arrived now. The newest packet holds.
void bt_fc_signalled(struct bt_fc_sender *s, uint64_t now, uint16_t bits);
// The server answered without a signal: it has none to give, and nothing is held back.
void bt_fc_unsignalled(struct bt_fc_sender *s);
// F-48: the first of n that can take it, from `first` on, which the caller draws. n or more: none can; *retry_after_ns
// is the shortest.
uint32_t bt_fc_take_any(struct bt_fc_sender *const *senders, uint32_t n, uint32_t first, uint64_t now,
                        uint64_t *retry_after_ns);

#endif
