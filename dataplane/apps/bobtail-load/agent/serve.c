// SPDX-License-Identifier: Apache-2.0
// The agent's socket: one coordinator at a time, and only one that may.
#include "agent/door.h"

#include "io/udp_internal.h" // socket addresses
#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64, SECRET_MIN = 16, LOOK_MS = 100, POLLED = 3 + DOOR_PEERS };

#define UNIX "unix:"

static bool is_unix(const char *address)
{
    return strncmp(address, UNIX, strlen(UNIX)) == 0;
}

static bool read_secret(const char *file, struct session_secret *out)
{
    uint8_t more;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out->bytes, sizeof out->bytes) : -1;
    bool too_long = n == (ssize_t)sizeof out->bytes && read(fd, &more, 1) != 0;
    const char *why = n < 0 ? strerror(errno) : too_long ? "more than 4096 bytes" : NULL;
    if (fd >= 0) {
        close(fd);
    }
    if (why != NULL) {
        bt_log_error("--agent-token-file=%s: %s", file, why);
        return false;
    }
    out->n = (size_t)n - (n > 0 && out->bytes[n - 1] == '\n');
    if (out->n < SECRET_MIN) {
        bt_log_error("--agent-token-file=%s: has %zu bytes, at least %d are needed", file, out->n, SECRET_MIN);
    }
    return out->n >= SECRET_MIN;
}

// A socket file that nobody listens on is what a dead agent left.
static bool remove_dead(const struct sockaddr_un *sa)
{
    struct stat st;
    if (lstat(sa->sun_path, &st) != 0) {
        return true;
    }
    int fd = S_ISSOCK(st.st_mode) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)sa, sizeof *sa) != 0 && errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return dead && unlink(sa->sun_path) == 0;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) == 0 || strlen(path) >= sizeof sa.sun_path) {
        bt_log_error("--agent=unix:%s: a path of 1 to %zu bytes is needed", path, sizeof sa.sun_path - 1);
        return -1;
    }
    memcpy(sa.sun_path, path, strlen(path));
    if (!remove_dead(&sa)) {
        bt_log_error("--agent=unix:%s: is in use or no socket", path);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177); // before bind, so that nobody can come in between
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0 && listen(fd, BACKLOG) == 0;
    umask(mask);
    if (!ok) {
        bt_log_error("--agent=unix:%s: %s", path, strerror(errno));
        return -1;
    }
    bt_log_info("agent: listening on unix:%s", path);
    return fd;
}

// An address to listen on; port 0, which no peer has, lets the kernel choose one.
static bool parse_own(const char *address, struct bt_addr *out)
{
    char text[BT_ADDR_TEXT];
    size_t n = strlen(address);
    bool any = n > 2 && n < sizeof text && strcmp(address + n - 2, ":0") == 0;
    snprintf(text, sizeof text, "%.*s%s", any ? (int)(n - 1) : (int)n, address, any ? "1" : "");
    if (n >= sizeof text || bt_addr_parse(text, 0, out) != 0) {
        return false;
    }
    out->port = any ? 0 : out->port;
    return true;
}

static int listen_tcp(const char *address)
{
    struct bt_addr a;
    union bt_udp_sa sa;
    socklen_t len = 0;
    char text[BT_ADDR_TEXT];
    const int on = 1;
    if (!parse_own(address, &a)) {
        bt_log_error("--agent must be unix:PATH, IP:PORT or [IPV6]:PORT; got \"%s\"", address);
        return -1;
    }
    sa_family_t family = bt_addr_is_v4(&a) ? AF_INET : AF_INET6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bt_udp_to_sockaddr(&a, family, &sa, &len) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, &sa.sa, len) != 0 ||
        listen(fd, BACKLOG) != 0) {
        bt_log_error("--agent=%s: %s", address, strerror(errno));
        return -1;
    }
    len = sizeof sa;
    if (getsockname(fd, &sa.sa, &len) == 0) {
        a = bt_udp_from_sockaddr(&sa);
    }
    bt_log_info("agent: listening on %s", bt_addr_format(&a, text));
    return fd;
}

// Waits for the listener, the session or those at the door, whoever there are.
static void await(struct door *d, struct session *s, bool busy, struct pollfd p[POLLED])
{
    nfds_t n = 0;
    p[n++] = (struct pollfd){.fd = d->listener, .events = POLLIN};
    if (busy) { // while it waits for an answer, only its end is of interest
        p[n++] = (struct pollfd){.fd = s->fd, .events = s->later == SESSION_NOTHING ? POLLIN : POLLRDHUP};
        p[n++] = (struct pollfd){.fd = s->setup_fd, .events = POLLIN};
    }
    for (unsigned i = 0; i < d->n; i++) {
        p[n++] = (struct pollfd){.fd = d->peer[i].fd, .events = POLLIN};
    }
    if (poll(p, n, busy && s->later == SESSION_STOPPING ? 1 : LOOK_MS) < 0) {
        memset(p, 0, POLLED * sizeof *p); // a signal: the loop looks at it
    }
}

// Lets in the first of those at the door that may come. True if there is one.
static bool let_in(struct door *d, struct session *s, const struct pollfd *p)
{
    struct door_peer in;
    for (unsigned i = 0, at = 0; at < d->n; i++) { // who goes moves the others up
        unsigned before = d->n;
        if ((p[i].revents != 0 || d->secret->n == 0) && door_listen(d, at, &in)) {
            door_clear(d, "the agent works for another coordinator");
            if (session_begin(s, in.fd, d->lease_s * UINT64_C(1000000000), in.line, in.have)) {
                s->agent.cpus = d->cpus;
                return true;
            }
            session_end(s);
        }
        at += d->n == before;
    }
    return false;
}

// What the session has to do. False when it is over.
static bool attend(struct session *s, const struct pollfd *p)
{
    if (p->revents != 0 && s->later != SESSION_NOTHING) {
        s->over = (p->revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
    } else if (p->revents != 0) {
        session_read(s);
    }
    if (!s->over) {
        session_tick(s, bt_monotonic_ns());
    }
    if (s->over) {
        session_end(s);
    }
    return !s->over;
}

// False when nobody came in time.
static bool serve(struct door *d, const struct agent_listen_options *o)
{
    static struct session s;
    bool busy = false;
    uint64_t idle_since = bt_monotonic_ns();
    while (bt_stop_count() == 0) {
        struct pollfd p[POLLED];
        await(d, &s, busy, p);
        if (busy && !(busy = attend(&s, p + 1))) {
            idle_since = bt_monotonic_ns();
            if (o->once) {
                return true;
            }
        } else if (!busy) {
            busy = let_in(d, &s, p + 1);
        }
        if (p[0].revents != 0) {
            door_knock(d, busy);
        }
        door_expire(d, bt_monotonic_ns());
        if (!busy && o->wait_s != 0 && bt_monotonic_ns() - idle_since >= o->wait_s * UINT64_C(1000000000)) {
            bt_log_error("agent: no coordinator was let in for %u s", o->wait_s);
            return false;
        }
    }
    if (busy) {
        session_end(&s);
    }
    return true;
}

int agent_serve(const struct agent_listen_options *o)
{
    static struct session_secret secret;
    if (!is_unix(o->address) && !read_secret(o->token_file, &secret)) {
        return 1;
    }
    int fd = is_unix(o->address) ? listen_unix(o->address + strlen(UNIX)) : listen_tcp(o->address);
    if (fd < 0) {
        return 1;
    }
    static struct door door;
    door = (struct door){.listener = fd, .secret = &secret, .lease_s = o->lease_s, .cpus = o->cpus};
    bool ok = serve(&door, o);
    door_clear(&door, "the agent ends");
    close(fd);
    if (is_unix(o->address)) {
        unlink(o->address + strlen(UNIX));
    }
    return ok ? 0 : 1;
}
