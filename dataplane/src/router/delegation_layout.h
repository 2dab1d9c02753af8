/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/*
 * What a router lends to its program in the kernel, and what that program writes down (docs/decisions/0011). Shared by
 * src/router, which fills and reads it, and dataplane/bpf/jbsq_router.bpf.c. Fixed-size types, no implicit padding.
 */
#ifndef BOBTAIL_ROUTER_DELEGATION_LAYOUT_H
#define BOBTAIL_ROUTER_DELEGATION_LAYOUT_H

#include <linux/types.h>

#define BT_DELEGATION_WORKERS 64     /* an index of one row: BT_LOAD_ROW */
#define BT_DELEGATION_FEW     16     /* so many need no groups: BT_LOAD_FEW */
#define BT_DELEGATION_GROUP   8      /* workers of a group, and groups of a row: BT_LOAD_GROUP */
#define BT_DELEGATION_NOTES   32768u /* a power of two: what is written down before the router has to read it */
#define BT_DELEGATION_LEVELS  64u    /* BT_LOAD_FULL: the level of a worker that may get nothing */

/* Fixed when the program is loaded. Addresses in network order, here and below. */
struct bt_delegation_place {
    __be32 ip; /* of the router's sockets */
    __be16 request_port, feedback_port;
    __u32 out; /* device on which packets to workers leave; 0: they go up the stack, which is where the workers are */
};

/* One worker. */
struct bt_delegation_worker {
    __u64 given; /* requests it got, in its own count, less those held to be lost: bt_credit_in_order */
    __u64 received, served;
    __u64 steady; /* version, flags, n and incarnation of the FEEDBACK the program may take; else the router does */
    __u64 shift;  /* for the router: what it took off when it lent */
    __be32 ip;
    __be16 port;
    __u8 limit; /* n in force; 0: it may get nothing */
    __u8 spare;
};

/* 16 bytes as two little-endian numbers; id 0: no key. */
struct bt_delegation_key {
    __u64 half[2];
    __u64 id;
};

#define BT_DELEGATION_KEYS 2 /* BT_KEYS_LIVE */

/* Under which a worker stands in who. */
static inline __u64 bt_delegation_who(__be32 ip, __be16 port)
{
    return (__u64)port << 32 | ip;
}

/* What the decisions need. The program alone changes it while it is lent. */
struct bt_delegation {
    __u32 turn; /* as in struct bt_load, and so are rank and untie */
    __u32 max_payload;
    __u16 rank[BT_DELEGATION_WORKERS]; /* level << 8 | tie byte */
    __u16 group[BT_DELEGATION_GROUP];  /* the same of the groups, the level being that of the least worker; of use when
                                          there are more than BT_DELEGATION_FEW workers */
    __u32 span;                        /* workers are below it */
    __u32 spare;
    __u32 loan;   /* which one it is; never 0 */
    __u32 signer; /* the key that signs; without one at its place nothing is tagged */
    struct bt_delegation_key key[BT_DELEGATION_KEYS];
    __u8 untie[256];
    __u64 who[BT_DELEGATION_WORKERS]; /* port << 32 | address of each, as they stand in memory; 0: nobody */
    struct bt_delegation_worker worker[BT_DELEGATION_WORKERS];
};

enum bt_delegation_kind { BT_NOTE_REQUEST = 1, BT_NOTE_FEEDBACK = 2 };

/* One packet the program dealt with: enough to do the same again. */
struct bt_delegation_note {
    __u64 at;               /* CLOCK_MONOTONIC ns */
    __u64 received, served; /* FEEDBACK only */
    __be32 ip;              /* the client's, and its port and request id as they stand in the packet */
    __be16 port, req_id;
    __u8 worker, kind;
    __u16 spare;
    __u32 spare2;
};

/* Why a loan ended: the packet it ended with went to the socket, because the router must see it with all that happened
 * before. */
enum bt_delegation_pass {
    BT_PASS_FORM = 0, /* not a plain request nor FEEDBACK of a served pair */
    BT_PASS_BATCH,    /* several datagrams that a device, or the receiver, is to cut apart */
    BT_PASS_SOURCE,   /* a source the router judges */
    BT_PASS_ROOM,     /* too long for the option */
    BT_PASS_FULL,     /* no worker has credit */
    BT_PASS_TAG,      /* FEEDBACK without the tag that is due, or with a wrong one */
    BT_PASS_WORKER,   /* FEEDBACK from nobody's address, or of a worker that is not steady */
    BT_PASS_ORDER,    /* FEEDBACK whose counters need judging */
    BT_PASS_NOTES,    /* the router has not read what was written down */
    BT_PASS_LAPSED,   /* nor shown itself at all */
    BT_PASS_REASONS
};

struct bt_delegation_counters {
    __u64 requests, feedback; /* dealt with */
    __u64 unsent;             /* requests decided, then dropped: no memory for the longer packet */
    __u64 damaged;            /* left to the kernel, which drops them: a wrong checksum */
};

/* Mapped into the router. Who writes what stands beside it. */
struct bt_delegation_log {
    __u32 open;  /* the program may decide: set by the router, cleared by either */
    __u32 why;   /* program: enum bt_delegation_pass, when it cleared it */
    __u64 lease; /* router: not from this time on */
    __u64 tail;  /* router: notes read */
    __u64 spare[5];
    __u64 head;  /* program: notes written */
    __u32 found; /* program: the worker of the packet at hand */
    __u32 spare2;
    struct bt_delegation_counters counters; /* program */
    struct bt_delegation_note note[BT_DELEGATION_NOTES];
};

#endif
