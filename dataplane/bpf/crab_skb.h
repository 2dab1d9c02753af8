/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * TCP in tc programs: read, rewrite, enlarge. Checksums go through the helpers
 * that know whether the kernel has still to finish them (partial). What differs
 * between the families: crab_ip4.h, crab_ip6.h.
 */
#ifndef CRAB_SKB_H
#define CRAB_SKB_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>

#include "crab_notes.h"

/* tcx verdict: the next program of whoever else sits here has its turn. */
#define CRAB_NEXT -1

#define CRAB_FIN   0x01
#define CRAB_SYN   0x02
#define CRAB_RST   0x04
#define CRAB_PSH   0x08
#define CRAB_ACK   0x10
#define CRAB_STATE (CRAB_FIN | CRAB_SYN | CRAB_RST | CRAB_ACK) /* ECE and CWR do not matter (C-20) */

#define CRAB_SHIFT_STEP  32
#define CRAB_SHIFT_STEPS 64 /* a SYN carries at most 2 KiB of data that we move */

/* The kernel refused to write, as it does without memory: what is half rewritten is of no use to anybody. */
static __always_inline int crab_write_failed(void)
{
    crab_count(CRAB_REWRITE_FAILED);
    return TC_ACT_SHOT;
}

struct crab_packet {
    __u32 l4;     /* where the TCP header begins */
    __u32 doff;   /* its length */
    __u32 length; /* of the IP packet */
    crab_addr saddr, daddr;
    __be16 sport, dport;
    __u32 seq, ack; /* host order */
    __u8 flags;
    __u8 tos;
};

/* What stands at a byte of the frame, little-endian, as the objects are; one read, whatever the alignment. */
#define CRAB_AT(type, frame, byte) (*(const type *)__builtin_assume_aligned((frame) + (byte), sizeof(type)))

enum crab_parsed { CRAB_OTHER = 0, CRAB_TCP = 1 };

#ifdef CRAB_SIX
#include "crab_ip6.h"
#else
#include "crab_ip4.h"
#endif

/* The lengths of a SYN or SYN-ACK agree with each other and with the frame. */
static __always_inline int crab_lengths_agree(struct __sk_buff *skb, struct crab_packet *p)
{
    return p->doff >= sizeof(struct tcphdr) && p->l4 - ETH_HLEN + p->doff <= p->length &&
           ETH_HLEN + p->length <= skb->len;
}

static __always_inline void crab_option_kind(struct crab_options *o)
{
    __u32 zero = 0;
    struct crab_meta *meta = bpf_map_lookup_elem(&crab_meta, &zero);
    o->kind = meta && meta->kind ? meta->kind : CRAB_KIND;
    o->exid = meta ? meta->exid : 0;
}

/* Find ours in the option area of a packet that another program will settle; -1 when it is cut short. */
static __always_inline int crab_peek_options(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o)
{
    __builtin_memset(o, 0, sizeof(*o));
    crab_option_kind(o);
    if (!crab_lengths_agree(skb, p)) {
        return -1;
    }
    __u32 len = p->doff - sizeof(struct tcphdr);
    o->len = len;
    if (len == 0) {
        return 0;
    }
    if (len > CRAB_OPTIONS_MAX) {
        return -1;
    }
    CRAB_OPAQUE(
        len); /* verifiers before 6.18 do not see through what becomes of two comparisons: the bound stands below */
    if (bpf_skb_load_bytes(skb, p->l4 + sizeof(struct tcphdr), o->bytes, ((len - 1) & 63) + 1)) {
        return -1;
    }
    crab_option_find(o);
    return 0;
}

/* Read the option area of p and find ours in it; -1 when the packet is cut short. */
CRAB_PART int crab_read_options(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o)
{
    if (crab_peek_options(skb, p, o)) {
        if (!crab_lengths_agree(skb, p)) {
            crab_count(CRAB_HEADER_MALFORMED);
        }
        return -1;
    }
    crab_count_notes(o);
    return 0;
}

/* Overwrite bytes of the TCP option area; len is even and known when compiled, at even. */
static __always_inline int crab_put_options(struct __sk_buff *skb, struct crab_packet *p, __u32 at, __u8 *old,
                                            __u8 *fresh, const __u32 len)
{
    __s64 diff = bpf_csum_diff((__be32 *)old, len, (__be32 *)fresh, len, 0);

    if (bpf_l4_csum_replace(skb, p->l4 + __builtin_offsetof(struct tcphdr, check), 0, (__u64)diff, 0)) {
        return -1;
    }
    return bpf_skb_store_bytes(skb, p->l4 + sizeof(struct tcphdr) + at, fresh, len, 0);
}

/*
 * Overwrite the option found at o->at in place: room, then NOPs. An odd offset
 * would swap the bytes of the sum, so the whole words that cover it are
 * exchanged: at most CRAB_OPTION_SPAN bytes from the last multiple of 4.
 */
CRAB_PART int crab_replace_option(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o, __u8 *room)
{
    __u8 old[CRAB_OPTION_SPAN], fresh[CRAB_OPTION_SPAN];
    __u32 from = o->at & 0x3c, inside = o->at & 3, size = o->size;

    CRAB_OPAQUE(room);
#pragma unroll
    for (__u32 i = 0; i < CRAB_OPTION_SPAN; i++) {
        old[i] = o->bytes[(from + i) & 63];
        __u32 j =
            (i - inside) & 63; /* before the option it is larger than any; verifiers before 6.18 need to see a bound */
        fresh[i] = j >= size ? old[i] : j < CRAB_OPTION_ROOM ? room[j & (CRAB_ROOM_STORAGE - 1)] : 1;
    }
    if (inside + size <= 8) {
        return crab_put_options(skb, p, from, old, fresh, 8);
    }
    if (inside + size <= 12) {
        return crab_put_options(skb, p, from, old, fresh, 12);
    }
#ifdef CRAB_SIX
    if (inside + size <= 20) {
        return crab_put_options(skb, p, from, old, fresh, 20);
    }
#endif
    return crab_put_options(skb, p, from, old, fresh, CRAB_OPTION_SPAN);
}

/* Make the option found do nothing: NOPs in its place (C-71). */
CRAB_PART int crab_blank_option(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o)
{
    __u8 nops[CRAB_ROOM_STORAGE];

    __builtin_memset(nops, 1, sizeof(nops));
    return crab_replace_option(skb, p, o, nops);
}

struct crab_shift {
    struct __sk_buff *skb;
    __u32 from, len; /* what is still to be moved */
    int failed;
};

/* Move the last bytes. */
static __always_inline long crab_shift_part(struct crab_shift *s, const __u32 by)
{
    __u8 step[CRAB_SHIFT_STEP] = {};
    __u32 n = s->len < CRAB_SHIFT_STEP ? s->len : CRAB_SHIFT_STEP;

    if (n == 0) {
        return 1;
    }
    s->len -= n;
    if (bpf_skb_load_bytes(s->skb, s->from + s->len, step, n) ||
        bpf_skb_store_bytes(s->skb, s->from + s->len + by, step, n, 0)) {
        s->failed = 1;
        return 1;
    }
    return 0;
}

/* Loops the verifier looks at once. */
static long crab_shift_fallback(__u32 turn, struct crab_shift *s)
{
    (void)turn;
    return crab_shift_part(s, CRAB_FALLBACK_ROOM);
}

#if CRAB_OPTION_ROOM != CRAB_FALLBACK_ROOM
static long crab_shift_option(__u32 turn, struct crab_shift *s)
{
    (void)turn;
    return crab_shift_part(s, CRAB_OPTION_ROOM);
}
#else
#define crab_shift_option crab_shift_fallback
#endif

/* Move len bytes at offset from by the size of an option towards the end, last ones first. */
static __always_inline int crab_shift(struct __sk_buff *skb, __u32 from, __u32 len, const __u32 by)
{
    struct crab_shift s = {.skb = skb, .from = from, .len = len};

    if (by == CRAB_FALLBACK_ROOM) {
        bpf_loop(CRAB_SHIFT_STEPS, crab_shift_fallback, &s, 0);
    } else {
        bpf_loop(CRAB_SHIFT_STEPS, crab_shift_option, &s, 0);
    }
    return s.failed || s.len ? -1 : 0;
}

/* Account for more bytes of options: length of the packet, data offset, pseudo header (C-22). */
static __always_inline int crab_grow_lengths(struct __sk_buff *skb, struct crab_packet *p, const __u32 more)
{
    __u32 tcp_len = p->length - (p->l4 - ETH_HLEN);
    __be16 old_tcp = bpf_htons(tcp_len), new_tcp = bpf_htons(tcp_len + more);
    __u32 check = p->l4 + __builtin_offsetof(struct tcphdr, check);
    __be16 old_off, new_off;

    if (bpf_skb_load_bytes(skb, p->l4 + 12, &old_off, 2)) {
        return -1;
    }
    new_off = old_off + bpf_htons((more / 4) << 12);
    if (crab_grow_ip(skb, p, more) || bpf_l4_csum_replace(skb, check, old_tcp, new_tcp, BPF_F_PSEUDO_HDR | 2) ||
        bpf_l4_csum_replace(skb, check, old_off, new_off, 2) || bpf_skb_store_bytes(skb, p->l4 + 12, &new_off, 2, 0)) {
        return -1;
    }
    p->length += more;
    p->doff += more;
    return 0;
}

enum crab_inserted { CRAB_INSERTED = 0, CRAB_NO_SPACE = 1, CRAB_REFUSED = 2 };

/*
 * Put size bytes of room right behind the fixed TCP header, where no end-of-list can stand
 * before it. CRAB_REFUSED may come with a packet that is enlarged but not
 * consistent: the caller drops it then; CRAB_NO_SPACE leaves it untouched (C-8).
 */
static __always_inline int crab_insert_option(struct __sk_buff *skb, struct crab_packet *p, __u8 *room,
                                              const __u32 size)
{
    __u32 first = p->l4 + sizeof(struct tcphdr), end = ETH_HLEN + p->length;
    __u32 move = end - first, check = p->l4 + __builtin_offsetof(struct tcphdr, check);
    __s64 sum = bpf_csum_diff(0, 0, (__be32 *)room, size, 0);

    if (p->doff > sizeof(struct tcphdr) + CRAB_OPTIONS_MAX - size || move > CRAB_SHIFT_STEP * CRAB_SHIFT_STEPS ||
        end < first) {
        return CRAB_NO_SPACE;
    }
    if (bpf_skb_change_tail(skb, end + size, 0)) {
        return CRAB_NO_SPACE;
    }
    if (crab_shift(skb, first, move, size) || bpf_skb_store_bytes(skb, first, room, size, 0) ||
        bpf_l4_csum_replace(skb, check, 0, (__u64)sum, 0) || crab_grow_lengths(skb, p, size)) {
        return CRAB_REFUSED;
    }
    return CRAB_INSERTED;
}

static __always_inline void crab_room(__u8 *room, __u8 form, crab_addr addr)
{
    struct crab_options o;
    crab_option_kind(&o);
    crab_option_write(room, o.kind, o.exid, form, addr);
}

#endif
