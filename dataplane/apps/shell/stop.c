// SPDX-License-Identifier: Apache-2.0
// See stop.h.
#include "shell/stop.h"

#include "shell/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_uint stop_count;
static struct bt_io *_Atomic stop_io;
// Of what threads do besides; a signal handler must not wait for it.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char lost[600]; // why the device is; empty: it is not

static void ask(unsigned times)
{
    atomic_fetch_add(&stop_count, times);
    struct bt_io *io = atomic_load(&stop_io);
    if (io != NULL) {
        bt_io_wake(io); // one write(2): allowed in a signal handler
    }
}

static void on_signal(int number)
{
    (void)number;
    int saved = errno;
    ask(1);
    errno = saved;
}

void bt_stop_install(struct bt_io *io)
{
    struct sigaction a = {.sa_handler = on_signal};
    pthread_mutex_lock(&mutex); // whoever wakes the io before has done so
    atomic_store(&stop_io, io);
    pthread_mutex_unlock(&mutex);
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

void bt_stop_without_device(bool at_once, const char *why)
{
    pthread_mutex_lock(&mutex);
    snprintf(lost, sizeof lost, "%s", why);
    ask(at_once ? 2 : 1);
    pthread_mutex_unlock(&mutex);
}

int bt_stop_status(int status)
{
    pthread_mutex_lock(&mutex);
    bool is_lost = lost[0] != '\0';
    pthread_mutex_unlock(&mutex);
    if (!is_lost) {
        return status;
    }
    bt_log_error("--driver=dpdk: %s", lost);
    return BT_EXIT_DEVICE_LOST;
}
