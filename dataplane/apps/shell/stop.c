// SPDX-License-Identifier: Apache-2.0
// See stop.h.
#include "shell/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_uint stop_count;
static struct bt_io *_Atomic stop_io;

static void on_signal(int number)
{
    (void)number;
    int saved = errno;
    atomic_fetch_add(&stop_count, 1);
    struct bt_io *io = atomic_load(&stop_io);
    if (io != NULL) {
        bt_io_wake(io); // one write(2): allowed in a signal handler
    }
    errno = saved;
}

void bt_stop_install(struct bt_io *io)
{
    struct sigaction a = {.sa_handler = on_signal};
    atomic_store(&stop_io, io);
    sigemptyset(&a.sa_mask);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
}

unsigned bt_stop_count(void)
{
    return atomic_load(&stop_count);
}
