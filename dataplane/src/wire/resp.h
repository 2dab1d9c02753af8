// SPDX-License-Identifier: Apache-2.0
// Commands of Redis in one message: arrays of bulk strings (RESP), one behind the other, and nothing else. The words
// point into the message.
#ifndef BT_WIRE_RESP_H
#define BT_WIRE_RESP_H

#include <stdbool.h>
#include <stdint.h>

#define BT_RESP_WORDS    1024u // of all commands of a message
#define BT_RESP_COMMANDS 64u

struct bt_resp_word {
    const uint8_t *p;
    uint32_t n;
};

struct bt_resp_command {
    uint32_t first, count; // words of it; at least one
};

struct bt_resp {
    struct bt_resp_word word[BT_RESP_WORDS];
    struct bt_resp_command command[BT_RESP_COMMANDS];
    uint32_t words, commands;
    uint32_t at;     // after false: the byte that is wrong
    const char *why; // and what should be there
};

// Reads p[0..n), at least one command. False: it is not what was said above; out->at and out->why say where and why.
bool bt_resp_read(const uint8_t *p, uint32_t n, struct bt_resp *out);

#endif
