// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The end of tunnels at a server's host (C-80), on the ingress of its uplink and in front of all our programs there: a
 * SYN is let out of its datagram, and everybody behind us sees it as if the network had brought it so.
 *
 * Whoever may be let out could reach a server with any source address. So the datagram must come from a host that
 * balances here, to this host, and what is in it must be a SYN that was redirected to a server of ours; the network
 * sees to it that nobody else has that host's address, for such a network is what tunnels are for.
 */
#include "crab_tunnel.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __always_inline __u32 end_of(crab_addr *a)
{
    __u32 *bits = bpf_map_lookup_elem(&crab_tun_ends, a);

    return bits ? *bits : 0;
}

/* What came out of a tunnel. */
CRAB_PART int may_go_on(struct __sk_buff *skb)
{
    struct crab_options o;
    struct crab_packet p;
    __u8 first; /* has the version, which is all that tells in this form of GUE what follows; the frame's type is the
                   outer packet's */

    if (bpf_skb_load_bytes(skb, ETH_HLEN, &first, sizeof(first)) || first >> 4 != CRAB_TUNNEL_VERSION) {
        return 0;
    }
    if (crab_parse(skb, &p, CRAB_SIX_ENTRIES) != CRAB_TCP || (p.flags & CRAB_STATE) != CRAB_SYN) {
        return 0;
    }
    return end_of(&p.daddr) & CRAB_TUNNEL_SERVER && !crab_peek_options(skb, &p, &o) && o.form == CRAB_FORM_REDIRECT;
}

CRAB_PART int let_out(struct __sk_buff *skb)
{
    if (skb->gso_size || /* several at once, which nobody sends */
        bpf_skb_adjust_room(skb, -(__s32)sizeof(struct crab_tunnel_head), BPF_ADJ_ROOM_MAC, 0) || !may_go_on(skb)) {
        crab_count(CRAB_TUNNEL_REFUSED);
        return TC_ACT_SHOT;
    }
    crab_count(CRAB_TUNNEL_OPENED);
    return CRAB_NEXT;
}

SEC("tc")
int CRAB_NAME(crab_tunnel_in)(struct __sk_buff *skb)
{
    crab_addr from, to;

    if (!crab_tunnel_arrives(skb, &from, &to) || !(end_of(&to) & CRAB_TUNNEL_OWN)) {
        return CRAB_NEXT;
    }
    if (!(end_of(&from) & CRAB_TUNNEL_PEER)) {
        crab_count(CRAB_TUNNEL_FOREIGN);
        return CRAB_NEXT;
    }
    return let_out(skb);
}
