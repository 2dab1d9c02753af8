/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The connection redirect option (C-1..C-9): find it, write it. Pure: bytes in,
 * verdict out, so that the same text runs in eBPF and in a user space test.
 *
 *   form         kind 42                 kind 253/254 (C-7)
 *   placeholder  2A 06 00 00 00 00 01 01   FD 08 ExID 00 00 00 00
 *   redirect     2A 06 <address>   01 01   FD 08 ExID <address>
 *   fall-back    2A 08 <address>   00 01   FD 08 ExID+1 <address>
 *
 * "fall-back" is ours: the balancer tells the server's host that this client
 * knows nothing of CRAB and must be answered from the address (C-42).
 */
#ifndef CRAB_OPTION_H
#define CRAB_OPTION_H

#include <linux/types.h>

#define CRAB_KIND             42
#define CRAB_KIND_EXPERIMENT1 253
#define CRAB_OPTION_ROOM      8  /* bytes every form takes */
#define CRAB_OPTIONS_MAX      40 /* bytes of a TCP option area */

enum crab_form {
    CRAB_FORM_NONE = 0,
    CRAB_FORM_PLACEHOLDER = 1,
    CRAB_FORM_REDIRECT = 2,
    CRAB_FORM_FALLBACK = 3,
};

enum crab_note {
    CRAB_NOTE_MALFORMED = 1 << 0,
    CRAB_NOTE_DUPLICATE = 1 << 1,
    CRAB_NOTE_IGNORED = 1 << 2,
};

/* An option area and what was found in it. */
struct crab_options {
    __u8 bytes[64]; /* the area, then zeroes: every index below 64 may be read */
    __u32 len;      /* 0..40 */
    __be32 addr;
    __u16 exid; /* host order */
    __u8 kind;
    __u8 form;  /* enum crab_form */
    __u8 at;    /* where it begins in bytes[] */
    __u8 size;  /* its length there */
    __u8 notes; /* sum of enum crab_note */
    __u8 pad;
    __u32 cursor;
};

static inline __attribute__((always_inline)) void crab_option_put_addr(__u8 *to, __be32 addr)
{
    __builtin_memcpy(to, &addr, 4);
}

/* Write one form; to has CRAB_OPTION_ROOM bytes. */
static inline __attribute__((always_inline)) void crab_option_write(__u8 *to, __u8 kind, __u16 exid, __u8 form,
                                                                    __be32 addr)
{
    to[0] = kind;
    if (kind >= CRAB_KIND_EXPERIMENT1) {
        __u16 id = exid + (form == CRAB_FORM_FALLBACK);
        to[1] = 8;
        to[2] = (__u8)(id >> 8);
        to[3] = (__u8)id;
        crab_option_put_addr(to + 4, addr);
        return;
    }
    to[1] = form == CRAB_FORM_FALLBACK ? 8 : 6;
    crab_option_put_addr(to + 2, addr);
    to[6] = form == CRAB_FORM_FALLBACK ? 0 : 1;
    to[7] = 1;
}

/* What an option of our kind says; CRAB_FORM_NONE: not ours, or not usable. */
static inline __attribute__((always_inline)) __u8 crab_option_form(struct crab_options *o, __u32 at, __u32 size,
                                                                   __be32 *addr)
{
    __u8 *b = &o->bytes[at & 63];
    __u32 value = 2;
    __u8 fallback = 0;

    if (at > 56) /* the shortest form has 6 bytes; keeps every index below inside bytes[] */
        return CRAB_FORM_NONE;
    if (o->kind >= CRAB_KIND_EXPERIMENT1) {
        __u16 id = (__u16)((__u16)b[2] << 8 | b[3]);
        if (id != o->exid && id != (__u16)(o->exid + 1))
            return CRAB_FORM_NONE;
        fallback = id != o->exid;
        value = 4;
        if (size != 8)
            goto ignored;
    } else if (size == 8 && b[6] == 0 && b[7] == 1) {
        fallback = 1;
    } else if (size != 6) {
        goto ignored;
    }
    __builtin_memcpy(addr, b + value, 4);
    if (*addr == 0)
        return fallback ? CRAB_FORM_NONE : CRAB_FORM_PLACEHOLDER;
    return fallback ? CRAB_FORM_FALLBACK : CRAB_FORM_REDIRECT;
ignored:
    o->notes |= CRAB_NOTE_IGNORED;
    return CRAB_FORM_NONE;
}

/* Read one option at o->cursor; 1: that was all. */
static inline __attribute__((always_inline)) int crab_option_step(struct crab_options *o)
{
    __u32 at = o->cursor, len = o->len;
    __be32 addr = 0;

    if (at >= len || at >= CRAB_OPTIONS_MAX)
        return 1;
    __u8 kind = o->bytes[at & 63];
    if (kind == 0)
        return 1;
    if (kind == 1) {
        o->cursor = at + 1;
        return 0;
    }
    __u32 size = at + 1 < len ? o->bytes[(at + 1) & 63] : 0;
    if (size < 2 || at + size > len) {
        o->notes |= CRAB_NOTE_MALFORMED;
        return 1;
    }
    o->cursor = at + size;
    __u8 form = kind == o->kind ? crab_option_form(o, at, size, &addr) : CRAB_FORM_NONE;
    if (form == CRAB_FORM_NONE)
        return 0;
    if (o->form != CRAB_FORM_NONE) {
        o->notes |= CRAB_NOTE_DUPLICATE;
        return 0;
    }
    o->form = form;
    o->at = (__u8)at;
    o->size = (__u8)size;
    o->addr = addr;
    return 0;
}

#ifdef __bpf__ /* a loop the verifier looks at once */
static long crab_option_turn(__u32 turn, struct crab_options *o)
{
    (void)turn;
    return crab_option_step(o);
}
#endif

/*
 * Find the first valid option of o->kind in bytes[0..len). A length below 2 or
 * beyond the area ends parsing (C-4); more of the same are counted (C-3). No
 * more than 40 steps: each takes a byte at least.
 */
static inline __attribute__((always_inline)) void crab_option_find(struct crab_options *o)
{
    o->form = CRAB_FORM_NONE;
    o->notes = 0;
    o->cursor = 0;
#ifdef __bpf__
    bpf_loop(CRAB_OPTIONS_MAX, crab_option_turn, o, 0);
#else
    for (int i = 0; i < CRAB_OPTIONS_MAX && !crab_option_step(o); i++)
        ;
#endif
}

#endif
