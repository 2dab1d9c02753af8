// SPDX-License-Identifier: Apache-2.0
// See netns.h.
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int netns_here(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

int netns_new(void)
{
    int here = netns_here();
    int ns = -1;
    if (here >= 0 && unshare(CLONE_NEWNET) == 0) {
        ns = netns_here();
        if (setns(here, CLONE_NEWNET) != 0) {
            abort(); // in no namespace anybody meant
        }
    }
    if (here >= 0) {
        close(here);
    }
    return ns;
}

bool netns_enter(int ns)
{
    return setns(ns, CLONE_NEWNET) == 0;
}

bool netns_run(int ns, char *why, size_t len, const char *format, ...)
{
    char command[512];
    int out[2];
    int status = -1;
    size_t n = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (pipe2(out, O_CLOEXEC) != 0) {
        snprintf(why, len, "%s: %s", command, strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        if (setns(ns, CLONE_NEWNET) == 0 && dup2(out[1], 1) == 1 && dup2(out[1], 2) == 2) {
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(127);
    }
    close(out[1]);
    n = (size_t)snprintf(why, len, "%s: ", command);
    for (ssize_t got = 1; got > 0 && n < len - 1; n += (size_t)(got > 0 ? got : 0)) {
        got = read(out[0], why + n, len - 1 - n);
    }
    why[n < len ? n : len - 1] = '\0';
    close(out[0]);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool netns_finish_checksums(int ns, const char *interface)
{
    struct ethtool_value off = {.cmd = ETHTOOL_STXCSUM, .data = 0};
    struct ifreq r = {0};
    int here = netns_here();
    bool done = false;
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", interface);
    r.ifr_data = (char *)&off;
    if (here >= 0 && setns(ns, CLONE_NEWNET) == 0) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        done = fd >= 0 && ioctl(fd, SIOCETHTOOL, &r) == 0;
        if (fd >= 0) {
            close(fd);
        }
        if (setns(here, CLONE_NEWNET) != 0) {
            abort();
        }
    }
    if (here >= 0) {
        close(here);
    }
    return done;
}
