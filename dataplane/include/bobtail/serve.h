// SPDX-License-Identifier: Apache-2.0
// A server that uses all its cores: say what answers a request, and how many threads there are. The threads wait for
// requests, execute them, and in one of the two modes help one another (docs/concepts/scheduling.md).
//
// Link with: pkg-config --cflags --libs bobtail
#ifndef BOBTAIL_SERVE_H
#define BOBTAIL_SERVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BOBTAIL_API __attribute__((visibility("default")))
#else
#define BOBTAIL_API
#endif

// A request that is being executed. It is the handler's until the handler returns, and nobody's afterwards.
struct bobtail_request;

// Bytes that may be read and not written: they are the network's, and a write to those of a packet ends the process.
struct bobtail_bytes {
    const void *at;
    size_t len;
};

// Answers a request with one bobtail_reply, and returns; without a reply the client is told that it was refused. It
// runs on any of the server's threads, several at once. It must not block: nothing else runs on its thread meanwhile.
typedef void (*bobtail_handler_fn)(void *arg, struct bobtail_request *request);

// The request's bytes, in pieces; *n is how many. Valid until the handler returns.
BOBTAIL_API const struct bobtail_bytes *bobtail_request_bytes(struct bobtail_request *request, int *n);
// Its length in bytes.
BOBTAIL_API size_t bobtail_request_length(const struct bobtail_request *request);
// Copies at most n bytes of it; returns how many.
BOBTAIL_API size_t bobtail_request_copy(const struct bobtail_request *request, void *to, size_t n);
// 1: nobody waits for the answer any more. Ask now and then in what takes long.
BOBTAIL_API int bobtail_request_cancelled(const struct bobtail_request *request);
// The answer; it is copied. 0; -1: it is longer than max_message, there was one already, or memory is exhausted. The
// client is then told that it was refused.
BOBTAIL_API int bobtail_reply(struct bobtail_request *request, const void *bytes, size_t len);
// The same from several pieces.
BOBTAIL_API int bobtail_reply_pieces(struct bobtail_request *request, const struct bobtail_bytes *piece, int n);

enum bobtail_mode {
    BOBTAIL_RUN_TO_COMPLETION = 0, // a thread executes what arrives at its own port; port + i is thread i's
    BOBTAIL_WORK_STEALING = 1,     // 16 threads share a port, and an idle one takes what waits; port + i is of the
                                   // i-th 16
};

// How requests come. Over TCP every thread listens at the one port; a request is what the protocol says it is, all its
// bytes, and an answer is bytes as they are sent. Answers of a connection leave in the order of its requests, of which
// at most 16 are executed at once. A connection that sends what is no request is closed, and so is one whose handler
// does not answer. An answer of no bytes is one: memcached's noreply.
enum bobtail_protocol {
    BOBTAIL_R2P2 = 0,
    BOBTAIL_RESP = 1,      // Redis: arrays of bulk strings
    BOBTAIL_HTTP = 2,      // HTTP/1.1, with Content-Length or chunked
    BOBTAIL_MEMCACHED = 3, // its text protocol
    BOBTAIL_U32 = 4,       // a length of 32 bits, the highest first, and so many bytes
};

struct bobtail_server_config {
    size_t size;         // sizeof(struct bobtail_server_config)
    const char *address; // local IP, default "127.0.0.1"
    uint16_t port;       // the first one, required
    uint16_t threads;    // 1…64, default 1
    uint16_t batch;      // packets taken at once, 1…1024, default 64; the driver takes at most 64
    uint8_t mode;        // enum bobtail_mode
    uint8_t fast_timers; // 1: pinned cores (RTO 2 ms), 0: shared ones (100 ms)
    const char *name;    // of the handler, default "handler": it is named so when it takes over 10 ms
    bobtail_handler_fn handler;
    void *arg;
    // Called by a thread of the server's own when a handler takes over 10 ms; NULL: it is only counted.
    void (*slow)(void *arg, const char *name, unsigned thread);
    const char *routers;     // "10.0.0.1:8000,10.0.0.2:8000": give these credit; NULL: none
    uint16_t feedback_port;  // of the routers, default 9000
    uint16_t queue_depth;    // n of a port, 1…64, default 3. With work stealing it is at least that many, and follows
                             // the threads and the time a request takes.
    uint16_t mtu;            // IP MTU, 576…1500; 0: of the interface
    uint32_t max_pending;    // requests at once, each port, default 1024
    uint32_t max_message;    // bytes, default 1 MiB
    uint32_t packets;        // 2 KiB buffers of each port, default 8192
    uint16_t min_threads;    // with work stealing so many at least run, the others as the load wants; 0: all do
    uint32_t delay_bound_us; // one more of them runs when requests wait longer, default 200
    uint8_t protocol;        // enum bobtail_protocol
    uint32_t connections;    // over TCP, of each thread, default 1024
    uint64_t seed;           // of the order in which threads look at one another; 0: a random one
    // Flow control (docs/concepts/flow-control.md): clients that ask are told how much they may send, so that of
    // wait_percentile of their requests none waits longer. R2P2 only. 0: none.
    uint32_t wait_us;
    double wait_percentile; // 0.5…0.9999, default 0.99
    uint8_t wait_model;     // enum bobtail_wait_model
    uint8_t order;          // enum bobtail_order, with work stealing over R2P2
    // In a pod of an RpcService: where the sidecar finds the server, and tells it its routers. The pod has the three
    // paths in its environment: BOBTAIL_CTL, BOBTAIL_KEY_DIR, BOBTAIL_CONFIG_CACHE. R2P2 only, in place of `routers`.
    const char *control;      // the socket; NULL or "": none
    const char *key_dir;      // keys of routers; NULL: none
    const char *config_cache; // the last configuration, kept for the next start; NULL: it is not kept
    // The same, where the service has spec.scheduling: BOBTAIL_SCHEDULING, the mode by its name. NULL or "": the
    // service has none. Else `threads` is how many ports there are, and mode, how many threads run, batch and order are
    // the service's. Its flow control comes by `control` in any case, and without one wait_us counts.
    const char *scheduling;
};

// What is executed one after the other, as it came to a port.
enum bobtail_order {
    BOBTAIL_PER_REQUEST = 0, // nothing
    BOBTAIL_PER_CLIENT = 1,  // requests of one client's socket
};

// How the load is found at which the objective is just met.
enum bobtail_wait_model {
    BOBTAIL_WAIT_REFINED = 0, // counts the requests that do not wait at all
    BOBTAIL_WAIT_PAPER = 1,   // as published; lets more wait for too long than the objective says
};

struct bobtail_server_counts {
    uint64_t handled;          // requests executed
    uint64_t stolen;           // turns in which a thread took something of another one
    uint64_t borrowed;         // networks of other threads that were served
    uint64_t slow;             // handlers that took over 10 ms
    uint64_t assisted;         // networks served by the server's own thread, because all others were in handlers
    uint64_t active;           // threads that run now
    uint64_t parks;            // times that one was parked
    uint64_t accepted, closed; // TCP connections taken; ended for another reason than that their client did
    uint64_t malformed;        // of these: what came was no request, or ended in the middle of one, or was too long
    uint64_t died;             // threads that a handler ended; each was replaced, and its request refused
    uint64_t flow_refused;     // requests past every token, with wait_us
    uint64_t flow_silences;    // answers that asked their client to be silent
    uint32_t load_ppm, admitted_ppm; // load of a core, and at which the objective is just met; 0: not known yet
    uint8_t flow_alarm;              // 1: times differ so much that admitted_ppm says little
};

struct bobtail_server;

// Opens the ports and starts the threads. NULL on failure, with a sentence in err that says what to change.
BOBTAIL_API struct bobtail_server *bobtail_server_open(const struct bobtail_server_config *config, char *err,
                                                       size_t errlen);
// Tells the routers to send nothing more, and waits until every request is answered and none has come for half a
// second: some may be on their way. At most so many milliseconds. 1: all were answered; 0: some are left.
BOBTAIL_API int bobtail_server_drain(struct bobtail_server *server, unsigned milliseconds);
BOBTAIL_API void bobtail_server_read_counts(struct bobtail_server *server, struct bobtail_server_counts *out);
// Ends the threads after the handlers that run, and closes the ports.
BOBTAIL_API void bobtail_server_close(struct bobtail_server *server);

#ifdef __cplusplus
}
#endif

#endif
