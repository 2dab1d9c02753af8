// SPDX-License-Identifier: Apache-2.0
// A server of one's own on bobtail/serve.h, as a stranger writes it for a pod: address, ports and paths are those of
// the environment. It sends back what it gets, and ends when it is told to.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <bobtail/serve.h>

static void echo(void *arg, struct bobtail_request *request)
{
    int n;
    const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
    (void)arg;
    bobtail_reply_pieces(request, piece, n);
}

static uint16_t number(const char *name)
{
    const char *text = getenv(name);
    return (uint16_t)(text != NULL ? atoi(text) : 0);
}

int main(void)
{
    char why[256];
    int signal;
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGTERM);
    sigprocmask(SIG_BLOCK, &told, NULL);
    struct bobtail_server_config config = {.size = sizeof config,
                                           .address = getenv("POD_IP"),
                                           .port = number("BOBTAIL_PORT"),
                                           .threads = number("BOBTAIL_WORKERS"),
                                           .control = getenv("BOBTAIL_CTL"),
                                           .key_dir = getenv("BOBTAIL_KEY_DIR"),
                                           .config_cache = getenv("BOBTAIL_CONFIG_CACHE"),
                                           .scheduling = getenv("BOBTAIL_SCHEDULING"),
                                           .handler = echo};
    struct bobtail_server *server = bobtail_server_open(&config, why, sizeof why);
    if (server == NULL) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    sigwait(&told, &signal);
    int all = bobtail_server_drain(server, 20000);
    bobtail_server_close(server);
    return all ? 0 : 2;
}
