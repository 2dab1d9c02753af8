// SPDX-License-Identifier: Apache-2.0
// A real process on a real file system, killed with SIGKILL at any moment, again and again: what it acknowledged over a
// pipe is there afterwards, and what is there is what it wrote. The page cache outlives a process, so this says
// nothing about a loss of power: the simulated disk does.
//   test_store_kill [kills]   prints how many kills, acknowledgements and losses
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "run/storage.h"

enum { BODY = 200, KILLS = 40, SNAPSHOT_EVERY = 3000 };

static struct bt_storage_config config_of(const char *folder)
{
    return (struct bt_storage_config){.folder = folder,
                                      .cluster = "killed cluster",
                                      .first = {.count = 1, .member = {{.id = 1, .role = BT_GROUP_VOTER}}},
                                      .segment_bytes = 1 << 18,
                                      .batch_bytes = 1 << 14,
                                      .files_max = 256};
}

static void fill(uint8_t *body, uint64_t index)
{
    struct bt_rng rng;
    bt_rng_seed(&rng, index);
    for (unsigned i = 0; i < BODY; i++) {
        body[i] = (uint8_t)bt_rng_next(&rng);
    }
}

/* What is found must be entries 1 to last, from the snapshot's on. Returns last; 0 with a message: it is not. */
static uint64_t check(const struct bt_recovery *r)
{
    uint64_t next = r->count > 0 ? r->entry[0].index : r->snapshot.last_index + 1;
    if (next > r->snapshot.last_index + 1) {
        fprintf(stderr, "entries %llu to %llu are missing\n", (unsigned long long)r->snapshot.last_index + 1,
                (unsigned long long)next - 1);
        return 0;
    }
    for (uint64_t i = 0; i < r->count; i++, next++) {
        uint8_t want[BODY];
        fill(want, next);
        if (r->entry[i].index != next || r->entry[i].length != BODY || memcmp(r->entry[i].body, want, BODY) != 0) {
            fprintf(stderr, "entry %llu is not what was written\n", (unsigned long long)next);
            return 0;
        }
    }
    return next;
}

/* What the child writes: entries, and from time to time a snapshot and a compaction that make older ones superfluous.
 */
struct writer {
    struct bt_storage *s;
    uint64_t next, generation;
    uint64_t index_of[1 << 16]; /* by generation, a ring: the last entry at that time */
    uint64_t snapshot, compacted;
};

static struct bt_store_op next_op(const struct writer *w, struct bt_entry *e)
{
    struct bt_store_op op = {.generation = w->generation + 1};
    if (w->compacted < w->snapshot) {
        op.kind = BT_STORE_COMPACT;
        op.to = w->snapshot;
    } else if (w->next - 1 >= w->snapshot + SNAPSHOT_EVERY) {
        op.kind = BT_STORE_SNAPSHOT;
        op.snapshot.last_index = w->next - 1;
        op.snapshot.last_term = 1;
        op.snapshot.config = config_of("").first;
        op.snapshot.bytes = (const uint8_t *)"s";
        op.snapshot.length = 1;
    } else {
        op.kind = BT_STORE_APPEND;
        op.append.entry = e;
        op.append.count = 1;
    }
    return op;
}

static bool write_next(struct writer *w)
{
    uint8_t body[BODY];
    struct bt_entry e = {.index = w->next, .term = 1, .kind = BT_ENTRY_COMMAND, .body = body, .length = BODY};
    struct bt_store_op op = next_op(w, &e);
    fill(body, w->next);
    if (!bt_storage_give(w->s, &op)) {
        return false;
    }
    w->generation++;
    w->next += op.kind == BT_STORE_APPEND;
    w->snapshot = op.kind == BT_STORE_SNAPSHOT ? op.snapshot.last_index : w->snapshot;
    w->compacted = op.kind == BT_STORE_COMPACT ? op.to : w->compacted;
    w->index_of[w->generation % (1 << 16)] = w->next - 1;
    return true;
}

static int child(const char *folder)
{
    static struct writer w;
    struct bt_recovery found;
    struct bt_storage_config c = config_of(folder);
    char err[300];
    w.s = bt_storage_open(&c, &found, err, sizeof err);
    if (w.s == NULL) {
        fprintf(stderr, "child: %s\n", err);
        return 3;
    }
    w.next = check(&found);
    w.snapshot = found.snapshot.last_index;
    w.compacted = found.count > 0 ? found.entry[0].index - 1 : w.snapshot;
    if (w.next == 0 || !bt_storage_start(w.s)) {
        return 3;
    }
    for (uint64_t told = 0;;) {
        struct bt_storage_completion done;
        while (w.generation - told < 200 && write_next(&w)) {
        }
        if (bt_storage_completed(w.s, &done) && done.result == BT_STORE_FAILED) {
            fprintf(stderr, "child: %s\n", bt_storage_why(w.s));
            return 3;
        }
        if (done.generation > told) {
            told = done.generation;
            uint64_t index = w.index_of[told % (1 << 16)];
            if (write(1, &index, sizeof index) != (ssize_t)sizeof index) {
                return 3;
            }
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    }
}

static pid_t spawn(const char *self, const char *folder, int *from)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(self, self, "child", folder, (char *)NULL);
        _exit(4);
    }
    close(ends[1]);
    *from = ends[0];
    return pid;
}

/* Reads acknowledgements until the child has given so many, kills it, and reads the rest. The last one; 0: it ended by
 * itself. */
static uint64_t run_and_kill(const char *self, const char *folder, unsigned acks, uint64_t *told)
{
    int from = -1, status;
    uint64_t index, last = 1;
    pid_t pid = spawn(self, folder, &from);
    for (unsigned n = 0; pid > 0 && read(from, &index, sizeof index) == (ssize_t)sizeof index; n++) {
        last = index;
        ++*told;
        if (n == acks) {
            kill(pid, SIGKILL);
        }
    }
    close(from);
    if (pid <= 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        return 0;
    }
    return last;
}

static bool one_kill(const char *self, const char *folder, struct bt_rng *rng, uint64_t *told)
{
    struct bt_recovery found;
    struct bt_storage_config c = config_of(folder);
    char err[300];
    uint64_t acknowledged = run_and_kill(self, folder, bt_rng_below(rng, 60), told);
    if (acknowledged == 0) {
        fprintf(stderr, "the writer ended by itself\n");
        return false;
    }
    struct bt_storage *s = bt_storage_open(&c, &found, err, sizeof err);
    if (s == NULL) {
        fprintf(stderr, "%s\n", err);
        return false;
    }
    uint64_t next = check(&found);
    bt_storage_close(s);
    if (next <= acknowledged) {
        fprintf(stderr, "acknowledged up to %llu, found up to %llu\n", (unsigned long long)acknowledged,
                (unsigned long long)next - 1);
    }
    return next > acknowledged;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/bobtail-kill-XXXXXX", command[64];
    struct bt_rng rng;
    unsigned kills = KILLS, done = 0;
    uint64_t told = 0;
    if (argc == 3 && strcmp(argv[1], "child") == 0) {
        return child(argv[2]);
    }
    if (argc == 2) {
        kills = (unsigned)strtoul(argv[1], NULL, 10);
    }
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    bt_rng_seed(&rng, 1);
    while (done < kills && one_kill("/proc/self/exe", folder, &rng, &told)) {
        done++;
    }
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    printf("%u kills of %u, %llu acknowledgements, %s\n", done, kills, (unsigned long long)told,
           done == kills ? "none lost" : "FAILED");
    return system(command) != 0 || done != kills;
}
