/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The option in IPv4 packets; part of crab_option.h.
 *
 *   form         kind 42                 kind 253/254 (C-7)
 *   placeholder  2A 06 00 00 00 00 01 01   FD 08 ExID 00 00 00 00
 *   redirect     2A 06 <address>   01 01   FD 08 ExID <address>
 *   fall-back    2A 08 <address>   00 01   FD 08 ExID+1 <address>
 *
 * "fall-back" is ours: the balancer tells the server's host that this client
 * knows nothing of CRAB and must be answered from the address (C-42).
 */
#define CRAB_OPTION_ROOM  8  /* bytes every form takes */
#define CRAB_ROOM_STORAGE 8  /* of an array that holds one: a power of 2 */
#define CRAB_OPTION_SPAN  16 /* words that cover an option at any offset */

CRAB_INLINE void crab_option_put_addr(__u8 *to, __be32 addr)
{
    __builtin_memcpy(to, &addr, 4);
}

/* Write one form; to has CRAB_OPTION_ROOM bytes. */
CRAB_INLINE void crab_option_write(__u8 *to, __u8 kind, __u16 exid, __u8 form, __be32 addr)
{
    to[0] = kind;
    if (kind >= CRAB_KIND_EXPERIMENT1) {
        __u16 id = (__u16)(exid + (form == CRAB_FORM_FALLBACK));
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
CRAB_INLINE __u8 crab_option_form(struct crab_options *o, __u32 at, __u32 size, __be32 *addr)
{
    __u8 *b = &o->bytes[at & 63];
    __u32 value = 2;
    __u8 fallback = 0;

    if (at > 56) { /* the shortest form has 6 bytes; keeps every index below inside bytes[] */
        return CRAB_FORM_NONE;
    }
    if (o->kind >= CRAB_KIND_EXPERIMENT1) {
        __u16 id = (__u16)((__u16)b[2] << 8 | b[3]);
        if (id != o->exid && id != (__u16)(o->exid + 1)) {
            return CRAB_FORM_NONE;
        }
        fallback = id != o->exid;
        value = 4;
        if (size != 8) {
            goto ignored;
        }
    } else if (size == 8 && b[6] == 0 && b[7] == 1) {
        fallback = 1;
    } else if (size != 6) {
        goto ignored;
    }
    __builtin_memcpy(addr, b + value, 4);
    if (*addr == 0) {
        return fallback ? CRAB_FORM_NONE : CRAB_FORM_PLACEHOLDER;
    }
    return fallback ? CRAB_FORM_FALLBACK : CRAB_FORM_REDIRECT;
ignored:
    o->notes |= CRAB_NOTE_IGNORED;
    return CRAB_FORM_NONE;
}

/* The address an option found at o->at names. */
CRAB_INLINE __be32 crab_option_addr(struct crab_options *o)
{
    return o->addr;
}
