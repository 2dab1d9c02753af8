// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * How many connections each server of this host has, for the policies by load
 * (C-62). All of them count, however they came: redirected, hashed, or dialled
 * directly. The agent adds them up; it attaches these programs only where a
 * server of such a VIP runs, in front of all others, which might send a packet
 * on before it is seen here.
 *
 * crab_watch_in sees what servers receive, crab_watch_out what they send. A
 * connection counts from the client's ACK until the server's FIN or a RST. One
 * that is older than these programs counts from its next data on.
 */
#include "crab_skb.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct crab_conn {
    __u64 seen_ns; /* the client's last packet */
    __u8 open;     /* 0: the SYN-ACK has no answer yet */
    __u8 pad[7];
};

/* Servers to watch: address and port as they stand in the VIPs' pools. */
CRAB_MAP(BPF_MAP_TYPE_HASH, crab_watched, struct crab_vip_key, __u32, 4096);

/* Takes no memory where nothing is watched. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct crab_tuple);
    __type(value, struct crab_conn);
    __uint(max_entries, 65536);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
} crab_conns SEC(".maps");

static __always_inline void note(struct crab_tuple *t, __u8 open)
{
    struct crab_vip_key server = {.addr = t->server, .port = t->server_port};
    struct crab_conn conn = {.seen_ns = bpf_ktime_get_ns(), .open = open};

    if (!bpf_map_lookup_elem(&crab_watched, &server)) {
        return;
    }
    if (bpf_map_update_elem(&crab_conns, t, &conn, BPF_ANY)) {
        crab_count(CRAB_SERVER_WATCH_FULL);
    }
}

static __always_inline int has_data(struct crab_packet *p)
{
    return p->length > p->l4 - ETH_HLEN + p->doff;
}

SEC("tc")
int CRAB_NAME(crab_watch_in)(struct __sk_buff *skb)
{
    struct crab_packet p;

    if (crab_parse(skb, &p, CRAB_SIX_WATCH_IN) != CRAB_TCP || !(p.flags & (CRAB_ACK | CRAB_RST))) {
        return CRAB_NEXT;
    }
    struct crab_tuple t = {.client = p.saddr, .server = p.daddr, .client_port = p.sport, .server_port = p.dport};
    struct crab_conn *conn = bpf_map_lookup_elem(&crab_conns, &t);
    if (conn && p.flags & CRAB_RST) {
        bpf_map_delete_elem(&crab_conns, &t);
    } else if (conn) {
        conn->seen_ns = bpf_ktime_get_ns();
        conn->open = 1;
    } else if ((p.flags & CRAB_STATE) == CRAB_ACK && has_data(&p)) {
        note(&t, 1);
    }
    return CRAB_NEXT;
}

SEC("tc")
int CRAB_NAME(crab_watch_out)(struct __sk_buff *skb)
{
    struct crab_packet p;

    if (crab_parse(skb, &p, CRAB_SIX_WATCH_OUT) != CRAB_TCP || !(p.flags & (CRAB_SYN | CRAB_FIN | CRAB_RST))) {
        return CRAB_NEXT;
    }
    struct crab_tuple t = {.client = p.daddr, .server = p.saddr, .client_port = p.dport, .server_port = p.sport};
    if ((p.flags & CRAB_STATE) == (CRAB_SYN | CRAB_ACK)) {
        note(&t, 0);
    } else if (p.flags & (CRAB_FIN | CRAB_RST)) {
        bpf_map_delete_elem(&crab_conns, &t);
    }
    return CRAB_NEXT;
}
