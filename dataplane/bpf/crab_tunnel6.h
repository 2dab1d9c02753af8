/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* IPv6 around IPv6; part of crab_tunnel.h. */

struct crab_tunnel_head {
    struct ipv6hdr ip;
    struct udphdr udp;
};

#define CRAB_TUNNEL_VERSION 6
#define CRAB_TUNNEL_WRAPS   (BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP)

/*
 * UDP over IPv6 has a checksum. That of the TCP inside makes its segment and the addresses add up to nothing, finished
 * by now or by the device that sends; so the sum is known without the segment: of the first words of its IPv6
 * header, less the length and the protocol, which TCP's pseudo header has and ours has not.
 */
static __always_inline int crab_tunnel_check(struct __sk_buff *skb, struct crab_packet *p,
                                             struct crab_tunnel_head *head)
{
    __be32 inner[2];
    struct {
        __be32 len, protocol;
    } pseudo = {bpf_htonl(sizeof(head->udp) + p->length), bpf_htonl(IPPROTO_UDP)};
    __u32 tcp = bpf_htons(p->length - sizeof(struct ipv6hdr)) + bpf_htons(IPPROTO_TCP);

    if (bpf_skb_load_bytes(skb, ETH_HLEN, inner, sizeof(inner))) {
        return -1;
    }
    __u64 sum = (__u16)~crab_tunnel_fold(tcp);
    sum += (__u32)bpf_csum_diff(0, 0, inner, sizeof(inner), 0);
    sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
    sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)&head->ip.saddr, 2 * sizeof(head->ip.saddr), 0);
    sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)&head->udp, sizeof(head->udp), 0);
    head->udp.check = ~crab_tunnel_fold(sum);
    if (head->udp.check == 0) {
        head->udp.check = 0xffff;
    }
    return 0;
}

static __always_inline int crab_tunnel_fill(struct __sk_buff *skb, struct crab_packet *p, struct crab_tunnel *t,
                                            struct crab_tunnel_head *head)
{
    __builtin_memset(head, 0, sizeof(*head));
    head->ip.version = CRAB_TUNNEL_VERSION;
    head->ip.priority = p->tos >> 4;
    head->ip.flow_lbl[0] = (p->tos & 15) << 4;
    head->ip.payload_len = bpf_htons(sizeof(head->udp) + p->length);
    head->ip.nexthdr = IPPROTO_UDP;
    head->ip.hop_limit = CRAB_TUNNEL_HOPS;
    __builtin_memcpy(&head->ip.saddr, &t->from, sizeof(head->ip.saddr));
    __builtin_memcpy(&head->ip.daddr, &t->to, sizeof(head->ip.daddr));
    head->udp.source = crab_tunnel_source(p);
    head->udp.dest = bpf_htons(CRAB_TUNNEL_PORT);
    head->udp.len = bpf_htons(sizeof(head->udp) + p->length);
    return crab_tunnel_check(skb, p, head);
}

/* Whether a frame is a datagram to the port of tunnels. */
static __always_inline int crab_tunnel_arrives(struct __sk_buff *skb, crab_addr *from, crab_addr *to)
{
    const __u32 need = ETH_HLEN + sizeof(struct crab_tunnel_head);

    if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
        ((void *)(long)skb->data + need > (void *)(long)skb->data_end && bpf_skb_pull_data(skb, need))) {
        return 0;
    }
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct crab_tunnel_head *head = data + ETH_HLEN;
    if ((void *)(head + 1) > end || head->ip.version != CRAB_TUNNEL_VERSION || head->ip.nexthdr != IPPROTO_UDP ||
        head->udp.dest != bpf_htons(CRAB_TUNNEL_PORT)) {
        return 0;
    }
    __builtin_memcpy(from, &head->ip.saddr, sizeof(*from));
    __builtin_memcpy(to, &head->ip.daddr, sizeof(*to));
    return 1;
}
