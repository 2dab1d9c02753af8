// SPDX-License-Identifier: Apache-2.0
// A replicated R2P2 service: several processes, its members, execute the same requests in the same order, so that the
// service outlives some of them. What a program brings is a handler as any R2P2 server has it, and two functions that
// write its state down and take it up again.
//
//   int main(int argc, char **argv) { return r2p2_replica_main(argc, argv, &my_service); }
//
// makes a member of it, with the options of bobtail-replica. Link with: pkg-config --cflags --libs bobtail-replica
#ifndef BOBTAIL_REPLICA_H
#define BOBTAIL_REPLICA_H

#include "bobtail/r2p2.h"

#ifdef __cplusplus
extern "C" {
#endif

struct r2p2_replica_service {
    const char *name;    // of the program, for --help and the log
    const char *summary; // one line for --help
    // A request that all members have agreed on. Called on every member for a write, and on one for a read. To be
    // answered before it returns (r2p2_replica_send_response); what is not is answered with nothing.
    //
    // State and answer may depend on the state, on the request, and on nothing else: no clock, no random numbers, no
    // address of memory, no other process.
    void (*recv)(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt);
    // Writes the state into out[0..room) and returns its bytes; SIZE_MAX when they are more than room.
    size_t (*snapshot)(void *arg, uint8_t *out, size_t room);
    // Replaces the state by the one that was written down; n = 0: by that of a service that never had a request.
    // -1: these bytes are no state; then the member stops.
    int (*restore)(void *arg, const uint8_t *bytes, size_t n);
    void *arg;
    // Instead of snapshot, which is then NULL, for a state that is written down while requests go on. begin: the state
    // as it is now is wanted, whatever is executed meanwhile; 0, or -1: not now, ask again later. Then end is called,
    // again and again while it returns R2P2_REPLICA_NOT_YET; it ends as snapshot does, or with SIZE_MAX when nothing
    // came of it. A restore in between means that nobody waits for the end any more.
    int (*snapshot_begin)(void *arg);
    size_t (*snapshot_end)(void *arg, uint8_t *out, size_t room);
    // Or NULL. 64 bits that follow from the state and from nothing else: equal states have equal ones, on all members
    // and in all versions of the program that run together. Asked for every 1,024 entries and when a leader begins;
    // members compare them, and one that differs from a majority stops answering and gets the leader's state. To be
    // kept while the state changes: computed each time over all of it, it would stop the member for so long.
    uint64_t (*state_hash)(void *arg);
};
#define R2P2_REPLICA_NOT_YET (SIZE_MAX - 1)

// The answer; copied. Members that are not to answer drop it. 0, or R2P2_ERR_BAD_ARGUMENT (not within recv, or the
// second one), R2P2_ERR_TOO_LARGE (above 64 KiB).
R2P2_API int r2p2_replica_send_response(r2p2_handle_t handle, struct iovec *iov, int iovcnt);

// 1: the request was sent as a read (policy 3, or unordered): only this member executes it, so it must not change the
// state. 0: it is a write, or the handle means nothing.
R2P2_API int r2p2_replica_read_only(r2p2_handle_t handle);

// Reads the command line, runs a member until SIGTERM, and returns the exit status.
R2P2_API int r2p2_replica_main(int argc, char **argv, const struct r2p2_replica_service *service);

#ifdef __cplusplus
}
#endif

#endif
