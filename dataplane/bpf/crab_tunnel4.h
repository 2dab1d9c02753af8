/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* IPv4 around IPv4; part of crab_tunnel.h. */

struct crab_tunnel_head {
    struct iphdr ip;
    struct udphdr udp;
};

#define CRAB_TUNNEL_VERSION 4
#define CRAB_TUNNEL_WRAPS   (BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP)

/* Without a checksum of UDP, as it may be (RFC 768): the packet inside has its own. */
static __always_inline int crab_tunnel_fill(struct __sk_buff *skb, struct crab_packet *p, struct crab_tunnel *t,
                                            struct crab_tunnel_head *head)
{
    (void)skb;
    __builtin_memset(head, 0, sizeof(*head));
    head->ip.version = CRAB_TUNNEL_VERSION;
    head->ip.ihl = sizeof(head->ip) / 4;
    head->ip.tos = p->tos;
    head->ip.tot_len = bpf_htons(sizeof(*head) + p->length);
    head->ip.frag_off = bpf_htons(0x4000); /* in one piece */
    head->ip.ttl = CRAB_TUNNEL_HOPS;
    head->ip.protocol = IPPROTO_UDP;
    head->ip.saddr = t->from;
    head->ip.daddr = t->to;
    head->ip.check = ~crab_tunnel_fold((__u32)bpf_csum_diff(0, 0, (__be32 *)&head->ip, sizeof(head->ip), 0));
    head->udp.source = crab_tunnel_source(p);
    head->udp.dest = bpf_htons(CRAB_TUNNEL_PORT);
    head->udp.len = bpf_htons(sizeof(head->udp) + p->length);
    return 0;
}

/* Whether a frame is a datagram to the port of tunnels; IPv6 goes to its own program. */
static __always_inline int crab_tunnel_arrives(struct __sk_buff *skb, crab_addr *from, crab_addr *to)
{
    const __u32 need = ETH_HLEN + sizeof(struct crab_tunnel_head);

    if (skb->protocol != bpf_htons(ETH_P_IP)) {
        if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
            bpf_tail_call(skb, &crab_six, CRAB_SIX_TUNNEL_IN);
        }
        return 0;
    }
    if ((void *)(long)skb->data + need > (void *)(long)skb->data_end && bpf_skb_pull_data(skb, need)) {
        return 0;
    }
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct crab_tunnel_head *head = data + ETH_HLEN;
    if ((void *)(head + 1) > end || head->ip.version != CRAB_TUNNEL_VERSION || head->ip.ihl != 5 ||
        head->ip.protocol != IPPROTO_UDP || head->ip.frag_off & bpf_htons(0x3fff) ||
        head->udp.dest != bpf_htons(CRAB_TUNNEL_PORT)) {
        return 0;
    }
    *from = head->ip.saddr;
    *to = head->ip.daddr;
    return 1;
}
