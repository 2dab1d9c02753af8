// SPDX-License-Identifier: Apache-2.0
// bobtail-ycsb.so: the two operations of YCSB's workload E, for any Redis server. A table is a sorted set of its
// records' keys, all with one score, and a string TABLE/KEY for each record.
//
//   YCSB.INSERT TABLE KEY RECORD   puts a record, or replaces it
//   YCSB.SCAN TABLE KEY COUNT      up to COUNT records, keys and values, from KEY on, in the order of the keys
#include "redis_api.h"

#include <stdio.h>
#include <string.h>

enum { SCAN_MOST = 1000, NAME_MOST = 512, VERSION = 1 };

static RedisModuleString *record_name(RedisModuleCtx *ctx, RedisModuleString *table, RedisModuleString *key)
{
    char name[NAME_MOST];
    size_t t, k;
    const char *tp = RM(StringPtrLen)(table, &t), *kp = RM(StringPtrLen)(key, &k);
    if (t + 1 + k > sizeof name) {
        return NULL;
    }
    memcpy(name, tp, t);
    name[t] = '/';
    memcpy(name + t + 1, kp, k);
    return RM(CreateString)(ctx, name, t + 1 + k);
}

// The key, opened, if it is empty or of this type; else NULL, and the client knows.
static RedisModuleKey *open_as(RedisModuleCtx *ctx, RedisModuleString *name, int mode, int type)
{
    RedisModuleKey *k = RM(OpenKey)(ctx, name, mode);
    int is = k != NULL ? RM(KeyType)(k) : REDISMODULE_KEYTYPE_EMPTY;
    if (is == type || (is == REDISMODULE_KEYTYPE_EMPTY && (mode & REDISMODULE_WRITE) != 0)) {
        return k;
    }
    if (k != NULL) {
        RM(CloseKey)(k);
    }
    return NULL;
}

static const char wrong_type[] = "WRONGTYPE the table or the record is something else";

static int put_record(RedisModuleCtx *ctx, RedisModuleString **argv, RedisModuleString *name)
{
    RedisModuleKey *set = open_as(ctx, argv[1], REDISMODULE_READ | REDISMODULE_WRITE, REDISMODULE_KEYTYPE_ZSET);
    if (set == NULL) {
        return RM(ReplyWithError)(ctx, wrong_type);
    }
    RedisModuleKey *record = open_as(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE, REDISMODULE_KEYTYPE_STRING);
    if (record == NULL) {
        RM(CloseKey)(set);
        return RM(ReplyWithError)(ctx, wrong_type);
    }
    RM(ZsetAdd)(set, 0, argv[2], NULL);
    RM(StringSet)(record, argv[3]);
    RM(CloseKey)(record);
    RM(CloseKey)(set);
    return RM(ReplyWithSimpleString)(ctx, "OK");
}

static int on_insert(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc != 4) {
        return RM(WrongArity)(ctx);
    }
    RedisModuleString *name = record_name(ctx, argv[1], argv[2]);
    if (name == NULL) {
        return RM(ReplyWithError)(ctx, "ERR table and key are above 511 bytes");
    }
    int result = put_record(ctx, argv, name);
    RM(FreeString)(ctx, name);
    return result;
}

// The record of a key: two values of the answer.
static void reply_record(RedisModuleCtx *ctx, RedisModuleString *table, RedisModuleString *key)
{
    size_t n;
    const char *p = RM(StringPtrLen)(key, &n);
    RM(ReplyWithStringBuffer)(ctx, p, n);
    RedisModuleString *name = record_name(ctx, table, key);
    RedisModuleKey *record = name != NULL ? open_as(ctx, name, REDISMODULE_READ, REDISMODULE_KEYTYPE_STRING) : NULL;
    p = record != NULL ? RM(StringDMA)(record, &n, REDISMODULE_READ) : NULL;
    RM(ReplyWithStringBuffer)(ctx, p != NULL ? p : "", p != NULL ? n : 0);
    if (record != NULL) {
        RM(CloseKey)(record);
    }
    if (name != NULL) {
        RM(FreeString)(ctx, name);
    }
}

static long reply_records(RedisModuleCtx *ctx, RedisModuleKey *set, RedisModuleString *table, long long count)
{
    long found = 0;
    for (; found < count && !RM(ZsetRangeEndReached)(set); found++) {
        double score;
        RedisModuleString *key = RM(ZsetRangeCurrentElement)(set, &score);
        reply_record(ctx, table, key);
        RM(FreeString)(ctx, key);
        RM(ZsetRangeNext)(set);
    }
    RM(ZsetRangeStop)(set);
    return 2 * found;
}

static int on_scan(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    long long count;
    char from[NAME_MOST];
    size_t n = 0;
    if (argc != 4) {
        return RM(WrongArity)(ctx);
    }
    const char *p = RM(StringPtrLen)(argv[2], &n);
    if (n > sizeof from - 1) {
        return RM(ReplyWithError)(ctx, "ERR the key is above 511 bytes");
    }
    if (RM(StringToLongLong)(argv[3], &count) != REDISMODULE_OK || count < 1 || count > SCAN_MOST) {
        return RM(ReplyWithError)(ctx, "ERR the number of records must be 1 to 1000");
    }
    RedisModuleKey *set = open_as(ctx, argv[1], REDISMODULE_READ, REDISMODULE_KEYTYPE_ZSET);
    if (set == NULL) {
        return RM(ReplyWithArray)(ctx, 0);
    }
    from[0] = '['; // from this one on, itself too; to the last
    memcpy(from + 1, p, n);
    RedisModuleString *low = RM(CreateString)(ctx, from, n + 1), *high = RM(CreateString)(ctx, "+", 1);
    RM(ReplyWithArray)(ctx, REDISMODULE_POSTPONED_LEN);
    bool any = RM(ZsetFirstInLexRange)(set, low, high) == REDISMODULE_OK;
    RM(ReplySetArrayLength)(ctx, any ? reply_records(ctx, set, argv[1], count) : 0);
    RM(FreeString)(ctx, low);
    RM(FreeString)(ctx, high);
    RM(CloseKey)(set);
    return REDISMODULE_OK;
}

BT_REDIS_EXPORT int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv;
    (void)argc;
    if (bt_redis_begin(ctx, "bobtail-ycsb", VERSION) != NULL ||
        RM(CreateCommand)(ctx, "ycsb.insert", on_insert, "write deny-oom fast", 1, 1, 1) != REDISMODULE_OK ||
        RM(CreateCommand)(ctx, "ycsb.scan", on_scan, "readonly", 1, 1, 1) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return REDISMODULE_OK;
}
