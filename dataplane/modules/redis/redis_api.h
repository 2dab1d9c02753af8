// SPDX-License-Identifier: Apache-2.0
// What the modules here use of Redis' module interface (version 1, Redis 7.0): declared from its documentation, since
// Debian ships no header. A module is handed a context whose first word is a function that finds the others by name.
#ifndef BT_MODULES_REDIS_API_H
#define BT_MODULES_REDIS_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleCallReply RedisModuleCallReply;
typedef struct RedisModuleKey RedisModuleKey;
typedef struct RedisModuleCommandFilter RedisModuleCommandFilter;
typedef struct RedisModuleCommandFilterCtx RedisModuleCommandFilterCtx;
typedef struct RedisModuleServerInfoData RedisModuleServerInfoData;
typedef int (*RedisModuleCmdFunc)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
typedef void (*RedisModuleEventLoopOneShotFunc)(void *arg);
typedef void (*RedisModuleCommandFilterFunc)(RedisModuleCommandFilterCtx *filter);

enum { REDISMODULE_OK = 0, REDISMODULE_ERR = 1, REDISMODULE_APIVER_1 = 1 };
enum { REDISMODULE_READ = 1, REDISMODULE_WRITE = 2 };
enum { REDISMODULE_KEYTYPE_EMPTY = 0, REDISMODULE_KEYTYPE_STRING = 1, REDISMODULE_KEYTYPE_ZSET = 5 };
enum {
    REDISMODULE_REPLY_STRING = 0,
    REDISMODULE_REPLY_ERROR = 1,
    REDISMODULE_REPLY_INTEGER = 2,
    REDISMODULE_REPLY_ARRAY = 3
};
enum { REDISMODULE_CMDFILTER_NOSELF = 1 };
enum { REDISMODULE_POSTPONED_LEN = -1 };

// X(result, name, arguments)
#define BT_REDIS_API(X)                                                                                                \
    X(int, SetModuleAttribs, (RedisModuleCtx * ctx, const char *name, int version, int api))                           \
    X(int, CreateCommand,                                                                                              \
      (RedisModuleCtx * ctx, const char *name, RedisModuleCmdFunc, const char *flags, int, int, int))                  \
    X(int, IsModuleNameBusy, (const char *name))                                                                       \
    X(void, Log, (RedisModuleCtx * ctx, const char *level, const char *format, ...))                                   \
    X(RedisModuleCtx *, GetDetachedThreadSafeContext, (RedisModuleCtx * ctx))                                          \
    X(void, ThreadSafeContextLock, (RedisModuleCtx * ctx))                                                             \
    X(void, ThreadSafeContextUnlock, (RedisModuleCtx * ctx))                                                           \
    X(int, EventLoopAddOneShot, (RedisModuleEventLoopOneShotFunc, void *arg))                                          \
    X(RedisModuleCallReply *, Call, (RedisModuleCtx * ctx, const char *command, const char *format, ...))              \
    X(const char *, CallReplyProto, (RedisModuleCallReply *, size_t *n))                                               \
    X(int, CallReplyType, (RedisModuleCallReply *))                                                                    \
    X(size_t, CallReplyLength, (RedisModuleCallReply *))                                                               \
    X(RedisModuleCallReply *, CallReplyArrayElement, (RedisModuleCallReply *, size_t i))                               \
    X(const char *, CallReplyStringPtr, (RedisModuleCallReply *, size_t *n))                                           \
    X(void, FreeCallReply, (RedisModuleCallReply *))                                                                   \
    X(RedisModuleString *, CreateString, (RedisModuleCtx * ctx, const char *p, size_t n))                              \
    X(void, FreeString, (RedisModuleCtx * ctx, RedisModuleString *))                                                   \
    X(const char *, StringPtrLen, (const RedisModuleString *, size_t *n))                                              \
    X(int, StringToLongLong, (const RedisModuleString *, long long *out))                                              \
    X(int, WrongArity, (RedisModuleCtx * ctx))                                                                         \
    X(int, ReplyWithError, (RedisModuleCtx * ctx, const char *text))                                                   \
    X(int, ReplyWithArray, (RedisModuleCtx * ctx, long n))                                                             \
    X(void, ReplySetArrayLength, (RedisModuleCtx * ctx, long n))                                                       \
    X(int, ReplyWithStringBuffer, (RedisModuleCtx * ctx, const char *p, size_t n))                                     \
    X(int, ReplyWithSimpleString, (RedisModuleCtx * ctx, const char *text))                                            \
    X(RedisModuleKey *, OpenKey, (RedisModuleCtx * ctx, RedisModuleString * name, int mode))                           \
    X(void, CloseKey, (RedisModuleKey *))                                                                              \
    X(int, KeyType, (RedisModuleKey *))                                                                                \
    X(char *, StringDMA, (RedisModuleKey *, size_t *n, int mode))                                                      \
    X(int, StringSet, (RedisModuleKey *, RedisModuleString *))                                                         \
    X(int, ZsetAdd, (RedisModuleKey *, double score, RedisModuleString *, int *flags))                                 \
    X(int, ZsetFirstInLexRange, (RedisModuleKey *, RedisModuleString * from, RedisModuleString * to))                  \
    X(RedisModuleString *, ZsetRangeCurrentElement, (RedisModuleKey *, double *score))                                 \
    X(int, ZsetRangeNext, (RedisModuleKey *))                                                                          \
    X(int, ZsetRangeEndReached, (RedisModuleKey *))                                                                    \
    X(void, ZsetRangeStop, (RedisModuleKey *))                                                                         \
    X(RedisModuleCommandFilter *, RegisterCommandFilter,                                                               \
      (RedisModuleCtx * ctx, RedisModuleCommandFilterFunc, int flags))                                                 \
    X(int, CommandFilterArgsCount, (RedisModuleCommandFilterCtx *))                                                    \
    X(RedisModuleString *, CommandFilterArgGet, (RedisModuleCommandFilterCtx *, int i))                                \
    X(int, CommandFilterArgInsert, (RedisModuleCommandFilterCtx *, int i, RedisModuleString *))                        \
    X(RedisModuleServerInfoData *, GetServerInfo, (RedisModuleCtx * ctx, const char *section))                         \
    X(const char *, ServerInfoGetFieldC, (RedisModuleServerInfoData *, const char *field))                             \
    X(void, FreeServerInfo, (RedisModuleCtx * ctx, RedisModuleServerInfoData *))

#define BT_REDIS_DECLARE(result, name, arguments) extern result(*bt_redis_##name) arguments;
BT_REDIS_API(BT_REDIS_DECLARE)
#define RM(name) bt_redis_##name

// Finds all of them and gives the module its name; the name of what this Redis does not have, NULL: nothing is missing.
const char *bt_redis_begin(RedisModuleCtx *ctx, const char *name, int version);

// What Redis looks for in a module.
#define BT_REDIS_EXPORT __attribute__((visibility("default")))
BT_REDIS_EXPORT int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
