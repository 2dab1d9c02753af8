// SPDX-License-Identifier: Apache-2.0
// Where lwIP calls us: the first sequence number, each segment that came before it is looked at, and each header before
// its checksum is made. The SLO-aware window (F-30 to F-35) needs no more.
#ifndef BT_TCP_LWIP_HOOKS_H
#define BT_TCP_LWIP_HOOKS_H

#include "lwip/ip_addr.h"

struct tcp_pcb;
struct tcp_hdr;
struct pbuf;

u32_t bt_lwip_isn(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port);
// ERR_OK: lwIP takes it.
err_t bt_lwip_came(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t optlen, u16_t opt1len, u8_t *opt2, struct pbuf *p);
// Bytes of options, ours among them; `len` is what lwIP writes itself.
u8_t bt_lwip_options_len(const struct tcp_pcb *pcb, u8_t len);
u32_t *bt_lwip_leaves(struct pbuf *p, struct tcp_hdr *hdr, const struct tcp_pcb *pcb, u32_t *opts);

#define LWIP_HOOK_TCP_ISN                                bt_lwip_isn
#define LWIP_HOOK_TCP_INPACKET_PCB                       bt_lwip_came
#define LWIP_HOOK_TCP_OUT_TCPOPT_LENGTH(pcb, len)        bt_lwip_options_len(pcb, len)
#define LWIP_HOOK_TCP_OUT_ADD_TCPOPTS(p, hdr, pcb, opts) bt_lwip_leaves(p, hdr, pcb, opts)

#endif
