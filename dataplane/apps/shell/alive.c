// SPDX-License-Identifier: Apache-2.0
// See alive.h.
#include "shell/alive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 2 };

static bool wrong(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", path, what,
            errno == EAGAIN ? "no answer in 2 s: the program hangs" : strerror(errno));
    return false;
}

static bool ask(int fd, const char *path)
{
    static const char question[] = "{\"v\":1,\"op\":\"state\"}";
    static char answer[1 << 16];
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
        return wrong(path, "socket options");
    }
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, path, strlen(path));
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        return wrong(path, "connect");
    }
    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) < 0) {
        return wrong(path, "send");
    }
    if (recv(fd, answer, sizeof answer, 0) <= 0) {
        return wrong(path, "receive");
    }
    return true;
}

bool bt_alive(const char *socket_path)
{
    if (strlen(socket_path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        errno = ENAMETOOLONG;
        return wrong(socket_path, "socket");
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return wrong(socket_path, "socket");
    }
    bool alive = ask(fd, socket_path);
    close(fd);
    return alive;
}
