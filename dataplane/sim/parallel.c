// SPDX-License-Identifier: Apache-2.0
// Process pool over shared memory: an atomic ticket hands out items, slots carry results back.
#include "parallel.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 64, NOTHING = -1 };

struct board {
    _Atomic uint32_t ticket;
    _Atomic int32_t busy_with[MAX_JOBS];
};

struct pool {
    struct board *board;
    char *slots;
    char *ran; /* a byte an item, behind the slots: a result stands in its slot */
    uint32_t n;
    size_t size;
    sim_item_fn *fn;
    const void *ctx;
};

void *sim_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static size_t slot_bytes(const struct pool *p)
{
    return (size_t)p->n * p->size + p->n + 1; /* no mapping is empty */
}

static bool lay(struct pool *p)
{
    p->board = sim_shared(sizeof *p->board);
    p->slots = sim_shared(slot_bytes(p));
    if (p->slots != NULL) {
        p->ran = p->slots + (size_t)p->n * p->size;
    }
    return p->board != NULL && p->slots != NULL;
}

static void put_away(const struct pool *p)
{
    if (p->board != NULL) {
        munmap(p->board, sizeof *p->board);
    }
    if (p->slots != NULL) {
        munmap(p->slots, slot_bytes(p));
    }
}

static void work(const struct pool *p, unsigned me)
{
    for (;;) {
        uint32_t i = atomic_fetch_add(&p->board->ticket, 1);
        if (i >= p->n) {
            return;
        }
        atomic_store(&p->board->busy_with[me], (int32_t)i);
        p->fn(p->ctx, i, p->slots + (size_t)i * p->size);
        p->ran[i] = 1;
        atomic_store(&p->board->busy_with[me], NOTHING);
    }
}

/* In a child: whoever ends the program, with a time-out's SIGKILL too, ends its workers. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL);
    if (getppid() != parent) {
        _exit(0); /* it had gone before we asked */
    }
}

static pid_t start(const struct pool *p, unsigned me)
{
    fflush(NULL); /* else a child would print our buffered lines again */
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        die_with(parent);
        work(p, me);
        fflush(NULL);
        _exit(0);
    }
    return pid;
}

/* Waits for one child; a crash marks its item and the child is replaced. -1: there was none to wait for. */
static int reap(const struct pool *p, pid_t *pids, unsigned jobs, int *signals)
{
    int status = 0;
    pid_t pid = wait(&status);
    if (pid < 0) {
        return -1;
    }
    for (unsigned j = 0; j < jobs; j++) {
        if (pids[j] != pid) {
            continue;
        }
        pids[j] = 0;
        int32_t item = atomic_load(&p->board->busy_with[j]);
        if (item == NOTHING) {
            return 0;
        }
        if (signals != NULL) {
            signals[item] = WIFSIGNALED(status) ? WTERMSIG(status) : SIGABRT;
        }
        atomic_store(&p->board->busy_with[j], NOTHING);
        pids[j] = start(p, j);
        return 0;
    }
    return 0;
}

/* Until no process is left; false if none could be started. */
static bool run_all(const struct pool *p, unsigned jobs, int *signals)
{
    pid_t pids[MAX_JOBS] = {0};
    unsigned live = 0;
    for (unsigned j = 0; j < jobs; j++) {
        atomic_store(&p->board->busy_with[j], NOTHING);
        pids[j] = start(p, j);
        live += pids[j] > 0;
    }
    if (live == 0) {
        return false;
    }
    for (bool any = true; any && reap(p, pids, jobs, signals) == 0;) {
        any = false;
        for (unsigned j = 0; j < jobs; j++) {
            any |= pids[j] > 0;
        }
    }
    return true;
}

int sim_parallel(unsigned jobs, const struct sim_items *items, void *results, int *signals)
{
    uint32_t n = items->n;
    struct pool p = {.n = n, .size = items->size, .fn = items->fn, .ctx = items->ctx};
    int lost = -1;
    jobs = jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs;
    if (signals != NULL) {
        memset(signals, 0, n * sizeof *signals);
    }
    if (lay(&p) && run_all(&p, jobs, signals)) {
        lost = 0;
        for (uint32_t i = 0; i < n; i++) {
            lost += !p.ran[i];
            if (!p.ran[i] && signals != NULL && signals[i] == 0) {
                signals[i] = -1; /* its process could not be replaced */
            }
        }
        memcpy(results, p.slots, (size_t)n * items->size);
    }
    put_away(&p);
    return lost;
}
