// SPDX-License-Identifier: Apache-2.0
// bobtail/serve.h over UDP sockets: opens the ports, and gives them to the threads.
#include "bobtail/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "api/endpoint.h"
#include "api/serve_internal.h"
#include "io/mtu.h"

#define SPIN_NS UINT64_C(5000)
#define LOOP_NS UINT64_C(50000) // D of D-3 over kernel sockets
#define LOOK_NS 2000000L
// What was on its way when the routers heard that the server leaves is here after so long without a request.
#define QUIET_NS UINT64_C(500000000)

void serve_hold(struct bobtail_server *s)
{
    pthread_mutex_lock(&s->holding);
    bt_run_hold(s->run);
}

void serve_go(struct bobtail_server *s)
{
    bt_run_go(s->run);
    pthread_mutex_unlock(&s->holding);
}

void serve_leave(struct bobtail_server *s)
{
    for (uint32_t i = 0; i < s->ports; i++) {
        bt_server_leave(bt_run_server(s->run, i), bt_io_now(s->port[i].io), bt_run_txq(s->run, i));
    }
    s->leaving = true;
}

static struct bobtail_server_config with_defaults(const struct bobtail_server_config *config)
{
    struct bobtail_server_config c = {0};
    memcpy(&c, config, config->size && config->size < sizeof c ? config->size : sizeof c);
    c.address = c.address ? c.address : "127.0.0.1";
    c.threads = c.threads ? c.threads : 1;
    c.batch = c.batch ? c.batch : 64;
    c.feedback_port = c.feedback_port ? c.feedback_port : 9000;
    c.queue_depth = c.queue_depth ? c.queue_depth : 3;
    c.max_pending = c.max_pending ? c.max_pending : 1024;
    c.max_message = c.max_message ? c.max_message : 1u << 20;
    c.packets = c.packets ? c.packets : 8192;
    c.connections = c.connections ? c.connections : 1024;
    c.wait_percentile = c.wait_percentile != 0 ? c.wait_percentile : 0.99;
    return c;
}

static bool check_flow(const struct bobtail_server_config *c, char *err, size_t errlen)
{
    if (c->wait_us == 0) {
        return true;
    }
    if (c->protocol != BOBTAIL_R2P2) {
        snprintf(err, errlen, "wait_us: flow control is R2P2's, and protocol is another one");
    } else if (c->wait_us > 10000000) {
        snprintf(err, errlen, "wait_us: must be at most 10000000; got %u", c->wait_us);
    } else if (!(c->wait_percentile >= 0.5 && c->wait_percentile <= 0.9999)) {
        snprintf(err, errlen, "wait_percentile: must be 0.5..0.9999; got %g", c->wait_percentile);
    } else if (c->wait_model > BOBTAIL_WAIT_PAPER) {
        snprintf(err, errlen, "wait_model: must be 0 or 1; got %u", c->wait_model);
    } else {
        return true;
    }
    return false;
}

static bool has(const char *path)
{
    return path != NULL && path[0] != '\0';
}

static bool check_protocol(const struct bobtail_server_config *c, char *err, size_t errlen)
{
    bool routed = c->routers != NULL, controlled = has(c->control);
    if (c->protocol > BOBTAIL_U32) {
        snprintf(err, errlen, "protocol: must be 0..%d; got %u", BOBTAIL_U32, c->protocol);
    } else if (c->protocol != BOBTAIL_R2P2 && (routed || controlled)) {
        snprintf(err, errlen, "%s: R2P2 alone has routers, and protocol is another one",
                 controlled ? "control" : "routers");
    } else if (routed && controlled) {
        snprintf(err, errlen, "routers: whoever speaks to control names them, and both are given; leave one out");
    } else {
        return true;
    }
    return false;
}

static bool check_numbers(const struct bobtail_server_config *c, uint32_t ports, char *err, size_t errlen)
{
    if (c->threads > BT_RUN_THREADS_MAX) {
        snprintf(err, errlen, "threads: must be 1..%d; got %u", BT_RUN_THREADS_MAX, c->threads);
    } else if (c->port == 0 || c->port + ports - 1 > 65535) {
        snprintf(err, errlen, "port: ports %u..%u are wanted, of 1..65535", c->port, c->port + ports - 1);
    } else if (c->mode > BOBTAIL_WORK_STEALING) {
        snprintf(err, errlen, "mode: must be 0 or 1; got %u", c->mode);
    } else if (c->queue_depth > 64) {
        snprintf(err, errlen, "queue_depth: must be 1..64; got %u", c->queue_depth);
    } else if (c->max_pending > 65535) {
        snprintf(err, errlen, "max_pending: must be 1..65535; got %u", c->max_pending);
    } else if (c->max_message > 1u << 26) {
        snprintf(err, errlen, "max_message: must be at most 64 MiB; got %u", c->max_message);
    } else if (c->mtu && (c->mtu < BT_MTU_MIN || c->mtu > BT_MTU_MAX)) {
        snprintf(err, errlen, "mtu: must be 0 or %u..%u; got %u", BT_MTU_MIN, BT_MTU_MAX, c->mtu);
    } else {
        return true;
    }
    return false;
}

static bool check_order(const struct bobtail_server_config *c, char *err, size_t errlen)
{
    bool steals = c->mode == BOBTAIL_WORK_STEALING && c->protocol == BOBTAIL_R2P2;
    if (c->order > BOBTAIL_PER_CLIENT) {
        snprintf(err, errlen, "order: must be 0 or 1; got %u", c->order);
    } else if (c->order == BOBTAIL_PER_CLIENT && !steals) {
        snprintf(err, errlen,
                 "order: needs work stealing over R2P2; a thread executes one request after the other anyway");
    } else {
        return true;
    }
    return false;
}

static bool open_port(struct bobtail_server *s, uint32_t i, const struct bobtail_server_config *c,
                      const struct bt_server_cfg *like, char *err, size_t errlen)
{
    struct bt_run_port *p = &s->port[i];
    p->server = *like;
    p->server.local.port = (uint16_t)(c->port + i);
    if (!bt_run_memory_open(&s->memory[i], c->packets)) {
        snprintf(err, errlen, "out of memory for %u packets; lower packets", c->packets);
        return false;
    }
    p->server.pool = &s->memory[i].pool.pool;
    p->read_only = s->memory[i].read_only;
    if (s->control != NULL) {
        serve_control_port(s->control, i, p);
    }
    if (getrandom(p->server.seed, sizeof p->server.seed, 0) != (ssize_t)sizeof p->server.seed) {
        snprintf(err, errlen, "the kernel gave no random numbers");
        return false;
    }
    struct bt_udp_config u = {.locals = &p->server.local, .n_locals = 1, .pool = p->server.pool, .idle = BT_IDLE_SPIN};
    p->io = bt_udp_open(&u, err, errlen);
    bool flow = c->wait_us != 0 || s->control != NULL; // by its own options, or as its service says
    if (p->io != NULL && flow && (p->flow = bt_flow_new(p->server.seed)) == NULL) {
        snprintf(err, errlen, "out of memory for flow control");
        return false;
    }
    return p->io != NULL;
}

static bool open_ports(struct bobtail_server *s, const struct bobtail_server_config *c, char *err, size_t errlen)
{
    struct timespec t;
    struct bt_addr local;
    if (bt_addr_parse(c->address, 1, &local)) {
        snprintf(err, errlen, "address: \"%s\" is not an IP address", c->address);
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &t);
    struct bt_server_cfg like = {
        .local = local,
        .mtu = c->mtu ? c->mtu : bt_mtu_of(&local),
        .n = c->queue_depth,
        .feedback_port = c->feedback_port,
        .max_pending = c->max_pending,
        .max_assemblies = 64,
        .max_done = 16384,
        .max_held = 64,
        .max_message = c->max_message,
        .incarnation = (uint32_t)(((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) >> BT_INCARNATION_SHIFT),
        .incarnation_shift = BT_INCARNATION_SHIFT,
        .timers = bt_rpc_timers_for(c->fast_timers ? BT_DEVICE_SRIOV : BT_DEVICE_KERNEL),
    };
    for (uint32_t i = 0; i < s->ports; i++) {
        if (!open_port(s, i, c, &like, err, errlen)) {
            return false;
        }
    }
    return true;
}

static bool set_up_tcp(struct bobtail_server *s, const struct bobtail_server_config *c, char *err, size_t errlen)
{
    s->over_tcp = true;
    s->tcp = (struct bt_run_tcp){.framing = (enum bt_framing)(c->protocol - BOBTAIL_RESP),
                                 .max_message = c->max_message,
                                 .connections = c->connections};
    if (bt_addr_parse(c->address, 1, &s->tcp.local)) {
        snprintf(err, errlen, "address: \"%s\" is not an IP address", c->address);
        return false;
    }
    s->tcp.local.port = c->port;
    return true;
}

static bool join_routers(struct bobtail_server *s, const struct bobtail_server_config *c, char *err, size_t errlen)
{
    struct bt_server_router routers[BT_SERVER_ROUTERS];
    int n = bt_api_routers(c->routers, c->feedback_port, routers, err, errlen);
    if (n < 0) {
        return false;
    }
    serve_hold(s);
    for (uint32_t i = 0; n > 0 && i < s->ports; i++) {
        bt_server_set_routers(bt_run_server(s->run, i), bt_io_now(s->port[i].io), routers, n, bt_run_txq(s->run, i));
    }
    serve_go(s);
    return true;
}

static bool start(struct bobtail_server *s, const struct bobtail_server_config *c, char *err, size_t errlen)
{
    struct bt_run_setup setup = {
        .mode = s->mode,
        .threads = s->threads,
        .batch = c->batch,
        .threads_min = c->min_threads,
        .adjustable = s->told && s->mode == BT_SCHED_WORK_STEALING,
        .delay_bound_ns = (uint64_t)(c->delay_bound_us ? c->delay_bound_us : 200) * 1000,
        .spin_ns = SPIN_NS,
        .loop_ns = LOOP_NS,
        .seed = c->seed,
        .name = c->name,
        .handler = c->handler,
        .arg = c->arg,
        .slow = c->slow,
        .port = s->port,
        .tcp = s->over_tcp ? &s->tcp : NULL,
    };
    if (setup.seed == 0 && getrandom(&setup.seed, sizeof setup.seed, 0) != (ssize_t)sizeof setup.seed) {
        snprintf(err, errlen, "the kernel gave no random numbers");
        return false;
    }
    s->run = bt_run_open(&setup, err, errlen);
    if (s->run != NULL) {
        serve_set_flow(s, &s->own);
        bt_run_set_order(s->run, c->order == BOBTAIL_PER_CLIENT);
    }
    return s->run != NULL && join_routers(s, c, err, errlen) && bt_run_start(s->run, err, errlen) &&
           (s->control == NULL || serve_control_start(s->control, c, err, errlen));
}

static bool check(const struct bobtail_server_config *c, uint32_t ports, char *err, size_t errlen)
{
    return check_protocol(c, err, errlen) && check_numbers(c, ports, err, errlen) && check_flow(c, err, errlen) &&
           check_order(c, err, errlen);
}

static bool set_up_r2p2(struct bobtail_server *s, uint32_t ports, const struct bobtail_server_config *c, char *err,
                        size_t errlen)
{
    s->ports = ports;
    s->memory = calloc(ports, sizeof *s->memory);
    s->port = calloc(ports, sizeof *s->port);
    s->control = has(c->control) ? serve_control_new(s, ports) : NULL;
    bool made = s->memory != NULL && s->port != NULL && (!has(c->control) || s->control != NULL);
    return made && open_ports(s, c, err, errlen);
}

struct bobtail_server *bobtail_server_open(const struct bobtail_server_config *config, char *err, size_t errlen)
{
    struct bobtail_server_config c = with_defaults(config);
    bool r2p2 = c.protocol == BOBTAIL_R2P2;
    if (!serve_take_scheduling(&c, err, errlen)) {
        return NULL;
    }
    uint32_t ports = r2p2 ? bt_run_ports(c.mode == BOBTAIL_WORK_STEALING, c.threads) : 1;
    if (!check(&c, ports, err, errlen)) {
        return NULL;
    }
    struct bobtail_server *s = calloc(1, sizeof *s);
    snprintf(err, errlen, "out of memory for %u ports", ports);
    if (s == NULL) {
        return NULL;
    }
    pthread_mutex_init(&s->holding, NULL);
    s->threads = c.threads;
    s->mode = c.mode == BOBTAIL_WORK_STEALING ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION;
    s->told = c.scheduling != NULL;
    s->own = serve_own_objective(&c);
    bool ok = r2p2 ? set_up_r2p2(s, ports, &c, err, errlen) : set_up_tcp(s, &c, err, errlen);
    if (!ok || !start(s, &c, err, errlen)) {
        bobtail_server_close(s);
        return NULL;
    }
    return s;
}

struct left {
    uint32_t backlog;
    uint64_t requests; // that came so far
    bool routed;       // some router knows this server
};

static struct left look(struct bobtail_server *s, bool leave)
{
    struct left left = {0};
    struct bt_server_router_state r;
    if (s->over_tcp) {
        if (leave) {
            bt_run_end_listening(s->run);
        }
        return (struct left){.backlog = bt_run_tcp_backlog(s->run)};
    }
    serve_hold(s);
    if (leave) {
        serve_leave(s);
    }
    for (uint32_t i = 0; i < s->ports; i++) {
        const struct bt_server *port = bt_run_server(s->run, i);
        left.backlog += bt_server_backlog(port);
        left.requests += bt_server_counters(port)[BT_SERVER_REQUESTS];
        left.routed |= bt_server_router_state(port, 0, &r);
    }
    serve_go(s);
    return left;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int bobtail_server_drain(struct bobtail_server *s, unsigned milliseconds)
{
    uint64_t now = now_ns(), until = now + (uint64_t)milliseconds * 1000000u, quiet_since = now;
    struct left left = look(s, true);
    while (now < until && (left.backlog != 0 || (left.routed && now - quiet_since < QUIET_NS))) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        struct left next = look(s, false);
        now = now_ns();
        quiet_since = next.requests != left.requests ? now : quiet_since;
        left = next;
    }
    return left.backlog == 0;
}

void bobtail_server_read_counts(struct bobtail_server *s, struct bobtail_server_counts *out)
{
    struct bt_flow_figures sum = {0};
    bt_run_read_counts(s->run, out);
    if (s->ports == 0 || s->port[0].flow == NULL) {
        return;
    }
    serve_hold(s);
    serve_read_flow(s, &sum);
    serve_go(s);
    out->flow_refused = sum.refused;
    out->flow_silences = sum.counters[BT_FLOW_THROTTLED_SIGNALS];
    out->load_ppm = (uint32_t)(1e6 * sum.load);
    out->admitted_ppm = (uint32_t)(1e6 * sum.admitted);
    out->flow_alarm = sum.alarm;
}

void bobtail_server_close(struct bobtail_server *s)
{
    if (s == NULL) {
        return;
    }
    serve_control_stop(s->control);
    if (s->run != NULL) {
        bt_run_close(s->run);
    }
    for (uint32_t i = 0; i < s->ports && s->port != NULL && s->memory != NULL; i++) {
        if (s->port[i].io != NULL) {
            s->port[i].io->ops->close(s->port[i].io);
        }
        bt_run_memory_close(&s->memory[i]);
        bt_flow_free(s->port[i].flow);
    }
    serve_control_free(s->control);
    pthread_mutex_destroy(&s->holding);
    free(s->port);
    free(s->memory);
    free(s);
}
