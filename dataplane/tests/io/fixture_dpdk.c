// SPDX-License-Identifier: Apache-2.0
// See fixture_dpdk.h.
#include "fixture_dpdk.h"

#include "base/bytes.h"
#include "io/dpdk_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bt_addr dpdk_address(bool v6, unsigned n, uint16_t port)
{
    char text[40];
    struct bt_addr a = {0};
    snprintf(text, sizeof text, v6 ? "[fd99::%u]:%u" : "10.99.0.%u:%u", n, 1u);
    assert_int_equal(bt_addr_parse(text, 0, &a), 0);
    a.port = port;
    return a;
}

void dpdk_addresses(unsigned n, struct bt_link_prefix out[2])
{
    out[0] = (struct bt_link_prefix){.addr = dpdk_address(false, n, 0), .bits = 24};
    out[1] = (struct bt_link_prefix){.addr = dpdk_address(true, n, 0), .bits = 64};
}

static void say(const char *line)
{
    print_message("  %s\n", line);
}

#define HUGEPAGES "/proc/sys/vm/nr_hugepages"

static long read_pages(void)
{
    long n = -1;
    FILE *f = fopen(HUGEPAGES, "re");
    if (f != NULL) {
        if (fscanf(f, "%ld", &n) != 1) {
            n = -1;
        }
        fclose(f);
    }
    return n;
}

static bool write_pages(long n)
{
    FILE *f = fopen(HUGEPAGES, "we");
    return f != NULL && (fprintf(f, "%ld\n", n) > 0) & (fclose(f) == 0);
}

// A child that sets the number back when this process is gone, however it ended: the end of a pipe tells.
static bool leave_keeper(long before)
{
    int alive[2];
    char byte;
    if (pipe2(alive, O_CLOEXEC) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        close(alive[1]);
        (void)setsid(); // not ended by what ends the test
        while (read(alive[0], &byte, 1) > 0) {
        }
        _exit(write_pages(before) ? 0 : 1);
    }
    close(alive[0]);
    return child > 0; // the other end stays open until we end
}

// Reserves as many more hugepages as the test needs, until it ends; false if they cannot be had.
static bool reserve_pages(char *why, size_t len)
{
    enum { PAGE_MIB = 2 };
    long more = bt_dpdk_memory(2 * DPDK_BUFFERS, true) / PAGE_MIB + 1;
    long before = read_pages();
    if (before < 0 || !write_pages(before + more) || !leave_keeper(before) || read_pages() < before + more) {
        snprintf(why, len, "%ld hugepages of 2 MiB cannot be reserved here", more);
        return false;
    }
    return true;
}

// With BT_TEST_HUGEPAGES=on in hugepages, otherwise in ordinary memory.
bool dpdk_begin(const char *port, char *why, size_t len)
{
    const char *pages = getenv("BT_TEST_HUGEPAGES");
    bool huge = pages != NULL && strcmp(pages, "on") == 0;
    struct bt_dpdk_eal eal = {
        .port = port,
        .buffers = 2 * DPDK_BUFFERS,
        .hugepages = huge ? BT_DPDK_HUGEPAGES_ON : BT_DPDK_HUGEPAGES_OFF,
        .log = say,
    };
    return (!huge || reserve_pages(why, len)) && bt_dpdk_start(&eal, why, len) == 0;
}

struct bt_dpdk_device *dpdk_open_end(struct packet_rig *r, unsigned i, const char *port, uint32_t link_wait_ms)
{
    struct packet_end *e = &r->end[i];
    struct bt_link_prefix own[2];
    char err[400];
    dpdk_addresses(i + 1, own);
    struct bt_dpdk_device_config cfg = {
        .port = port,
        .addrs = own,
        .n_addrs = 2,
        .buffers = DPDK_BUFFERS,
        .link_wait_ms = link_wait_ms,
        .neighbour_retry_ns = 50000000,
        .seed = i + 1,
    };
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    if (dev == NULL) {
        fail_msg("%s", err);
    }
    struct bt_addr local[PACKET_PORTS] = {dpdk_address(r->v6, i + 1, 8000), dpdk_address(r->v6, i + 1, 0)};
    struct bt_dpdk_config io = {.locals = local, .n_locals = PACKET_PORTS, .report_unreachable = true};
    e->io = bt_dpdk_open(dev, &io, err, sizeof err);
    if (e->io == NULL) {
        fail_msg("%s", err);
    }
    e->pool = bt_dpdk_pool(dev);
    e->buffers = DPDK_BUFFERS;
    e->nobody = dpdk_address(r->v6, 77, 9); // on the network, but there is no such host
    for (unsigned p = 0; p < PACKET_PORTS; p++) {
        e->port[p] = e->io->ops->local(e->io, p);
        assert_true(e->port[p].port != 0);
    }
    r->mtu = bt_dpdk_mtu(dev);
    return dev;
}

static uint16_t ip_sum(const uint8_t *p)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < 20; i += 2) {
        sum += i == 10 ? 0 : bt_get16(p + i);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~(sum + (sum >> 16));
}

unsigned dpdk_broken_frame(const uint8_t to_mac[6], const uint8_t from_mac[6], struct bt_addr from, struct bt_addr to,
                           uint8_t frame[128])
{
    enum { PROMISED = 400, THERE = 60 };
    bool v4 = bt_addr_is_v4(&to);
    uint8_t *ip = frame + 14;
    uint8_t *udp = ip + (v4 ? 20 : 40);
    memset(frame, 0, 128);
    memcpy(frame, to_mac, 6);
    memcpy(frame + 6, from_mac, 6);
    bt_put16(frame + 12, v4 ? 0x0800 : 0x86dd);
    if (v4) {
        ip[0] = 0x45;
        bt_put16(ip + 2, 28 + PROMISED);
        ip[8] = 64;
        ip[9] = 17;
        memcpy(ip + 12, from.ip + 12, 4);
        memcpy(ip + 16, to.ip + 12, 4);
        bt_put16(ip + 10, ip_sum(ip));
    } else {
        ip[0] = 0x60;
        bt_put16(ip + 4, 8 + PROMISED);
        ip[6] = 17;
        ip[7] = 64;
        memcpy(ip + 8, from.ip, 16);
        memcpy(ip + 24, to.ip, 16);
    }
    bt_put16(udp, from.port);
    bt_put16(udp + 2, to.port);
    bt_put16(udp + 4, 8 + PROMISED);
    return (unsigned)(udp - frame) + 8 + (v4 ? THERE : THERE - 20);
}

bool dpdk_send_raw(struct bt_dpdk_device *dev, const uint8_t *frame, unsigned len)
{
    struct rte_mbuf *m = rte_pktmbuf_alloc(dev->buffers);
    assert_non_null(m);
    memcpy(rte_pktmbuf_mtod(m, void *), frame, len);
    m->data_len = (uint16_t)len;
    m->pkt_len = len;
    if (rte_eth_tx_burst(dev->port, 0, &m, 1) == 1) {
        return true;
    }
    rte_pktmbuf_free(m);
    return false;
}

bool dpdk_transparent(struct packet_end *e, char *why, size_t len)
{
    (void)e; // it writes the headers itself
    (void)why;
    (void)len;
    return true;
}
