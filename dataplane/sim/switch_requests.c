// SPDX-License-Identifier: Apache-2.0
// See switch_requests.h. A request is put together from what it says, so that any two things may be wrong about it.
#include "switch_requests.h"

#include <string.h>

#include "base/bytes.h"
#include "stream.h"
#include "wire/options.h"
#include "wire/r2p2.h"

enum {
    OPTIONS_ROOM = 128,
    OPTIONS_MOST = 48, /* with the router's own the header is full */
    BODY_MOST = 1456,  /* likewise the packet, where there are no options */
    FIRST = 0x80,
    LAST = 0x40,
};

struct draft {
    struct bt_rng *rng;
    uint32_t ip;
    uint16_t port, id, count;
    uint8_t magic, type, policy, flags;
    uint8_t options[OPTIONS_ROOM];
    uint32_t options_n, body_n;
    uint32_t size; /* what it says of its header; 0: the truth */
    uint32_t cut;  /* so many bytes of it alone, where `is_cut` */
    bool is_cut;
};

const char *sim_request_kind_name(enum sim_request_kind kind)
{
    static const char *const names[] = {"whole", "one", "two", "unread", "sticky", "long"};
    return names[kind];
}

static uint32_t below(struct draft *d, uint32_t n)
{
    return sim_below(d->rng, n);
}

/* --- options ----------------------------------------------------------------------------------------------------- */

/* Whole options of clients, of kinds that are known and not; length 0: any. */
static const struct {
    uint8_t kind, length;
} honest[] = {{BT_OPTION_CLASS, 4},
              {BT_OPTION_TRACE, 10},
              {BT_OPTION_SESSION, 18},
              {BT_OPTION_FLOW, 4},
              {9, 0},
              {0x42, 0},
              {0x7f, 0}};
/* What only routers write. */
static const struct {
    uint8_t kind, length;
} routers[] = {{BT_OPTION_FORWARDED, 8},
               {BT_OPTION_FORWARDED, 20},
               {BT_OPTION_TAG, 12},
               {BT_OPTION_ROUTER, 6},
               {BT_OPTION_COPY, 6}};

enum { HONEST = sizeof honest / sizeof *honest, ROUTERS = sizeof routers / sizeof *routers };

static uint32_t padded(uint32_t n)
{
    return (n + 3u) & ~3u;
}

static void pad(struct draft *d)
{
    while (d->options_n != padded(d->options_n)) {
        d->options[d->options_n++] = BT_OPTION_PAD;
    }
}

/* takes: bytes that it occupies, whatever it says of its length. */
static void add(struct draft *d, uint8_t kind, uint8_t says, uint32_t takes)
{
    uint8_t *p = d->options + d->options_n;
    for (uint32_t i = 0; i < takes; i++) {
        p[i] = (uint8_t)below(d, 256);
    }
    p[0] = kind;
    if (takes > 1) {
        p[1] = says;
    }
    d->options_n += takes;
}

/* Each kind once at most, in any order. */
static void add_honest(struct draft *d, uint32_t most)
{
    uint32_t from = below(d, HONEST);
    for (uint32_t i = 0; i < most; i++) {
        uint8_t kind = honest[(from + i) % HONEST].kind, length = honest[(from + i) % HONEST].length;
        length = length != 0 ? length : (uint8_t)(2 + below(d, 7));
        if (d->options_n + length <= OPTIONS_MOST - 4) {
            add(d, kind, length, length);
        }
        if (below(d, 4) == 0) {
            add(d, BT_OPTION_PAD, 0, 1);
        }
    }
    pad(d);
}

static uint8_t right_length(uint8_t kind)
{
    static const uint8_t lengths[] = {0, 8, 12, 4, 10, 6, 6, 18, 4};
    return lengths[kind];
}

/* An option of a known kind with an impossible length, or one of any kind that ends before its own length. */
static void add_wrong_length(struct draft *d)
{
    if (below(d, 4) == 0) {
        uint8_t kind = (uint8_t)(1 + below(d, 255));
        add(d, kind, (uint8_t)below(d, 2), 4);
        return;
    }
    uint8_t kind = (uint8_t)(BT_OPTION_FORWARDED + below(d, BT_OPTION_FLOW)), length;
    do {
        length = (uint8_t)(2 + below(d, 22));
    } while (length == right_length(kind) || (kind == BT_OPTION_FORWARDED && length == 20));
    add(d, kind, length, length);
}

static void add_routers(struct draft *d)
{
    uint32_t i = below(d, ROUTERS);
    add(d, routers[i].kind, routers[i].length, routers[i].length);
}

static void add_critical(struct draft *d)
{
    uint8_t length = (uint8_t)(2 + below(d, 7));
    add(d, (uint8_t)(BT_OPTION_CRITICAL | below(d, 128)), length, length);
}

/* A switch reads the first option, and believes its length. */
static void add_unread(struct draft *d)
{
    static void (*const behind[])(struct draft *) = {add_wrong_length, add_routers, add_critical};
    uint32_t which = below(d, 5);
    d->options_n = 0;
    if (which == 3) { /* over the header's end */
        uint8_t kind = below(d, 2) == 0 ? BT_OPTION_TRACE : 0x42;
        add(d, kind, kind == BT_OPTION_TRACE ? 10 : (uint8_t)(9 + below(d, 200)), 8);
        return;
    }
    add(d, BT_OPTION_CLASS, 4, 4);
    if (which == 4) {
        add(d, BT_OPTION_CLASS, 4, 4); /* each at most once */
    } else {
        behind[which](d);
    }
    pad(d);
}

/* --- what is wrong ----------------------------------------------------------------------------------------------- */

static void short_datagram(struct draft *d)
{
    d->is_cut = true;
    d->cut = below(d, BT_R2P2_HEADER);
}

static void other_magic(struct draft *d)
{
    d->magic = (uint8_t)(BT_R2P2_MAGIC + 1 + below(d, 255));
}

static void small_header(struct draft *d)
{
    d->size = 1 + below(d, BT_R2P2_HEADER - 1);
}

/* A whole one by its length, but that it ends behind the packet. */
static void header_beyond(struct draft *d)
{
    d->size = BT_R2P2_HEADER + d->options_n + padded(d->body_n + 1);
    if (d->size > BT_R2P2_HEADER_MAX) {
        d->body_n = 0;
        d->size = BT_R2P2_HEADER + d->options_n + 4;
    }
}

static void other_type(struct draft *d)
{
    d->type = (uint8_t)(1 + below(d, 15));
    if (d->type == BT_FEEDBACK && below(d, 2) == 0) { /* old workers' */
        d->options_n = 0;
        d->body_n = 8;
    }
}

static void no_packets(struct draft *d)
{
    d->count = 0;
    d->flags |= FIRST;
}

static void single_of_many(struct draft *d)
{
    d->flags |= FIRST | LAST;
    d->count = (uint16_t)(2 + below(d, 300));
}

static void many_of_one(struct draft *d)
{
    d->flags = (uint8_t)((d->flags | FIRST) & ~LAST);
    d->count = 1;
}

static void no_index(struct draft *d)
{
    d->flags = (uint8_t)(d->flags & ~FIRST);
    d->count = 0;
}

static void not_first(struct draft *d)
{
    d->flags = (uint8_t)(d->flags & ~FIRST);
    d->count = (uint16_t)(1 + below(d, 300));
}

/* M-23, but for the router's own addresses, which sim_request_draw knows. */
static void bad_source(struct draft *d)
{
    switch (below(d, 3)) {
    case 0:
        d->ip = 0xe0000000u + below(d, 0x20000000);
        break;
    case 1:
        d->ip = 0;
        break;
    default:
        d->port = 0;
        break;
    }
}

static void odd_header(struct draft *d)
{
    d->body_n = 68 + below(d, 40);
    d->size = 68;
    if (below(d, 2) == 0) {
        d->size = BT_R2P2_HEADER + 1 + below(d, 3);
        d->size += 4 * below(d, 13);
    }
}

static void other_policy(struct draft *d)
{
    d->policy = (uint8_t)(BT_POLICY_STICKY + 1 + below(d, 14));
}

/* In front of those that it has. */
static void in_front(struct draft *d, void (*what)(struct draft *))
{
    uint8_t rest[OPTIONS_ROOM];
    uint32_t n = d->options_n > 8 ? 0 : d->options_n;
    memcpy(rest, d->options, n);
    d->options_n = 0;
    what(d);
    memcpy(d->options + d->options_n, rest, n);
    d->options_n += n;
    pad(d);
}

static void critical_option(struct draft *d)
{
    in_front(d, add_critical);
}

static void wrong_length(struct draft *d)
{
    in_front(d, add_wrong_length);
}

static void routers_option(struct draft *d)
{
    in_front(d, add_routers);
}

/* Two faults are about different things: what lies behind a fault of the same is often not read. */
enum about { ABOUT_PACKET, ABOUT_SHAPE, ABOUT_OPTIONS, ABOUT_POLICY };

static const struct {
    void (*fault)(struct draft *);
    enum about about;
} faults[] = {
    {critical_option, ABOUT_OPTIONS}, {wrong_length, ABOUT_OPTIONS},  {routers_option, ABOUT_OPTIONS},
    {no_packets, ABOUT_SHAPE},        {single_of_many, ABOUT_SHAPE},  {many_of_one, ABOUT_SHAPE},
    {no_index, ABOUT_SHAPE},          {not_first, ABOUT_SHAPE},       {other_policy, ABOUT_POLICY},
    {other_policy, ABOUT_POLICY},     {short_datagram, ABOUT_PACKET}, {other_magic, ABOUT_PACKET},
    {small_header, ABOUT_PACKET},     {header_beyond, ABOUT_PACKET},  {other_type, ABOUT_PACKET},
    {bad_source, ABOUT_PACKET},       {bad_source, ABOUT_PACKET},     {bad_source, ABOUT_PACKET},
    {odd_header, ABOUT_PACKET},
};

enum { FAULTS = sizeof faults / sizeof *faults };

/* What makes options longer comes first, what measures the whole last. */
static void spoil(struct draft *d, enum sim_request_kind kind)
{
    uint32_t one = below(d, FAULTS), other = one;
    while (kind == SIM_REQUEST_TWO && faults[other].about == faults[one].about) {
        other = below(d, FAULTS);
    }
    faults[one < other ? one : other].fault(d);
    if (other != one) {
        faults[one < other ? other : one].fault(d);
    }
}

/* --- whole ones -------------------------------------------------------------------------------------------------- */

static void begin(struct draft *d)
{
    d->magic = BT_R2P2_MAGIC;
    d->flags = (uint8_t)(FIRST | LAST | below(d, 64));
    d->count = 1;
    d->body_n = below(d, 8) == 0 ? 1300 + below(d, BODY_MOST - 1300 - OPTIONS_MOST) : below(d, 48);
    if (below(d, 5) == 0) { /* more packets follow, to the worker */
        d->flags = (uint8_t)(d->flags & ~LAST);
        d->count = (uint16_t)(2 + below(d, 300));
    }
    if (below(d, 3) == 0) {
        add_honest(d, 1 + below(d, 3));
    }
}

/* No room for eight bytes more, in the packet or in the header. */
static void lengthen(struct draft *d)
{
    if (below(d, 2) == 0) {
        d->options_n = 0;
        d->body_n = BODY_MOST + 1 + below(d, 8);
    } else {
        d->options_n = 0;
        add(d, 0x42, (uint8_t)(OPTIONS_MOST + 4), OPTIONS_MOST + 4);
        d->body_n = below(d, 40);
    }
}

static void write(const struct draft *d, struct sim_request *q)
{
    uint8_t *p = q->bytes;
    uint32_t size = BT_R2P2_HEADER + d->options_n;
    q->ip = d->ip;
    q->port = d->port;
    p[0] = d->magic;
    p[1] = (uint8_t)(d->size != 0 ? d->size : size);
    p[2] = (uint8_t)(d->type << 4 | d->policy);
    p[3] = d->flags;
    bt_put16(p + 4, d->id);
    bt_put16(p + 6, d->count);
    memcpy(p + BT_R2P2_HEADER, d->options, d->options_n);
    for (uint32_t i = 0; i < d->body_n; i++) {
        p[size + i] = (uint8_t)(d->id + i * 7u);
    }
    q->n = d->is_cut ? d->cut : size + d->body_n;
}

void sim_request_draw(struct sim_request *q, struct bt_rng *rng, enum sim_request_kind kind, uint16_t id,
                      const struct sim_request_ends *ends)
{
    struct draft d = {.rng = rng, .ip = ends->ip, .port = ends->port, .id = id};
    q->kind = kind;
    begin(&d);
    if (kind == SIM_REQUEST_UNREAD) {
        add_unread(&d);
    } else if (kind == SIM_REQUEST_STICKY) {
        d.policy = BT_POLICY_STICKY;
    } else if (kind == SIM_REQUEST_LONG) {
        lengthen(&d);
    } else if (kind == SIM_REQUEST_ONE && below(&d, 200) == 0) {
        d.ip = ends->own;
        d.port = ends->own_port;
    } else if (kind != SIM_REQUEST_WHOLE) {
        spoil(&d, kind);
    }
    write(&d, q);
}
