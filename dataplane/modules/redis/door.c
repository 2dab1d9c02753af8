// SPDX-License-Identifier: Apache-2.0
// Redis' own port. What is written there would be on this member alone: only reads of the table and what looks after a
// server come through. Everything else becomes BOBTAIL.REFUSED, which says so.
#include "member.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 256 };

static const char *const let_in[] = {
    "acl",
    "auth",
    "bobtail.commands",
    "bobtail.refused",
    "client",
    "command",
    "config|get",
    "config|resetstat",
    "debug|digest",
    "debug|digest-value",
    "discard",
    "dump",
    "echo",
    "exec",
    "hello",
    "hscan",
    "info",
    "lastsave",
    "latency",
    "memory",
    "module|list",
    "monitor",
    "multi",
    "object",
    "ping",
    "psubscribe",
    "punsubscribe",
    "quit",
    "reset",
    "role",
    "scan",
    "select",
    "shutdown",
    "slowlog",
    "sscan",
    "subscribe",
    "time",
    "unsubscribe",
    "unwatch",
    "watch",
    "zscan",
};

static struct bt_resp_word word_of(const RedisModuleString *s)
{
    size_t n;
    const char *p = RM(StringPtrLen)(s, &n);
    return (struct bt_resp_word){(const uint8_t *)p, (uint32_t)n};
}

static bool comes_in(RedisModuleCommandFilterCtx *f)
{
    int n = RM(CommandFilterArgsCount)(f);
    struct bt_resp_word name = word_of(RM(CommandFilterArgGet)(f, 0)), sub = {NULL, 0};
    const struct bt_redis_command *c = bt_redis_command_find(name);
    if (c != NULL && c->use == BT_REDIS_READ) {
        return true;
    }
    if (n > 1) {
        sub = word_of(RM(CommandFilterArgGet)(f, 1));
    }
    for (size_t i = 0; i < sizeof let_in / sizeof *let_in; i++) {
        const char *bar = strchr(let_in[i], '|');
        char first[TEXT];
        snprintf(first, sizeof first, "%.*s", bar != NULL ? (int)(bar - let_in[i]) : TEXT - 1, let_in[i]);
        if (bt_redis_word_is(name, first) && (bar == NULL || bt_redis_word_is(sub, bar + 1))) {
            return true;
        }
    }
    return false;
}

static void on_command(RedisModuleCommandFilterCtx *f)
{
    static const char instead[] = "bobtail.refused";
    if (RM(CommandFilterArgsCount)(f) > 0 && !comes_in(f)) {
        RM(CommandFilterArgInsert)(f, 0, RM(CreateString)(NULL, instead, sizeof instead - 1));
    }
}

static int on_refused(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv;
    (void)argc;
    return RM(ReplyWithError)(ctx, "READONLY bobtail: this server is a member of a replication group. Send writes over "
                                   "R2P2 (policy 2); this port takes reads, which may be old");
}

// Rows of name, what a group does with it, and why.
static int on_commands(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    static const char *const use[] = {
        [BT_REDIS_READ] = "read", [BT_REDIS_WRITE] = "write", [BT_REDIS_REFUSED] = "refused"};
    (void)argv;
    if (argc != 1) {
        return RM(WrongArity)(ctx);
    }
    RM(ReplyWithArray)(ctx, (long)bt_redis_command_count);
    for (size_t i = 0; i < bt_redis_command_count; i++) {
        const struct bt_redis_command *c = &bt_redis_commands[i];
        RM(ReplyWithArray)(ctx, 3);
        RM(ReplyWithSimpleString)(ctx, c->name);
        RM(ReplyWithSimpleString)(ctx, use[c->use]);
        RM(ReplyWithSimpleString)(ctx, bt_redis_refusal_text(c->why));
    }
    return REDISMODULE_OK;
}

int redis_door_open(RedisModuleCtx *ctx)
{
    if (RM(CreateCommand)(ctx, "bobtail.refused", on_refused, "readonly", 0, 0, 0) != REDISMODULE_OK ||
        RM(CreateCommand)(ctx, "bobtail.commands", on_commands, "readonly", 0, 0, 0) != REDISMODULE_OK ||
        RM(RegisterCommandFilter)(ctx, on_command, REDISMODULE_CMDFILTER_NOSELF) == NULL) {
        return REDISMODULE_ERR;
    }
    return REDISMODULE_OK;
}

/* --- whether this Redis is the one that the table was made for --- */

static bool has_flag(RedisModuleCallReply *flags, const char *flag)
{
    for (size_t i = 0; i < RM(CallReplyLength)(flags); i++) {
        size_t n;
        const char *p = RM(CallReplyStringPtr)(RM(CallReplyArrayElement)(flags, i), &n);
        if (p != NULL && n == strlen(flag) && memcmp(p, flag, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool as_in_table(RedisModuleCtx *ctx, const struct bt_redis_command *c)
{
    enum { FLAGS = 2 };
    RedisModuleCallReply *r = RM(Call)(ctx, "COMMAND", "cc", "INFO", c->name);
    RedisModuleCallReply *one = r != NULL ? RM(CallReplyArrayElement)(r, 0) : NULL;
    bool ok = one != NULL && RM(CallReplyType)(one) == REDISMODULE_REPLY_ARRAY;
    if (ok) {
        RedisModuleCallReply *flags = RM(CallReplyArrayElement)(one, FLAGS);
        ok = has_flag(flags, c->use == BT_REDIS_WRITE ? "write" : "readonly");
    }
    if (r != NULL) {
        RM(FreeCallReply)(r);
    }
    return ok;
}

const char *redis_table_differs(RedisModuleCtx *ctx)
{
    for (size_t i = 0; i < bt_redis_command_count; i++) {
        if (bt_redis_commands[i].use != BT_REDIS_REFUSED && !as_in_table(ctx, &bt_redis_commands[i])) {
            return bt_redis_commands[i].name;
        }
    }
    return NULL;
}
