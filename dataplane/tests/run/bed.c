// SPDX-License-Identifier: Apache-2.0
// See bed.h. Beds and their members begin and end here.
#include "bed_parts.h"

#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACKETS = 4096, GROUP_PORT = 8200 };

static void on_wake(void *arg)
{
    (void)arg; // the bed looks at every step
}

static void on_say(void *arg, bool bad, const char *text)
{
    struct bed *b = arg;
    snprintf(b->said, sizeof b->said, "%s", text);
    b->said_bad = bad;
    b->sayings++;
}

struct bt_addr bed_address(uint16_t id, uint16_t port)
{
    return bt_addr_v4u(0x0a000000u + id, port);
}

static void folder_of(const struct bed *b, uint16_t id, char *out, size_t room)
{
    snprintf(out, room, "%s/m%u", b->folder, id);
}

bool bed_try(struct bed *b, uint16_t id)
{
    char folder[160], name[8];
    folder_of(b, id, folder, sizeof folder);
    snprintf(name, sizeof name, "m%u", id);
    bed_service_start(b, id);
    if (b->adapt != NULL) {
        b->adapt(b, id);
    }
    struct bt_member_config c = {.document = &b->document,
                                 .name = name,
                                 .folder = folder,
                                 .disk = bed_disk_open(b, id, folder),
                                 .members = bed_address(id, 8100),
                                 .clients = bed_address(id, 8000),
                                 .keys = b->keys,
                                 .mtu = 1500,
                                 .pool = &b->pool.pool,
                                 .txq = &b->txq,
                                 .service = &b->calls[id],
                                 .seed = {1, 2, id},
                                 .incarnation = 1,
                                 .wake = on_wake,
                                 .say = on_say,
                                 .arg = b};
    b->member[id] = bt_member_open(&c, b->now);
    return b->member[id] != NULL;
}

void bed_start(struct bed *b, uint16_t id)
{
    assert_true(bed_try(b, id));
}

void bed_stop(struct bed *b, uint16_t id)
{
    bt_member_close(b->member[id]);
    bt_files_close(&b->disk[id].files);
    atomic_store(&b->disk[id].fails, 0);
    b->member[id] = NULL;
}

void bed_lose_disk(struct bed *b, uint16_t id)
{
    char folder[160], path[512];
    folder_of(b, id, folder, sizeof folder);
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.') {
            unlink(path);
        }
    }
    if (d != NULL) {
        closedir(d);
        rmdir(folder);
    }
}

static void prepare(struct bed *b, unsigned voters, unsigned places)
{
    memset(b, 0, sizeof *b);
    snprintf(b->folder, sizeof b->folder, "/tmp/bobtail-run-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    struct bt_group_document *d = &b->document;
    *d = (struct bt_group_document){.number = 9,
                                    .election_ms = 100,
                                    .heartbeat_ms = 20,
                                    .log_entries = 1024,
                                    .snapshot_entries = 128,
                                    .snapshot_bytes = 65536,
                                    .in_flight = 100,
                                    .n_founders = voters,
                                    .n_members = places};
    memset(d->cluster, 0x5a, sizeof d->cluster);
    for (unsigned i = 0; i < places; i++) {
        uint16_t id = (uint16_t)(i + 1);
        d->member[i] = (struct bt_group_document_member){.id = id,
                                                         .member_port = 8100,
                                                         .client_port = 8000,
                                                         .address = bed_address(id, 8100),
                                                         .client = bed_address(id, 8000)};
        snprintf(d->member[i].name, sizeof d->member[i].name, "m%u", id);
        if (i < voters) {
            memcpy(d->founder[i], d->member[i].name, sizeof d->founder[i]);
        }
    }
    b->keys.key[0] = (struct bt_key){.id = 1, .bytes = {9, 8, 7}};
    b->pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
    assert_non_null(b->pool_mem);
    bt_pool_fixed_init(&b->pool, b->pool_mem, PACKETS);
    bt_txq_init(&b->txq);
    b->now = 1000000000;
}

void bed_open(struct bed *b, unsigned voters, unsigned places)
{
    prepare(b, voters, places);
    for (uint16_t id = 1; id <= voters; id++) {
        bed_start(b, id);
    }
}

static struct bt_addr group_address(void)
{
    return bt_addr_v4u(0xef000001u, GROUP_PORT);
}

void bed_box_start(struct bed *b)
{
    b->box = bt_box_front_open(&(struct bt_box_front_config){.document = &b->document,
                                                             .clients = bed_address(BED_BOX, 8000),
                                                             .feedback = bed_address(BED_BOX, 9000),
                                                             .keys = b->keys,
                                                             .mtu = 1500,
                                                             .pool = &b->pool.pool,
                                                             .txq = &b->txq,
                                                             .seed = 5},
                               b->now);
    assert_non_null(b->box);
}

void bed_box_stop(struct bed *b)
{
    bt_box_front_close(b->box);
    b->box = NULL;
}

void bed_aggregator_start(struct bed *b, bool as_switch)
{
    b->aggregator =
        bt_aggregator_front_open(&(struct bt_aggregator_front_config){.document = &b->document,
                                                                      .address = b->document.aggregator.address,
                                                                      .keys = b->keys,
                                                                      .pool = &b->pool.pool,
                                                                      .txq = &b->txq,
                                                                      .as_switch = as_switch});
    assert_non_null(b->aggregator);
}

void bed_aggregator_stop(struct bed *b)
{
    bt_aggregator_front_close(b->aggregator);
    b->aggregator = NULL;
}

static void open_apart(struct bed *b, unsigned voters, enum bt_group_protocol protocol, bool multicast,
                       enum bt_group_messages box)
{
    struct bt_group_document *d = &b->document;
    d->protocol = protocol;
    d->repliers = BT_GROUP_RANDOM;
    d->n_boxes = 1;
    d->box[0] = (struct bt_group_document_box){
        .name = "box", .client = bed_address(BED_BOX, 8000), .feedback = bed_address(BED_BOX, 9000), .messages = box};
    if (multicast) {
        d->multicast = group_address();
    }
    bed_box_start(b);
    b->now += 3000000000; // the box's silence and its slow start are over
    for (uint16_t id = 1; id <= voters; id++) {
        bed_start(b, id);
    }
}

void bed_open_hovercraft(struct bed *b, unsigned voters, bool multicast)
{
    prepare(b, voters, voters);
    open_apart(b, voters, BT_GROUP_HOVERCRAFT, multicast, BT_GROUP_TAGGED);
}

void bed_open_boxed_by_switch(struct bed *b, unsigned voters)
{
    prepare(b, voters, voters);
    open_apart(b, voters, BT_GROUP_HOVERCRAFT, false, BT_GROUP_BY_SOURCE);
}

static void open_aggregated(struct bed *b, unsigned voters, bool as_switch, enum bt_group_messages messages)
{
    prepare(b, voters, voters);
    b->document.aggregator = (struct bt_group_document_aggregator){
        .name = "aggregator", .port = 8300, .address = bed_address(BED_AGGREGATOR, 8300), .messages = messages};
    bed_aggregator_start(b, as_switch);
    open_apart(b, voters, BT_GROUP_HOVERCRAFT_PLUS_PLUS, true, BT_GROUP_TAGGED);
}

void bed_open_hovercraftpp(struct bed *b, unsigned voters, bool as_switch)
{
    open_aggregated(b, voters, as_switch, BT_GROUP_TAGGED);
}

void bed_open_switched(struct bed *b, unsigned voters)
{
    open_aggregated(b, voters, true, BT_GROUP_BY_SOURCE);
}

void bed_close(struct bed *b)
{
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b->member[id] != NULL) {
            bed_stop(b, id);
        }
        bed_lose_disk(b, id);
    }
    bed_box_stop(b);
    bed_aggregator_stop(b);
    rmdir(b->folder);
    free(b->pool_mem);
}
