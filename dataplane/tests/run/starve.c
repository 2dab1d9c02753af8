// SPDX-License-Identifier: Apache-2.0
// See starve.h.
#include "starve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { NEVER = -1 };

static atomic_long left = NEVER, threads_left = NEVER;
static atomic_bool failed;

void starve_after(unsigned allocations)
{
    atomic_store(&failed, false);
    atomic_store(&left, (long)allocations);
}

void starve_threads_after(unsigned threads)
{
    atomic_store(&failed, false);
    atomic_store(&threads_left, (long)threads);
}

bool starve_ended(void)
{
    atomic_store(&threads_left, NEVER);
    atomic_store(&left, NEVER);
    return atomic_load(&failed);
}

static bool fails(atomic_long *these)
{
    if (atomic_load(these) == NEVER || atomic_fetch_sub(these, 1) != 0) {
        return false;
    }
    atomic_store(&failed, true); // what was left is NEVER now
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
int __real_posix_memalign(void **p, size_t alignment, size_t n);
char *__real_strdup(const char *text);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
int __wrap_posix_memalign(void **p, size_t alignment, size_t n);
char *__wrap_strdup(const char *text);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);

void *__wrap_malloc(size_t n)
{
    return fails(&left) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return fails(&left) ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails(&left) ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fails(&left) ? NULL : __real_aligned_alloc(alignment, n);
}

int __wrap_posix_memalign(void **p, size_t alignment, size_t n)
{
    return fails(&left) ? ENOMEM : __real_posix_memalign(p, alignment, n);
}

char *__wrap_strdup(const char *text)
{
    return fails(&left) ? NULL : __real_strdup(text);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    return fails(&threads_left) ? EAGAIN : __real_pthread_create(t, a, run, arg);
}
