// SPDX-License-Identifier: Apache-2.0
#include "agent/session.h"

#include "agent/fields.h"

#include "shell/log.h"
#include "shell/start.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WRITE_PATIENCE_MS = 10000 };

bool session_write(int fd, const void *bytes, size_t n, int patience_ms)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        if (sent < 0 && poll(&p, 1, patience_ms) == 0) {
            return false;
        }
        at += sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

bool session_send_line(int fd, struct bt_json_out *o, int patience_ms)
{
    bool ok =
        !o->overflow && session_write(fd, o->text, o->len, patience_ms) && session_write(fd, "\n", 1, patience_ms);
    bt_json_out_free(o);
    return ok;
}

void session_put_error(struct bt_json_out *o, const struct bt_ctl_error *e)
{
    bt_json_out_open(o, NULL, '{');
    bt_json_out_bool(o, "ok", false);
    bt_ctl_put_error(o, e);
    bt_json_out_close(o, '}');
}

// The answer in o, or the refusal in e.
static bool reply(struct session *s, bool ok, struct bt_json_out *o, const struct bt_ctl_error *e)
{
    if (!ok) {
        bt_json_out_free(o);
        *o = (struct bt_json_out){0};
        session_put_error(o, e);
    }
    return session_send_line(s->fd, o, WRITE_PATIENCE_MS);
}

bool session_begin(struct session *s, int fd, uint64_t lease_ns, const char *said, size_t have)
{
    memset(s, 0, sizeof *s);
    s->fd = fd;
    s->lease_ns = lease_ns;
    s->heard_ns = bt_monotonic_ns();
    s->setup_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->line = malloc(SESSION_LINE + 1);
    if (s->line == NULL || s->setup_fd < 0) {
        return false;
    }
    memcpy(s->line, said, have);
    s->have = have;
    return true;
}

void session_end(struct session *s)
{
    if (s->later == SESSION_CONFIGURING) {
        session_setup_end(s, false);
    }
    agent_workers_stop(&s->agent);
    agent_config_free(&s->agent.config);
    free(s->agent.window.records);
    free(s->line);
    if (s->setup_fd >= 0) {
        close(s->setup_fd);
    }
    close(s->fd);
    s->fd = -1;
}

// One line from the coordinator. False when nothing more can be understood.
static bool answer(struct session *s, const char *line, size_t len)
{
    struct bt_ctl_error e = {0};
    struct bt_json_out o = {0};
    char op[AGENT_OP_BYTES] = "";
    if (!agent_read_op(line, len, op, &e)) {
        (void)reply(s, false, &o, &e);
        return false;
    }
    bool ok = session_operation(s, op, line, len, &o, &e);
    if (s->later != SESSION_NOTHING) {
        return true;
    }
    return reply(s, ok, &o, &e) && (!ok || strcmp(op, "samples") != 0 || session_send_samples(s));
}

// Answers the whole lines there are, up to one whose answer takes time.
static void answer_lines(struct session *s)
{
    struct bt_ctl_error e = {0};
    struct bt_json_out o = {0};
    size_t from = 0;
    for (char *end;
         !s->over && s->later == SESSION_NOTHING && (end = memchr(s->line + from, '\n', s->have - from)) != NULL;) {
        size_t len = (size_t)(end - (s->line + from));
        *end = '\0';
        s->over = !answer(s, s->line + from, len);
        from += len + 1;
    }
    s->have -= from;
    memmove(s->line, s->line + from, s->have);
    if (!s->over && s->later == SESSION_NOTHING && s->have == SESSION_LINE) {
        bt_ctl_refuse(&e, BT_CTL_INVALID_REQUEST, NULL, "is a line of more than %u bytes", SESSION_LINE);
        (void)reply(s, false, &o, &e);
        s->over = true;
    }
}

void session_read(struct session *s)
{
    ssize_t n = recv(s->fd, s->line + s->have, SESSION_LINE - s->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        s->over = true;
        return;
    }
    s->have += (size_t)n;
    s->heard_ns = bt_monotonic_ns();
    answer_lines(s);
}

void session_tick(struct session *s, uint64_t now_ns)
{
    struct bt_ctl_error e = {0};
    struct bt_json_out o = {0};
    if (s->later != SESSION_NOTHING) { // it is the coordinator that waits
        s->heard_ns = now_ns;
        if (session_done(s, now_ns)) {
            bool ok = session_finish(s, &o, &e);
            s->later = SESSION_NOTHING;
            s->over = !reply(s, ok, &o, &e);
        }
    } else if (now_ns - s->heard_ns >= s->lease_ns) {
        bt_log_warn("agent: nothing heard of the coordinator for %.0f s; its load ends", (double)s->lease_ns / 1e9);
        s->over = true;
    }
    if (!s->over) {
        answer_lines(s);
    }
    if (s->agent.window.last != 0) {
        agent_window_check(&s->agent);
    }
}
