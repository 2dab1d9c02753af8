// SPDX-License-Identifier: Apache-2.0
// The document of a replication group: who its members are and where, what its log keeps, which keys it uses. The
// second kind of configuration document beside RpcService's (config.h), accepted whole or refused with the first field
// at fault.
#ifndef BT_CTL_GROUP_DOCUMENT_H
#define BT_CTL_GROUP_DOCUMENT_H

#include "base/addr.h"
#include "base/device.h"
#include "ctl/config.h"
#include "ctl/error.h"
#include "wire/tag.h"

#define BT_GROUP_DOCUMENT_KIND        "ReplicationGroup"
#define BT_GROUP_DOCUMENT_MEMBERS_MAX 16u
#define BT_GROUP_DOCUMENT_FOUNDERS    9u
#define BT_GROUP_DOCUMENT_ID_MAX      65534 // of a member: the one above is the aggregator's (wire/group.h)
#define BT_GROUP_DOCUMENT_NAME        64u   // of a member, with its end: a pod's name

#define BT_GROUP_DOCUMENT_BOXES 4u

enum bt_group_storage { BT_GROUP_ALWAYS, BT_GROUP_VOLATILE };
extern const char *const bt_group_storage_words[];

// How requests come to be replicated: copied by the leader, or sent to all members by a flow-control box; and with an
// aggregator between the leader and its followers.
enum bt_group_protocol { BT_GROUP_RAFT, BT_GROUP_HOVERCRAFT, BT_GROUP_HOVERCRAFT_PLUS_PLUS };
extern const char *const bt_group_protocol_words[];

// Who answers a request of a HovercRaft group; the values are those of enum bt_replica_repliers.
enum bt_group_repliers { BT_GROUP_JBSQ, BT_GROUP_RANDOM };
extern const char *const bt_group_replier_words[];

// By what packets of a box or of the aggregator are believed, and members' by it: the group key's tag, or where they
// come from. A switch can check no tag (W-8).
enum bt_group_messages { BT_GROUP_TAGGED, BT_GROUP_BY_SOURCE };
extern const char *const bt_group_messages_words[];

// A flow-control box: the group's address for clients, and where members say what they answered.
struct bt_group_document_box {
    char name[BT_GROUP_DOCUMENT_NAME];
    int64_t client_port, feedback_port; // 1..65535
    struct bt_addr client, feedback;    // the same IP
    enum bt_group_messages messages;
};

// The aggregator: between the leader and its followers.
struct bt_group_document_aggregator {
    char name[BT_GROUP_DOCUMENT_NAME];
    int64_t port;           // 1..65535
    struct bt_addr address; // port 0: there is none
    enum bt_group_messages messages;
};

struct bt_group_document_member {
    char name[BT_GROUP_DOCUMENT_NAME];
    int64_t id;                       // 1..BT_GROUP_DOCUMENT_ID_MAX, never given twice
    int64_t member_port, client_port; // 1..65535
    struct bt_addr address;           // of the port between members
    struct bt_addr client;            // where it takes clients' requests
};

struct bt_group_document {
    struct bt_config_source sources[BT_CONFIG_SOURCES_MAX];
    size_t n_sources;
    char name[BT_CONFIG_TEXT], namespace[BT_CONFIG_TEXT];
    uint8_t cluster[16]; // never all zero
    int64_t number;      // of the group on the wire, 1..2^32-1
    enum bt_group_storage storage;
    enum bt_device device;
    int64_t election_ms, heartbeat_ms;
    int64_t log_entries, snapshot_entries; // a power of two; a snapshot after so many
    int64_t snapshot_bytes;                // of the largest snapshot
    int64_t in_flight;                     // clients' requests that wait at the leader, or are in the group by a box
    int64_t sessions;                      // writers that are known; 0: not given, as many as there may be
    enum bt_group_protocol protocol;
    enum bt_group_repliers repliers;
    int64_t replier_bound; // B; 0: not given
    struct bt_group_document_box box[BT_GROUP_DOCUMENT_BOXES];
    size_t n_boxes;
    struct bt_group_document_aggregator aggregator;
    int64_t multicast_port;
    struct bt_addr multicast; // where boxes send requests to; port 0: to each member, one by one
    char founder[BT_GROUP_DOCUMENT_FOUNDERS]
                [BT_GROUP_DOCUMENT_NAME]; // names of the first voters; none: this founds nothing
    size_t n_founders;
    struct bt_group_document_member member[BT_GROUP_DOCUMENT_MEMBERS_MAX];
    size_t n_members;
    // Ids that are to have a vote; the leader walks there, one change at a time. Not given: nobody walks.
    bool wanted_given;
    int64_t wanted[BT_GROUP_DOCUMENT_FOUNDERS];
    size_t n_wanted;
    // Ids that are to hand the leadership over while another voter is there.
    int64_t avoided[BT_GROUP_DOCUMENT_MEMBERS_MAX];
    size_t n_avoided;
    int64_t key_id[BT_KEYS_LIVE];
    size_t n_key_ids;
};

// Reads and checks a document. NULL with *e filled in when it is refused; free() it.
struct bt_group_document *bt_group_document_parse(const char *text, size_t len, struct bt_ctl_error *e);

// The entry with this name; NULL: there is none.
const struct bt_group_document_member *bt_group_document_find(const struct bt_group_document *d, const char *name);
const struct bt_group_document_member *bt_group_document_by_id(const struct bt_group_document *d, int64_t id);
bool bt_group_document_wants(const struct bt_group_document *d, int64_t id);
bool bt_group_document_avoids(const struct bt_group_document *d, int64_t id);
bool bt_group_document_founds(const struct bt_group_document *d, const char *name);

// It sends requests from there, and signs nothing.
bool bt_group_document_has_switch_at(const struct bt_group_document *d, const struct bt_addr *from);

// The entry of the box with this name; NULL: there is none.
const struct bt_group_document_box *bt_group_document_box_find(const struct bt_group_document *d, const char *name);

// Requests reach the members by themselves, through boxes.
static inline bool bt_group_document_is_apart(const struct bt_group_document *d)
{
    return d->protocol != BT_GROUP_RAFT;
}

// What its protocol needs is there. Asked again by who changes the protocol.
bool bt_group_document_protocol_fits(const struct bt_group_document *d, struct bt_ctl_error *e);

// What may not differ between the document in force and the next one. False with *e naming the field.
bool bt_group_document_may_follow(const struct bt_group_document *now, const struct bt_group_document *next,
                                  struct bt_ctl_error *e);

#endif
