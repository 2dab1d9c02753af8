/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The connection redirect option (C-1..C-9): find it, write it. Pure: bytes in,
 * verdict out, so that the same text runs in eBPF and in a user space test. What
 * its forms look like, and how they are told apart: crab_form4.h, crab_form6.h.
 */
#ifndef CRAB_OPTION_H
#define CRAB_OPTION_H

#include "crab_family.h"

#define CRAB_KIND             42
#define CRAB_KIND_EXPERIMENT1 253
#define CRAB_FALLBACK_ROOM    8  /* bytes the mark of the fall-back takes, in both families */
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
    __be32 addr;    /* IPv6: the digest of a fall-back mark; crab_option_addr() finds the address */
    __u16 exid;     /* host order */
    __u8 kind;
    __u8 form;  /* enum crab_form */
    __u8 at;    /* where it begins in bytes[] */
    __u8 size;  /* its length there */
    __u8 notes; /* sum of enum crab_note */
    __u8 pad;
    __u32 cursor;
};

#ifdef CRAB_SIX
#include "crab_form6.h"
#else
#include "crab_form4.h"
#endif

/* Read one option at o->cursor; 1: that was all. */
CRAB_INLINE int crab_option_step(struct crab_options *o)
{
    __u32 at = o->cursor, len = o->len;
    __be32 addr = 0;

    if (at >= len || at >= CRAB_OPTIONS_MAX) {
        return 1;
    }
    __u8 kind = o->bytes[at & 63];
    if (kind == 0) {
        return 1;
    }
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
    if (form == CRAB_FORM_NONE) {
        return 0;
    }
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
CRAB_INLINE void crab_option_find(struct crab_options *o)
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
