// SPDX-License-Identifier: Apache-2.0
// What the two ends of the TCP benchmarks do alike: a service that takes connections, and clients that send the next
// request when it is due or when the answer is there. Single threads on epoll; what they say is the benchmark's.
#ifndef BOBTAIL_BENCH_TCP_ENDS_H
#define BOBTAIL_BENCH_TCP_ENDS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/rng.h"

enum { BENCH_CONNECTIONS_MAX = 1024 };

// Of either family; any.sa_family says which.
union bench_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

// The first member of what a benchmark keeps of a connection.
struct bench_stream {
    int fd;
    uint64_t due_ns; // of the request in flight
};

struct bench_load {
    void (*send)(struct bench_stream *s); // one request
    bool (*take)(struct bench_stream *s); // what is there; true: the answer is whole
    struct bench_stream *idle[BENCH_CONNECTIONS_MAX];
    unsigned connections, idle_n;
    int epoll_fd;
    struct bt_rng rng;
    double mean_gap_ns;      // 0: closed loop
    uint64_t due_ns, end_ns; // of the next request; none is due at or after end
    uint64_t *latency;       // of every answer, in ns
    uint64_t answers, capacity;
    uint64_t ended; // connections that the other end ended before the answer
};

// Its IP address as text, INET6_ADDRSTRLEN bytes at most, and its port.
unsigned bench_address_text(const union bench_address *a, char *text);
uint64_t bench_ns(void);
// Says what failed, and why, and ends the program.
_Noreturn void bench_fail(const char *what);

// For ever: keeps `bytes` for each connection and calls serve when something is there; false ends the connection.
_Noreturn void bench_serve(union bench_address at, size_t bytes, bool (*serve)(struct bench_stream *s));

// A connected socket that sends at once.
int bench_connect(union bench_address to);
// A connection takes part; its socket is open.
void bench_join(struct bench_load *l, struct bench_stream *s);
// Room for so many latencies.
void bench_room(struct bench_load *l, double answers);
// False, with a message, when RATE (0: closed loop), CONNECTIONS or SECONDS cannot be.
bool bench_plan(struct bench_load *l, double rate, int connections, double seconds);
// Sends for so long and waits for the last answers; the nanoseconds it took. bench_plan was first, all connections have
// joined.
uint64_t bench_turn(struct bench_load *l, uint64_t ns);
// The same, and prints one JSON object.
void bench_run(struct bench_load *l, double seconds);
// The JSON object.
void bench_tell(struct bench_load *l, double took_seconds);

#endif
