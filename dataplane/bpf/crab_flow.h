/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A client host's connections: SYNs that wait, and translations of those that were redirected. */
#ifndef CRAB_FLOW_H
#define CRAB_FLOW_H

#include "crab_kept.h"

CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_pending, struct crab_tuple, struct crab_pending, 65536);
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_flows_out, struct crab_tuple, struct crab_flow, 262144);
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_flows_in, struct crab_tuple, struct crab_reverse, 262144);

/* The servers each VIP may be redirected to (C-91, C-95). */
struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __type(key, struct crab_prefix_key);
    __type(value, __u32);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
} crab_prefixes SEC(".maps");

static __always_inline int crab_prefix_allows(__u32 vip_id, crab_addr dip)
{
    struct crab_prefix_key key = {.prefixlen = 32 + 8 * sizeof(dip), .vip_id = __builtin_bswap32(vip_id), .addr = dip};
    return bpf_map_lookup_elem(&crab_prefixes, &key) != NULL;
}

/* The same connection as the server's side names it. */
static __always_inline struct crab_tuple crab_with_server(struct crab_tuple t, crab_addr server)
{
    t.server = server;
    return t;
}

/* With a server of the own host (crab_own_host.h): the name of the other side's packets to the VIP. */
static __always_inline struct crab_tuple crab_other_side(struct crab_tuple *out, crab_addr *other)
{
    return (struct crab_tuple){
        .client = *other, .server = out->server, .client_port = out->server_port, .server_port = out->client_port};
}

/*
 * Its client dials anew: forget the translation from out (towards the VIP), if there is one. With a server of the own
 * host the server's side ends as well, or would keep the port from others, unless it is another's by now. One name
 * after the other, in one place: IPv6's stack has no room for two.
 */
CRAB_PART void crab_flow_give_up(struct crab_tuple *out)
{
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, out);
    struct crab_tuple other;

    if (!flow) {
        return;
    }
    if (flow->ended & CRAB_FLOW_OWN_HOST) {
        other = crab_other_side(out, &flow->dip);
        struct crab_flow *back = bpf_map_lookup_elem(&crab_flows_out, &other);
        if (back && crab_addr_same(back->dip, out->client)) {
            crab_drop(&crab_flows_out, &other, CRAB_CLIENT_FLOW_REMOVED);
        }
    }
    other = crab_with_server(*out, flow->dip);
    crab_drop(&crab_flows_in, &other, CRAB_CLIENT_BACK_REMOVED);
    crab_drop(&crab_flows_out, out, CRAB_CLIENT_FLOW_REMOVED);
}

/*
 * A new connection begins between these addresses and ports, certainly: what a
 * former redirected one left behind would translate its packets.
 */
CRAB_PART void crab_flow_drop_stale(struct crab_tuple *in)
{
    struct crab_reverse *r = bpf_map_lookup_elem(&crab_flows_in, in);
    if (!r) {
        return;
    }
    struct crab_tuple out = crab_with_server(*in, r->vip);
    crab_drop(&crab_flows_in, in, CRAB_CLIENT_BACK_REMOVED);
    crab_drop(&crab_flows_out, &out, CRAB_CLIENT_FLOW_REMOVED);
    crab_count(CRAB_CLIENT_STALE_REMOVED);
}

/* A RST counts only if the client sent it: anybody can forge the server's. Its FIN counts when the client has
 * acknowledged it. */
static __always_inline int crab_flow_over(struct crab_flow *flow)
{
    const __u8 both = CRAB_ENDED_CLIENT_FIN | CRAB_ENDED_SERVER_FIN;

    return flow->ended & CRAB_ENDED_CLIENT_RST || (flow->ended & both) == both;
}

enum crab_flow_state { CRAB_FLOW_NONE = 0, CRAB_FLOW_LIVE = 1, CRAB_FLOW_OVER = 2 };

/* What is known of a redirected connection that uses these addresses and ports. */
CRAB_PART int crab_flow_state(struct crab_tuple *in)
{
    struct crab_reverse *r = bpf_map_lookup_elem(&crab_flows_in, in);
    if (!r) {
        return CRAB_FLOW_NONE;
    }
    struct crab_tuple out = crab_with_server(*in, r->vip);
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, &out);
    return flow && !crab_flow_over(flow) ? CRAB_FLOW_LIVE : CRAB_FLOW_OVER;
}

/* Whether there is one that lives; what one that is over left behind is dropped. */
static __always_inline int crab_flow_lives(struct crab_tuple *in)
{
    int state = crab_flow_state(in);

    if (state == CRAB_FLOW_OVER) {
        crab_flow_drop_stale(in);
    }
    return state == CRAB_FLOW_LIVE;
}

/* What a former connection left behind has been dropped. */
CRAB_PART int crab_flow_create(struct crab_tuple *out, crab_addr *to, __u32 iss, __u32 ack)
{
    __u64 now = bpf_ktime_get_ns();
    crab_addr dip = *to;
    struct crab_tuple in = crab_with_server(*out, dip);
    struct crab_reverse back = {.vip = out->server};
    struct crab_flow flow = {.created_s = now / 1000000000, .ack = ack, .last_ns = now, .dip = dip, .iss = iss};

    if (crab_keep(&crab_flows_in, &in, &back, CRAB_CLIENT_BACK_CREATED)) {
        return -1;
    }
    if (crab_keep(&crab_flows_out, out, &flow, CRAB_CLIENT_FLOW_CREATED)) {
        crab_drop(&crab_flows_in, &in, CRAB_CLIENT_BACK_REMOVED);
        return -1;
    }
    return 0;
}

#endif
