// SPDX-License-Identifier: Apache-2.0
// A member of a replication group inside a Redis server: shared by the module's files. The member has a thread of its
// own; it takes Redis' lock for the commands it executes, and Redis' main thread does what only that one may.
#ifndef BT_MODULES_REDIS_MEMBER_H
#define BT_MODULES_REDIS_MEMBER_H

#include "bobtail/replica.h"
#include "commands.h"
#include "redis_api.h"

// Of the member's thread, not bound to a client.
extern RedisModuleCtx *redis_ctx;

/* execute.c */
void redis_on_request(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt);

/* state.c: a snapshot is what BGSAVE writes. */
// What of Redis' configuration is not as a member needs it, and how it should be; NULL: all is well. Takes the folder
// for this server alone.
const char *redis_state_prepare(RedisModuleCtx *ctx);
int redis_on_snapshot_begin(void *arg);
size_t redis_on_snapshot_end(void *arg, uint8_t *out, size_t room);
int redis_on_restore(void *arg, const uint8_t *bytes, size_t n);

/* door.c: clients that come to Redis' own port read, and look after the server; they do not write. */
int redis_door_open(RedisModuleCtx *ctx);
// The first command of the table that this Redis does not have, or has with another trait; NULL: there is none.
const char *redis_table_differs(RedisModuleCtx *ctx);

#endif
