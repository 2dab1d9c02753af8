// SPDX-License-Identifier: Apache-2.0
// The storage thread over real files, and over a disk whose syncs a test holds up.
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ram.h"
#include "run/storage.h"
#include "run/storage_queue.h"

enum { PATIENCE_SECONDS = 60 };

// A disk in memory; each sync waits until the test lets it go.
struct gate {
    struct ram ram; // first: its device is the gate's
    struct bt_disk_ops ops;
    const struct bt_disk_ops *plain;
    sem_t entered, go;
    bool shut;
    int code;
};

static int gate_sync(struct bt_disk *d, struct bt_disk_file f)
{
    struct gate *g = (struct gate *)(void *)d;
    if (g->shut) {
        sem_post(&g->entered);
        sem_wait(&g->go);
    }
    return g->code != 0 ? g->code : g->plain->sync(d, f);
}

static void gate_init(struct gate *g)
{
    ram_init(&g->ram);
    g->plain = g->ram.disk.ops;
    g->ops = *g->plain;
    g->ops.sync = gate_sync;
    g->ram.disk.ops = &g->ops;
    g->shut = false;
    g->code = 0;
    sem_init(&g->entered, 0, 0);
    sem_init(&g->go, 0, 0);
}

static void gate_free(struct gate *g)
{
    sem_destroy(&g->entered);
    sem_destroy(&g->go);
    ram_free(&g->ram);
}

static void woken(void *arg)
{
    sem_post(arg);
}

static struct bt_storage_config config_of(sem_t *wake)
{
    sem_init(wake, 0, 0);
    return (struct bt_storage_config){.cluster = "some cluster",
                                      .first = {.count = 1, .member = {{.id = 1, .role = BT_GROUP_VOTER}}},
                                      .segment_bytes = 1 << 16,
                                      .batch_bytes = 8192,
                                      .files_max = RAM_FILES,
                                      .queue_bytes = 16384,
                                      .snapshot_max = 1 << 20,
                                      .wake = woken,
                                      .wake_arg = wake};
}

static struct bt_storage *opened(const struct bt_storage_config *c, struct bt_recovery *found)
{
    char err[300] = "";
    struct bt_storage *s = bt_storage_open(c, found, err, sizeof err);
    if (s == NULL) {
        print_error("%s\n", err);
    }
    assert_non_null(s);
    return s;
}

static bool give(struct bt_storage *s, uint64_t index)
{
    uint8_t body[100];
    memset(body, (int)index, sizeof body);
    struct bt_entry e = {.index = index, .term = 1, .kind = BT_ENTRY_COMMAND, .body = body, .length = sizeof body};
    return bt_storage_give(
        s, &(struct bt_store_op){.generation = index, .kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}});
}

// Waits for a completion of at least this generation, or a failure.
static struct bt_storage_completion completed(struct bt_storage *s, sem_t *wake, uint64_t generation)
{
    struct bt_storage_completion c = {.generation = 0};
    for (;;) {
        struct timespec until;
        bt_storage_completed(s, &c);
        if (c.generation >= generation || c.result == BT_STORE_FAILED) {
            return c;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PATIENCE_SECONDS;
        assert_true(sem_timedwait(wake, &until) == 0 || errno == EINTR);
    }
}

// nothing is acknowledged while its sync runs; all that came meanwhile takes one more.
static void r347_group_commit(void **state)
{
    (void)state;
    struct gate g;
    struct bt_recovery found;
    struct bt_storage_completion c;
    sem_t wake;
    gate_init(&g);
    struct bt_storage_config config = config_of(&wake);
    config.disk = &g.ram.disk;
    struct bt_storage *s = opened(&config, &found);
    uint64_t syncs = g.ram.syncs;
    g.shut = true;
    assert_true(bt_storage_start(s));
    assert_true(give(s, 1));
    sem_wait(&g.entered);
    for (uint64_t i = 2; i <= 31; i++) { // nobody waits for the disk
        assert_true(give(s, i));
    }
    assert_false(bt_storage_completed(s, &c));
    assert_int_equal(c.generation, 0);
    sem_post(&g.go);
    assert_int_equal(completed(s, &wake, 1).generation, 1);
    sem_wait(&g.entered);
    sem_post(&g.go);
    assert_int_equal(completed(s, &wake, 31).generation, 31);
    assert_int_equal(bt_storage_count(s, BT_STORAGE_COMMITS), 2);
    bt_storage_close(s);
    assert_int_equal(g.ram.syncs, syncs + 2);
    gate_free(&g);
    sem_destroy(&wake);
}

// the queue is bounded, says so, and loses nothing.
static void r348_a_full_queue_says_so(void **state)
{
    (void)state;
    struct gate g;
    struct bt_recovery found;
    sem_t wake;
    gate_init(&g);
    struct bt_storage_config config = config_of(&wake);
    config.disk = &g.ram.disk;
    struct bt_storage *s = opened(&config, &found);
    g.shut = true;
    assert_true(bt_storage_start(s));
    uint64_t next = 1;
    assert_true(give(s, next++));
    sem_wait(&g.entered);
    while (give(s, next)) {
        next++;
        assert_true(next < 1000);
    }
    assert_int_equal(bt_storage_count(s, BT_STORAGE_QUEUE_FULL), 1);
    for (unsigned i = 0; i < 64; i++) { // from here on syncs go through
        sem_post(&g.go);
    }
    assert_int_equal(completed(s, &wake, next - 1).generation, next - 1);
    assert_true(give(s, next));
    assert_int_equal(completed(s, &wake, next).generation, next);
    bt_storage_close(s);
    gate_free(&g);
    sem_destroy(&wake);
}

static void r372_a_failed_sync_is_final_and_says_why(void **state)
{
    (void)state;
    struct gate g;
    struct bt_recovery found;
    sem_t wake;
    gate_init(&g);
    struct bt_storage_config config = config_of(&wake);
    config.disk = &g.ram.disk;
    struct bt_storage *s = opened(&config, &found);
    assert_true(bt_storage_start(s));
    assert_true(give(s, 1));
    completed(s, &wake, 1);
    g.shut = true;
    assert_true(give(s, 2));
    sem_wait(&g.entered);
    g.code = EIO;
    sem_post(&g.go);
    struct bt_storage_completion c = completed(s, &wake, 2);
    assert_int_equal(c.result, BT_STORE_FAILED);
    assert_int_equal(c.generation, 1);
    assert_non_null(strstr(bt_storage_why(s), "cannot sync"));
    assert_true(give(s, 3)); // taken, and never acknowledged
    bt_storage_close(s);
    gate_free(&g);
    sem_destroy(&wake);
}

static char *folder(void)
{
    static char path[] = "/tmp/bobtail-store-XXXXXX";
    strcpy(path + strlen(path) - 6, "XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void empty(const char *path)
{
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", path);
    assert_int_equal(system(command), 0);
}

static void r347_real_files(void **state)
{
    (void)state;
    struct bt_recovery found;
    char path[200], err[300];
    sem_t wake;
    snprintf(path, sizeof path, "%s", folder());
    struct bt_storage_config config = config_of(&wake);
    config.folder = path;
    struct bt_storage *s = opened(&config, &found);
    struct bt_store_ids ids = *bt_storage_ids(s);
    assert_true(bt_storage_start(s));
    for (uint64_t i = 1; i <= 2000; i++) {
        while (!give(s, i)) {
            completed(s, &wake, i - 1);
        }
    }
    struct bt_store_op snapshot = {.generation = 2001,
                                   .kind = BT_STORE_SNAPSHOT,
                                   .snapshot = {.last_index = 1000, .last_term = 1, .config = config.first}};
    snapshot.snapshot.bytes = (const uint8_t *)"state at 1000";
    snapshot.snapshot.length = 13;
    while (!bt_storage_give(s, &snapshot)) {
        completed(s, &wake, 2000);
    }
    while (!bt_storage_give(s, &(struct bt_store_op){.generation = 2002, .kind = BT_STORE_COMPACT, .to = 1000})) {
        completed(s, &wake, 2001);
    }
    assert_null(bt_storage_open(&config, &found, err, sizeof err)); // held
    assert_non_null(strstr(err, "another process"));
    bt_storage_close(s);
    s = opened(&config, &found);
    assert_memory_equal(&ids, bt_storage_ids(s), sizeof ids);
    assert_int_equal(found.count, 1000);
    assert_int_equal(found.entry[0].index, 1001);
    assert_int_equal(found.entry[999].body[99], (uint8_t)2000);
    assert_int_equal(found.snapshot.length, 13);
    assert_memory_equal(found.snapshot.bytes, "state at 1000", 13);
    bt_storage_close(s);
    empty(path);
    sem_destroy(&wake);
}

static void r365_other_files_of_a_folder_are_left_alone(void **state)
{
    (void)state;
    struct bt_files f, other;
    struct bt_disk_file list[4];
    uint32_t n;
    char err[200], path[200], name[300];
    snprintf(path, sizeof path, "%s", folder());
    const char *strangers[] = {"segment-1", "segment-0000000000000000000x", "lost+found",
                               "snapshot-000000000000000000012"};
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s/%s", path, strangers[i]);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    assert_true(bt_files_open(&f, path, err, sizeof err));
    assert_int_equal(f.disk.ops->list(&f.disk, list, 4, &n), 0);
    assert_int_equal(n, 0);
    for (uint64_t i = 1; i <= 6; i++) { // more than are kept open
        struct bt_disk_file file = {.number = i, .kind = BT_DISK_SEGMENT};
        assert_int_equal(f.disk.ops->create(&f.disk, file), 0);
        assert_int_equal(f.disk.ops->create(&f.disk, file), EEXIST);
        assert_int_equal(f.disk.ops->write(&f.disk, file, 0, (const uint8_t *)"abc", 3), 0);
    }
    assert_int_equal(f.disk.ops->list(&f.disk, list, 4, &n), E2BIG);
    assert_false(bt_files_open(&other, path, err, sizeof err)); // one process, or another, has it
    assert_int_equal(errno, EWOULDBLOCK);
    assert_non_null(strstr(err, "another process has it open"));
    uint8_t back[8];
    assert_int_equal(f.disk.ops->read(&f.disk, (struct bt_disk_file){1, BT_DISK_SEGMENT}, 1, back, 8, &n), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(back, "bc", 2);
    assert_int_equal(f.disk.ops->remove(&f.disk, (struct bt_disk_file){1, BT_DISK_SEGMENT}), 0);
    assert_int_equal(f.disk.ops->read(&f.disk, (struct bt_disk_file){1, BT_DISK_SEGMENT}, 0, back, 8, &n), ENOENT);
    bt_files_close(&f);
    assert_false(bt_files_open(&f, "/tmp/bobtail-store-no/such/folder", err, sizeof err));
    assert_non_null(strstr(err, "No such file"));
    empty(path);
}

// One thread gives, another takes: nothing is lost, changed or out of order.
struct passing {
    struct bt_storage_queue q;
    uint64_t wrong;
};

enum { PASSED = 20000, BODY_MOST = 300 };

static void *take_all(void *arg)
{
    struct passing *p = arg;
    for (uint64_t want = 1; want <= PASSED;) {
        const struct bt_store_op *op = bt_storage_queue_peek(&p->q);
        if (op == NULL) {
            sched_yield();
            continue;
        }
        const struct bt_entry *e = op->append.entry;
        bool right = op->generation == want && e->index == want && e->length == want % BODY_MOST;
        for (uint32_t i = 0; right && i < e->length; i++) {
            right = e->body[i] == (uint8_t)want;
        }
        p->wrong += !right;
        bt_storage_queue_drop(&p->q);
        want++;
    }
    return NULL;
}

static void r305_queue_between_two_threads(void **state)
{
    (void)state;
    struct passing p = {.wrong = 0};
    pthread_t taker;
    uint8_t body[BODY_MOST];
    assert_true(bt_storage_queue_init(&p.q, 4000));
    assert_int_equal(pthread_create(&taker, NULL, take_all, &p), 0);
    for (uint64_t i = 1; i <= PASSED; i++) {
        memset(body, (int)i, sizeof body);
        struct bt_entry e = {.index = i, .body = body, .length = (uint32_t)(i % BODY_MOST)};
        struct bt_store_op op = {.generation = i, .kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}};
        while (!bt_storage_queue_put(&p.q, &op)) {
            sched_yield();
        }
    }
    pthread_join(taker, NULL);
    assert_int_equal(p.wrong, 0);
    struct bt_entry e = {.index = 1, .body = body, .length = 4000};
    assert_false(bt_storage_queue_put(
        &p.q, &(struct bt_store_op){.kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}}));
    bt_storage_queue_free(&p.q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r347_group_commit),
        cmocka_unit_test(r348_a_full_queue_says_so),
        cmocka_unit_test(r372_a_failed_sync_is_final_and_says_why),
        cmocka_unit_test(r347_real_files),
        cmocka_unit_test(r365_other_files_of_a_folder_are_left_alone),
        cmocka_unit_test(r305_queue_between_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
