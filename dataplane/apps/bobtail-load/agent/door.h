// SPDX-License-Identifier: Apache-2.0
#ifndef BT_APPS_AGENT_DOOR_H
#define BT_APPS_AGENT_DOOR_H

#include "agent/session.h"

#define DOOR_PEERS 16u
#define DOOR_LINE  512u // a hello has 170 bytes

struct door_peer {
    int fd;
    uint64_t since_ns;
    char nonce[2 * SESSION_NONCE + 1]; // ours
    char line[DOOR_LINE];
    size_t have;
};

struct door {
    int listener;
    const struct session_secret *secret;
    unsigned lease_s; // told to every peer
    const struct bt_cpus *cpus;
    struct door_peer peer[DOOR_PEERS];
    unsigned n;
};

// Takes a connection that waits at the listener: greets it, or turns it away when the agent is busy.
void door_knock(struct door *d, bool busy);
// Peer i has something to say. True if it may come in: then *in is it, with what it has said since,
// and it stands here no more. False: it waits on, or is gone.
bool door_listen(struct door *d, unsigned i, struct door_peer *in);
// Closes who has not said hello in time.
void door_expire(struct door *d, uint64_t now_ns);
// Turns everybody away.
void door_clear(struct door *d, const char *why);

#endif
