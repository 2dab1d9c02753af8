// SPDX-License-Identifier: Apache-2.0
// What is written to a descriptor (1 or 2) between two calls.
#ifndef BT_TESTS_CAPTURED_H
#define BT_TESTS_CAPTURED_H

#include "unit.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct captured {
    int fd, kept, file;
};

static inline struct captured captured_begin(int fd)
{
    struct captured c = {.fd = fd, .kept = dup(fd), .file = memfd_create("captured", MFD_CLOEXEC)};
    fflush(stdout);
    assert_int_equal(dup2(c.file, fd), fd);
    return c;
}

static inline void captured_end(const struct captured *c, char *text, size_t len)
{
    fflush(stdout);
    assert_int_equal(dup2(c->kept, c->fd), c->fd);
    ssize_t n = pread(c->file, text, len - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(c->kept);
    close(c->file);
}

#endif
