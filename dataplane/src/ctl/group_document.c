// SPDX-License-Identifier: Apache-2.0
// See group_document.h.
#include "ctl/group_document.h"

#include "ctl/shape.h"
#include "router/words.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOC(m) BT_SHAPE_AT(struct bt_group_document, m)
#define MEM(m) BT_SHAPE_AT(struct bt_group_document_member, m)
#define BOX(m) BT_SHAPE_AT(struct bt_group_document_box, m)
#define AGG(m) BT_SHAPE_AT(struct bt_group_document, aggregator.m)
#define SRC(m) BT_SHAPE_AT(struct bt_config_source, m)

#define TEXT(name, place, least)      {name, BT_SHAPE_TEXT, true, place, .min = least}
#define WHOLE(name, place, low, high) {name, BT_SHAPE_WHOLE, true, place, .min = low, .max = high}
#define WORD(name, place, list)       {name, BT_SHAPE_WORD, true, place, .words = list}
#define PARSED(name, place, how)      {name, BT_SHAPE_PARSED, true, place, .parse = how}
#define SHAPE(rows, type)             {rows, sizeof rows / sizeof *rows, sizeof(struct type), false}

enum { CLUSTER_DIGITS = 32 };

const char *const bt_group_storage_words[] = {"Always", "Volatile", NULL};
const char *const bt_group_protocol_words[] = {"Raft", "HovercRaft", "HovercRaftPlusPlus", NULL};
const char *const bt_group_replier_words[] = {"JBSQ", "Random", NULL};
const char *const bt_group_messages_words[] = {"Tagged", "BySource", NULL};

static const char *parse_version(const char *text, void *to)
{
    (void)to;
    return strcmp(text, BT_CONFIG_API_VERSION) == 0 ? NULL : "must be \"" BT_CONFIG_API_VERSION "\"";
}

static const char *parse_kind(const char *text, void *to)
{
    (void)to;
    return strcmp(text, BT_GROUP_DOCUMENT_KIND) == 0 ? NULL : "must be \"" BT_GROUP_DOCUMENT_KIND "\"";
}

static const char *parse_cluster(const char *text, void *to)
{
    size_t got;
    bool ok = strlen(text) == CLUSTER_DIGITS && sodium_hex2bin(to, 16, text, CLUSTER_DIGITS, NULL, &got, NULL) == 0;
    return ok && !sodium_is_zero(to, 16) ? NULL : "must be 32 hexadecimal digits, not all of them 0";
}

static const char *parse_address(const char *text, void *to)
{
    struct bt_addr *out = to;
    char full[80];
    bool fits = strlen(text) < sizeof full - 8 && strpbrk(text, "[]%") == NULL;
    snprintf(full, sizeof full, strchr(text, ':') != NULL ? "[%.64s]:1" : "%.64s:1", text);
    if (!fits || bt_addr_parse(full, 0, out) != 0) {
        return "must be an IP address";
    }
    return bt_addr_bad_source(out) ? "must be a unicast address" : NULL;
}

static const char *parse_multicast(const char *text, void *to)
{
    struct bt_addr *out = to;
    char full[80];
    bool fits = strlen(text) < sizeof full - 8 && strpbrk(text, "[]%") == NULL;
    snprintf(full, sizeof full, strchr(text, ':') != NULL ? "[%.64s]:1" : "%.64s:1", text);
    return fits && bt_addr_parse(full, 0, out) == 0 && bt_addr_is_multicast(out) ? NULL : "must be a multicast address";
}

static void check_group(struct bt_shape_reader *r, void *base)
{
    const struct bt_group_document *d = base;
    if (d->election_ms <= 2 * d->heartbeat_ms) {
        bt_shape_refuse(r, ".electionMilliseconds",
                        "must be more than twice heartbeatMilliseconds, %" PRId64 "; got %" PRId64, d->heartbeat_ms,
                        d->election_ms);
    } else if ((d->log_entries & (d->log_entries - 1)) != 0) {
        bt_shape_refuse(r, ".logEntries", "must be a power of two; got %" PRId64, d->log_entries);
    } else if (d->snapshot_entries > d->log_entries / 4) {
        bt_shape_refuse(r, ".snapshotEntries", "must be at most a quarter of logEntries, %" PRId64 "; got %" PRId64,
                        d->log_entries / 4, d->snapshot_entries);
    }
}

// Two of the first n members that must not share something: what it is, or NULL.
static const char *shared(const struct bt_group_document_member *a, const struct bt_group_document_member *b)
{
    if (a->id == b->id) {
        return ".id";
    }
    if (strcmp(a->name, b->name) == 0) {
        return ".name";
    }
    if (bt_addr_eq(&a->address, &b->address) || bt_addr_eq(&a->address, &b->client)) {
        return ".memberPort";
    }
    return bt_addr_eq(&a->client, &b->client) || bt_addr_eq(&a->client, &b->address) ? ".clientPort" : NULL;
}

static void check_members(struct bt_shape_reader *r, void *base)
{
    struct bt_group_document *d = base;
    char at[48];
    for (size_t i = 0; i < d->n_members; i++) {
        struct bt_group_document_member *m = &d->member[i];
        m->client = m->address;
        bt_addr_set_port(&m->address, (uint16_t)m->member_port);
        bt_addr_set_port(&m->client, (uint16_t)m->client_port);
        if (m->member_port == m->client_port) {
            snprintf(at, sizeof at, "[%zu].clientPort", i);
            bt_shape_refuse(r, at, "must differ from memberPort; both are %" PRId64, m->member_port);
        }
        for (size_t k = 0; k < i; k++) {
            const char *what = shared(m, &d->member[k]);
            if (what != NULL) {
                snprintf(at, sizeof at, "[%zu]%s", i, what);
                bt_shape_refuse(r, at, "is that of members[%zu] too", k);
            }
        }
    }
}

static void check_boxes(struct bt_shape_reader *r, void *base)
{
    struct bt_group_document *d = base;
    char at[48];
    for (size_t i = 0; i < d->n_boxes; i++) {
        struct bt_group_document_box *b = &d->box[i];
        b->feedback = b->client;
        bt_addr_set_port(&b->client, (uint16_t)b->client_port);
        bt_addr_set_port(&b->feedback, (uint16_t)b->feedback_port);
        if (b->client_port == b->feedback_port) {
            snprintf(at, sizeof at, "[%zu].feedbackPort", i);
            bt_shape_refuse(r, at, "must differ from clientPort; both are %" PRId64, b->client_port);
        }
        if (b->messages == BT_GROUP_BY_SOURCE && !bt_addr_is_v4(&b->client)) {
            snprintf(at, sizeof at, "[%zu].address", i);
            bt_shape_refuse(r, at, "must be an IPv4 address when messages is BySource: a switch knows no other");
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(b->name, d->box[k].name) == 0 || bt_addr_eq(&b->client, &d->box[k].client)) {
                snprintf(at, sizeof at, "[%zu].name", i);
                bt_shape_refuse(r, at, "and clientPort at its address are of one box only; see boxes[%zu]", k);
            }
        }
    }
}

static void check_aggregator(struct bt_shape_reader *r, void *base)
{
    struct bt_group_document *d = base;
    bt_addr_set_port(&d->aggregator.address, (uint16_t)d->aggregator.port);
    if (d->aggregator.messages == BT_GROUP_BY_SOURCE && !bt_addr_is_v4(&d->aggregator.address)) {
        bt_shape_refuse(r, ".address", "must be an IPv4 address when messages is BySource: a switch knows no other");
    }
}

static void check_multicast(struct bt_shape_reader *r, void *base)
{
    struct bt_group_document *d = base;
    (void)r;
    bt_addr_set_port(&d->multicast, (uint16_t)d->multicast_port);
}

static void check_key_ids(struct bt_shape_reader *r, void *base)
{
    const struct bt_group_document *d = base;
    if (d->n_key_ids == 2 && d->key_id[0] == d->key_id[1]) {
        bt_shape_refuse(r, "[1]", "key %" PRId64 " occurs twice; keep one", d->key_id[1]);
    }
}

static const struct bt_shape_field source_fields[] = {
    TEXT("kind", SRC(kind), 1), TEXT("namespace", SRC(namespace), 1),       TEXT("name", SRC(name), 1),
    TEXT("uid", SRC(uid), 0),   WHOLE("generation", SRC(generation), 0, 0), // any
};

static const struct bt_shape_field group_fields[] = {
    TEXT("name", DOC(name), 1),
    TEXT("namespace", DOC(namespace), 1),
    PARSED("cluster", DOC(cluster), parse_cluster),
    WHOLE("number", DOC(number), 1, 4294967295),
    WORD("storage", DOC(storage), bt_group_storage_words),
    WORD("deviceProfile", DOC(device), bt_device_words),
    WHOLE("electionMilliseconds", DOC(election_ms), 10, 10000),
    WHOLE("heartbeatMilliseconds", DOC(heartbeat_ms), 1, 1000),
    WHOLE("logEntries", DOC(log_entries), 1024, 1048576),
    WHOLE("snapshotEntries", DOC(snapshot_entries), 128, 262144),
    WHOLE("maxSnapshotBytes", DOC(snapshot_bytes), 65536, 268435456),
    WHOLE("inFlightLimit", DOC(in_flight), 1, 4096),
    {"sessions", BT_SHAPE_WHOLE, false, DOC(sessions), .min = 1, .max = 1024},
    {"protocol", BT_SHAPE_WORD, false, DOC(protocol), .words = bt_group_protocol_words},
    {"repliers", BT_SHAPE_WORD, false, DOC(repliers), .words = bt_group_replier_words},
    {"replierBound", BT_SHAPE_WHOLE, false, DOC(replier_bound), .min = 1, .max = 4096},
};

static const struct bt_shape_field member_fields[] = {
    TEXT("name", MEM(name), 1),
    WHOLE("id", MEM(id), 1, BT_GROUP_DOCUMENT_ID_MAX),
    PARSED("address", MEM(address), parse_address),
    WHOLE("memberPort", MEM(member_port), 1, 65535),
    WHOLE("clientPort", MEM(client_port), 1, 65535),
};

static const struct bt_shape_field box_fields[] = {
    TEXT("name", BOX(name), 1),
    PARSED("address", BOX(client), parse_address),
    WHOLE("clientPort", BOX(client_port), 1, 65535),
    WHOLE("feedbackPort", BOX(feedback_port), 1, 65535),
    {"messages", BT_SHAPE_WORD, false, BOX(messages), .words = bt_group_messages_words},
};

static const struct bt_shape_field aggregator_fields[] = {
    TEXT("name", AGG(name), 1),
    PARSED("address", AGG(address), parse_address),
    WHOLE("port", AGG(port), 1, 65535),
    {"messages", BT_SHAPE_WORD, false, AGG(messages), .words = bt_group_messages_words},
};

static const struct bt_shape_field multicast_fields[] = {
    PARSED("address", DOC(multicast), parse_multicast),
    WHOLE("port", DOC(multicast_port), 1, 65535),
};

static const struct bt_shape source_shape = SHAPE(source_fields, bt_config_source);
static const struct bt_shape group_shape = SHAPE(group_fields, bt_group_document);
static const struct bt_shape member_shape = SHAPE(member_fields, bt_group_document_member);
static const struct bt_shape box_shape = SHAPE(box_fields, bt_group_document_box);
static const struct bt_shape aggregator_shape = SHAPE(aggregator_fields, bt_group_document);
static const struct bt_shape multicast_shape = SHAPE(multicast_fields, bt_group_document);
static const struct bt_shape_field box = {"", BT_SHAPE_OBJECT, .shape = &box_shape};
static const struct bt_shape_field source = {"", BT_SHAPE_OBJECT, .shape = &source_shape};
static const struct bt_shape_field member = {"", BT_SHAPE_OBJECT, .shape = &member_shape};
static const struct bt_shape_field founder = {"", BT_SHAPE_TEXT, true, {0, BT_GROUP_DOCUMENT_NAME}, .min = 1};
static const struct bt_shape_field id = {
    "", BT_SHAPE_WHOLE, true, {0, sizeof(int64_t)}, .min = 1, .max = BT_GROUP_DOCUMENT_ID_MAX};
static const struct bt_shape_field key_id = {"", BT_SHAPE_WHOLE, true, {0, sizeof(int64_t)}, .min = 1, .max = 255};

static const struct bt_shape_field document_fields[] = {
    PARSED("apiVersion", {0}, parse_version),
    PARSED("kind", {0}, parse_kind),
    {"sources", BT_SHAPE_ARRAY, true, DOC(sources), DOC(n_sources), .max = BT_CONFIG_SOURCES_MAX, .item = &source},
    {"group", BT_SHAPE_OBJECT, true, .shape = &group_shape, .check = check_group},
    {"initialMembers", BT_SHAPE_ARRAY, true, DOC(founder), DOC(n_founders), .max = BT_GROUP_DOCUMENT_FOUNDERS,
     .item = &founder},
    {"members", BT_SHAPE_ARRAY, true, DOC(member), DOC(n_members), .min = 1, .max = BT_GROUP_DOCUMENT_MEMBERS_MAX,
     .item = &member, .check = check_members},
    {"boxes", BT_SHAPE_ARRAY, false, DOC(box), DOC(n_boxes), .max = BT_GROUP_DOCUMENT_BOXES, .item = &box,
     .check = check_boxes},
    {"aggregator", BT_SHAPE_OBJECT, false, .shape = &aggregator_shape, .check = check_aggregator},
    {"multicast", BT_SHAPE_OBJECT, false, .shape = &multicast_shape, .check = check_multicast},
    {"wantedVoters", BT_SHAPE_ARRAY, false, DOC(wanted), DOC(n_wanted), DOC(wanted_given), .min = 1,
     .max = BT_GROUP_DOCUMENT_FOUNDERS, .item = &id},
    {"avoidLeaders", BT_SHAPE_ARRAY, false, DOC(avoided), DOC(n_avoided), .max = BT_GROUP_DOCUMENT_MEMBERS_MAX,
     .item = &id},
    {"keyIds", BT_SHAPE_ARRAY, true, DOC(key_id), DOC(n_key_ids), .min = 1, .max = BT_KEYS_LIVE, .item = &key_id,
     .check = check_key_ids},
};
static const struct bt_shape document_shape = SHAPE(document_fields, bt_group_document);

// Names of members, each once, an odd number of them: an even number survives no more than one of them less. Judged
// behind the rest, since the members may follow their names in the text.
static bool founders_are_right(const struct bt_group_document *d, struct bt_ctl_error *e)
{
    char at[48];
    for (size_t i = 0; i < d->n_founders; i++) {
        snprintf(at, sizeof at, "initialMembers[%zu]", i);
        if (bt_group_document_find(d, d->founder[i]) == NULL) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, at, "must be the name of one of members; got \"%.80s\"",
                                 d->founder[i]);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(d->founder[i], d->founder[k]) == 0) {
                return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, at, "occurs twice; keep one");
            }
        }
    }
    return d->n_founders == 0 || d->n_founders % 2 == 1 ||
           bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "initialMembers", "must be an odd number of names, or none; got %zu",
                         d->n_founders);
}

// Likewise: ids of members, each once, an odd number of them.
static bool wanted_are_right(const struct bt_group_document *d, struct bt_ctl_error *e)
{
    char at[48];
    for (size_t i = 0; i < d->n_wanted; i++) {
        snprintf(at, sizeof at, "wantedVoters[%zu]", i);
        if (bt_group_document_by_id(d, d->wanted[i]) == NULL) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, at, "must be the id of one of members; got %" PRId64,
                                 d->wanted[i]);
        }
        for (size_t k = 0; k < i; k++) {
            if (d->wanted[i] == d->wanted[k]) {
                return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, at, "occurs twice; keep one");
            }
        }
    }
    return !d->wanted_given || d->n_wanted % 2 == 1 ||
           bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "wantedVoters", "must be an odd number of ids; got %zu",
                         d->n_wanted);
}

const struct bt_group_document_box *bt_group_document_box_find(const struct bt_group_document *d, const char *name)
{
    for (size_t i = 0; i < d->n_boxes; i++) {
        if (strcmp(d->box[i].name, name) == 0) {
            return &d->box[i];
        }
    }
    return NULL;
}

bool bt_group_document_has_switch_at(const struct bt_group_document *d, const struct bt_addr *from)
{
    for (size_t i = 0; i < d->n_boxes; i++) {
        if (d->box[i].messages == BT_GROUP_BY_SOURCE && bt_addr_eq(&d->box[i].client, from)) {
            return true;
        }
    }
    return false;
}

bool bt_group_document_protocol_fits(const struct bt_group_document *d, struct bt_ctl_error *e)
{
    if (bt_group_document_is_apart(d) && d->n_boxes == 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "boxes",
                             "must name a flow-control box: protocol %s takes requests from there",
                             bt_group_protocol_words[d->protocol]);
    }
    if (d->protocol == BT_GROUP_HOVERCRAFT_PLUS_PLUS && d->aggregator.address.port == 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "aggregator",
                             "must name the aggregator: protocol HovercRaftPlusPlus sends entries by way of it");
    }
    return d->multicast.port == 0 || d->n_boxes == 0 ||
           bt_addr_is_v4(&d->multicast) == bt_addr_is_v4(&d->box[0].client) ||
           bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "multicast.address",
                         "must be of the same family as boxes[0].address");
}

struct bt_group_document *bt_group_document_parse(const char *text, size_t len, struct bt_ctl_error *e)
{
    struct bt_group_document *d = calloc(1, sizeof *d);
    if (d == NULL) {
        bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
        return NULL;
    }
    if (!bt_shape_read(&document_shape, d, text, len, BT_CTL_INVALID_CONFIG, e) || !founders_are_right(d, e) ||
        !wanted_are_right(d, e) || !bt_group_document_protocol_fits(d, e)) {
        free(d);
        return NULL;
    }
    return d;
}

const struct bt_group_document_member *bt_group_document_find(const struct bt_group_document *d, const char *name)
{
    for (size_t i = 0; i < d->n_members; i++) {
        if (strcmp(d->member[i].name, name) == 0) {
            return &d->member[i];
        }
    }
    return NULL;
}

const struct bt_group_document_member *bt_group_document_by_id(const struct bt_group_document *d, int64_t id_wanted)
{
    for (size_t i = 0; i < d->n_members; i++) {
        if (d->member[i].id == id_wanted) {
            return &d->member[i];
        }
    }
    return NULL;
}

static bool among(const int64_t *list, size_t n, int64_t v)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == v) {
            return true;
        }
    }
    return false;
}

bool bt_group_document_wants(const struct bt_group_document *d, int64_t v)
{
    return among(d->wanted, d->n_wanted, v);
}

bool bt_group_document_avoids(const struct bt_group_document *d, int64_t v)
{
    return among(d->avoided, d->n_avoided, v);
}

bool bt_group_document_founds(const struct bt_group_document *d, const char *name)
{
    for (size_t i = 0; i < d->n_founders; i++) {
        if (strcmp(d->founder[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool bt_group_document_may_follow(const struct bt_group_document *now, const struct bt_group_document *next,
                                  struct bt_ctl_error *e)
{
    const struct {
        const char *field;
        bool same;
    } rows[] = {
        {"group.cluster", memcmp(now->cluster, next->cluster, sizeof now->cluster) == 0},
        {"group.number", now->number == next->number},
        {"group.storage", now->storage == next->storage},
        {"group.deviceProfile", now->device == next->device},
        {"group.electionMilliseconds", now->election_ms == next->election_ms},
        {"group.heartbeatMilliseconds", now->heartbeat_ms == next->heartbeat_ms},
        {"group.logEntries", now->log_entries == next->log_entries},
        {"group.maxSnapshotBytes", now->snapshot_bytes == next->snapshot_bytes},
        {"group.sessions", now->sessions == next->sessions},
        {"group.protocol", now->protocol == next->protocol},
        {"group.repliers", now->repliers == next->repliers},
        {"group.replierBound", now->replier_bound == next->replier_bound},
        {"multicast", bt_addr_eq(&now->multicast, &next->multicast)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].same) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, rows[i].field,
                                 "cannot change while the member runs; stop it first");
        }
    }
    return true;
}
