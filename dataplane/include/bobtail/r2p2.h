// SPDX-License-Identifier: Apache-2.0
// R2P2, the request-response pair protocol, over UDP: µs-scale RPCs without
// connections. Two layers: endpoints, which are plain objects (one per thread),
// and below them the calls of the R2P2 paper, which work on the calling
// thread's own endpoint.
//
// Link with: pkg-config --cflags --libs bobtail
#ifndef BOBTAIL_R2P2_H
#define BOBTAIL_R2P2_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define R2P2_API __attribute__((visibility("default")))
#else
#define R2P2_API
#endif

// A request being served, or a reply being read.
typedef uint64_t r2p2_handle_t;

// Which workers a router may pick.
enum r2p2_routing_policy {
    R2P2_LB_ROUTE = 0,    // any
    R2P2_FIXED_ROUTE = 1, // the master worker
    R2P2_REPLICATED_ROUTE = 2,
    R2P2_REPLICATED_ROUTE_NO_SE = 3, // replicated, read-only
};

// Codes of the error callback and, negative, of calls.
enum r2p2_error {
    R2P2_ERR_DROPPED = -2,          // refused before it ran: safe to issue again
    R2P2_ERR_REPLY_INCOMPLETE = -3, // it ran, parts of the reply were lost
    R2P2_ERR_NO_BUFFER = -4,        // packet buffers exhausted; try again later
    R2P2_ERR_CANCELLED = -5,        // endpoint closed
    R2P2_ERR_TABLE_FULL = -6,       // max_pending requests outstanding
    R2P2_ERR_NO_ID = -7,            // no request id free; try again later
    R2P2_ERR_TOO_LARGE = -8,        // larger than max_message
    R2P2_ERR_BAD_ARGUMENT = -9,     // unknown handle, no destination, timeout 0 …
    R2P2_ERR_NOT_READY = -10,       // this thread has no endpoint, or the endpoint no such side
    R2P2_ERR_AGAIN = -11,           // flow control: it would wait for too long, and was not sent
};

// An IPv4 address and port, both in host byte order.
struct r2p2_host_tuple {
    uint32_t ip;
    uint16_t port;
};

// One request. Must stay where it is until one of its callbacks ran: exactly
// one of them does, once, and nothing touches the context afterwards.
struct r2p2_ctx {
    // The whole reply is here. Its bytes stay valid until r2p2_recv_resp_done,
    // which must be called; the iov array itself only during the callback.
    void (*success_cb)(r2p2_handle_t handle, void *arg, struct iovec *iov, int iovcnt);
    void (*error_cb)(void *arg, int err);
    void (*timeout_cb)(void *arg);
    void *arg;
    long timeout; // µs from sending to the whole reply
    enum r2p2_routing_policy routing_policy;
    const struct r2p2_host_tuple *destination; // router or server
    const char *destination_text;              // or "10.0.0.1:8000", "[fd00::1]:8000"; wins when set
};

// A whole request is here. Its bytes stay valid until r2p2_send_response; the
// iov array itself only during the callback.
typedef void (*r2p2_recv_fn)(r2p2_handle_t handle, struct iovec *iov, int iovcnt);
// 0: refuse the request with DROP.
typedef int (*r2p2_flow_control_fn)(void);

// --- endpoints ------------------------------------------------------------------

struct r2p2_config {
    size_t size;            // sizeof(struct r2p2_config)
    const char *address;    // local IP, default "127.0.0.1"
    uint16_t port;          // of the server side; 0: client only
    uint16_t client_port;   // 0: the kernel chooses
    const char *routers;    // "10.0.0.1:8000,10.0.0.2:8000": give these credit; NULL: none
    uint16_t feedback_port; // of the routers, default 9000
    uint16_t queue_depth;   // n, requests queued and executing here, 1…64, default 3
    uint32_t max_pending;   // requests at once, each side, default 1024
    uint32_t max_message;   // bytes, default 1 MiB
    uint32_t packets;       // 2 KiB buffers, default 8192
    const uint8_t *key;     // 16 bytes that tag FEEDBACK; NULL: untagged
    uint8_t key_id;         // 1…255
    uint8_t fast_timers;    // 1: pinned cores (RTO 2 ms), 0: shared ones (100 ms)
    uint8_t spin;           // 1: r2p2_endpoint_wait never sleeps
    uint8_t no_extensions;  // 1: as peers that predate them
    uint16_t mtu;           // IP MTU, 576…1500, the same on all nodes; 0: of the interface that
                            // has the address, or of the default route when address is 0.0.0.0
};

struct r2p2_endpoint;

struct r2p2_endpoint_ops {
    void (*recv)(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt);
    int (*flow_control)(void *arg); // 0: DROP; NULL: never
    void *arg;
};

// Opens the sockets and gives the routers their credit. NULL on failure, with a
// sentence in err that says what to change. ops may be NULL on a pure client.
R2P2_API struct r2p2_endpoint *r2p2_endpoint_open(const struct r2p2_config *cfg, const struct r2p2_endpoint_ops *ops,
                                                  char *err, size_t errlen);
// LEAVEs the routers, ends every request with R2P2_ERR_CANCELLED, closes.
R2P2_API void r2p2_endpoint_close(struct r2p2_endpoint *ep);
// Handles what has arrived and what is due; never blocks. Packets handled.
R2P2_API int r2p2_endpoint_poll(struct r2p2_endpoint *ep);
// Sleeps until a packet or timer, at most max_us; then poll has work.
R2P2_API void r2p2_endpoint_wait(struct r2p2_endpoint *ep, long max_us);
// iov is copied. 0, or an enum r2p2_error and no callback.
R2P2_API int r2p2_endpoint_send_req(struct r2p2_endpoint *ep, struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx);
// The same under flow control: it is sent only if it would probably be served in time. R2P2_ERR_AGAIN: it would not;
// *retry_after_us is when asking again makes sense, and dropping it, waiting, or another replica is up to you. Servers
// that know no flow control never hold anything back (docs/concepts/flow-control.md).
R2P2_API int r2p2_endpoint_try_send(struct r2p2_endpoint *ep, struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx,
                                    long *retry_after_us);
// To one of n replicas, the first that has room, from a random one on; the ctx's destination is not looked at. At most
// R2P2_REPLICAS_MAX.
#define R2P2_REPLICAS_MAX 64
struct r2p2_replicas {
    const struct r2p2_host_tuple *at;
    int n;
};
R2P2_API int r2p2_endpoint_try_any(struct r2p2_endpoint *ep, struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx,
                                   const struct r2p2_replicas *replicas, long *retry_after_us);
// iov is copied; the request's bytes are gone afterwards. 0 or an enum r2p2_error.
R2P2_API int r2p2_endpoint_send_response(struct r2p2_endpoint *ep, r2p2_handle_t handle, struct iovec *iov, int iovcnt);
// 1: the request's router has taken it back, because another server answered it or a newer request is to have this
// worker; nobody waits for the response. Ask before executing what waited, and now and then in what takes long (it is
// learned in r2p2_endpoint_poll). One that is executed all the same does no harm. 0: it has not, or the handle is
// unknown.
R2P2_API int r2p2_endpoint_cancelled(struct r2p2_endpoint *ep, r2p2_handle_t handle);
// Ends a request that was taken back, without a response: its bytes are gone, its router learns that the worker is
// free. 0, or R2P2_ERR_BAD_ARGUMENT when it was not taken back.
R2P2_API int r2p2_endpoint_abandon(struct r2p2_endpoint *ep, r2p2_handle_t handle);
R2P2_API int r2p2_endpoint_recv_resp_done(struct r2p2_endpoint *ep, r2p2_handle_t handle);

// --- the paper's calls ------------------------------------------------------------

// Once per process, before any r2p2_init_per_core: thread `core` will listen on
// listen_port + core (each port is one worker); 0: clients only.
R2P2_API int r2p2_init(int listen_port);
// The same with everything configurable; cfg->port as listen_port. Strings and
// key must stay valid.
R2P2_API int r2p2_init_config(const struct r2p2_config *cfg);
// Once per thread. 0 or an enum r2p2_error; r2p2_init_error says why.
R2P2_API int r2p2_init_per_core(int core_id, int core_count);
R2P2_API const char *r2p2_init_error(void); // of this thread
R2P2_API void r2p2_exit_per_core(void);
R2P2_API int r2p2_poll(void);
R2P2_API int r2p2_send_req(struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx);
R2P2_API int r2p2_try_send(struct iovec *iov, int iovcnt, struct r2p2_ctx *ctx, long *retry_after_us);
R2P2_API int r2p2_send_response(r2p2_handle_t handle, struct iovec *iov, int iovcnt);
R2P2_API int r2p2_cancelled(r2p2_handle_t handle);
R2P2_API int r2p2_abandon(r2p2_handle_t handle);
R2P2_API int r2p2_recv_resp_done(r2p2_handle_t handle);
// Both before the threads start.
R2P2_API void r2p2_set_recv_cb(r2p2_recv_fn fn);
R2P2_API void r2p2_set_app_flow_control_fn(r2p2_flow_control_fn fn);

#ifdef __cplusplus
}
#endif

#endif
