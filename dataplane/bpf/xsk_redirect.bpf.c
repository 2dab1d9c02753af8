// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Frames of an interface to the AF_XDP sockets of a DPDK port, by queue; what comes by a queue without one goes to
 * the kernel. DPDK's driver fills the map, under this name. The program libxdp would load instead can be looked up
 * with CAP_SYS_ADMIN only.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 256);
    __type(key, __u32);
    __type(value, __u32);
} xsks_map SEC(".maps");

SEC("xdp")
int xsk_redirect(struct xdp_md *ctx)
{
    return (int)bpf_redirect_map(&xsks_map, ctx->rx_queue_index, XDP_PASS);
}
