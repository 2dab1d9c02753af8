// SPDX-License-Identifier: Apache-2.0
// The two ends of the HTTP side of the proxy comparison: an echo service and an open-loop generator. They do as little
// as HTTP/1.1 with keep-alive allows, so that what lies between them (nothing, or a reverse proxy) is what the machine
// spends its time on.
//   bench_http serve PORT
//   bench_http load PORT RATE CONNECTIONS SECONDS      prints one JSON object
#include "tcp_ends.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY = 64, BUFFER = 4096 };

struct stream {
    struct bench_stream base; // first
    size_t have;
    char in[BUFFER];
};

static struct stream *of(struct bench_stream *s)
{
    return (struct stream *)(void *)s;
}

// Length of the first whole message in s, 0 if it is not all there; its body in *body.
static size_t whole_message(struct stream *s, const char **body)
{
    s->in[s->have] = '\0';
    const char *end = strstr(s->in, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    // Proxies change the case of header names.
    const char *length = strcasestr(s->in, "content-length:");
    size_t n = length != NULL && length < end ? strtoul(length + 15, NULL, 10) : 0;
    size_t total = (size_t)(end + 4 - s->in) + n;
    if (n != BODY || total > BUFFER - 1) {
        fprintf(stderr, "bench_http: a message whose body is not %d bytes: %.200s\n", BODY, s->in);
        exit(1);
    }
    *body = end + 4;
    return s->have >= total ? total : 0;
}

// Reads what is there. False when the peer closed.
static bool read_more(struct stream *s)
{
    ssize_t n = recv(s->base.fd, s->in + s->have, BUFFER - 1 - s->have, MSG_DONTWAIT);
    if (n > 0) {
        s->have += (size_t)n;
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void consume(struct stream *s, size_t n)
{
    memmove(s->in, s->in + n, s->have - n);
    s->have -= n;
}

static void put(int fd, const char *head, const char *body)
{
    char out[512];
    size_t n = strlen(head);
    memcpy(out, head, n);
    memcpy(out + n, body, BODY);
    if (send(fd, out, n + BODY, MSG_NOSIGNAL) != (ssize_t)(n + BODY)) { // a few hundred bytes of an idle socket
        bench_fail("send");
    }
}

static union bench_address loopback(const char *port)
{
    return (union bench_address){.four = {.sin_family = AF_INET,
                                          .sin_port = htons((uint16_t)atoi(port)),
                                          .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}}};
}

static bool serve(struct bench_stream *base)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 64\r\n\r\n";
    struct stream *s = of(base);
    const char *body;
    size_t n;
    if (!read_more(s)) {
        return false;
    }
    while ((n = whole_message(s, &body)) != 0) {
        put(base->fd, head, body);
        consume(s, n);
    }
    return true;
}

static void send_request(struct bench_stream *s)
{
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: echo\r\nContent-Length: 64\r\n\r\n";
    static const char body[BODY] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";
    put(s->fd, head, body);
}

static bool take_answer(struct bench_stream *base)
{
    struct stream *s = of(base);
    const char *body;
    if (!read_more(s)) {
        fprintf(stderr, "bench_http: the service closed a connection\n");
        exit(1);
    }
    size_t n = whole_message(s, &body);
    if (n == 0) {
        return false;
    }
    if (strncmp(s->in, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "bench_http: the answer is not 200: %.100s\n", s->in);
        exit(1);
    }
    consume(s, n);
    return true;
}

static int load(char **argv)
{
    static struct bench_load l = {.send = send_request, .take = take_answer};
    double seconds = atof(argv[5]);
    if (!bench_plan(&l, atof(argv[3]), atoi(argv[4]), seconds)) {
        return 2;
    }
    for (unsigned i = 0; i < l.connections; i++) {
        struct stream *s = calloc(1, sizeof *s);
        if (s == NULL) {
            bench_fail("calloc");
        }
        s->base.fd = bench_connect(loopback(argv[2]));
        bench_join(&l, &s->base);
    }
    bench_run(&l, seconds);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        bench_serve(loopback(argv[2]), sizeof(struct stream), serve);
    }
    if (argc == 6 && strcmp(argv[1], "load") == 0 && atof(argv[3]) > 0) {
        return load(argv);
    }
    fprintf(stderr, "usage: bench_http serve PORT | bench_http load PORT RATE CONNECTIONS SECONDS\n");
    return 2;
}
