// SPDX-License-Identifier: Apache-2.0
// The public header over real loopback sockets: endpoints in one thread, then
// the paper's calls with one worker thread. Linked against the shared library,
// so it also shows that nothing but r2p2_* is needed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bobtail/r2p2.h"

#define PORT 19480

struct outcome {
    struct r2p2_endpoint *ep; // NULL: the paper's calls
    int successes, errors, timeouts, code;
    size_t bytes;
    int damaged;
};

static void take_reply(r2p2_handle_t handle, void *arg, struct iovec *iov, int iovcnt)
{
    struct outcome *o = arg;
    o->bytes = 0;
    for (int i = 0; i < iovcnt; i++) {
        for (size_t k = 0; k < iov[i].iov_len; k++) {
            o->damaged += ((uint8_t *)iov[i].iov_base)[k] != (uint8_t)(o->bytes++ * 7);
        }
    }
    o->successes++;
    int err = o->ep ? r2p2_endpoint_recv_resp_done(o->ep, handle) : r2p2_recv_resp_done(handle);
    assert_int_equal(err, 0);
    err = o->ep ? r2p2_endpoint_recv_resp_done(o->ep, handle) : r2p2_recv_resp_done(handle);
    assert_int_equal(err, R2P2_ERR_BAD_ARGUMENT);
}

static void take_error(void *arg, int err)
{
    ((struct outcome *)arg)->errors++;
    ((struct outcome *)arg)->code = err;
}

static void take_timeout(void *arg)
{
    ((struct outcome *)arg)->timeouts++;
}

static struct r2p2_ctx context(struct outcome *o, const char *to)
{
    return (struct r2p2_ctx){.success_cb = take_reply,
                             .error_cb = take_error,
                             .timeout_cb = take_timeout,
                             .arg = o,
                             .timeout = 60000000,
                             .destination_text = to};
}

static int ended(const struct outcome *o)
{
    return o->successes + o->errors + o->timeouts;
}

struct echo {
    struct r2p2_endpoint *ep;
    int admit;
};

static void echo_back(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    struct echo *e = arg;
    assert_int_equal(r2p2_endpoint_send_response(e->ep, handle, iov, iovcnt), 0);
    assert_int_equal(r2p2_endpoint_send_response(e->ep, handle, iov, iovcnt), R2P2_ERR_BAD_ARGUMENT);
}

static int admit(void *arg)
{
    return ((struct echo *)arg)->admit;
}

static void drive(struct r2p2_endpoint *a, struct r2p2_endpoint *b, const struct outcome *o)
{
    for (int i = 0; i < 2000000 && !ended(o); i++) {
        r2p2_endpoint_poll(a);
        r2p2_endpoint_poll(b);
    }
    assert_int_equal(ended(o), 1);
}

static void echo_every_size(uint16_t mtu)
{
    static uint8_t body[300000];
    static const size_t sizes[] = {0, 8, 1432, 1433, 1464, 1465, 16384, sizeof body};
    char err[256];
    struct echo e = {.admit = 1};
    struct r2p2_endpoint_ops ops = {echo_back, admit, &e};
    struct r2p2_config scfg = {.size = sizeof scfg, .port = PORT, .mtu = mtu}, ccfg = {.size = sizeof ccfg, .mtu = mtu};
    scfg.max_message = ccfg.max_message = sizeof body; // room for its packets is made by size
    e.ep = r2p2_endpoint_open(&scfg, &ops, err, sizeof err);
    if (!e.ep) {
        fail_msg("%s", err);
    }
    struct outcome o = {.ep = r2p2_endpoint_open(&ccfg, NULL, err, sizeof err)};
    assert_non_null(o.ep);
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (uint8_t)(i * 7);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct r2p2_endpoint *ep = o.ep;
        o = (struct outcome){.ep = ep};
        struct r2p2_ctx ctx = context(&o, "127.0.0.1:19480");
        struct iovec iov = {body, sizes[i]};
        assert_int_equal(r2p2_endpoint_send_req(ep, &iov, 1, &ctx), 0);
        drive(ep, e.ep, &o);
        assert_int_equal(o.successes, 1);
        assert_int_equal(o.bytes, sizes[i]);
        assert_int_equal(o.damaged, 0);
    }
    struct r2p2_endpoint *ep = o.ep;
    e.admit = 0;
    o = (struct outcome){.ep = ep};
    struct r2p2_host_tuple to = {0x7f000001, PORT};
    struct r2p2_ctx ctx = context(&o, NULL);
    ctx.destination = &to;
    struct iovec iov = {body, 8};
    assert_int_equal(r2p2_endpoint_send_req(ep, &iov, 1, &ctx), 0);
    drive(ep, e.ep, &o);
    assert_int_equal(o.code, R2P2_ERR_DROPPED);
    o = (struct outcome){.ep = ep};
    assert_int_equal(r2p2_endpoint_send_req(ep, &iov, 1, &ctx), 0);
    r2p2_endpoint_close(ep); // the one outstanding ends
    assert_int_equal(o.code, R2P2_ERR_CANCELLED);
    r2p2_endpoint_close(e.ep);
}

static void endpoints_echo_every_size(void **state)
{
    (void)state;
    echo_every_size(0);
}

// many more packets, of the same messages.
static void endpoints_echo_in_the_smallest_packets(void **state)
{
    (void)state;
    echo_every_size(576);
}

// F-40: towards servers that know no flow control nothing is held back, and what cannot be sent is refused at once.
static void f40_requests_are_tried_at_one_server_or_at_several(void **state)
{
    (void)state;
    char err[256];
    struct echo e = {.admit = 1};
    struct r2p2_endpoint_ops ops = {echo_back, admit, &e};
    struct r2p2_config scfg = {.size = sizeof scfg, .port = PORT}, ccfg = {.size = sizeof ccfg};
    e.ep = r2p2_endpoint_open(&scfg, &ops, err, sizeof err);
    struct r2p2_endpoint *ep = r2p2_endpoint_open(&ccfg, NULL, err, sizeof err);
    assert_true(e.ep != NULL && ep != NULL);
    uint8_t body[8] = {0, 7, 14, 21, 28, 35, 42, 49};
    struct iovec iov = {body, sizeof body};
    struct r2p2_host_tuple at[2] = {{0x7f000001, PORT}, {0x7f000001, PORT}};
    struct r2p2_replicas both = {at, 2};
    struct outcome o = {.ep = ep};
    struct r2p2_ctx ctx = context(&o, "127.0.0.1:19480"), anywhere = context(&o, NULL),
                    wrong = context(&o, "nowhere:x");
    for (int several = 0; several < 2; several++) {
        long retry = 7;
        o = (struct outcome){.ep = ep};
        assert_int_equal(several ? r2p2_endpoint_try_any(ep, &iov, 1, &anywhere, &both, &retry)
                                 : r2p2_endpoint_try_send(ep, &iov, 1, &ctx, &retry),
                         0);
        assert_int_equal(retry, 0);
        drive(ep, e.ep, &o);
        assert_int_equal(o.successes, 1);
        assert_int_equal(o.bytes, sizeof body);
        assert_int_equal(o.damaged, 0);
    }
    o = (struct outcome){.ep = ep};
    long retry = 7;
    assert_int_equal(r2p2_endpoint_try_send(ep, &iov, 1, &wrong, &retry), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_endpoint_try_send(ep, &iov, 1, &anywhere, &retry), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_endpoint_try_any(ep, &iov, 1, &wrong, &both, &retry), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_endpoint_try_any(ep, &iov, 1, &ctx, NULL, &retry), R2P2_ERR_BAD_ARGUMENT);
    for (int n = 0; n <= R2P2_REPLICAS_MAX + 1; n += R2P2_REPLICAS_MAX + 1) {
        struct r2p2_replicas none = {at, n};
        assert_int_equal(r2p2_endpoint_try_any(ep, &iov, 1, &ctx, &none, &retry), R2P2_ERR_BAD_ARGUMENT);
    }
    assert_int_equal(r2p2_try_send(&iov, 1, &ctx, &retry), R2P2_ERR_NOT_READY);
    assert_int_equal(ended(&o), 0);
    r2p2_endpoint_close(ep);
    r2p2_endpoint_close(e.ep);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    char err[256];
    struct echo e = {0};
    struct r2p2_endpoint_ops ops = {echo_back, NULL, &e};
    static const uint8_t key[16] = {1};
    static const struct {
        struct r2p2_config config;
        const char *says;
    } bad[] = {
        {{.address = "nowhere"}, "address: \"nowhere\" is not an IP address"},
        {{.routers = "10.0.0.1:8000,x"}, "routers: \"x\" is not an address; write 10.0.0.1:8000,[fd00::1]:8000"},
        {{.routers = "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9,1.1.1.10,1.1.1.11,"
                     "1.1.1.12,1.1.1.13,1.1.1.14,1.1.1.15,1.1.1.16,1.1.1.17"},
         "routers: more than 16"},
        {{.port = PORT, .queue_depth = 65}, "queue_depth: must be 1..64; got 65"},
        {{.max_pending = 65536}, "max_pending: must be 1..65535; got 65536"},
        {{.max_message = (1u << 26) + 1}, "max_message: must be at most 64 MiB; got 67108865"},
        {{.port = PORT, .key = key}, "key_id: must be 1..255 when a key is given"},
        {{.address = "0.0.0.0", .port = PORT, .key = key, .key_id = 1},
         "address: a tag covers it, so a server with a key must name the one it is reached at; got 0.0.0.0"},
        {{.address = "::", .port = PORT, .key = key, .key_id = 1},
         "address: a tag covers it, so a server with a key must name the one it is reached at; got ::"},
        {{.mtu = 575}, "mtu: must be 0 (read it from the interface) or 576..1500; got 575"},
        {{.mtu = 1501}, "mtu: must be 0 (read it from the interface) or 576..1500; got 1501"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct r2p2_config config = bad[i].config;
        config.size = sizeof config;
        assert_null(r2p2_endpoint_open(&config, &ops, err, sizeof err));
        assert_string_equal(err, bad[i].says);
    }
    struct r2p2_config not_ours = {.size = sizeof not_ours, .address = "192.0.2.77"};
    assert_null(r2p2_endpoint_open(&not_ours, &ops, err, sizeof err));
    assert_non_null(strstr(err, "192.0.2.77"));
    struct r2p2_config no_callback = {.size = sizeof no_callback, .port = PORT};
    assert_null(r2p2_endpoint_open(&no_callback, NULL, err, sizeof err));
    assert_string_equal(err, "port 19480 is to be served but there is no receive callback");
    struct r2p2_endpoint_ops none = {NULL, NULL, &e};
    assert_null(r2p2_endpoint_open(&no_callback, &none, err, sizeof err));
    assert_string_equal(err, "port 19480 is to be served but there is no receive callback");
    struct r2p2_ctx ctx = {0};
    assert_int_equal(r2p2_send_req(NULL, 0, &ctx), R2P2_ERR_NOT_READY);
    assert_int_equal(r2p2_poll(), R2P2_ERR_NOT_READY);
    assert_int_equal(r2p2_init(70000), R2P2_ERR_BAD_ARGUMENT);
}

static void the_bounds_themselves_are_allowed(void **state)
{
    (void)state;
    char err[256];
    struct echo e = {0};
    struct r2p2_endpoint_ops ops = {echo_back, NULL, &e};
    static const uint8_t key[16] = {1};
    struct r2p2_config good[] = {
        {.queue_depth = 64, .port = PORT, .mtu = 576},
        {.max_pending = 65535, .mtu = 1500},
        {.max_message = 1u << 26},
        {.port = PORT, .key = key, .key_id = 255},
        {.address = "0.0.0.0", .port = PORT},
        {.address = "0.0.0.0", .key = key, .key_id = 1}, // a client's address covers nothing
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        good[i].size = sizeof good[i];
        struct r2p2_endpoint *ep = r2p2_endpoint_open(&good[i], &ops, err, sizeof err);
        if (!ep) {
            fail_msg("%s", err);
        }
        r2p2_endpoint_close(ep);
    }
    r2p2_endpoint_close(NULL); // is fine
}

// Nobody answers: it is told once, by the right call.
static void a_request_times_out(void **state)
{
    (void)state;
    char err[256];
    struct r2p2_config cfg = {.size = sizeof cfg};
    struct outcome o = {.ep = r2p2_endpoint_open(&cfg, NULL, err, sizeof err)};
    assert_non_null(o.ep);
    int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    socklen_t n = sizeof at;
    assert_int_equal(bind(silent, (struct sockaddr *)(void *)&at, sizeof at), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)(void *)&at, &n), 0);
    struct r2p2_host_tuple to = {0x7f000001, ntohs(at.sin_port)};
    struct r2p2_ctx ctx = context(&o, NULL);
    ctx.destination = &to;
    ctx.timeout = 20000;
    assert_int_equal(r2p2_endpoint_send_req(o.ep, NULL, 0, &ctx), 0);
    while (!ended(&o)) {
        r2p2_endpoint_wait(o.ep, 100000);
        r2p2_endpoint_poll(o.ep);
    }
    assert_int_equal(o.timeouts, 1);
    assert_int_equal(o.successes + o.errors, 0);
    r2p2_endpoint_close(o.ep);
    close(silent);
}

static int kept_code;
static r2p2_handle_t kept;

static void keep_reply(r2p2_handle_t handle, void *arg, struct iovec *iov, int iovcnt)
{
    (void)iov;
    (void)iovcnt;
    kept = handle;
    ((struct outcome *)arg)->successes++;
}

static void note_error(void *arg, int err)
{
    kept_code = err;
    ((struct outcome *)arg)->errors++;
}

// As many replies may be held as requests are allowed; one more has no place.
static void replies_that_are_held_have_a_bound(void **state)
{
    (void)state;
    char err[256];
    struct echo e = {.admit = 1};
    struct r2p2_endpoint_ops ops = {echo_back, admit, &e};
    struct r2p2_config scfg = {.size = sizeof scfg, .port = PORT}, ccfg = {.size = sizeof ccfg, .max_pending = 1};
    e.ep = r2p2_endpoint_open(&scfg, &ops, err, sizeof err);
    struct outcome o = {.ep = r2p2_endpoint_open(&ccfg, NULL, err, sizeof err)};
    assert_true(e.ep != NULL && o.ep != NULL);
    struct r2p2_ctx ctx = context(&o, "127.0.0.1:19480");
    ctx.success_cb = keep_reply;
    ctx.error_cb = note_error;
    for (int i = 0; i < 3; i++) {
        struct r2p2_endpoint *ep = o.ep;
        o = (struct outcome){.ep = ep};
        kept_code = 0;
        uint8_t body[4] = {0};
        struct iovec iov = {body, sizeof body};
        assert_int_equal(r2p2_endpoint_send_req(ep, &iov, 1, &ctx), 0);
        drive(ep, e.ep, &o);
        assert_int_equal(o.successes, i != 1);
        assert_int_equal(kept_code, i == 1 ? R2P2_ERR_NO_BUFFER : 0);
        if (i == 1) { // then there is room again
            assert_int_equal(r2p2_endpoint_recv_resp_done(ep, kept), 0);
        }
    }
    assert_int_equal(r2p2_endpoint_recv_resp_done(o.ep, kept), 0);
    assert_int_equal(r2p2_endpoint_recv_resp_done(o.ep, kept), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_endpoint_recv_resp_done(o.ep, 0), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_endpoint_recv_resp_done(o.ep, 2), R2P2_ERR_BAD_ARGUMENT);
    r2p2_endpoint_close(o.ep);
    r2p2_endpoint_close(e.ep);
}

static void ask_again(void *arg, int err)
{
    struct outcome *o = arg;
    struct r2p2_ctx ctx = context(o, "127.0.0.1:19480");
    take_error(arg, err);
    o->code = r2p2_endpoint_send_req(o->ep, NULL, 0, &ctx);
}

// what is asked again while the endpoint closes is refused, not forgotten.
static void r43_nothing_starts_in_a_closing_endpoint(void **state)
{
    (void)state;
    char err[256];
    struct r2p2_config cfg = {.size = sizeof cfg};
    struct outcome o = {.ep = r2p2_endpoint_open(&cfg, NULL, err, sizeof err)};
    assert_non_null(o.ep);
    struct r2p2_ctx ctx = context(&o, "127.0.0.1:19480");
    ctx.error_cb = ask_again;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r2p2_endpoint_send_req(o.ep, NULL, 0, &ctx), 0);
    }
    r2p2_endpoint_close(o.ep);
    assert_int_equal(o.errors, 3);
    assert_int_equal(o.code, R2P2_ERR_CANCELLED);
}

// Incarnation in the FEEDBACK of a server that starts, joins and ends.
static uint32_t incarnation_of_one_life(int router)
{
    char err[256];
    uint8_t p[128];
    struct echo e = {0};
    struct r2p2_endpoint_ops ops = {echo_back, NULL, &e};
    struct r2p2_config cfg = {.size = sizeof cfg, .port = PORT, .routers = "127.0.0.1:19488", .feedback_port = 19489};
    struct r2p2_endpoint *ep = r2p2_endpoint_open(&cfg, &ops, err, sizeof err);
    assert_non_null(ep);
    assert_int_equal(recv(router, p, sizeof p, 0), 40);
    r2p2_endpoint_close(ep);
    assert_int_equal(recv(router, p + 64, 64, 0), 40); // LEAVE
    return (uint32_t)p[20] << 24 | (uint32_t)p[21] << 16 | (uint32_t)p[22] << 8 | p[23];
}

// A router that knew the last life must believe the next: 15 a second.
static void r112_every_life_has_a_later_incarnation(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(19489), .sin_addr.s_addr = htonl(0x7f000001)};
    struct timeval patience = {.tv_sec = 60};
    int router = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(router, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(bind(router, (struct sockaddr *)(void *)&at, sizeof at), 0);
    uint32_t last = incarnation_of_one_life(router);
    for (int i = 0; i < 8; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 70000000}, NULL);
        uint32_t next = incarnation_of_one_life(router);
        assert_true((int32_t)(next - last) > 0);
        last = next;
    }
    close(router);
}

static atomic_int ready, stop;

static void worker_echo(r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    r2p2_send_response(handle, iov, iovcnt);
}

static void *worker(void *arg)
{
    int core = *(int *)arg;
    int err = r2p2_init_per_core(core, 2);
    atomic_fetch_add(&ready, err ? 100 : 1);
    while (!atomic_load(&stop)) {
        r2p2_poll();
    }
    r2p2_exit_per_core();
    return NULL;
}

static int refuse_all(void)
{
    return 0;
}

// What they say of a thread without an endpoint, of a worker there cannot be, and of a second beginning.
static void paper_calls_say_what_is_wrong(void **state)
{
    static const int none[][2] = {{-1, 1}, {1, 1}, {2, 1}};
    (void)state;
    r2p2_set_recv_cb(worker_echo);
    assert_int_equal(r2p2_init(-1), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_init(65536), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(r2p2_init(PORT), 0);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        char words[128];
        snprintf(words, sizeof words, "core %d of %d with listen port 19480: no such worker", none[i][0], none[i][1]);
        assert_int_equal(r2p2_init_per_core(none[i][0], none[i][1]), R2P2_ERR_BAD_ARGUMENT);
        assert_string_equal(r2p2_init_error(), words);
    }
    assert_int_equal(r2p2_init(65535), 0);
    assert_int_equal(r2p2_init_per_core(1, 2), R2P2_ERR_BAD_ARGUMENT);
    assert_string_equal(r2p2_init_error(), "core 1 of 2 with listen port 65535: no such worker");
    assert_int_equal(r2p2_cancelled(1), 0);
    assert_int_equal(r2p2_abandon(1), R2P2_ERR_NOT_READY);
    assert_int_equal(r2p2_recv_resp_done(1), R2P2_ERR_NOT_READY);
    assert_int_equal(r2p2_send_response(1, NULL, 0), R2P2_ERR_NOT_READY);
    assert_int_equal(r2p2_init(PORT), 0);
    assert_int_equal(r2p2_init_per_core(1, 2), 0); // and is at the port of its number
    assert_int_equal(r2p2_init_per_core(1, 2), R2P2_ERR_BAD_ARGUMENT);
    assert_string_equal(r2p2_init_error(), "this thread was initialised before");
    assert_int_equal(r2p2_cancelled(1), 0);
    assert_int_equal(r2p2_abandon(1), R2P2_ERR_BAD_ARGUMENT);
    long retry = 7;
    assert_int_equal(r2p2_try_send(NULL, 0, NULL, &retry), R2P2_ERR_BAD_ARGUMENT);
    r2p2_exit_per_core();
    assert_int_equal(r2p2_poll(), R2P2_ERR_NOT_READY);
}

// Each worker asks from the port of its number, too: no two have the same one.
static void paper_calls_give_each_worker_its_client_port(void **state)
{
    (void)state;
    struct r2p2_config cfg = {.size = sizeof cfg, .port = PORT, .client_port = 65535};
    assert_int_equal(r2p2_init_config(&cfg), 0);
    assert_int_equal(r2p2_init_per_core(1, 2), R2P2_ERR_BAD_ARGUMENT);
    assert_string_equal(r2p2_init_error(), "core 1 of 2 with client port 65535: no such port");
    cfg.client_port = PORT + 100;
    assert_int_equal(r2p2_init_config(&cfg), 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(PORT + 103)};
    int other = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(other, (struct sockaddr *)&sa, sizeof sa), 0);
    for (int core = 2; core < 5; core++) { // 3 finds its port taken
        assert_int_equal(r2p2_init_per_core(core, 5), core == 3 ? R2P2_ERR_NOT_READY : 0);
        if (core != 3) {
            r2p2_exit_per_core();
        }
    }
    close(other);
}

// The process's own judgement of whether it takes a request.
static void paper_calls_refuse_when_told_so(void **state)
{
    (void)state;
    char err[256];
    struct r2p2_config ccfg = {.size = sizeof ccfg};
    struct outcome o = {.ep = r2p2_endpoint_open(&ccfg, NULL, err, sizeof err)};
    assert_non_null(o.ep);
    r2p2_set_recv_cb(worker_echo);
    assert_int_equal(r2p2_init(PORT), 0);
    assert_int_equal(r2p2_init_per_core(0, 1), 0);
    for (int refuses = 1; refuses >= 0; refuses--) {
        struct r2p2_endpoint *ep = o.ep;
        o = (struct outcome){.ep = ep};
        struct r2p2_ctx ctx = context(&o, "127.0.0.1:19480");
        r2p2_set_app_flow_control_fn(refuses ? refuse_all : NULL);
        assert_int_equal(r2p2_endpoint_send_req(ep, NULL, 0, &ctx), 0);
        while (!ended(&o)) {
            r2p2_poll();
            r2p2_endpoint_poll(ep);
        }
        assert_int_equal(o.successes, !refuses);
        assert_int_equal(o.code, refuses ? R2P2_ERR_DROPPED : 0);
    }
    r2p2_exit_per_core();
    r2p2_endpoint_close(o.ep);
}

static void paper_calls_with_two_worker_threads(void **state)
{
    (void)state;
    pthread_t thread[2];
    int core[2] = {0, 1};
    struct outcome o = {0};
    r2p2_set_recv_cb(worker_echo);
    assert_int_equal(r2p2_init(PORT), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, worker, &core[i]), 0);
    }
    while (atomic_load(&ready) < 2)
        ;
    assert_int_equal(atomic_load(&ready), 2);
    assert_int_equal(r2p2_init(0), 0); // this thread is a client only
    if (r2p2_init_per_core(0, 1)) {
        fail_msg("%s", r2p2_init_error());
    }
    for (int i = 0; i < 200; i++) {
        uint8_t body[64];
        for (size_t k = 0; k < sizeof body; k++) {
            body[k] = (uint8_t)(k * 7);
        }
        struct r2p2_ctx ctx = context(&o, i % 2 ? "127.0.0.1:19480" : "127.0.0.1:19481");
        struct iovec iov = {body, sizeof body};
        assert_int_equal(r2p2_send_req(&iov, 1, &ctx), 0);
        while (ended(&o) <= i) {
            r2p2_poll();
        }
    }
    assert_int_equal(o.successes, 200);
    assert_int_equal(o.damaged, 0);
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
    }
    r2p2_exit_per_core();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_echo_every_size),
        cmocka_unit_test(endpoints_echo_in_the_smallest_packets),
        cmocka_unit_test(f40_requests_are_tried_at_one_server_or_at_several),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(the_bounds_themselves_are_allowed),
        cmocka_unit_test(a_request_times_out),
        cmocka_unit_test(replies_that_are_held_have_a_bound),
        cmocka_unit_test(r43_nothing_starts_in_a_closing_endpoint),
        cmocka_unit_test(r112_every_life_has_a_later_incarnation),
        cmocka_unit_test(paper_calls_say_what_is_wrong),
        cmocka_unit_test(paper_calls_give_each_worker_its_client_port),
        cmocka_unit_test(paper_calls_refuse_when_told_so),
        cmocka_unit_test(paper_calls_with_two_worker_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
