// SPDX-License-Identifier: Apache-2.0
// How many hugepages this process really gets. The machine's free ones say nothing of that: the cgroup of a container
// may grant none or fewer, and others may have reserved what is still free. DPDK would end the program with SIGBUS or
// without memory. So a child takes them, page by page, and gives them back by its end.
#include "io/dpdk_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZES_MAX = 8, HUGE_SHIFT = 26 }; // MAP_HUGE_SHIFT

static const char folder[] = "/sys/kernel/mm/hugepages";

struct sizes {
    unsigned n;
    struct {
        uint64_t kib, free;
    } of[SIZES_MAX];
};

static uint64_t read_free(const char *size)
{
    char path[300];
    uint64_t v = 0;
    snprintf(path, sizeof path, "%s/%s/free_hugepages", folder, size);
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%" SCNu64, &v) != 1) {
            v = 0;
        }
        fclose(f);
    }
    return v;
}

static void read_sizes(struct sizes *s)
{
    const struct dirent *e;
    DIR *d = opendir(folder);
    s->n = 0;
    while (d != NULL && s->n < SIZES_MAX && (e = readdir(d)) != NULL) {
        unsigned long kib;
        if (sscanf(e->d_name, "hugepages-%lukB", &kib) == 1) {
            s->of[s->n].kib = kib;
            s->of[s->n++].free = read_free(e->d_name);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

uint64_t bt_dpdk_free_hugepages(void)
{
    struct sizes s;
    uint64_t kib = 0;
    read_sizes(&s);
    for (unsigned i = 0; i < s.n; i++) {
        kib += s.of[i].kib * s.of[i].free;
    }
    return kib / 1024;
}

static void refused(int signal)
{
    (void)signal;
    _exit(0); // the page is not granted: what was taken before stands
}

// Takes pages until want_kib are there or one is refused; *taken_kib is the parent's, too.
static void take_pages(const struct sizes *s, uint64_t want_kib, _Atomic uint64_t *taken_kib)
{
    for (unsigned i = 0; i < s->n; i++) {
        int shift = __builtin_ctzll(s->of[i].kib) + 10;
        for (uint64_t k = 0; k < s->of[i].free && *taken_kib < want_kib; k++) {
            volatile char *page = mmap(NULL, s->of[i].kib * 1024, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | shift << HUGE_SHIFT, -1, 0);
            if (page == MAP_FAILED) {
                break; // reserved by others
            }
            *page = 1;
            atomic_fetch_add(taken_kib, s->of[i].kib);
        }
    }
}

uint64_t bt_dpdk_usable_hugepages(uint64_t want_mib)
{
    struct sizes s;
    read_sizes(&s);
    _Atomic uint64_t *taken = mmap(NULL, sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED) {
        return 0;
    }
    atomic_init(taken, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, refused);
        signal(SIGSEGV, refused);
        take_pages(&s, want_mib * 1024, taken);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    uint64_t mib = child > 0 ? *taken / 1024 : 0;
    (void)munmap(taken, sizeof *taken);
    return mib;
}
