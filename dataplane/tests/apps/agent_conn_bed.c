// SPDX-License-Identifier: Apache-2.0
// See agent_conn_bed.h.
#include "agent_conn_bed.h"

#include "descriptors.h"
#include "shell/pool.h"
#include "shell/start.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

struct agent_bed bed;

static int open_before;

// Bound, and the port may be taken over from it.
static int open_at(int type, struct sockaddr_in *sa)
{
    const int on = 1;
    int fd = socket(AF_INET, type, 0);
    assert_true(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    assert_int_equal(bind(fd, (struct sockaddr *)sa, sizeof *sa), 0);
    return fd;
}

static void listen_somewhere(bool datagrams)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof sa;
    int fd = open_at(datagrams ? SOCK_DGRAM : SOCK_STREAM, &sa);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    assert_true(datagrams || listen(fd, 8) == 0);
    bed.listener = datagrams ? -1 : fd;
    bed.peer = datagrams ? fd : -1;
    bed.target = bt_addr_v4u(INADDR_LOOPBACK, ntohs(sa.sin_port));
}

static void make_worker(void)
{
    struct agent *a = &bed.agent;
    struct agent_worker *w = &bed.worker;
    *w = (struct agent_worker){.agent = a, .n_conn = 1, .last_sent_ns = AGENT_NEVER, .wake_fd = -1, .mtu = 1500};
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->conn = bed.conn = calloc(1, sizeof *w->conn);
    w->free_conn = calloc(1, sizeof *w->free_conn);
    w->out = malloc(bt_request_max(&a->config.workload));
    w->in = malloc(AGENT_READ_BYTES);
    w->stream = (struct bt_request_stream){.workload = &a->config.workload};
    bt_rng_seed(&w->sampling, 1);
    if (a->config.r2p2) {
        struct bt_pool_mapped *pool = calloc(1, sizeof *pool);
        assert_true(bt_pool_mapped_open(pool, 64));
        w->pool_mem = pool;
        w->pool = &pool->pool;
    }
    a->worker = w;
}

void agent_bed_open(const char *protocol, const char *more)
{
    char line[600], text[BT_ADDR_TEXT];
    struct bt_ctl_error e;
    struct agent *a = &bed.agent;
    memset(&bed, 0, sizeof bed);
    open_before = descriptors();
    listen_somewhere(strcmp(protocol, "r2p2") == 0);
    snprintf(line, sizeof line, "{\"op\":\"configure\",\"protocol\":\"%s\",\"targets\":[\"%s\"],\"connections\":1%s%s}",
             protocol, bt_addr_format(&bed.target, text), more[0] != '\0' ? "," : "", more);
    if (!agent_config_read(line, strlen(line), &a->config, &e)) {
        fail_msg("%s: %s: %s", line, e.field, e.message);
    }
    a->start_ns = bt_monotonic_ns();
    a->stamps = AGENT_STAMPS_SOFTWARE;
    make_worker();
    assert_true(agent_window_open(a, 10, 1, UINT64_C(3600000000000)));
    atomic_store(&bed.worker.seen, a->window.number);
    bed.conn->worker = &bed.worker;
    bed.conn->fd = -1;
    bed.conn->target = bed.target;
    if (!agent_transport_of(a)->open(bed.conn, &e)) {
        fail_msg("%s: %s", e.field, e.message);
    }
    if (!a->config.r2p2) {
        agent_bed_accept();
    }
}

void agent_bed_close(void)
{
    struct agent_worker *w = &bed.worker;
    agent_transport_of(&bed.agent)->close(bed.conn);
    const int fds[] = {w->epoll_fd, bed.listener, bed.peer};
    for (unsigned i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    if (w->pool_mem != NULL) {
        assert_int_equal(((struct bt_pool_mapped *)w->pool_mem)->in_use, 0);
        bt_pool_mapped_close(w->pool_mem);
        free(w->pool_mem);
    }
    free(w->conn);
    free(w->free_conn);
    free(w->out);
    free(w->in);
    assert_int_equal(descriptors(), open_before);
    free(bed.agent.window.records);
    agent_config_free(&bed.agent.config);
}

void agent_bed_event(void)
{
    struct epoll_event ev;
    assert_int_equal(epoll_wait(bed.worker.epoll_fd, &ev, 1, PATIENCE_MS), 1);
    assert_ptr_equal(ev.data.ptr, bed.conn);
    agent_transport_of(&bed.agent)->ready(bed.conn, ev.events);
}

void agent_bed_accept(void)
{
    if (bed.peer >= 0) {
        close(bed.peer);
    }
    bed.peer = accept(bed.listener, NULL, NULL);
    assert_true(bed.peer >= 0);
}

void agent_bed_stop_listening(void)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(bed.target.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    close(bed.listener);
    bed.listener = open_at(SOCK_STREAM, &sa);
}

void agent_bed_hear(void *bytes, size_t n)
{
    assert_int_equal(recv(bed.peer, bytes, n, MSG_WAITALL), n);
}

void agent_bed_say(const void *bytes, size_t n)
{
    assert_int_equal(send(bed.peer, bytes, n, MSG_NOSIGNAL), n);
}

uint64_t agent_bed_failed(enum agent_outcome outcome)
{
    return atomic_load(&bed.worker.window.failed[outcome]);
}
