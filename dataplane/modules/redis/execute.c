// SPDX-License-Identifier: Apache-2.0
// Requests that the group has agreed on: the commands in one request are executed one after the other, and nothing
// comes between them. All of them are judged before the first is executed. The answer is theirs, one behind the other.
#include "member.h"

#include <stdio.h>
#include <string.h>

enum { REQUEST_MOST = 65536, REPLY_MOST = 65536, SHOWN = 64 };

static struct {
    uint8_t request[REQUEST_MOST], reply[REPLY_MOST];
    size_t request_n, reply_n;
    bool too_long; // the answer
    struct bt_resp parsed;
    RedisModuleString *argv[BT_RESP_WORDS];
} now; // of the member's thread

static void put(const void *p, size_t n)
{
    if (now.too_long || n > sizeof now.reply - now.reply_n) {
        now.too_long = true;
        return;
    }
    memcpy(now.reply + now.reply_n, p, n);
    now.reply_n += n;
}

// A word as it may stand in a line of an error.
static const char *shown(struct bt_resp_word w, char out[SHOWN])
{
    size_t n = w.n < SHOWN - 1 ? w.n : SHOWN - 1;
    for (size_t i = 0; i < n; i++) {
        out[i] = (char)(w.p[i] > ' ' && w.p[i] < 0x7f && w.p[i] != '\'' ? w.p[i] : '?');
    }
    out[n] = '\0';
    return out;
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

static void put_refusal(const struct bt_redis_verdict *v)
{
    char name[SHOWN], option[SHOWN], line[384];
    bool with = v->option.n != 0;
    snprintf(line, sizeof line, "-ERR bobtail: '%s'%s%s%s is refused: %s\r\n", shown(v->name, name),
             with ? " with '" : "", shown(v->option, option), with ? "'" : "", bt_redis_refusal_text(v->why));
    put_text(line);
}

static void put_write_as_read(struct bt_resp_word command)
{
    char name[SHOWN], line[256];
    snprintf(line, sizeof line, "-READONLY bobtail: '%s' writes, and came as a read: send it with policy 2\r\n",
             shown(command, name));
    put_text(line);
}

// Whether all of them may be executed; if not, the answer says why.
static bool may_run(bool read_only)
{
    for (uint32_t i = 0; i < now.parsed.commands; i++) {
        const struct bt_resp_command *c = &now.parsed.command[i];
        struct bt_redis_verdict v = bt_redis_judge(&now.parsed.word[c->first], c->count);
        if (v.use == BT_REDIS_REFUSED) {
            put_refusal(&v);
            return false;
        }
        if (v.use == BT_REDIS_WRITE && read_only) {
            put_write_as_read(v.name);
            return false;
        }
    }
    return true;
}

static void run(const struct bt_resp_command *c, bool read_only)
{
    const struct bt_resp_word *w = &now.parsed.word[c->first];
    size_t n, argc = c->count - 1;
    for (size_t i = 0; i < argc; i++) {
        now.argv[i] = RM(CreateString)(NULL, (const char *)w[1 + i].p, w[1 + i].n);
    }
    // E: errors are answers. W: Redis, too, refuses what writes.
    RedisModuleCallReply *reply =
        RM(Call)(redis_ctx, bt_redis_command_find(w[0])->name, read_only ? "vEW" : "vE", now.argv, argc);
    if (reply != NULL) {
        const char *p = RM(CallReplyProto)(reply, &n);
        put(p, n);
        RM(FreeCallReply)(reply);
    } else {
        put_text("-ERR bobtail: Redis gave no answer\r\n");
    }
    for (size_t i = 0; i < argc; i++) {
        RM(FreeString)(NULL, now.argv[i]);
    }
}

static void run_all(bool read_only)
{
    RM(ThreadSafeContextLock)(redis_ctx);
    for (uint32_t i = 0; i < now.parsed.commands; i++) {
        run(&now.parsed.command[i], read_only);
    }
    RM(ThreadSafeContextUnlock)(redis_ctx);
    if (now.too_long) {
        now.reply_n = 0;
        now.too_long = false;
        put_text(read_only ? "-ERR bobtail: the answer is above 65536 bytes\r\n"
                           : "-ERR bobtail: executed, and the answer is above 65536 bytes\r\n");
    }
}

static bool gather(const struct iovec *iov, int iovcnt)
{
    now.request_n = 0;
    for (int i = 0; i < iovcnt; i++) {
        if (iov[i].iov_len > sizeof now.request - now.request_n) {
            return false;
        }
        memcpy(now.request + now.request_n, iov[i].iov_base, iov[i].iov_len);
        now.request_n += iov[i].iov_len;
    }
    return true;
}

void redis_on_request(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    char line[160];
    bool read_only = r2p2_replica_read_only(handle);
    (void)arg;
    now.reply_n = 0;
    now.too_long = false;
    if (!gather(iov, iovcnt)) {
        put_text("-ERR bobtail: the request is above 65536 bytes\r\n");
    } else if (!bt_resp_read(now.request, (uint32_t)now.request_n, &now.parsed)) {
        snprintf(line, sizeof line, "-ERR Protocol error: at byte %u of the request should be %s\r\n", now.parsed.at,
                 now.parsed.why);
        put_text(line);
    } else if (may_run(read_only)) {
        run_all(read_only);
    }
    struct iovec out = {.iov_base = now.reply, .iov_len = now.reply_n};
    r2p2_replica_send_response(handle, &out, 1);
}
