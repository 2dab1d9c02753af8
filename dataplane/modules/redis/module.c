// SPDX-License-Identifier: Apache-2.0
// bobtail-redis.so: makes a member of a replication group of an unmodified Redis server.
//
//   loadmodule bobtail-redis.so --name=cache-0 --data=/var/lib/cache --config=/etc/cache.json --key-dir=/etc/cache-keys
//
// Its arguments are the options of bobtail-replica, and --allow-read=COMMAND, --allow-write=COMMAND for commands of
// other modules that their user vouches for.
#include "member.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MOST = 64, VERSION = 1 };

RedisModuleCtx *redis_ctx;

static char *args[ARGS_MOST] = {"bobtail-redis"};
static int n_args = 1;
static struct sigaction on_term, on_int; // Redis' own
static int status;

static const struct r2p2_replica_service service = {
    .name = "bobtail-redis",
    .summary = "A member of a replication group: a Redis server whose commands come over R2P2.",
    .recv = redis_on_request,
    .restore = redis_on_restore,
    .snapshot_begin = redis_on_snapshot_begin,
    .snapshot_end = redis_on_snapshot_end,
};

// The member has ended, and so does Redis: by its own way, or at once when the member could not start.
static void end(void *arg)
{
    (void)arg;
    if (status != 0) {
        RM(Log)(redis_ctx, "warning", "the member ended with status %d, and this server with it", status);
        exit(status);
    }
    kill(getpid(), SIGTERM);
}

static void *run(void *arg)
{
    (void)arg;
    status = r2p2_replica_main(n_args, args, &service);
    sigaction(SIGTERM, &on_term, NULL);
    sigaction(SIGINT, &on_int, NULL);
    RM(EventLoopAddOneShot)(end, NULL);
    return NULL;
}

// Once Redis' event loop runs: whatever it loads at its start is there, and then gone.
static void start(void *arg)
{
    (void)arg;
    pthread_t thread;
    sigaction(SIGTERM, NULL, &on_term);
    sigaction(SIGINT, NULL, &on_int);
    if (pthread_create(&thread, NULL, run, NULL) != 0) {
        RM(Log)(redis_ctx, "warning", "the member's thread does not start");
        exit(1);
    }
    pthread_setname_np(thread, "bobtail");
    pthread_detach(thread);
}

static bool take_argument(RedisModuleCtx *ctx, const char *text)
{
    static const struct {
        const char *option;
        enum bt_redis_use use;
    } own[] = {{"allow-read=", BT_REDIS_READ}, {"allow-write=", BT_REDIS_WRITE}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t n = strlen(own[i].option);
        if (strncmp(text, own[i].option, n) == 0) {
            if (bt_redis_commands_add(text + n, own[i].use) != 0) {
                RM(Log)(ctx, "warning", "%s must name a command of another module", text);
                return false;
            }
            return true;
        }
    }
    if (n_args == ARGS_MOST - 1) {
        RM(Log)(ctx, "warning", "more than %d arguments", ARGS_MOST - 2);
        return false;
    }
    return asprintf(&args[n_args++], "--%s", text) > 0;
}

static bool take_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    size_t n;
    for (int i = 0; i < argc; i++) {
        if (!take_argument(ctx, RM(StringPtrLen)(argv[i], &n))) {
            return false;
        }
    }
    return true;
}

BT_REDIS_EXPORT int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    const char *missing = bt_redis_begin(ctx, "bobtail", VERSION);
    if (missing != NULL) {
        return REDISMODULE_ERR;
    }
    const char *wrong = redis_state_prepare(ctx);
    const char *differs = wrong == NULL ? redis_table_differs(ctx) : NULL;
    if (wrong != NULL) {
        RM(Log)(ctx, "warning", "this server cannot be a member: %s", wrong);
    } else if (differs != NULL) {
        RM(Log)(ctx, "warning", "this server cannot be a member: its command %s is another than that of Redis 7.0",
                differs);
    }
    if (wrong != NULL || differs != NULL || !take_arguments(ctx, argv, argc) ||
        redis_door_open(ctx) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    redis_ctx = RM(GetDetachedThreadSafeContext)(ctx);
    return RM(EventLoopAddOneShot)(start, NULL);
}

// A member cannot be taken out of a server that runs.
BT_REDIS_EXPORT int RedisModule_OnUnload(RedisModuleCtx *ctx);
BT_REDIS_EXPORT int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
    RM(Log)(ctx, "warning", "a member cannot be unloaded; end the server");
    return REDISMODULE_ERR;
}
