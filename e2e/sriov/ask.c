// SPDX-License-Identifier: Apache-2.0
// Asks a control socket one thing and prints the answer: ask PATH OPERATION. Static, for an initramfs without Python.
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char answer[1 << 20];
    char request[128];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (argc != 3) {
        fprintf(stderr, "usage: ask PATH OPERATION\n");
        return 2;
    }
    snprintf(at.sun_path, sizeof at.sun_path, "%s", argv[1]);
    int n = snprintf(request, sizeof request, "{\"v\":1,\"op\":\"%s\"}", argv[2]);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0 || send(fd, request, (size_t)n, 0) != n) {
        perror(argv[1]);
        return 1;
    }
    ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
    if (got <= 0) {
        perror("no answer");
        return 1;
    }
    puts(answer);
    close(fd);
    return 0;
}
