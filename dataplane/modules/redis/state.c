// SPDX-License-Identifier: Apache-2.0
// The state of a member is Redis' data, written down by BGSAVE: a child process writes it while commands go on. It is
// taken up again by Redis' own reader. Between the two a file in Redis' folder is used, which nobody else may have.
#include "member.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_MOST = 256, LOOK_NS = 5000000 };

static char file[NAME_MOST]; // in Redis' folder, where the process is
static uint64_t looked_ns;   // when BGSAVE was asked after last

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- before the start --- */

static void config_get(RedisModuleCtx *ctx, const char *name, char out[NAME_MOST])
{
    RedisModuleCallReply *r = RM(Call)(ctx, "CONFIG", "cc", "GET", name);
    out[0] = '\0';
    if (r != NULL && RM(CallReplyType)(r) == REDISMODULE_REPLY_ARRAY && RM(CallReplyLength)(r) == 2) {
        size_t n;
        const char *p = RM(CallReplyStringPtr)(RM(CallReplyArrayElement)(r, 1), &n);
        snprintf(out, NAME_MOST, "%.*s", p != NULL ? (int)n : 0, p != NULL ? p : "");
    }
    if (r != NULL) {
        RM(FreeCallReply)(r);
    }
}

static const char *take_folder(void)
{
    char lock[NAME_MOST + 8];
    snprintf(lock, sizeof lock, "%s.lock", file);
    int fd = open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        return "dir must be a folder that this server can write to";
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return "dir must be this server's own: another member uses it";
    }
    unlink(file); // of a run that was killed; the data are in the member's log
    return NULL;
}

const char *redis_state_prepare(RedisModuleCtx *ctx)
{
    static const struct {
        const char *name, *value, *says;
    } must[] = {
        {"save", "", "save must be \"\": the member's log keeps the data"},
        {"appendonly", "no", "appendonly must be no: the member's log keeps the data"},
        {"maxmemory", "0", "maxmemory must be 0: eviction would take other keys away on each member"},
        {"cluster-enabled", "no", "cluster-enabled must be no"},
        {"replicaof", "", "replicaof must not be set: members learn from one another"},
    };
    char value[NAME_MOST];
    for (size_t i = 0; i < sizeof must / sizeof *must; i++) {
        config_get(ctx, must[i].name, value);
        if (strcmp(value, must[i].value) != 0) {
            return must[i].says;
        }
    }
    config_get(ctx, "dbfilename", file);
    if (strncmp(file, "bobtail", strlen("bobtail")) != 0) {
        return "dbfilename must begin with bobtail: the member writes, reads and removes that file";
    }
    return take_folder();
}

/* --- a snapshot --- */

// Whether a child of Redis writes. With Redis' lock.
static bool saves(void)
{
    RedisModuleServerInfoData *info = RM(GetServerInfo)(redis_ctx, "persistence");
    const char *field = RM(ServerInfoGetFieldC)(info, "rdb_bgsave_in_progress");
    bool busy = field != NULL && field[0] != '0';
    RM(FreeServerInfo)(redis_ctx, info);
    return busy;
}

static bool saves_locked(void)
{
    RM(ThreadSafeContextLock)(redis_ctx);
    bool busy = saves();
    RM(ThreadSafeContextUnlock)(redis_ctx);
    return busy;
}

static bool call_ok(RedisModuleCtx *ctx, const char *command, const char *a, const char *b)
{
    RedisModuleCallReply *r = b != NULL   ? RM(Call)(ctx, command, "ccE", a, b)
                              : a != NULL ? RM(Call)(ctx, command, "cE", a)
                                          : RM(Call)(ctx, command, "E");
    size_t n = 0;
    const char *text = r != NULL ? RM(CallReplyProto)(r, &n) : NULL;
    bool ok = r != NULL && RM(CallReplyType)(r) != REDISMODULE_REPLY_ERROR;
    if (!ok) {
        RM(Log)(ctx, "warning", "%s failed: %.*s", command, (int)n, text != NULL ? text : "");
    }
    if (r != NULL) {
        RM(FreeCallReply)(r);
    }
    return ok;
}

int redis_on_snapshot_begin(void *arg)
{
    (void)arg;
    RM(ThreadSafeContextLock)(redis_ctx);
    bool ok = !saves();
    if (ok) {
        unlink(file); // so that what is there afterwards is what was written now
        ok = call_ok(redis_ctx, "BGSAVE", NULL, NULL);
    }
    RM(ThreadSafeContextUnlock)(redis_ctx);
    looked_ns = clock_ns();
    return ok ? 0 : -1;
}

static size_t read_file(uint8_t *out, size_t room)
{
    struct stat st;
    size_t got = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return SIZE_MAX; // the child was killed, by FLUSHALL for one
    }
    bool fits = fstat(fd, &st) == 0 && (uint64_t)st.st_size <= room;
    while (fits && got < (size_t)st.st_size) {
        ssize_t n = read(fd, out + got, (size_t)st.st_size - got);
        if (n <= 0 && errno != EINTR) {
            fits = false;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return fits ? got : SIZE_MAX;
}

size_t redis_on_snapshot_end(void *arg, uint8_t *out, size_t room)
{
    (void)arg;
    uint64_t now = clock_ns();
    if (now - looked_ns < LOOK_NS) {
        return R2P2_REPLICA_NOT_YET;
    }
    looked_ns = now;
    if (saves_locked()) {
        return R2P2_REPLICA_NOT_YET;
    }
    size_t n = read_file(out, room);
    unlink(file);
    return n;
}

/* --- taken up --- */

static bool write_file(const uint8_t *p, size_t n)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0;
    while (ok && n > 0) {
        ssize_t put = write(fd, p, n);
        ok = put > 0 || errno == EINTR;
        p += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

// Redis' reader serves its event loop now and then, which is the main thread's.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    int result; // 0: not yet; 1, -1
} reading = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void read_by_redis(void *arg)
{
    (void)arg;
    bool ok = call_ok(redis_ctx, "DEBUG", "RELOAD", "NOSAVE");
    pthread_mutex_lock(&reading.lock);
    reading.result = ok ? 1 : -1;
    pthread_cond_signal(&reading.done);
    pthread_mutex_unlock(&reading.lock);
}

static bool read_in_main_thread(void)
{
    pthread_mutex_lock(&reading.lock);
    reading.result = 0;
    bool ok = RM(EventLoopAddOneShot)(read_by_redis, NULL) == REDISMODULE_OK;
    while (ok && reading.result == 0) {
        pthread_cond_wait(&reading.done, &reading.lock);
    }
    ok = ok && reading.result > 0;
    pthread_mutex_unlock(&reading.lock);
    return ok;
}

int redis_on_restore(void *arg, const uint8_t *bytes, size_t n)
{
    static const struct timespec pause = {.tv_nsec = LOOK_NS};
    (void)arg;
    RM(ThreadSafeContextLock)(redis_ctx);
    bool ok = call_ok(redis_ctx, "FLUSHALL", "SYNC", NULL); // also ends a BGSAVE
    RM(ThreadSafeContextUnlock)(redis_ctx);
    if (n == 0 || !ok) {
        return ok ? 0 : -1;
    }
    while (saves_locked()) {
        nanosleep(&pause, NULL);
    }
    ok = write_file(bytes, n) && read_in_main_thread();
    unlink(file);
    return ok ? 0 : -1;
}
