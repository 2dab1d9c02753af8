// SPDX-License-Identifier: Apache-2.0
// Signed reports of load (C-64 to C-66): what a host tells a balancer of the servers it runs, and whether to believe
// it. Nothing here reads a clock, a file or a socket.
#ifndef BT_TCP_CRAB_JUDGE_H
#define BT_TCP_CRAB_JUDGE_H

#include "base/addr.h"

#include <stdbool.h>
#include <stdint.h>

#define BT_CRAB_SIGNED_HEAD     40u
#define BT_CRAB_SIGNED_LOAD     24u
#define BT_CRAB_SIGNED_TAG      16u
#define BT_CRAB_SIGNED_LOADS    48u // of one datagram, which fits IPv6's smallest MTU
#define BT_CRAB_CHALLENGE_BYTES (BT_CRAB_SIGNED_HEAD + BT_CRAB_SIGNED_TAG)

#define BT_CRAB_SECRET_LEAST 16u
#define BT_CRAB_SECRET_MOST  64u
#define BT_CRAB_SECRETS      2u                    // while a key is exchanged
#define BT_CRAB_SESSIONS     4096u                 // at a time
#define BT_CRAB_SESSION_LIFE UINT64_C(10000000000) // of silence, in ns

struct bt_crab_secret {
    uint8_t bytes[BT_CRAB_SECRET_MOST];
    uint32_t len; // 0: none
};

// Of the sessions with one number modulo BT_CRAB_SESSIONS: the newest that was used, and when the newest was opened.
struct bt_crab_session {
    uint64_t number, sequence, heard_ns, opened_ns;
};

struct bt_crab_judge {
    struct bt_crab_secret secrets[BT_CRAB_SECRETS];
    uint64_t run;    // random, not 0: tells one life of the balancer from another
    uint64_t opened; // number of the last session
    struct bt_crab_session sessions[BT_CRAB_SESSIONS];
};

enum bt_crab_verdict {
    BT_CRAB_BELIEVED,
    BT_CRAB_REPORT_MALFORMED,
    BT_CRAB_REPORT_UNSIGNED, // of version 1
    BT_CRAB_REPORT_TAG,      // made by no key there is
    BT_CRAB_REPORT_SESSION,  // of no session that lives: the sender is to be answered
    BT_CRAB_REPORT_REPLAY,   // of a live one, and not newer than what was heard
};

// Of a server, by its address and port.
struct bt_crab_told {
    struct bt_addr server;
    uint32_t open;
};

struct bt_crab_reported {
    uint32_t n;
    struct bt_crab_told loads[BT_CRAB_SIGNED_LOADS];
    uint8_t answer[BT_CRAB_CHALLENGE_BYTES]; // to send back after BT_CRAB_REPORT_SESSION
};

// With `run` random. Secrets are the caller's to fill in, at any time: sessions outlive them.
void bt_crab_judge_init(struct bt_crab_judge *j, uint64_t run);

// Judges a datagram. loads are filled in with BT_CRAB_BELIEVED only, the answer with BT_CRAB_REPORT_SESSION only.
enum bt_crab_verdict bt_crab_judge_take(struct bt_crab_judge *j, uint64_t now_ns, const uint8_t *p, uint32_t len,
                                        struct bt_crab_reported *out);

// Writes the tag of p[0..n) behind it.
void bt_crab_secret_sign(const struct bt_crab_secret *secret, uint8_t *p, uint32_t n);

#endif
