// SPDX-License-Identifier: Apache-2.0
// How lwIP is compiled: TCP over IPv4 and IPv6 and nothing else. ARP, discovery and ICMP are src/link's. No threads, no
// clock of its own, and all memory in pools whose sizes stand here: a copy of the stack cannot grow.
#ifndef BT_TCP_LWIPOPTS_H
#define BT_TCP_LWIPOPTS_H

#include "tcp/lwip/sizes.h"

#define NO_SYS               1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_TIMERS          0
#define LWIP_NETCONN         0
#define LWIP_SOCKET          0
#define LWIP_RAW             0
#define LWIP_UDP             0
#define LWIP_DNS             0
#define LWIP_DHCP            0
#define LWIP_AUTOIP          0
#define LWIP_IGMP            0
#define LWIP_ARP             0
#define LWIP_ETHERNET        0
#define LWIP_ICMP            0
#define LWIP_HAVE_LOOPIF     0
#define LWIP_NETIF_LOOPBACK  0
#define IP_REASSEMBLY        0
#define IP_FRAG              0
#define IP_FORWARD           0
#define IP_OPTIONS_ALLOWED   0

#define LWIP_IPV4            1
#define LWIP_IPV6            1
#define LWIP_ICMP6           0
#define LWIP_IPV6_MLD        0
#define LWIP_IPV6_AUTOCONFIG 0
#define LWIP_IPV6_FRAG       0
#define LWIP_IPV6_REASS      0
#define LWIP_IPV6_FORWARD    0
#define LWIP_ND6_QUEUEING    0

#define LWIP_TCP                       1
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1 // received packets are not of its own pool
#define TCP_MSS                        BT_TCP_MSS
#define LWIP_TCP_MAX_SACK_NUM          4
#define LWIP_TCP_SACK_OUT              1
#define LWIP_TCP_TIMESTAMPS            0
#define LWIP_WND_SCALE                 0 // F-30
#define TCP_WND                        65535
#define TCP_SND_BUF                    65535
#define TCP_SND_QUEUELEN               BT_TCP_QUEUED
#define TCP_SNDLOWAT                   16384
#define TCP_OVERSIZE                   TCP_MSS
#define TCP_QUEUE_OOSEQ                1
#define TCP_OOSEQ_MAX_BYTES            32768
#define TCP_OOSEQ_MAX_PBUFS            32
#define TCP_LISTEN_BACKLOG             1
#define LWIP_TCP_PCB_NUM_EXT_ARGS      1
#define TCP_TMR_INTERVAL               BT_TCP_TICK_MS
#define LWIP_TCP_RTO_TIME              1000 // RFC 6298
#define TCP_MSL                        30000
#define TCP_MAXRTX                     10
#define TCP_SYNMAXRTX                  4
#define TCP_KEEPIDLE_DEFAULT           60000UL
#define TCP_KEEPINTVL_DEFAULT          10000UL
#define TCP_KEEPCNT_DEFAULT            6U
#define TCP_WND_UPDATE_THRESHOLD       16384
#define LWIP_CALLBACK_API              1

#define MEM_ALIGNMENT                 8
#define MEM_USE_POOLS                 1
#define MEM_USE_POOLS_TRY_BIGGER_POOL 1
#define MEMP_USE_CUSTOM_POOLS         1 // lwippools.h
#define MEMP_NUM_TCP_PCB              BT_TCP_PCBS
#define MEMP_NUM_TCP_PCB_LISTEN       2
#define MEMP_NUM_TCP_SEG              BT_TCP_SEGMENTS
#define MEMP_NUM_PBUF                 16
#define PBUF_POOL_SIZE                1
#define LWIP_SUPPORT_CUSTOM_PBUF      1
#define PBUF_LINK_HLEN                0 // src/link puts Ethernet in front of a copy

#define CHECKSUM_CHECK_IP            0 // src/link did
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1
#define LWIP_CHECKSUM_ON_COPY        1
#define TCP_CHECKSUM_ON_COPY         1

#define LWIP_STATS         1
#define LWIP_STATS_LARGE   1
#define LINK_STATS         0
#define IPFRAG_STATS       0
#define MEM_STATS          0
#define MEMP_STATS         1
#define SYS_STATS          0
#define LWIP_STATS_DISPLAY 0

#define LWIP_HOOK_FILENAME "tcp/lwip/hooks.h"

#endif
