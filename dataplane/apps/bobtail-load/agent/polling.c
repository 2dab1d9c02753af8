// SPDX-License-Identifier: Apache-2.0
// The kernel polls the device when a measuring agent reads (SO_BUSY_POLL, L-2). Without the right to it, or on a device
// without queues of its own, it does not; the agent polls its sockets all the same.
#include "agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { BUSY_POLL_US = 50 };

void agent_busy_poll(struct agent *a, int fd)
{
    const int busy_us = BUSY_POLL_US;
    if (a->config.role == AGENT_LATENCY && setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &busy_us, sizeof busy_us) != 0) {
        atomic_store(&a->busy_poll_error, errno);
    }
}

const char *agent_busy_poll_said(const struct agent *a, char text[AGENT_BUSY_POLL_TEXT])
{
    int error = atomic_load(&a->busy_poll_error);
    if (error == 0) {
        return a->config.role == AGENT_LATENCY ? "on" : "off";
    }
    snprintf(text, AGENT_BUSY_POLL_TEXT, "refused: %s%s", strerror(error),
             error == EPERM ? "; above net.core.busy_read it takes CAP_NET_ADMIN here" : "");
    return text;
}
