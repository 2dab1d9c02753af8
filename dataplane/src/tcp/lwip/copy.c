// SPDX-License-Identifier: Apache-2.0
// One copy of the stack: packets in and out, its timers, and the table by which it is used. Linked as often as
// src/tcp/stack.c names it.
#include "tcp/lwip/copy.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "lwip/icmp6.h"
#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/stats.h"
#include "lwip/sys.h"
#include "wire/checksum.h"

#define TICK_NS (UINT64_C(1000000) * BT_TCP_TICK_MS)
enum { CATCH_UP = 20 }; // ticks at once after a pause; what lies before them is forgotten

// Where lwIP looks for what it holds, in the packet's own buffer.
struct held {
    struct pbuf_custom p; // first
    struct bt_pkt *pkt;
};

struct copy copy;

void bt_lwip_broken(const char *what)
{
    copy.broken = what; // for who looks at what is left of the process
    abort();
}

uint32_t bt_lwip_random(void)
{
    uint8_t hash[crypto_shorthash_BYTES];
    copy.random++;
    crypto_shorthash(hash, (const uint8_t *)&copy.random, sizeof copy.random, copy.setup.key);
    return bt_get32(hash);
}

uint16_t bt_lwip_sum(const void *at, int n)
{
    return bt_csum_fold(bt_csum_bytes(0, at, (size_t)n));
}

void copy_says(char *err, size_t errlen, const char *text)
{
    size_t n = strlen(text) + 1;
    n = n < errlen ? n : errlen;
    memcpy(err, text, n);
    if (n != 0) {
        err[n - 1] = '\0';
    }
}

u32_t sys_now(void)
{
    return (u32_t)(copy.now / 1000000u);
}

void icmp6_param_problem(struct pbuf *p, enum icmp6_pp_code c, const void *pointer);
/* lwIP would tell who sent an extension header; src/link lets none through. */
void icmp6_param_problem(struct pbuf *p, enum icmp6_pp_code c, const void *pointer)
{
    (void)p;
    (void)c;
    (void)pointer;
}

ip_addr_t copy_ip(const struct bt_addr *a)
{
    ip_addr_t ip = {0};
    if (bt_addr_is_v4(a)) {
        IP_SET_TYPE_VAL(ip, IPADDR_TYPE_V4);
        memcpy(&ip_2_ip4(&ip)->addr, a->ip + 12, 4);
    } else {
        IP_SET_TYPE_VAL(ip, IPADDR_TYPE_V6);
        memcpy(ip_2_ip6(&ip)->addr, a->ip, 16);
    }
    return ip;
}

struct bt_addr copy_addr(const ip_addr_t *ip, uint16_t port)
{
    struct bt_addr a = {0};
    if (IP_IS_V4(ip)) {
        return bt_addr_v4((const uint8_t *)&ip_2_ip4(ip)->addr, port);
    }
    memcpy(a.ip, ip_2_ip6(ip)->addr, 16);
    bt_addr_set_port(&a, port);
    return a;
}

/* lwIP's packet, copied into one of ours. */
static err_t emit(struct pbuf *p, const struct bt_addr *to)
{
    struct bt_pkt *pkt = bt_pool_get(copy.setup.pool);
    uint8_t *at = pkt != NULL ? bt_pkt_append(pkt, p->tot_len) : NULL;
    if (at == NULL) {
        if (pkt != NULL) {
            bt_pool_put(copy.setup.pool, pkt);
        }
        copy_count(BT_TCP_TX_NO_BUFFER);
        return ERR_MEM; // it is sent again when its timer says so
    }
    pbuf_copy_partial(p, at, p->tot_len, 0);
    pkt->dst = *to;
    pkt->local = copy.setup.tx_local;
    bt_txq_push(copy.setup.out, pkt);
    copy_count(BT_TCP_SEGMENTS_OUT);
    return ERR_OK;
}

static err_t emit4(struct netif *netif, struct pbuf *p, const ip4_addr_t *ip)
{
    struct bt_addr to = bt_addr_v4((const uint8_t *)&ip->addr, 0);
    (void)netif;
    return emit(p, &to);
}

static err_t emit6(struct netif *netif, struct pbuf *p, const ip6_addr_t *ip)
{
    struct bt_addr to = {0};
    (void)netif;
    memcpy(to.ip, ip->addr, 16);
    return emit(p, &to);
}

static err_t set_up(struct netif *netif)
{
    netif->mtu = netif->mtu6 = copy.setup.mtu;
    netif->output = emit4;
    netif->output_ip6 = emit6;
    netif->flags = 0;
    return ERR_OK;
}

static void add_address(const struct bt_addr *a)
{
    ip_addr_t ip = copy_ip(a);
    if (IP_IS_V4(&ip)) {
        ip4_addr_t mask = {.addr = UINT32_MAX}, none = {0};
        netif_set_addr(&copy.netif, ip_2_ip4(&ip), &mask, &none);
    } else {
        netif_ip6_addr_set(&copy.netif, 0, ip_2_ip6(&ip));
        netif_ip6_addr_set_state(&copy.netif, 0, IP6_ADDR_PREFERRED);
    }
}

static bool open_copy(const struct bt_tcp_setup *setup, uint64_t now, char *err, size_t errlen)
{
    static const struct bt_addr none;
    static bool ready;
    if (!ready) {
        lwip_init();
        ready = true;
    }
    copy = (struct copy){.setup = *setup, .open = true, .now = now, .next_tick = now + TICK_NS};
    memcpy(&copy.random, setup->key, sizeof copy.random);
    if (copy.setup.half_open == 0 || copy.setup.half_open > BT_TCP_HALF_OPEN) {
        copy.setup.half_open = BT_TCP_HALF_OPEN;
    }
    connection_init();
    if (netif_add(&copy.netif, NULL, NULL, NULL, NULL, set_up, ip_input) == NULL) {
        copy_says(err, errlen, "TCP gets no interface");
        return false;
    }
    netif_set_default(&copy.netif);
    netif_set_link_up(&copy.netif);
    netif_set_up(&copy.netif);
    add_address(&setup->local);
    if (memcmp(&setup->extra, &none, sizeof none) != 0) {
        add_address(&setup->extra);
    }
    return setup->local.port == 0 || connection_listen(err, errlen);
}

static void close_copy(void)
{
    connection_end_listening();
    while (tcp_active_pcbs != NULL) {
        struct bt_tcp_conn *c = copy_conn(tcp_active_pcbs);
        bool ended = c == NULL || c->own == NULL; // its end is on the way, and a reset would overtake it
        if (c != NULL) {
            c->own = NULL;
        }
        tcp_abandon(tcp_active_pcbs, !ended);
    }
    while (tcp_tw_pcbs != NULL) {
        tcp_abort(tcp_tw_pcbs);
    }
    netif_set_down(&copy.netif);
    netif_remove(&copy.netif);
    copy.open = false;
    copy.dirty = NULL;
}

static void give_back(struct pbuf *p)
{
    copy.held--;
    bt_pool_put(copy.setup.pool, ((struct held *)(void *)p)->pkt);
}

/* Out of order, and too many of them: all are let go. Their senders send them again. */
static void let_go(void)
{
    for (struct tcp_pcb *p = tcp_active_pcbs; p != NULL && copy.held > BT_TCP_HELD; p = p->next) {
        uint32_t before = copy.held;
        tcp_free_ooseq(p);
        copy.counters[BT_TCP_DROP_HELD] += before - copy.held;
    }
}

static struct pbuf *pbuf_of(struct bt_pkt *pkt)
{
    uintptr_t begin = ((uintptr_t)pkt->data - pkt->room_before + 7) & ~(uintptr_t)7;
    struct held *h = (struct held *)begin;
    if (begin + sizeof *h > (uintptr_t)pkt->data || pkt->len > UINT16_MAX) {
        return NULL;
    }
    h->p.custom_free_function = give_back;
    h->pkt = pkt;
    return pbuf_alloced_custom(PBUF_RAW, (u16_t)pkt->len, PBUF_REF, &h->p, pkt->data, (u16_t)pkt->len);
}

/* lwIP's own counts of what it dropped, since the last time. */
static void read_stats(void)
{
    struct stats_proto *tcp = &lwip_stats.tcp, *ip = &lwip_stats.ip, *ip6 = &lwip_stats.ip6;
    copy.counters[BT_TCP_DROP_SUM] += tcp->chkerr;
    copy.counters[BT_TCP_DROP_HEADER] += tcp->lenerr + ip->lenerr + ip->err + ip6->lenerr + ip6->err;
    copy.counters[BT_TCP_DROP_UNKNOWN] += tcp->proterr;
    copy.counters[BT_TCP_DROP_MEMORY] += tcp->memerr;
    *tcp = *ip = *ip6 = (struct stats_proto){0};
}

static void rx(struct bt_pkt *pkt, uint64_t now)
{
    struct pbuf *p = pbuf_of(pkt);
    copy.now = now;
    copy_count(BT_TCP_SEGMENTS_IN);
    if (p == NULL) {
        copy_count(BT_TCP_DROP_HEADER);
        bt_pool_put(copy.setup.pool, pkt);
        return;
    }
    copy.held++;
    NETIF_SET_CHECKSUM_CTRL(&copy.netif, (pkt->offload & BT_PKT_RX_L4_OK) != 0
                                             ? NETIF_CHECKSUM_ENABLE_ALL & ~NETIF_CHECKSUM_CHECK_TCP
                                             : NETIF_CHECKSUM_ENABLE_ALL);
    if (copy.netif.input(p, &copy.netif) != ERR_OK) {
        pbuf_free(p);
    }
    if (copy.held > BT_TCP_HELD) {
        let_go();
    }
}

static void tick(uint64_t now)
{
    copy.now = now;
    if (tcp_active_pcbs == NULL && tcp_tw_pcbs == NULL) {
        copy.next_tick = now + TICK_NS;
        return;
    }
    for (unsigned i = 0; now >= copy.next_tick && i < CATCH_UP; i++) {
        copy.next_tick += TICK_NS;
        tcp_tmr();
    }
    if (now >= copy.next_tick) {
        copy.next_tick = now + TICK_NS;
    }
}

static uint64_t next(void)
{
    return tcp_active_pcbs != NULL || tcp_tw_pcbs != NULL ? copy.next_tick : UINT64_MAX;
}

static void flush(uint64_t now)
{
    copy.now = now;
    connection_flush();
}

static const uint64_t *counters(void)
{
    read_stats();
    return copy.counters;
}

extern const struct bt_tcp_stack bt_tcp_copy;
const struct bt_tcp_stack bt_tcp_copy = {.open = open_copy,
                                         .close = close_copy,
                                         .rx = rx,
                                         .tick = tick,
                                         .next = next,
                                         .flush = flush,
                                         .end_listening = connection_end_listening,
                                         .connect = connection_connect,
                                         .write = connection_write,
                                         .taken = connection_taken,
                                         .end = connection_end,
                                         .reset = connection_reset,
                                         .tokens = connection_tokens,
                                         .counters = counters,
                                         .open_now = connection_count};
