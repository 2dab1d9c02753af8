// SPDX-License-Identifier: Apache-2.0
// From --target to addresses, again and again while the load runs: a headless Service lists the
// routers there are now.
#include "load_app.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_PORT = 8000, HOST_MAX = 256 };

// The parts of one entry: host and port as they stand in it, port NULL where there is none.
struct entry {
    const char *host, *port;
    size_t host_len, port_len;
};

// Cuts "host:port", "[v6]:port" or "host" of n bytes.
static bool cut(const char *text, size_t n, struct entry *out)
{
    const char *end = text + n;
    const char *colon = memrchr(text, ':', n);
    *out = (struct entry){.host = text, .host_len = colon != NULL ? (size_t)(colon - text) : n};
    if (n > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', n);
        if (close == NULL || (close + 1 != end && close[1] != ':')) {
            return false;
        }
        *out = (struct entry){.host = text + 1, .host_len = (size_t)(close - text - 1)};
        colon = close + 1 != end ? close + 1 : NULL;
    }
    if (colon != NULL) {
        out->port = colon + 1;
        out->port_len = (size_t)(end - colon - 1);
    }
    return true;
}

static bool is_port(const char *digits)
{
    int v = 0;
    for (const char *d = digits; *d != '\0'; d++) {
        if (*d < '0' || *d > '9') {
            return false;
        }
        v = v * 10 + (*d - '0');
    }
    return v >= 1 && v <= 65535;
}

// Splits "host:port", "[v6]:port" or "host" of n bytes; without a port it is DEFAULT_PORT.
static bool split(const char *entry, size_t n, char host[HOST_MAX], char port[8])
{
    struct entry e;
    if (!cut(entry, n, &e) || e.host_len == 0 || e.host_len >= HOST_MAX || e.port_len > 5) {
        return false;
    }
    memcpy(host, e.host, e.host_len);
    host[e.host_len] = '\0';
    if (e.port == NULL) {
        snprintf(port, 8, "%d", DEFAULT_PORT);
        return true;
    }
    memcpy(port, e.port, e.port_len);
    port[e.port_len] = '\0';
    return is_port(port); // an empty one is none
}

bool load_target_check(const char *target, char *bad, size_t cap)
{
    char host[HOST_MAX];
    char port[8];
    for (const char *at = target;;) {
        size_t n = strcspn(at, ",");
        if (!split(at, n, host, port)) {
            snprintf(bad, cap, "%.*s", (int)n, at);
            return false;
        }
        if (at[n] == '\0') {
            return true;
        }
        at += n + 1;
    }
}

static void add(struct load_list *out, const struct sockaddr *sa)
{
    struct bt_addr a = {0};
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        uint8_t ip[4];
        memcpy(&in, sa, sizeof in);
        memcpy(ip, &in.sin_addr, 4);
        a = bt_addr_v4(ip, ntohs(in.sin_port));
    } else {
        struct sockaddr_in6 in;
        memcpy(&in, sa, sizeof in);
        memcpy(a.ip, &in.sin6_addr, 16);
        a.port = ntohs(in.sin6_port);
    }
    unsigned at = 0;
    while (at < out->n && memcmp(&out->addr[at], &a, sizeof a) < 0) { // sorted, so that lists compare
        at++;
    }
    if (out->n == LOAD_ROUTERS_MAX || (at < out->n && bt_addr_eq(&out->addr[at], &a))) {
        return;
    }
    memmove(&out->addr[at + 1], &out->addr[at], (out->n - at) * sizeof a);
    out->addr[at] = a;
    out->n++;
}

bool load_resolve(const struct load_options *opt, bool v6, struct load_list *out, char *why, size_t cap)
{
    struct load_list found = {.n = 0};
    snprintf(why, cap, "no address");
    for (const char *at = opt->target; *at != '\0';) {
        char host[HOST_MAX];
        char port[8];
        size_t n = strcspn(at, ",");
        struct addrinfo hints = {.ai_family = v6 ? AF_INET6 : AF_INET, .ai_socktype = SOCK_DGRAM};
        struct addrinfo *list = NULL;
        int failed = split(at, n, host, port) ? getaddrinfo(host, port, &hints, &list) : EAI_NONAME;
        if (failed != 0) {
            snprintf(why, cap, "%s: %s", host, gai_strerror(failed));
        }
        for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
            add(&found, a->ai_addr);
        }
        if (list != NULL) {
            freeaddrinfo(list);
        }
        at += n + (at[n] == ',');
    }
    if (found.n != 0) {
        *out = found;
    }
    return found.n != 0;
}

static void publish(struct load_resolver *r, bool ok, const struct load_list *list)
{
    bool changed = false;
    pthread_mutex_lock(&r->lock);
    if (!ok) {
        r->failures++; // the old list stays: a name server that is down says nothing about routers
    } else if (list->n != r->list.n || memcmp(list->addr, r->list.addr, list->n * sizeof list->addr[0]) != 0) {
        r->list = *list;
        r->version++;
        changed = true;
    }
    pthread_mutex_unlock(&r->lock);
    if (changed) {
        r->wake(r->wake_arg);
    }
}

static void *resolve_again(void *arg)
{
    struct load_resolver *r = arg;
    struct load_list list = {.n = 0};
    char why[256];
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t ns = (uint64_t)until.tv_nsec + r->opt->resolve_interval_ns;
        until.tv_sec += (time_t)(ns / 1000000000u);
        until.tv_nsec = (long)(ns % 1000000000u);
        pthread_mutex_lock(&r->lock);
        while (!r->stop && pthread_cond_timedwait(&r->stop_now, &r->lock, &until) == 0) {
        }
        bool stop = r->stop;
        pthread_mutex_unlock(&r->lock);
        if (stop) {
            return NULL;
        }
        bool ok = load_resolve(r->opt, r->v6, &list, why, sizeof why);
        publish(r, ok, &list);
    }
}

bool load_resolver_start(struct load_resolver *r)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->stop_now, &attr);
    pthread_condattr_destroy(&attr);
    r->started = pthread_create(&r->thread, NULL, resolve_again, r) == 0;
    return r->started;
}

void load_resolver_stop(struct load_resolver *r)
{
    if (!r->started) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->stop_now);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->started = false;
}

bool load_resolver_take(struct load_resolver *r, unsigned *version, struct load_list *out)
{
    pthread_mutex_lock(&r->lock);
    bool fresh = *version != r->version;
    if (fresh) {
        *version = r->version;
        *out = r->list;
    }
    pthread_mutex_unlock(&r->lock);
    return fresh;
}
