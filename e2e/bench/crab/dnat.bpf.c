// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What CRAB's XDP balancer is measured beside: a balancer that translates addresses (DNAT) and does for a SYN what one
 * of that kind must at least. It finds the service, takes the next server in turn, remembers the connection, because all
 * of its packets will come by here, rewrites address, TTL and both checksums in place, asks the routes for the next
 * hop and sends. A benchmark's peer and no part of the product.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define AF_INET     2
#define SERVERS_MAX 4096

struct service_key {
    __be32 addr;
    __be16 port;
    __u16 pad;
};

struct service {
    __u32 servers;
};

struct tuple {
    __be32 client, server;
    __be16 client_port, server_port;
};

struct connection {
    __u64 seen_ns;
    __be32 server;
    __u32 pad;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct service_key);
    __type(value, struct service);
    __uint(max_entries, 1024);
} services SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __be32);
    __uint(max_entries, SERVERS_MAX);
} servers SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} turn SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, struct tuple);
    __type(value, struct connection);
    __uint(max_entries, 65536);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} forwarded SEC(".maps");

static __always_inline __u16 fold(__u64 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)((sum & 0xffff) + (sum >> 16));
}

/* The checksum after 32 bits of what it covers have changed. */
static __always_inline __u16 changed(__u16 check, __be32 old, __be32 fresh)
{
    __u64 sum = (__u16)~check;
    sum += (__u16)~old + (__u16)~(old >> 16) + (fresh & 0xffff) + (fresh >> 16);
    return ~fold(sum);
}

static __always_inline int next_server(struct service *s, __be32 *server)
{
    __u32 zero = 0;
    __u64 *n = bpf_map_lookup_elem(&turn, &zero);

    if (!n || !s->servers)
        return -1;
    __u32 at = (__u32)(__sync_fetch_and_add(n, 1) % s->servers);
    __be32 *found = bpf_map_lookup_elem(&servers, &at);
    if (!found)
        return -1;
    *server = *found;
    return 0;
}

static __always_inline int send(struct xdp_md *xdp, struct ethhdr *eth, struct iphdr *ip, struct tcphdr *tcp, __be32 to)
{
    struct bpf_fib_lookup fib = {.family = AF_INET,
                                 .l4_protocol = IPPROTO_TCP,
                                 .tos = ip->tos,
                                 .ipv4_src = ip->saddr,
                                 .ipv4_dst = to,
                                 .sport = tcp->source,
                                 .dport = tcp->dest,
                                 .tot_len = bpf_ntohs(ip->tot_len),
                                 .ifindex = xdp->ingress_ifindex};
    __u32 zero = 0;

    if (bpf_fib_lookup(xdp, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS || fib.ifindex != xdp->ingress_ifindex)
        return XDP_PASS;
    tcp->check = changed(tcp->check, ip->daddr, to);
    ip->check = changed(ip->check, ip->daddr, to);
    ip->check = changed(ip->check, bpf_htonl((__u32)ip->ttl << 24), bpf_htonl((__u32)(ip->ttl - 1) << 24));
    ip->ttl -= 1;
    ip->daddr = to;
    __builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
    __builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
    __u64 *n = bpf_map_lookup_elem(&forwarded, &zero);
    if (n)
        *n += 1;
    return XDP_TX;
}

/* New connections only: what a SYN costs is what is compared. */
SEC("xdp")
int dnat(struct xdp_md *xdp)
{
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = data + sizeof(*eth);
    struct tcphdr *tcp = (void *)(ip + 1);

    if ((void *)(tcp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP || ip->ihl != 5 ||
        ip->frag_off & bpf_htons(0x3fff) || ip->ttl <= 1 || !tcp->syn || tcp->ack)
        return XDP_PASS;
    struct service_key key = {.addr = ip->daddr, .port = tcp->dest};
    struct service *service = bpf_map_lookup_elem(&services, &key);
    struct tuple t = {ip->saddr, ip->daddr, tcp->source, tcp->dest};
    struct connection c = {.seen_ns = bpf_ktime_get_ns()};
    if (!service)
        return XDP_PASS;
    struct connection *known = bpf_map_lookup_elem(&connections, &t);
    if (known)
        c.server = known->server;
    else if (next_server(service, &c.server))
        return XDP_PASS;
    bpf_map_update_elem(&connections, &t, &c, BPF_ANY);
    return send(xdp, eth, ip, tcp, c.server);
}
