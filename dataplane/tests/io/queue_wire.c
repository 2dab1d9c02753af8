// SPDX-License-Identifier: Apache-2.0
// See queue_wire.h.
#include "queue_wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, ETHER_EVERY = 0x0003 };

static bool carry_out(struct queue_carrier *c, unsigned i)
{
    void *p;
    if (rte_ring_dequeue(c->from[i], &p) != 0) {
        return false;
    }
    struct rte_mbuf *m = p;
    if (write(c->fd[i % c->n_fds], rte_pktmbuf_mtod(m, void *), m->data_len) != (ssize_t)m->data_len) {
        atomic_fetch_add(&c->refused, 1);
    }
    rte_pktmbuf_free(m);
    return true;
}

static bool carry_in(struct queue_carrier *c, unsigned i)
{
    uint8_t frame[FRAME];
    ssize_t n = read(c->fd[i], frame, sizeof frame);
    if (n <= 0) {
        return false;
    }
    struct rte_mbuf *m = rte_pktmbuf_alloc(c->buffers);
    if (m == NULL || rte_pktmbuf_append(m, (uint16_t)n) == NULL) {
        atomic_fetch_add(&c->refused, 1);
        rte_pktmbuf_free(m);
        return true;
    }
    memcpy(rte_pktmbuf_mtod(m, void *), frame, (size_t)n);
    if (rte_ring_enqueue(c->to[i], m) != 0) {
        atomic_fetch_add(&c->refused, 1);
        rte_pktmbuf_free(m);
    }
    return true;
}

static void *carry(void *arg)
{
    const struct timespec moment = {.tv_nsec = 20000};
    struct queue_carrier *c = arg;
    while (!atomic_load(&c->stop)) {
        bool moved = false;
        for (unsigned i = 0; i < QUEUES; i++) {
            moved |= carry_out(c, i);
        }
        for (unsigned i = 0; i < c->n_fds; i++) {
            moved |= carry_in(c, i);
        }
        if (!moved) {
            nanosleep(&moment, NULL);
        }
    }
    return NULL;
}

void queue_carrier_start(struct queue_carrier *c)
{
    assert_int_equal(pthread_create(&c->thread, NULL, carry, c), 0);
}

void queue_carrier_stop(struct queue_carrier *c)
{
    atomic_store(&c->stop, true);
    pthread_join(c->thread, NULL);
    assert_int_equal(atomic_load(&c->refused), 0);
}

void queue_carrier_close(struct queue_carrier *c)
{
    for (unsigned i = 0; i < c->n_fds; i++) {
        close(c->fd[i]);
    }
}

bool queue_tap_open(const char *name, int fd[QUEUES], char *why, size_t len)
{
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    for (unsigned i = 0; i < QUEUES; i++) {
        fd[i] = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (fd[i] < 0 || ioctl(fd[i], TUNSETIFF, &r) != 0) {
            snprintf(why, len, "no TAP device with several queues: %s", strerror(errno));
            return false;
        }
    }
    return true;
}

int queue_packet_socket(const char *name)
{
    const int on = 1;
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETHER_EVERY), .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
                    bind(fd, (struct sockaddr *)(void *)&at, sizeof at) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}
