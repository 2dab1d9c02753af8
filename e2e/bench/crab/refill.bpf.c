// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Gives the program that is measured a new SYN each time: BPF_PROG_TEST_RUN repeats a program on one frame, which the
 * first pass has changed. The frame is written anew, with another client address, port and sequence number and with
 * right checksums; then the program is called. What this costs is measured with a program that does nothing, and subtracted.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define FRAME_MAX 82 /* Ethernet, IPv4, TCP and 28 bytes of options */
#define FRAME_MIN 74 /* with 20 bytes of options */

/* The frame whose variable fields are 0, and the sums of all else; the loader writes it. */
struct plan {
    __u8 frame[FRAME_MAX];
    __u16 ip_sum, tcp_sum; /* network order, not complemented */
    __u16 pad;
    __u32 subject;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct plan);
    __uint(max_entries, 1);
} plans SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} count SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 4);
} subjects SEC(".maps");

static __always_inline __u16 fold(__u32 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)((sum & 0xffff) + (sum >> 16));
}

static __always_inline void vary(struct plan *plan, struct iphdr *ip, __u64 n)
{
    struct tcphdr *tcp = (void *)(ip + 1);
    __u16 port = (__u16)n, host = (__u16)(n >> 16), low = (__u16)(n * 40503);

    /* All of them are put as they are: their byte order does not matter. */
    ip->saddr |= (__u32)host << 16;
    tcp->source = port;
    tcp->seq = low;
    ip->check = ~fold((__u32)plan->ip_sum + host);
    tcp->check = ~fold((__u32)plan->tcp_sum + host + port + low);
}

SEC("xdp")
int refill(struct xdp_md *xdp)
{
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
    __u32 zero = 0;
    struct plan *plan = bpf_map_lookup_elem(&plans, &zero);
    __u64 *n = bpf_map_lookup_elem(&count, &zero);

    if (!plan || !n || data + FRAME_MIN > end)
        return XDP_ABORTED;
    if (data + FRAME_MAX <= end)
        __builtin_memcpy(data, plan->frame, FRAME_MAX);
    else
        __builtin_memcpy(data, plan->frame, FRAME_MIN);
    vary(plan, data + sizeof(struct ethhdr), ++*n);
    bpf_tail_call(xdp, &subjects, plan->subject);
    return XDP_ABORTED; /* there is no such program */
}

SEC("xdp")
int nothing(struct xdp_md *xdp)
{
    (void)xdp;
    return XDP_TX;
}

/* The other end of a veth that frames are sent over. */
SEC("xdp")
int drop(struct xdp_md *xdp)
{
    (void)xdp;
    return XDP_DROP;
}
