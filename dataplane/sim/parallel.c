// SPDX-License-Identifier: Apache-2.0
// Process pool over shared memory: an atomic ticket hands out items, slots carry results back.
#include "parallel.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

static void work(const struct pool *p, unsigned me)
{
    for (;;) {
        uint32_t i = atomic_fetch_add(&p->board->ticket, 1);
        if (i >= p->n)
            return;
        atomic_store(&p->board->busy_with[me], (int32_t)i);
        p->fn(p->ctx, i, p->slots + (size_t)i * p->size);
        atomic_store(&p->board->busy_with[me], NOTHING);
    }
}

static pid_t start(const struct pool *p, unsigned me)
{
    fflush(NULL); /* else a child would print our buffered lines again */
    pid_t pid = fork();
    if (pid == 0) {
        work(p, me);
        fflush(NULL);
        _exit(0);
    }
    return pid;
}

/* Waits for one child; a crash marks its item and the child is replaced. */
static int reap(const struct pool *p, pid_t *pids, unsigned jobs, int *signals)
{
    int status = 0;
    pid_t pid = wait(&status);
    if (pid < 0)
        return -1;
    for (unsigned j = 0; j < jobs; j++) {
        if (pids[j] != pid)
            continue;
        pids[j] = 0;
        int32_t item = atomic_load(&p->board->busy_with[j]);
        if (item == NOTHING)
            return 0;
        if (signals != NULL)
            signals[item] = WIFSIGNALED(status) ? WTERMSIG(status) : SIGABRT;
        atomic_store(&p->board->busy_with[j], NOTHING);
        pids[j] = start(p, j);
        return 1;
    }
    return 0;
}

int sim_parallel(unsigned jobs, uint32_t n, size_t size, sim_item_fn *fn, const void *ctx, void *results, int *signals)
{
    if (jobs < 1)
        jobs = 1;
    if (jobs > MAX_JOBS)
        jobs = MAX_JOBS;
    struct pool p = {sim_shared(sizeof(struct board)), sim_shared((size_t)n * size + 1), n, size, fn, ctx};
    if (p.board == NULL || p.slots == NULL)
        return -1;
    if (signals != NULL)
        memset(signals, 0, n * sizeof *signals);
    pid_t pids[MAX_JOBS] = {0};
    int crashed = 0, live = 0;
    for (unsigned j = 0; j < jobs; j++) {
        atomic_store(&p.board->busy_with[j], NOTHING);
        pids[j] = start(&p, j);
        live += pids[j] > 0;
    }
    if (live == 0)
        return -1;
    for (;;) {
        int any = 0;
        for (unsigned j = 0; j < jobs; j++)
            any |= pids[j] > 0;
        if (!any)
            break;
        int c = reap(&p, pids, jobs, signals);
        if (c < 0)
            break;
        crashed += c;
    }
    memcpy(results, p.slots, (size_t)n * size);
    munmap(p.slots, (size_t)n * size + 1);
    munmap(p.board, sizeof(struct board));
    return crashed;
}
