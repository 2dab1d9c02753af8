// SPDX-License-Identifier: Apache-2.0
// See commands.h. The table holds every command of Debian's Redis 7.0, in the order of the names; a test holds it to
// what a running server says of itself. What was looked at for READ and WRITE: no clock, no random number, no order of
// a hash table in what is written, no arithmetic beyond doubles, no waiting, one database.
#include "commands.h"

#include <stdlib.h>
#include <string.h>

const struct bt_redis_command bt_redis_commands[] = {
    {"acl", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"append", BT_REDIS_WRITE},
    {"asking", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"auth", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"bgrewriteaof", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"bgsave", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"bitcount", BT_REDIS_READ},
    {"bitfield", BT_REDIS_WRITE},
    {"bitfield_ro", BT_REDIS_READ},
    {"bitop", BT_REDIS_WRITE},
    {"bitpos", BT_REDIS_READ},
    {"blmove", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"blmpop", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"blpop", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"brpop", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"brpoplpush", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"bzmpop", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"bzpopmax", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"bzpopmin", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"client", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"cluster", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"command", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"config", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"copy", BT_REDIS_WRITE, .never = " db ", .options = 3, .then = BT_REDIS_FOREIGN},
    {"dbsize", BT_REDIS_READ},
    {"debug", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"decr", BT_REDIS_WRITE},
    {"decrby", BT_REDIS_WRITE},
    {"del", BT_REDIS_WRITE},
    {"discard", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"dump", BT_REDIS_REFUSED, BT_REDIS_FOREIGN},
    {"echo", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"eval", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"eval_ro", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"evalsha", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"evalsha_ro", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"exec", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"exists", BT_REDIS_READ},
    {"expire", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"expireat", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"expiretime", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"failover", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"fcall", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"fcall_ro", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"flushall", BT_REDIS_WRITE},
    {"flushdb", BT_REDIS_WRITE},
    {"function", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"geoadd", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"geodist", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"geohash", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"geopos", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"georadius", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"georadius_ro", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"georadiusbymember", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"georadiusbymember_ro", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"geosearch", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"geosearchstore", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"get", BT_REDIS_READ},
    {"getbit", BT_REDIS_READ},
    {"getdel", BT_REDIS_WRITE},
    {"getex", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"getrange", BT_REDIS_READ},
    {"getset", BT_REDIS_WRITE},
    {"hdel", BT_REDIS_WRITE},
    {"hello", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"hexists", BT_REDIS_READ},
    {"hget", BT_REDIS_READ},
    {"hgetall", BT_REDIS_READ},
    {"hincrby", BT_REDIS_WRITE},
    {"hincrbyfloat", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"hkeys", BT_REDIS_READ},
    {"hlen", BT_REDIS_READ},
    {"hmget", BT_REDIS_READ},
    {"hmset", BT_REDIS_WRITE},
    {"hrandfield", BT_REDIS_REFUSED, BT_REDIS_RANDOM},
    {"hscan", BT_REDIS_REFUSED, BT_REDIS_ORDER},
    {"hset", BT_REDIS_WRITE},
    {"hsetnx", BT_REDIS_WRITE},
    {"hstrlen", BT_REDIS_READ},
    {"hvals", BT_REDIS_READ},
    {"incr", BT_REDIS_WRITE},
    {"incrby", BT_REDIS_WRITE},
    {"incrbyfloat", BT_REDIS_REFUSED, BT_REDIS_PROCESSOR},
    {"info", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"keys", BT_REDIS_READ},
    {"lastsave", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"latency", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"lcs", BT_REDIS_READ},
    {"lindex", BT_REDIS_READ},
    {"linsert", BT_REDIS_WRITE},
    {"llen", BT_REDIS_READ},
    {"lmove", BT_REDIS_WRITE},
    {"lmpop", BT_REDIS_WRITE},
    {"lolwut", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"lpop", BT_REDIS_WRITE},
    {"lpos", BT_REDIS_READ},
    {"lpush", BT_REDIS_WRITE},
    {"lpushx", BT_REDIS_WRITE},
    {"lrange", BT_REDIS_READ},
    {"lrem", BT_REDIS_WRITE},
    {"lset", BT_REDIS_WRITE},
    {"ltrim", BT_REDIS_WRITE},
    {"memory", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"mget", BT_REDIS_READ},
    {"migrate", BT_REDIS_REFUSED, BT_REDIS_FOREIGN},
    {"module", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"monitor", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"move", BT_REDIS_REFUSED, BT_REDIS_FOREIGN},
    {"mset", BT_REDIS_WRITE},
    {"msetnx", BT_REDIS_WRITE},
    {"multi", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"object", BT_REDIS_REFUSED, BT_REDIS_TOUCHES},
    {"persist", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"pexpire", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"pexpireat", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"pexpiretime", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"pfadd", BT_REDIS_WRITE},
    {"pfcount", BT_REDIS_REFUSED, BT_REDIS_TOUCHES},
    {"pfdebug", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"pfmerge", BT_REDIS_WRITE},
    {"pfselftest", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"ping", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"psetex", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"psubscribe", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"psync", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"pttl", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"publish", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"pubsub", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"punsubscribe", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"quit", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"randomkey", BT_REDIS_REFUSED, BT_REDIS_RANDOM},
    {"readonly", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"readwrite", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"rename", BT_REDIS_WRITE},
    {"renamenx", BT_REDIS_WRITE},
    {"replconf", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"replicaof", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"reset", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"restore", BT_REDIS_REFUSED, BT_REDIS_FOREIGN},
    {"restore-asking", BT_REDIS_REFUSED, BT_REDIS_FOREIGN},
    {"role", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"rpop", BT_REDIS_WRITE},
    {"rpoplpush", BT_REDIS_WRITE},
    {"rpush", BT_REDIS_WRITE},
    {"rpushx", BT_REDIS_WRITE},
    {"sadd", BT_REDIS_WRITE},
    {"save", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"scan", BT_REDIS_REFUSED, BT_REDIS_ORDER},
    {"scard", BT_REDIS_READ},
    {"script", BT_REDIS_REFUSED, BT_REDIS_SCRIPT},
    {"sdiff", BT_REDIS_READ},
    {"sdiffstore", BT_REDIS_WRITE},
    {"select", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"set", BT_REDIS_WRITE, .never = " ex px exat pxat keepttl ", .options = 3, .then = BT_REDIS_EXPIRY},
    {"setbit", BT_REDIS_WRITE},
    {"setex", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"setnx", BT_REDIS_WRITE},
    {"setrange", BT_REDIS_WRITE},
    {"shutdown", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"sinter", BT_REDIS_READ},
    {"sintercard", BT_REDIS_READ},
    {"sinterstore", BT_REDIS_WRITE},
    {"sismember", BT_REDIS_READ},
    {"slaveof", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"slowlog", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"smembers", BT_REDIS_READ},
    {"smismember", BT_REDIS_READ},
    {"smove", BT_REDIS_WRITE},
    {"sort", BT_REDIS_REFUSED, BT_REDIS_ORDER},
    {"sort_ro", BT_REDIS_REFUSED, BT_REDIS_ORDER},
    {"spop", BT_REDIS_REFUSED, BT_REDIS_RANDOM},
    {"spublish", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"srandmember", BT_REDIS_REFUSED, BT_REDIS_RANDOM},
    {"srem", BT_REDIS_WRITE},
    {"sscan", BT_REDIS_REFUSED, BT_REDIS_ORDER},
    {"ssubscribe", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"strlen", BT_REDIS_READ},
    {"subscribe", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"substr", BT_REDIS_READ},
    {"sunion", BT_REDIS_READ},
    {"sunionstore", BT_REDIS_WRITE},
    {"sunsubscribe", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"swapdb", BT_REDIS_REFUSED, BT_REDIS_FOREIGN},
    {"sync", BT_REDIS_REFUSED, BT_REDIS_SERVER},
    {"time", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"touch", BT_REDIS_REFUSED, BT_REDIS_TOUCHES},
    {"ttl", BT_REDIS_REFUSED, BT_REDIS_EXPIRY},
    {"type", BT_REDIS_READ},
    {"unlink", BT_REDIS_WRITE},
    {"unsubscribe", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"unwatch", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"wait", BT_REDIS_REFUSED, BT_REDIS_BLOCKING},
    {"watch", BT_REDIS_REFUSED, BT_REDIS_CONNECTION},
    {"xack", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xadd", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xautoclaim", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xclaim", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xdel", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xgroup", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xinfo", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xlen", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xpending", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xrange", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xread", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xreadgroup", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xrevrange", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xsetid", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"xtrim", BT_REDIS_REFUSED, BT_REDIS_CLOCK},
    {"zadd", BT_REDIS_WRITE},
    {"zcard", BT_REDIS_READ},
    {"zcount", BT_REDIS_READ},
    {"zdiff", BT_REDIS_READ},
    {"zdiffstore", BT_REDIS_WRITE},
    {"zincrby", BT_REDIS_WRITE},
    {"zinter", BT_REDIS_READ},
    {"zintercard", BT_REDIS_READ},
    {"zinterstore", BT_REDIS_WRITE},
    {"zlexcount", BT_REDIS_READ},
    {"zmpop", BT_REDIS_WRITE},
    {"zmscore", BT_REDIS_READ},
    {"zpopmax", BT_REDIS_WRITE},
    {"zpopmin", BT_REDIS_WRITE},
    {"zrandmember", BT_REDIS_REFUSED, BT_REDIS_RANDOM},
    {"zrange", BT_REDIS_READ},
    {"zrangebylex", BT_REDIS_READ},
    {"zrangebyscore", BT_REDIS_READ},
    {"zrangestore", BT_REDIS_WRITE},
    {"zrank", BT_REDIS_READ},
    {"zrem", BT_REDIS_WRITE},
    {"zremrangebylex", BT_REDIS_WRITE},
    {"zremrangebyrank", BT_REDIS_WRITE},
    {"zremrangebyscore", BT_REDIS_WRITE},
    {"zrevrange", BT_REDIS_READ},
    {"zrevrangebylex", BT_REDIS_READ},
    {"zrevrangebyscore", BT_REDIS_READ},
    {"zrevrank", BT_REDIS_READ},
    {"zscan", BT_REDIS_REFUSED, BT_REDIS_ORDER},
    {"zscore", BT_REDIS_READ},
    {"zunion", BT_REDIS_READ},
    {"zunionstore", BT_REDIS_WRITE},
};
const size_t bt_redis_command_count = sizeof bt_redis_commands / sizeof *bt_redis_commands;

enum { ADDED_MOST = 64, NAME_MOST = 64 };
static struct bt_redis_command added[ADDED_MOST];
static char added_name[ADDED_MOST][NAME_MOST];
static size_t added_count;

static char small(uint8_t c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

// As strcmp, the word in whatever letters.
static int compare(struct bt_resp_word w, const char *name)
{
    for (uint32_t i = 0; i < w.n; i++) {
        int d = (unsigned char)small(w.p[i]) - (unsigned char)name[i];
        if (d != 0 || name[i] == '\0') {
            return d != 0 ? d : 1;
        }
    }
    return name[w.n] == '\0' ? 0 : -1;
}

bool bt_redis_word_is(struct bt_resp_word w, const char *small_letters)
{
    return compare(w, small_letters) == 0;
}

static int by_name(const void *key, const void *row)
{
    return compare(*(const struct bt_resp_word *)key, ((const struct bt_redis_command *)row)->name);
}

const struct bt_redis_command *bt_redis_command_find(struct bt_resp_word name)
{
    for (size_t i = 0; i < added_count; i++) {
        if (compare(name, added[i].name) == 0) {
            return &added[i];
        }
    }
    return bsearch(&name, bt_redis_commands, bt_redis_command_count, sizeof *bt_redis_commands, by_name);
}

int bt_redis_commands_add(const char *name, enum bt_redis_use use)
{
    size_t n = strlen(name);
    struct bt_resp_word w = {(const uint8_t *)name, (uint32_t)n};
    if (n == 0 || n >= NAME_MOST || added_count == ADDED_MOST || bt_redis_command_find(w) != NULL) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        added_name[added_count][i] = small((uint8_t)name[i]);
    }
    added[added_count] = (struct bt_redis_command){.name = added_name[added_count], .use = use};
    added_count++;
    return 0;
}

// Whether a word is one of a list with a blank around each.
static bool among(struct bt_resp_word w, const char *list)
{
    while (list[1] != '\0') {
        const char *end = strchr(list + 1, ' ');
        size_t n = (size_t)(end - list) - 1;
        bool same = n == w.n;
        for (size_t i = 0; same && i < n; i++) {
            same = small(w.p[i]) == list[1 + i];
        }
        if (same) {
            return true;
        }
        list = end;
    }
    return false;
}

struct bt_redis_verdict bt_redis_judge(const struct bt_resp_word *word, unsigned count)
{
    const struct bt_redis_command *c = bt_redis_command_find(word[0]);
    struct bt_redis_verdict v = {.use = BT_REDIS_REFUSED, .why = BT_REDIS_UNKNOWN, .name = word[0]};
    if (c == NULL) {
        return v;
    }
    v.use = c->use;
    v.why = c->why;
    for (unsigned i = c->options; c->never != NULL && i < count; i++) {
        if (among(word[i], c->never)) {
            return (struct bt_redis_verdict){BT_REDIS_REFUSED, c->then, word[0], word[i]};
        }
    }
    return v;
}

const char *bt_redis_refusal_text(enum bt_redis_refusal why)
{
    static const char *const text[] = {[BT_REDIS_NOT_REFUSED] = "",
#define TEXT(name, words) [BT_REDIS_##name] = (words),
                                       BT_REDIS_REFUSALS(TEXT)};
    return why < BT_REDIS_REFUSAL_COUNT ? text[why] : "";
}
