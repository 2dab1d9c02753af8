// SPDX-License-Identifier: Apache-2.0
// The state of a member, for the files member*.c only.
#ifndef BT_RUN_MEMBER_INTERNAL_H
#define BT_RUN_MEMBER_INTERNAL_H

#include "run/command.h"
#include "run/member.h"
#include "run/roster.h"
#include "replica/sessions.h"
#include "run/storage.h"

#define MEMBER_REPLY_MAX   65536u // bytes of a service's answer
#define MEMBER_REQUEST_MAX 65536u // of a request, to be refused by name rather than by the transport
#define MEMBER_HEARD       32u
#define MEMBER_WAITERS     8192u // a power of two, above BT_MEMBER_IN_FLIGHT_MAX
#define MEMBER_ARRIVALS    8192u
#define MEMBER_CATCH_UP_NS UINT64_C(200000000)
#define MEMBER_PATIENCE_NS UINT64_C(10000000000)
#define MEMBER_AGAIN_NS    UINT64_C(20000000)

// A client's request that is in the log and not yet executed.
struct member_waiter {
    uint64_t index, term, handle, since;
    bool with_session;
};

// A request that a box sent, and when it came.
struct member_arrival {
    struct bt_addr client;
    uint16_t req_id;
    uint64_t at_ns;
};

// A member whose packets were authentic: where it speaks from, and with which disk.
struct member_heard {
    uint16_t id;
    struct bt_addr address;
    uint64_t disk;
    bool spoke; // else it is known from the log only
};

struct bt_member {
    struct bt_member_config conf;
    struct bt_group_document document;
    char name[BT_CONFIG_TEXT], folder[1024];
    uint16_t id;
    uint64_t disk; // of this member, as others know it
    uint8_t disk_id[16];

    enum bt_member_phase phase;
    const char *reason, *disk_state;
    char message[400];

    struct bt_storage *storage;
    struct bt_replica *core;
    void *core_mem;
    bool store_full;  // an operation did not fit: the disk counts as failed
    bool disk_failed; // and was said so
    bool founder;     // started with a configuration and no log
    bool starting;    // within bt_replica_start

    struct bt_server *server;
    void *server_mem;
    uint64_t now;

    struct bt_roster roster;
    struct bt_sessions sessions;
    uint64_t applied, snapshot_tried, snapshot_tried_ns, applied_bytes;
    uint64_t snapshot_bytes;
    uint8_t *snapshot_room; // scratch of one snapshot
    struct member_saving {  // one that the service writes in the background
        enum { SAVING_NONE, SAVING_BEGUN, SAVING_WRITTEN } stage;
        uint64_t index, own, length; // after which entry; where the service's part begins; of all
    } saving;

    struct member_heard heard[MEMBER_HEARD];
    uint32_t n_heard;
    uint64_t order_index; // of the last thing this leader put into the log for the group itself
    uint64_t note_at, hello_at, walk_at;

    struct member_waiter waiter[MEMBER_WAITERS];
    uint32_t waiter_head, waiters;

    struct member_arrival arrival[MEMBER_ARRIVALS]; // the latest of each place
    bool key_given;                                 // to the core
    uint64_t mute_to; // entries up to here may be long answered, or their clients gone: none of them is answered now
    uint64_t mute_until_ns, append_ns;  // so long what is committed is as old; when a leader was heard last
    uint64_t diverged_at, undecided_at; // said so: entries
    uint32_t box_turn;                  // which box a client is sent to

    uint8_t *reply, *scratch; // MEMBER_REPLY_MAX; MEMBER_REQUEST_MAX
    uint32_t reply_n;
    uint64_t answering, handles; // the handle that recv has; 0: none
    bool answered, read_only;

    uint64_t counter[BT_MEMBER_COUNTERS];
};

static inline void member_count(struct bt_member *m, enum bt_member_counter c)
{
    m->counter[c]++;
}

// It takes part.
static inline bool member_runs(const struct bt_member *m)
{
    return m->core != NULL && m->phase != BT_MEMBER_REFUSED;
}

/* member.c */
void member_stop(struct bt_member *m, enum bt_member_phase phase, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void member_refused(struct bt_member *m); // was removed
void member_core_config(const struct bt_member *m, struct bt_replica_config *c);

/* member_disk.c: opening, completions, snapshots. */
bool member_disk_open(struct bt_member *m, struct bt_recovery *found);
void member_store(void *ctx, const struct bt_store_op *op);
void member_disk_turn(struct bt_member *m);
void member_restore(void *ctx, uint64_t last_index, const uint8_t *bytes, uint64_t n);
enum bt_replica_result member_take_snapshot(struct bt_member *m);
void member_snapshot_turn(struct bt_member *m);

/* member_packets.c: between members. */
void member_send(void *ctx, uint16_t to, const uint8_t *message, size_t n);
void member_receive(struct bt_member *m, struct bt_pkt *pkt);
void member_hello_turn(struct bt_member *m); // says that it is there, when nobody speaks with it
void member_know_disk(struct bt_member *m, uint16_t id, uint64_t disk); // the log says so
const struct member_heard *member_heard_of(const struct bt_member *m, uint16_t id);
bool member_address(const struct bt_member *m, uint16_t id, struct bt_addr *member, struct bt_addr *client);
const char *member_name(const struct bt_member *m, uint16_t id);

/* member_requests.c: clients. */
void member_on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq);
void member_execute(struct bt_member *m, const struct iovec *iov, int iovcnt, bool read_only);
// The waiter of this entry; false: nobody here waits for it. Those before it will get no answer.
bool member_waiter_take(struct bt_member *m, const struct bt_entry *e, struct member_waiter *w);
void member_answer(struct bt_member *m, const struct member_waiter *w, uint8_t status, const uint8_t *reply,
                   uint32_t n);
void member_requests_turn(struct bt_member *m);

/* member_apply.c: what is committed. */
enum bt_session_status member_execute_write(struct bt_member *m, const struct bt_entry *e, const struct bt_command *c,
                                            const uint8_t **reply, uint32_t *n);
void member_apply_turn(struct bt_member *m);

/* member_states.c: the state against the others'. */
void member_states_applied(struct bt_member *m, const struct bt_entry *e);
bool member_diverged(const struct bt_member *m); // nothing is to be executed
void member_states_turn(struct bt_member *m);

/* member_apart.c: requests that come by boxes. */
bool member_is_boxed(const struct bt_member *m, const struct bt_pkt *pkt, struct bt_r2p2_hdr *h);
void member_boxed(struct bt_member *m, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h);
void member_stood_still(struct bt_member *m, uint64_t now);
void member_heard_leader(struct bt_member *m, const uint8_t *message, size_t n);
void member_apply_request(struct bt_member *m, const struct bt_entry *e);
bool member_wants_key(const struct bt_member *m);
void member_draw_key(struct bt_command *c);
void member_apart_turn(struct bt_member *m);

/* member_group.c: what a leader puts into the log for the group itself. */
void member_group_turn(struct bt_member *m);

/* member_walk.c: towards the voters that the document wants. */
void member_walk_turn(struct bt_member *m);

#endif
