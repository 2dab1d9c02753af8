// SPDX-License-Identifier: Apache-2.0
// The socket and its thread: connections, framing, descriptors that come along. One thread serves
// all connections in turn; its peers are one sidecar and now and then a person.
#include "ctl/ctl_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BUF_BYTES   (BT_CTL_INLINE_MAX + 4096u)
#define REPLY_BYTES (1 << 20)
enum { FDS_MAX = BT_CTL_FDS_MAX, NO_DESCRIPTOR_WAIT_MS = 100 };

void bt_ctl_add_router(struct bt_ctl_state *s, const struct bt_addr *router, uint64_t heard_ns, uint64_t now_ns)
{
    int64_t ago = heard_ns == 0 || heard_ns > now_ns ? -1 : (int64_t)((now_ns - heard_ns) / 1000000);
    for (size_t i = 0; i < s->n_routers; i++) {
        struct bt_ctl_router *r = &s->routers[i];
        if (bt_addr_eq(&r->addr, router)) {
            if (ago >= 0 && (r->heard_ms_ago < 0 || ago < r->heard_ms_ago)) {
                r->heard_ms_ago = ago;
            }
            return;
        }
    }
    if (s->n_routers < (size_t)2 * BT_CONFIG_ROUTERS_MAX) {
        s->routers[s->n_routers++] = (struct bt_ctl_router){*router, ago};
    }
}

void bt_ctl_add_counters(struct bt_ctl_samples *s, const struct bt_counter_desc *descs, const uint64_t *values,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (descs[i].name != NULL && s->n_counters < BT_CTL_SAMPLES_MAX) {
            s->counters[s->n_counters++] = (struct bt_ctl_sample){descs[i], values[i]};
        }
    }
}

void bt_ctl_add_labelled_gauge(struct bt_ctl_samples *s, const struct bt_counter_desc *desc, uint64_t value)
{
    if (s->n_gauges < BT_CTL_SAMPLES_MAX) {
        s->gauges[s->n_gauges++] = (struct bt_ctl_sample){*desc, value};
    }
}

void bt_ctl_add_gauge(struct bt_ctl_samples *s, const char *name, uint64_t value)
{
    bt_ctl_add_labelled_gauge(s, &(struct bt_counter_desc){name, NULL, NULL}, value);
}

struct bt_ctl *bt_ctl_new(const struct bt_ctl_app *app, const struct bt_ctl_options *options,
                          struct bt_mailbox *mailbox)
{
    struct bt_ctl *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->app = *app;
    c->options = *options;
    c->mailbox = mailbox;
    c->listen_fd = c->stop_fd = -1;
    c->buf = malloc(BUF_BYTES);
    c->samples = calloc(1, sizeof *c->samples);
    c->hist = calloc(1, sizeof *c->hist);
    c->part = calloc(1, sizeof *c->part);
    c->state.members = calloc(BT_CONFIG_WORKERS_MAX, sizeof c->state.members[0]);
    c->state.routers = calloc((size_t)2 * BT_CONFIG_ROUTERS_MAX, sizeof c->state.routers[0]);
    c->state.workers = calloc(BT_CTL_SERVED_MAX, sizeof c->state.workers[0]);
    if (c->buf == NULL || c->samples == NULL || c->hist == NULL || c->part == NULL || c->state.members == NULL ||
        c->state.routers == NULL || c->state.workers == NULL) {
        bt_ctl_stop(c);
        return NULL;
    }
    return c;
}

// Descriptors in a received message; *n of them, all ours to close.
static void take_fds(struct msghdr *h, int fds[FDS_MAX], size_t *n)
{
    *n = 0;
    for (struct cmsghdr *m = CMSG_FIRSTHDR(h); m != NULL; m = CMSG_NXTHDR(h, m)) {
        if (m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_RIGHTS) {
            size_t count = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(m) + i * sizeof fd, sizeof fd);
                if (*n < FDS_MAX) {
                    fds[(*n)++] = fd;
                } else {
                    close(fd);
                }
            }
        }
    }
}

// One request and its answer. False when the connection is over.
static bool serve_one(struct bt_ctl *c, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    struct iovec iov = {.iov_base = c->buf, .iov_len = BUF_BYTES};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fds[FDS_MAX];
    size_t n_fds;
    ssize_t n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    take_fds(&h, fds, &n_fds); // an empty packet, which reads like the end, can bring some too
    size_t len = h.msg_flags & MSG_TRUNC ? BUF_BYTES : (size_t)n; // too long either way
    size_t came = h.msg_flags & MSG_CTRUNC ? FDS_MAX + 1 : n_fds; // the kernel keeps the others and does not count them
    char *answer = n > 0 ? bt_ctl_answer(c, c->buf, len, fds, came) : NULL;
    for (size_t i = 0; i < n_fds; i++) {
        close(fds[i]);
    }
    // A peer that does not read its answers is not waited for.
    bool sent = answer != NULL && send(fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    free(answer);
    return sent;
}

// Peers that hold a place and say nothing must not keep others out: when all places are taken, the
// first of them loses its own; if all have spoken, the one that has been silent for longest. It sees
// the end of the connection and may connect again.
static void add_peer(struct bt_ctl *c, int fd)
{
    if (c->n_conns == BT_CTL_CONNS) {
        close(c->conns[0]);
        c->n_conns--;
        c->n_silent -= c->n_silent != 0;
        memmove(&c->conns[0], &c->conns[1], c->n_conns * sizeof c->conns[0]);
    }
    memmove(&c->conns[c->n_silent + 1], &c->conns[c->n_silent], (c->n_conns - c->n_silent) * sizeof c->conns[0]);
    c->conns[c->n_silent++] = fd;
    c->n_conns++;
}

// False when there is no descriptor to accept with: the peer stays in the backlog, and looking at
// the socket again at once would find it there for ever.
static bool accept_one(struct bt_ctl *c)
{
    int size = REPLY_BYTES;
    int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
    add_peer(c, fd);
    return true;
}

// Answers who asked; those who did move behind all others.
static void serve_ready(struct bt_ctl *c, const struct pollfd *polled, unsigned n)
{
    int spoke[BT_CTL_CONNS];
    unsigned kept = 0;
    unsigned n_spoke = 0;
    unsigned silent = c->n_silent;
    for (unsigned i = 0; i < n; i++) {
        if (polled[i].revents == 0) {
            c->conns[kept++] = polled[i].fd;
            continue;
        }
        c->n_silent -= i < silent;
        if (serve_one(c, polled[i].fd)) {
            spoke[n_spoke++] = polled[i].fd;
        } else {
            close(polled[i].fd);
        }
    }
    memcpy(&c->conns[kept], spoke, n_spoke * sizeof spoke[0]);
    c->n_conns = kept + n_spoke;
}

static void *serve(void *arg)
{
    struct bt_ctl *c = arg;
    bool accepting = true;
    for (;;) {
        struct pollfd p[BT_CTL_CONNS + 2];
        p[0] = (struct pollfd){.fd = c->stop_fd, .events = POLLIN};
        p[1] = (struct pollfd){.fd = accepting ? c->listen_fd : -1, .events = POLLIN};
        for (unsigned i = 0; i < c->n_conns; i++) {
            p[i + 2] = (struct pollfd){.fd = c->conns[i], .events = POLLIN};
        }
        int n = poll(p, c->n_conns + 2, accepting ? -1 : NO_DESCRIPTOR_WAIT_MS);
        if (n < 0) {
            if (errno != EINTR) {
                return NULL;
            }
            continue; // revents say nothing
        }
        if (p[0].revents != 0) {
            return NULL;
        }
        serve_ready(c, p + 2, c->n_conns);
        accepting = p[1].revents == 0 || accept_one(c);
    }
}

// Makes room at the path by removing the socket of a dead process. False if what is there must stay.
static bool clear_path(const struct sockaddr_un *sa, struct bt_ctl_error *e)
{
    struct stat st;
    const char *path = sa->sun_path;
    if (lstat(path, &st) != 0) {
        return true; // nothing there, or bind will say what is wrong
    }
    if (!S_ISSOCK(st.st_mode)) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL,
                             "control socket %s: a file that is no socket is there; remove it or choose another path",
                             path);
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool alive = fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)sa, sizeof *sa) == 0;
    bool dead = !alive && errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    if (dead) {
        unlink(path);
    }
    return !alive ||
           bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL,
                         "control socket %s: another process listens there; stop it or choose another path", path);
}

static bool listen_at(struct bt_ctl *c, const char *path, struct bt_ctl_error *e)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof sa.sun_path) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "control socket %.200s: the path is longer than %zu bytes", path,
                             sizeof sa.sun_path - 1);
    }
    memcpy(sa.sun_path, path, strlen(path) + 1);
    if (!clear_path(&sa, e)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(0117); // the socket appears with mode 0660, never wider
    bool ok = fd >= 0 && bind(fd, (const struct sockaddr *)(const void *)&sa, sizeof sa) == 0;
    umask(before);
    if (!ok || listen(fd, 64) != 0) {
        bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "control socket %s: %s%s", path, strerror(errno),
                      errno == ENOENT ? "; create its folder or choose another path" : "");
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    c->listen_fd = fd;
    return true;
}

bool bt_ctl_start(struct bt_ctl *c, struct bt_ctl_error *e)
{
    if (c->options.socket == NULL) {
        return true;
    }
    c->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (c->stop_fd < 0) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "control socket: %s", strerror(errno));
    }
    if (!listen_at(c, c->options.socket, e)) {
        return false;
    }
    int failed = pthread_create(&c->thread, NULL, serve, c);
    c->started = failed == 0;
    return c->started || bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "control thread: %s", strerror(failed));
}

void bt_ctl_stop(struct bt_ctl *c)
{
    if (c == NULL) {
        return;
    }
    if (c->started) {
        uint64_t one = 1;
        ssize_t n = write(c->stop_fd, &one, sizeof one);
        (void)n;
        pthread_join(c->thread, NULL);
    }
    if (c->listen_fd >= 0) {
        close(c->listen_fd);
        unlink(c->options.socket);
    }
    if (c->stop_fd >= 0) {
        close(c->stop_fd);
    }
    for (unsigned i = 0; i < c->n_conns; i++) {
        close(c->conns[i]);
    }
    free(c->buf);
    free(c->samples);
    free(c->hist);
    free(c->part);
    free(c->state.members);
    free(c->state.routers);
    free(c->state.workers);
    free(c);
}
