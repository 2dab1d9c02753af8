// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The balancer in XDP: SYNs with a placeholder, and nothing else (C-20). They
 * keep their length, so the frame is patched in place and sent on. Every other
 * packet goes up to crab_balance (tc), and so does a SYN whose way is not known
 * to the neighbour table yet.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>

#include "crab_pool.h"
#include "crab_notes.h"
#include "crab_six.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define SYN_FLAGS 0x17 /* FIN SYN RST ACK; ECE and CWR are ECN's business (C-20) */

struct syn {
    struct crab_options o;
    __u8 header[64]; /* the TCP header as it came, then zeroes */
    crab_addr saddr, daddr;
    __be16 sport, dport;
    __u32 iss;
    __u32 l4, doff, length;
    __u16 check;
    __u8 tos, ttl;
};

static __always_inline __u16 fold(__s64 sum)
{
    __u64 s = (__u64)sum;
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    return (__u16)((s & 0xffff) + (s >> 16));
}

#ifdef CRAB_SIX
#include "crab_lb6.h"
#else
#include "crab_lb4.h"
#endif

/* Our clients put it first; what follows does not matter, for the first one counts (C-3). */
static __always_inline int placeholder_first(struct crab_options *o)
{
    __u8 room[CRAB_ROOM_STORAGE];

    crab_option_write(room, o->kind, o->exid, CRAB_FORM_PLACEHOLDER, (crab_addr){0});
    if (!same_room(room, o->bytes)) {
        return 0;
    }
    o->form = CRAB_FORM_PLACEHOLDER;
    o->at = 0;
    o->size = o->kind >= CRAB_KIND_EXPERIMENT1 ? CRAB_OPTION_ROOM : CRAB_OPTION_ROOM - 2;
    return 1;
}

/* Copy the TCP header and look for a placeholder; 0 when there is none. */
CRAB_PART int has_placeholder(struct xdp_md *xdp, struct syn *s)
{
    __u32 len = s->doff, zero = 0;
    struct crab_meta *meta = bpf_map_lookup_elem(&crab_meta, &zero);

    if (len < sizeof(struct tcphdr) + CRAB_OPTION_ROOM) {
        return 0;
    }
    CRAB_OPAQUE(len); /* two comparisons: verifiers before 6.8 do not see through one of len - 28 */
    if (len > 60 || bpf_xdp_load_bytes(xdp, s->l4, s->header, len)) {
        return 0;
    }
    s->o.len = len - sizeof(struct tcphdr);
    s->o.kind = meta && meta->kind ? meta->kind : CRAB_KIND;
    s->o.exid = meta ? meta->exid : 0;
    __builtin_memcpy(s->o.bytes, s->header + sizeof(struct tcphdr), CRAB_OPTIONS_MAX);
    if (placeholder_first(&s->o)) {
        return 1;
    }
    find_option(s);
    return s->o.form == CRAB_FORM_PLACEHOLDER;
}

enum sum { SUM_GOOD, SUM_PARTIAL, SUM_BAD };

/*
 * A SYN of a veth or virtio neighbour may come with its checksum unfinished: the
 * field holds the sum of the pseudo header only. XDP is not told; the sum of the
 * header tells. A SYN with data (TFO) is not summed up here.
 */
CRAB_PART enum sum judge_sum(struct syn *s)
{
    __u16 pseudo = fold(pseudo_sum(s, s->daddr));
    __u32 data = s->length - (s->l4 - ETH_HLEN) - s->doff;

    if (data) {
        return s->check == pseudo ? SUM_PARTIAL : SUM_GOOD;
    }
    if (fold(bpf_csum_diff(0, 0, (__be32 *)s->header, sizeof(s->header), pseudo)) == 0xffff) {
        return SUM_GOOD;
    }
    return s->check == pseudo ? SUM_PARTIAL : SUM_BAD;
}

/*
 * The checksum of the SYN as it leaves. native: the frame loses the mark that its
 * sum is unfinished, so it is finished here; generic: the mark stays, and with
 * it the sum of the pseudo header alone. -1: tc must see to it.
 */
CRAB_PART int new_check(struct syn *s, enum sum was, __u8 *room, crab_addr *dip, int native)
{
    struct {
        crab_addr addr;
        __u8 room[CRAB_OPTION_ROOM + 4];
    } old = {.addr = s->daddr}, fresh = {.addr = *dip};
    __u32 at = s->o.at & 0x3c, inside = s->o.at & 3, data = s->length - (s->l4 - ETH_HLEN) - s->doff;

    if (was == SUM_PARTIAL && !native) {
        return fold(pseudo_sum(s, *dip));
    }
    if (was == SUM_PARTIAL && data) {
        return -1; /* would need the sum of the data: tc can leave it unfinished */
    }
    CRAB_OPAQUE(room);
#pragma unroll
    for (__u32 i = 0; i < sizeof(old.room); i++) {
        old.room[i] = s->o.bytes[(at + i) & 63];
        fresh.room[i] =
            i >= inside && i - inside < s->o.size ? room[(i - inside) & (CRAB_ROOM_STORAGE - 1)] : old.room[i];
    }
    if (was == SUM_PARTIAL) { /* the sum as it should have come */
        s->header[16] = 0;
        s->header[17] = 0;
        s->check = ~fold(bpf_csum_diff(0, 0, (__be32 *)s->header, sizeof(s->header), fold(pseudo_sum(s, s->daddr))));
    }
    return (__u16)~fold(bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)&fresh, sizeof(fresh), (__u16)~s->check));
}

/* Ask the routes for the next hop; anything but XDP_TX and XDP_REDIRECT leaves the frame to tc. */
static __always_inline int next_hop(struct xdp_md *xdp, struct syn *s, crab_addr dip, struct bpf_fib_lookup *fib)
{
    fill_fib(s, dip, fib);
    fib->l4_protocol = IPPROTO_TCP;
    fib->sport = s->sport;
    fib->dport = s->dport;
    fib->tot_len = s->length;
    fib->ifindex = xdp->ingress_ifindex;
    if (bpf_fib_lookup(xdp, fib, sizeof(*fib), 0) != BPF_FIB_LKUP_RET_SUCCESS) {
        return XDP_PASS;
    }
    return fib->ifindex == xdp->ingress_ifindex ? XDP_TX : XDP_PASS;
}

static __always_inline int patch(struct xdp_md *xdp, struct syn *s, struct bpf_fib_lookup *fib, crab_addr dip,
                                 __u8 *room, __u16 check)
{
    __u32 at = s->l4 + sizeof(struct tcphdr) + s->o.at;
    __u32 size = s->o.size == CRAB_OPTION_ROOM ? CRAB_OPTION_ROOM : CRAB_OPTION_ROOM - 2;

    if (bpf_xdp_store_bytes(xdp, at, room, size) ||
        bpf_xdp_store_bytes(xdp, s->l4 + __builtin_offsetof(struct tcphdr, check), &check, sizeof(check))) {
        return -1;
    }
    return patch_headers(xdp, fib, dip);
}

/* Send the SYN to the server chosen for it, or leave that to tc; sum is what judge_sum said. */
CRAB_PART int send_chosen(struct xdp_md *xdp, struct syn *s, struct crab_tuple *t, struct crab_choice *c,
                          int sum_native)
{
    int native = sum_native & 1, check;
    enum sum was = sum_native >> 1;
    struct bpf_fib_lookup fib = {};
    __u8 room[CRAB_ROOM_STORAGE];

    crab_option_write(room, s->o.kind, s->o.exid, CRAB_FORM_REDIRECT, s->daddr);
    if (next_hop(xdp, s, c->dip, &fib) != XDP_TX || (check = new_check(s, was, room, &c->dip, native)) < 0) {
        crab_hand_over(t, s->iss);
        return XDP_PASS;
    }
    crab_count_notes(&s->o); /* of what is left to tc, tc does */
    if (patch(xdp, s, &fib, c->dip, room, check)) {
        crab_count(CRAB_REWRITE_FAILED);
        return XDP_DROP;
    }
    crab_count(c->repeated ? CRAB_LB_SYN_REPEATED : CRAB_LB_SYN_REDIRECTED);
    return XDP_TX;
}

static __always_inline int redirect_syn(struct xdp_md *xdp, struct syn *s, struct crab_vip *vip, int native)
{
    struct crab_tuple t = {.client = s->saddr, .server = s->daddr, .client_port = s->sport, .server_port = s->dport};
    struct crab_pool *pool = crab_pool_of(vip);
    struct crab_choice c = {};
    enum sum was = judge_sum(s);

    if (was == SUM_BAD) {
        crab_count(CRAB_LB_BAD_CHECKSUM);
        return XDP_DROP;
    }
    if (!pool || s->ttl <= 1 || !crab_choose(pool, vip, &t, s->iss, &c)) {
        return XDP_PASS;
    }
    return send_chosen(xdp, s, &t, &c, native | was << 1);
}

static __always_inline int balance(struct xdp_md *xdp, int native, enum crab_six_entry six)
{
    struct syn *s = SYN_STORAGE;
    struct crab_vip *vip = s ? syn_to_vip(xdp, s, six) : NULL;

    if (!vip || !has_placeholder(xdp, s)) {
        return XDP_PASS;
    }
    return redirect_syn(xdp, s, vip, native);
}

SEC("xdp")
int CRAB_NAME(crab_lb_native)(struct xdp_md *xdp)
{
    return balance(xdp, 1, CRAB_SIX_LB_NATIVE);
}

SEC("xdp")
int CRAB_NAME(crab_lb_generic)(struct xdp_md *xdp)
{
    return balance(xdp, 0, CRAB_SIX_LB_GENERIC);
}
