/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The option in IPv6 packets (C-9); part of crab_option.h.
 *
 *   form         kind 42                kind 253/254 (C-7)
 *   placeholder  2A 12 <16 x 00>  01 01   FD 14 ExID <16 x 00>
 *   redirect     2A 12 <address>  01 01   FD 14 ExID <address>
 *   fall-back    2A 08 <digest>   00 01   FD 08 ExID+1 <digest>
 *
 * 20 bytes are what Linux leaves free in a SYN without Fast Open. A SYN that has
 * fewer takes the fall-back (C-42), whose mark must therefore be short: it names
 * the address by 32 bits, and the server's host knows which addresses it may
 * answer from.
 */
#define CRAB_OPTION_ROOM  20 /* bytes of a placeholder or redirect */
#define CRAB_ROOM_STORAGE 32 /* of an array that holds one: a power of 2 */
#define CRAB_OPTION_SPAN  24 /* words that cover an option at any offset */
#define CRAB_ADDR_SIZE    16

/* Names an address in a fall-back mark, in network order; never 0. */
CRAB_INLINE __be32 crab_addr_digest(crab_addr a)
{
    const __u8 *b = (const __u8 *)&a;
    __u32 h = 0x9e3779b9;

    for (int i = 0; i < CRAB_ADDR_SIZE; i += 4) {
        h = crab_mix(h, (__u32)b[i] << 24 | (__u32)b[i + 1] << 16 | (__u32)b[i + 2] << 8 | b[i + 3]);
    }
    const __u8 wire[4] = {(__u8)(h >> 24), (__u8)(h >> 16), (__u8)(h >> 8), (__u8)h};
    __be32 digest;
    __builtin_memcpy(&digest, wire, sizeof(digest));
    return digest ? digest : (__be32)-1;
}

/* Write one form; to has CRAB_OPTION_ROOM bytes, of which a fall-back takes CRAB_FALLBACK_ROOM. */
CRAB_INLINE void crab_option_write(__u8 *to, __u8 kind, __u16 exid, __u8 form, crab_addr addr)
{
    int experiment = kind >= CRAB_KIND_EXPERIMENT1, fallback = form == CRAB_FORM_FALLBACK;
    __u16 id = (__u16)(exid + fallback);
    __be32 digest = crab_addr_digest(addr);

    to[0] = kind;
    to[1] = fallback ? 8 : experiment ? 20 : 18;
    if (experiment) {
        to[2] = (__u8)(id >> 8);
        to[3] = (__u8)id;
        to += 2;
    }
    if (fallback) {
        __builtin_memcpy(to + 2, &digest, sizeof(digest));
    } else {
        __builtin_memcpy(to + 2, &addr, sizeof(addr));
    }
    if (experiment) {
        return;
    }
    to[fallback ? 6 : 18] = fallback ? 0 : 1;
    to[fallback ? 7 : 19] = 1;
}

/* The form of an address at value; its bytes are inside bytes[]. */
CRAB_INLINE __u8 crab_option_filled(const __u8 *value)
{
    crab_addr addr;

    __builtin_memcpy(&addr, value, sizeof(addr));
    return crab_addr_none(addr) ? CRAB_FORM_PLACEHOLDER : CRAB_FORM_REDIRECT;
}

/* What an option of our kind says; CRAB_FORM_NONE: not ours, or not usable. */
CRAB_INLINE __u8 crab_option_form(struct crab_options *o, __u32 at, __u32 size, __be32 *digest)
{
    __u8 *b = &o->bytes[at & 63];
    int experiment = o->kind >= CRAB_KIND_EXPERIMENT1;

    if (at > 40) { /* the longest form has 20 bytes; keeps every index below inside bytes[] */
        return CRAB_FORM_NONE;
    }
    if (experiment) {
        __u16 id = (__u16)((__u16)b[2] << 8 | b[3]);
        if (id == (__u16)(o->exid + 1) && size == 8) {
            __builtin_memcpy(digest, b + 4, 4);
            return *digest ? CRAB_FORM_FALLBACK : CRAB_FORM_NONE;
        }
        if (id == o->exid && size == 20) {
            return crab_option_filled(b + 4);
        }
        if (id != o->exid && id != (__u16)(o->exid + 1)) {
            return CRAB_FORM_NONE;
        }
    } else if (size == 18) {
        return crab_option_filled(b + 2);
    } else if (size == 8 && b[6] == 0 && b[7] == 1) {
        __builtin_memcpy(digest, b + 2, 4);
        return *digest ? CRAB_FORM_FALLBACK : CRAB_FORM_NONE;
    }
    o->notes |= CRAB_NOTE_IGNORED;
    return CRAB_FORM_NONE;
}

/* The address an option found at o->at names; not of a fall-back mark. */
CRAB_INLINE crab_addr crab_option_addr(struct crab_options *o)
{
    crab_addr addr;
    __u32 at = (o->at + (o->kind >= CRAB_KIND_EXPERIMENT1 ? 4 : 2)) & 63;

    if (at > 44) { /* the option ended inside the area; keeps the read inside bytes[] */
        at = 44;
    }
    __builtin_memcpy(&addr, o->bytes + at, sizeof(addr));
    return addr;
}
