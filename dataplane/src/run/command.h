// SPDX-License-Identifier: Apache-2.0
// What the log of a replicated service carries: commands of clients, and what the members tell one another through it
// . The body of an entry of kind COMMAND:
//
//   kind u8, flags u8 (1 SESSION, 2 EXTENSIONS: the client knows them, of a WRITE or READ that came by a box), 0 u16;
//   with flag SESSION: session u64, number u64; then by kind
//   WRITE, READ   the request's bytes
//   REGISTER      member's id u16, 0 u16, 0 u32, its disk u64
//   ADDRESS       id u16, port between members u16, port of clients u16, 0 u16, address 16 bytes, name
//   FORMED        the founding configuration (wire/group.h)
//   KEY           16 bytes, not all 0: the key of the hash of bodies that come by themselves
//
// WRITE and READ are also what stands behind the metadata of an entry of kind WRITE or READ (HovercRaft).
#ifndef BT_RUN_COMMAND_H
#define BT_RUN_COMMAND_H

#include "base/addr.h"
#include "wire/group.h"

#define BT_COMMAND_HEAD    4u
#define BT_COMMAND_SESSION 16u
#define BT_COMMAND_NAME    64u // of a member, with its end
#define BT_COMMAND_KEY_LEN 16u

enum bt_command_kind {
    BT_COMMAND_WRITE = 1,
    BT_COMMAND_READ,
    BT_COMMAND_REGISTER,
    BT_COMMAND_ADDRESS,
    BT_COMMAND_FORMED,
    BT_COMMAND_KEY,
    BT_COMMAND_KINDS,
};

struct bt_command {
    uint8_t kind;          // enum bt_command_kind
    bool with_session;     // WRITE only
    bool ext;              // WRITE, READ
    uint64_t session, seq; // with_session
    const uint8_t *body;   // WRITE, READ: n bytes
    uint32_t n;
    uint16_t id;                     // REGISTER, ADDRESS
    uint64_t disk;                   // REGISTER
    struct bt_addr member, client;   // ADDRESS: the same IP
    char name[BT_COMMAND_NAME];      // ADDRESS
    struct bt_group_config config;   // FORMED
    uint8_t key[BT_COMMAND_KEY_LEN]; // KEY
};

// Writes c and returns its bytes; 0 when room is too small.
uint32_t bt_command_put(uint8_t *p, uint32_t room, const struct bt_command *c);

// Reads p[0..n); body points into it. False when it is no command.
bool bt_command_get(const uint8_t *p, uint32_t n, struct bt_command *c);

#endif
