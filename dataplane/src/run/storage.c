// SPDX-License-Identifier: Apache-2.0
// See storage.h.
#include "run/storage.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "run/storage_queue.h"

enum { WHY = 240, ROUND_MOST = 4096 };

struct bt_storage {
    struct bt_files files;
    bool own_files;
    struct bt_store store; // of the storage thread between start and close
    void *memory;
    struct bt_image image;
    struct bt_storage_queue queue;
    pthread_t thread;
    bool running;
    sem_t work;
    void (*wake)(void *);
    void *wake_arg;
    atomic_bool stop;
    _Atomic uint64_t durable;      // generation
    atomic_bool failed;            // set after `why`
    struct bt_store_error failure; // likewise
    char why[WHY];
    uint64_t told; // of the owner: the generation of the last completion
    bool told_failed;
    _Atomic uint64_t counter[BT_STORAGE_COUNTERS];
};

static void count(struct bt_storage *s, enum bt_storage_counter c)
{
    atomic_fetch_add_explicit(&s->counter[c], 1, memory_order_relaxed);
}

static struct bt_store_config store_config(const struct bt_storage_config *c, struct bt_disk *disk)
{
    struct bt_store_config sc = {.disk = disk,
                                 .first = c->first,
                                 .policy = c->policy,
                                 .segment_bytes = c->segment_bytes != 0 ? c->segment_bytes : 64u << 20,
                                 .batch_bytes = c->batch_bytes != 0 ? c->batch_bytes : 1u << 20,
                                 .files_max = c->files_max != 0 ? c->files_max : 4096,
                                 .snapshot_max = c->snapshot_max != 0 ? c->snapshot_max : 1ull << 30};
    memcpy(sc.ids.cluster, c->cluster, 16);
    memcpy(sc.member_expected, c->member_expected, 16);
    return sc;
}

static bool no_memory(char *err, size_t errlen)
{
    snprintf(err, errlen, "storage: no memory");
    return false;
}

static bool recover(struct bt_storage *s, const struct bt_store_config *sc, char *err, size_t errlen)
{
    struct bt_mem mem;
    bt_mem_init(&mem, NULL, 0);
    if (!bt_store_init(&s->store, sc, &mem)) {
        snprintf(err, errlen, "storage: segment_bytes, batch_bytes or files_max is out of bounds");
        return false;
    }
    size_t bytes = mem.used;
    if (posix_memalign(&s->memory, 64, bytes) != 0) {
        return no_memory(err, errlen);
    }
    bt_mem_init(&mem, s->memory, bytes);
    bool ok = bt_store_init(&s->store, sc, &mem) && bt_store_room(&s->store, &s->image);
    if (ok) {
        s->image.entry = calloc(s->image.entries_max + 1, sizeof *s->image.entry);
        s->image.bytes = malloc(s->image.bytes_max + 1);
        if (s->image.entry == NULL || s->image.bytes == NULL) {
            return no_memory(err, errlen);
        }
        ok = bt_store_open(&s->store, &s->image);
    }
    if (!ok) {
        s->failure = s->store.why;
        int n = snprintf(err, errlen, "storage: ");
        bt_store_error_text(&s->store.why, err + n, errlen - (size_t)n);
    }
    return ok;
}

static void release_image(struct bt_storage *s)
{
    free(s->image.entry);
    free(s->image.bytes);
    memset(&s->image, 0, sizeof s->image);
}

static void release(struct bt_storage *s)
{
    if (s->own_files) {
        bt_files_close(&s->files);
    }
    release_image(s);
    bt_storage_queue_free(&s->queue);
    sem_destroy(&s->work);
    free(s->memory);
    free(s);
}

static bool prepare(struct bt_storage *s, const struct bt_storage_config *c, char *err, size_t errlen)
{
    if (c->disk == NULL) {
        s->own_files = bt_files_open(&s->files, c->folder, err, errlen);
        if (!s->own_files) {
            s->failure = (struct bt_store_error){.trouble = BT_STORE_DISK, .code = errno};
            return false;
        }
    }
    struct bt_store_config sc = store_config(c, c->disk != NULL ? c->disk : &s->files.disk);
    if (getrandom(sc.ids.member, sizeof sc.ids.member, 0) != (ssize_t)sizeof sc.ids.member) {
        snprintf(err, errlen, "storage: no random numbers for a member id");
        return false;
    }
    if (c->id != 0) {
        bt_put16(sc.ids.member + sizeof sc.ids.member - sizeof c->id, c->id);
    }
    if (!bt_storage_queue_init(&s->queue, c->queue_bytes != 0 ? c->queue_bytes : 4u << 20)) {
        return no_memory(err, errlen);
    }
    return recover(s, &sc, err, errlen);
}

struct bt_storage *bt_storage_open(const struct bt_storage_config *c, struct bt_recovery *found, char *err,
                                   size_t errlen)
{
    struct bt_storage *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    if (s == NULL) {
        no_memory(err, errlen);
        return NULL;
    }
    memset(s, 0, sizeof *s);
    s->wake = c->wake;
    s->wake_arg = c->wake_arg;
    sem_init(&s->work, 0, 0);
    if (!prepare(s, c, err, errlen)) {
        if (c->error != NULL) {
            *c->error = s->failure;
        }
        release(s);
        return NULL;
    }
    bt_store_recovered(&s->store, &s->image, found);
    return s;
}

const struct bt_store_ids *bt_storage_ids(const struct bt_storage *s)
{
    return &s->store.ids;
}

static void fail(struct bt_storage *s)
{
    if (!atomic_load_explicit(&s->failed, memory_order_relaxed)) {
        s->failure = s->store.why;
        bt_store_error_text(&s->failure, s->why, sizeof s->why);
        atomic_store_explicit(&s->failed, true, memory_order_release);
    }
}

// What has been given so far, and one commit for all of it; bounded, so that a busy owner gets its completions.
static bool one_round(struct bt_storage *s)
{
    const struct bt_store_op *op;
    unsigned n = 0;
    for (; n < ROUND_MOST && (op = bt_storage_queue_peek(&s->queue)) != NULL; n++) {
        bt_store_take(&s->store, op); // a store that failed takes nothing any more
        bt_storage_queue_drop(&s->queue);
        count(s, BT_STORAGE_OPERATIONS);
    }
    if (n == 0) {
        return false;
    }
    uint64_t generation;
    if (bt_store_commit(&s->store, &generation) == BT_STORE_FAILED) {
        fail(s);
    }
    count(s, BT_STORAGE_COMMITS);
    atomic_store_explicit(&s->durable, generation, memory_order_release);
    if (s->wake != NULL) {
        s->wake(s->wake_arg);
    }
    return true;
}

static void *run(void *arg)
{
    struct bt_storage *s = arg;
    for (;;) {
        bool stop = atomic_load_explicit(&s->stop, memory_order_acquire);
        bool worked = one_round(s);
        if (stop && !worked) {
            return NULL;
        }
        if (!worked) {
            sem_wait(&s->work);                  // EINTR: just another look
            while (sem_trywait(&s->work) == 0) { // one look for all that was given meanwhile
            }
        }
    }
}

bool bt_storage_start(struct bt_storage *s)
{
    release_image(s);
    s->running = pthread_create(&s->thread, NULL, run, s) == 0;
    return s->running;
}

bool bt_storage_give(struct bt_storage *s, const struct bt_store_op *op)
{
    if (!bt_storage_queue_put(&s->queue, op)) {
        count(s, BT_STORAGE_QUEUE_FULL);
        return false;
    }
    sem_post(&s->work);
    return true;
}

bool bt_storage_completed(struct bt_storage *s, struct bt_storage_completion *c)
{
    bool failed = atomic_load_explicit(&s->failed, memory_order_acquire);
    uint64_t durable = atomic_load_explicit(&s->durable, memory_order_acquire);
    *c = (struct bt_storage_completion){.generation = durable, .result = failed ? BT_STORE_FAILED : BT_STORE_DURABLE};
    bool news = durable != s->told || failed != s->told_failed;
    s->told = durable;
    s->told_failed = failed;
    return news;
}

const char *bt_storage_why(const struct bt_storage *s)
{
    return atomic_load_explicit(&s->failed, memory_order_acquire) ? s->why : "";
}

int bt_storage_code(const struct bt_storage *s)
{
    return atomic_load_explicit(&s->failed, memory_order_acquire) ? s->failure.code : 0;
}

uint64_t bt_storage_count(const struct bt_storage *s, enum bt_storage_counter c)
{
    return atomic_load_explicit(&s->counter[c], memory_order_relaxed);
}

void bt_storage_close(struct bt_storage *s)
{
    if (s->running) {
        atomic_store_explicit(&s->stop, true, memory_order_release);
        sem_post(&s->work);
        pthread_join(s->thread, NULL);
    }
    release(s);
}
