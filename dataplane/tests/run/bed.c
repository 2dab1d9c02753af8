// SPDX-License-Identifier: Apache-2.0
// See bed.h.
#include "bed.h"

#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"

enum { PACKETS = 4096, PATIENCE_MS = 60000, GROUP_PORT = 8200 };

/* --- the service --- */

static void on_recv(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    struct bed_service *s = arg;
    uint8_t out[8];
    assert_int_equal(iovcnt, 1);
    assert_int_equal(iov[0].iov_len, 8);
    if (!bt_member_read_only(*s->member, handle)) {
        s->sum += bt_get64(iov[0].iov_base);
        s->executed++;
    }
    bt_put64(out, s->sum);
    struct iovec answer = {out, sizeof out};
    assert_int_equal(bt_member_respond(*s->member, handle, &answer, 1), 0);
    assert_int_equal(bt_member_respond(*s->member, handle, &answer, 1), R2P2_ERR_BAD_ARGUMENT); // once
}

static size_t on_snapshot(void *arg, uint8_t *out, size_t room)
{
    const struct bed_service *s = arg;
    if (room < 16) {
        return SIZE_MAX;
    }
    bt_put64(out, s->sum);
    bt_put64(out + 8, s->executed);
    return 16;
}

static int on_restore(void *arg, const uint8_t *bytes, size_t n)
{
    struct bed_service *s = arg;
    if (n != 0 && n != 16) {
        return -1;
    }
    s->saving = false;
    s->sum = n != 0 ? bt_get64(bytes) : 0;
    s->executed = n != 0 ? bt_get64(bytes + 8) : 0;
    return 0;
}

static uint64_t on_hash(void *arg)
{
    const struct bed_service *s = arg;
    return s->sum * UINT64_C(0x9e3779b97f4a7c15) + s->executed;
}

/* --- and its snapshots in the background --- */

static int on_snapshot_begin(void *arg)
{
    struct bed_service *s = arg;
    assert_false(s->saving);
    if (s->refusals > 0) {
        s->refusals--;
        return -1;
    }
    s->saving = true;
    s->waits = s->turns;
    s->frozen[0] = s->sum;
    s->frozen[1] = s->executed;
    return 0;
}

static size_t on_snapshot_end(void *arg, uint8_t *out, size_t room)
{
    struct bed_service *s = arg;
    assert_true(s->saving); // nobody asks after one that was not begun, or that a restore made void
    if (s->waits > 0) {
        s->waits--;
        return R2P2_REPLICA_NOT_YET;
    }
    s->saving = false;
    assert_true(room >= 16);
    bt_put64(out, s->frozen[0]);
    bt_put64(out + 8, s->frozen[1]);
    return 16;
}

void bed_in_background(struct bed *b, uint16_t id, unsigned turns)
{
    b->calls[id].snapshot = NULL;
    b->calls[id].snapshot_begin = on_snapshot_begin;
    b->calls[id].snapshot_end = on_snapshot_end;
    b->service[id].turns = turns;
    b->service[id].refusals = 1;
}

static void on_wake(void *arg)
{
    (void)arg; // the bed looks at every step
}

static void on_say(void *arg, bool bad, const char *text)
{
    (void)arg;
    (void)bad;
    (void)text;
}

/* --- members --- */

struct bt_addr bed_address(uint16_t id, uint16_t port)
{
    return bt_addr_v4u(0x0a000000u + id, port);
}

static void folder_of(const struct bed *b, uint16_t id, char *out, size_t room)
{
    snprintf(out, room, "%s/m%u", b->folder, id);
}

/* --- disks: files whose syncs wait or fail when they are told to --- */

static struct bed_disk *of(struct bt_disk *d)
{
    return (struct bed_disk *)d;
}

#define PASS(name, params, args)                                                                                       \
    static int disk_##name params                                                                                      \
    {                                                                                                                  \
        struct bt_disk *f = &of(d)->files.disk;                                                                        \
        return f->ops->name args;                                                                                      \
    }
PASS(create, (struct bt_disk * d, struct bt_disk_file x), (f, x))
PASS(write, (struct bt_disk * d, struct bt_disk_file x, uint64_t at, const uint8_t *p, uint32_t n), (f, x, at, p, n))
PASS(sync_names, (struct bt_disk * d), (f))
PASS(remove, (struct bt_disk * d, struct bt_disk_file x), (f, x))
PASS(read, (struct bt_disk * d, struct bt_disk_file x, uint64_t at, uint8_t *p, uint32_t n, uint32_t *got),
     (f, x, at, p, n, got))
PASS(size, (struct bt_disk * d, struct bt_disk_file x, uint64_t *bytes), (f, x, bytes))
PASS(list, (struct bt_disk * d, struct bt_disk_file *x, uint32_t most, uint32_t *n), (f, x, most, n))

static int disk_sync(struct bt_disk *d, struct bt_disk_file x)
{
    struct bed_disk *b = of(d);
    while (atomic_load(&b->stalled)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    int fails = atomic_load(&b->fails);
    return fails != 0 ? fails : b->files.disk.ops->sync(&b->files.disk, x);
}

static struct bt_disk *open_disk(struct bed *b, uint16_t id, const char *folder)
{
    static const struct bt_disk_ops ops = {.create = disk_create,
                                           .write = disk_write,
                                           .sync = disk_sync,
                                           .sync_names = disk_sync_names,
                                           .remove = disk_remove,
                                           .read = disk_read,
                                           .size = disk_size,
                                           .list = disk_list};
    char why[200];
    b->disk[id].disk.ops = &ops;
    assert_true(bt_files_open(&b->disk[id].files, folder, why, sizeof why));
    return &b->disk[id].disk;
}

void bed_start(struct bed *b, uint16_t id)
{
    char folder[160], name[8];
    folder_of(b, id, folder, sizeof folder);
    snprintf(name, sizeof name, "m%u", id);
    b->service[id] = (struct bed_service){.member = &b->member[id]};
    b->calls[id] = (struct r2p2_replica_service){.name = "bed",
                                                 .recv = on_recv,
                                                 .snapshot = on_snapshot,
                                                 .restore = on_restore,
                                                 .state_hash = on_hash,
                                                 .arg = &b->service[id]};
    struct bt_member_config c = {.document = &b->document,
                                 .name = name,
                                 .folder = folder,
                                 .disk = open_disk(b, id, folder),
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
                                 .say = on_say};
    b->member[id] = bt_member_open(&c, b->now);
    assert_non_null(b->member[id]);
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

static void open_apart(struct bed *b, unsigned voters, enum bt_group_protocol protocol, bool multicast)
{
    struct bt_group_document *d = &b->document;
    d->protocol = protocol;
    d->repliers = BT_GROUP_RANDOM;
    d->n_boxes = 1;
    d->box[0] = (struct bt_group_document_box){
        .name = "box", .client = bed_address(BED_BOX, 8000), .feedback = bed_address(BED_BOX, 9000)};
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
    open_apart(b, voters, BT_GROUP_HOVERCRAFT, multicast);
}

static void open_aggregated(struct bed *b, unsigned voters, bool as_switch, enum bt_group_messages messages)
{
    prepare(b, voters, voters);
    b->document.aggregator = (struct bt_group_document_aggregator){
        .name = "aggregator", .port = 8300, .address = bed_address(BED_AGGREGATOR, 8300), .messages = messages};
    bed_aggregator_start(b, as_switch);
    open_apart(b, voters, BT_GROUP_HOVERCRAFT_PLUS_PLUS, true);
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

/* --- the network --- */

static void to_client(struct bed *b, const struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_CLIENT, &h) != BT_M_OK) {
        return;
    }
    b->replies += h.type == BT_REPLY;
    if (h.req_id == b->rid) {
        b->reply_type = h.type;
        b->reply_n = h.payload_len < BED_REPLY ? (uint32_t)h.payload_len : (uint32_t)BED_REPLY;
        memcpy(b->reply, h.payload, b->reply_n);
    }
}

static struct bt_pkt *copy_of(struct bed *b, const struct bt_pkt *pkt)
{
    struct bt_pkt *copy = bt_pool_get(&b->pool.pool);
    memcpy(bt_pkt_append(copy, pkt->len), pkt->data, pkt->len);
    copy->src = pkt->src;
    copy->dst = pkt->dst;
    return copy;
}

void bed_give(struct bed *b, uint16_t id, struct bt_pkt *pkt)
{
    bool group = bt_addr_is_multicast(&pkt->dst);
    pkt->local = (uint16_t)(group ? BT_MEMBER_GROUP : pkt->dst.port == 8000 ? BT_MEMBER_CLIENTS : BT_MEMBER_MEMBERS);
    if (b->member[id] == NULL || b->cut[id] || (b->deaf[id] && pkt->src.ip[15] == BED_BOX)) {
        bt_pool_put(&b->pool.pool, pkt);
    } else {
        bt_member_receive(b->member[id], b->now, pkt);
    }
}

static void to_box(struct bed *b, struct bt_pkt *pkt)
{
    pkt->local = (uint16_t)(pkt->dst.port == 8000 ? BT_BOX_CLIENTS : BT_BOX_FEEDBACK);
    if (b->box != NULL) {
        bt_box_front_receive(b->box, b->now, pkt);
    } else {
        bt_pool_put(&b->pool.pool, pkt);
    }
}

// The same message with a tag of this key in the place of none, or the other way round (key NULL). A switch has no
// tags; what does its work here has.
static struct bt_pkt *signed_as(struct bed *b, struct bt_pkt *pkt, const struct bt_key *key)
{
    struct bt_group_packet p;
    struct bt_pkt *out = bt_pool_get(&b->pool.pool);
    enum bt_group_packet_result r =
        key != NULL ? bt_group_packet_open_untagged(pkt, &p) : bt_group_packet_open(pkt, &b->keys, &p);
    assert_int_equal(r, BT_GROUP_PACKET_OK);
    out->src = pkt->src;
    out->dst = pkt->dst;
    assert_true(bt_group_packet_write(out, p.message, p.n, p.disk, key));
    bt_pool_put(&b->pool.pool, pkt);
    return out;
}

static void to_aggregator(struct bed *b, struct bt_pkt *pkt)
{
    if (b->document.aggregator.messages == BT_GROUP_BY_SOURCE) {
        pkt = signed_as(b, pkt, &b->keys.key[0]);
    }
    pkt->local = BT_AGGREGATOR_PORT;
    b->to_aggregator++;
    if (b->aggregator != NULL) {
        bt_aggregator_front_receive(b->aggregator, pkt);
    } else {
        bt_pool_put(&b->pool.pool, pkt);
    }
}

static void deliver(struct bed *b, struct bt_pkt *pkt)
{
    uint8_t from = pkt->src.ip[15], to = pkt->dst.ip[15];
    if (from == BED_AGGREGATOR && b->document.aggregator.messages == BT_GROUP_BY_SOURCE) {
        pkt = signed_as(b, pkt, NULL);
    }
    bool gone = to > BED_MEMBERS || b->member[to] == NULL || b->cut[to] || (from <= BED_MEMBERS && b->cut[from]);
    if (bt_addr_is_multicast(&pkt->dst)) {
        for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
            bed_give(b, id, copy_of(b, pkt));
        }
        bt_pool_put(&b->pool.pool, pkt);
        return;
    }
    if ((to == BED_BOX || to == BED_AGGREGATOR) && !(from <= BED_MEMBERS && b->cut[from])) {
        (to == BED_BOX ? to_box : to_aggregator)(b, pkt);
        return;
    }
    if (to == BED_CLIENT) {
        to_client(b, pkt);
    }
    if (gone) {
        bt_pool_put(&b->pool.pool, pkt);
        return;
    }
    bed_give(b, to, pkt);
}

// Time stands still while a disk is at work, unless a test holds it up: else what the machine does meanwhile decides
// what the members see.
static void await_disks(struct bed *b)
{
    enum { LOOKS = 100000 };
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        const struct bed_disk *d = &b->disk[id];
        for (int looks = 0; b->member[id] != NULL && looks < LOOKS; looks++) {
            struct bt_member_status s = bed_status(b, id);
            bool idle = s.phase != BT_MEMBER_RUNNING || s.core.storing == 0;
            if (idle || atomic_load(&d->stalled) || atomic_load(&d->fails) != 0) {
                break;
            }
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
            bt_member_turn(b->member[id], b->now, false);
        }
    }
}

void bed_step(struct bed *b)
{
    await_disks(b);
    b->now += 1000000;
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b->member[id] != NULL) {
            bt_member_turn(b->member[id], b->now, true);
        }
    }
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&b->txq)) != NULL;) {
        deliver(b, pkt);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); // the storage threads
}

void bed_until(struct bed *b, bool (*so)(struct bed *, uint16_t), uint16_t id)
{
    for (int ms = 0; !so(b, id); ms++) {
        if (ms >= PATIENCE_MS) {
            for (uint16_t i = 1; i <= BED_MEMBERS; i++) {
                if (b->member[i] != NULL) {
                    struct bt_member_status s = bed_status(b, i);
                    print_message(
                        "member %u: %s, role %d, term %u, leader %u, commit %u, applied %u, last %u, durable %u\n", i,
                        s.reason, (int)s.core.role, (unsigned)s.core.term, s.leader, (unsigned)s.core.commit,
                        (unsigned)s.core.applied, (unsigned)s.core.last, (unsigned)s.core.durable);
                }
            }
            fail();
        }
        bed_step(b);
    }
}

struct bt_member_status bed_status(struct bed *b, uint16_t id)
{
    struct bt_member_status s;
    bt_member_status(b->member[id], b->now, &s);
    return s;
}

uint16_t bed_leader(struct bed *b)
{
    uint16_t best = 0;
    uint64_t term = 0;
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b->member[id] == NULL || b->cut[id]) {
            continue;
        }
        struct bt_member_status s = bed_status(b, id);
        if (s.phase == BT_MEMBER_RUNNING && s.core.role == BT_REPLICA_LEADER && s.core.term > term) {
            best = id;
            term = s.core.term;
        }
    }
    return best;
}

struct bt_pkt *bed_boxed(struct bed *b, const struct bt_addr *dst, uint16_t rid, uint64_t add, const struct bt_key *key)
{
    struct bt_pkt *pkt = bt_pool_get(&b->pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_BOX, 8000);
    pkt->dst = *dst;
    bt_put64(bt_pkt_append(pkt, 8), add);
    bt_r2p2_start(&h, BT_REQUEST, BT_POLICY_REPLICATED_WRITE, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = rid;
    h.opt = (struct bt_options){.present = BT_HAS_FORWARDED | (key != NULL ? BT_HAS_TAG : 0),
                                .forwarded = bed_address(BED_CLIENT, 5000),
                                .key_id = key != NULL ? key->id : 0};
    assert_true(bt_r2p2_push_header(pkt, &h));
    assert_true(key == NULL || bt_tag_sign(pkt->data, pkt->len, &h, key, &pkt->src, &pkt->dst));
    return pkt;
}

void bed_send(struct bed *b, const struct bed_ask *a)
{
    struct bt_pkt *pkt = bt_pool_get(&b->pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_CLIENT, 5000);
    pkt->dst = bed_address(a->to, 8000);
    bt_put64(bt_pkt_append(pkt, 8), a->add);
    bt_r2p2_start(&h, BT_REQUEST, a->policy, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = ++b->rid;
    if (a->session != 0) {
        h.opt.present = BT_HAS_SESSION;
        h.opt.session = a->session;
        h.opt.session_seq = a->seq;
    }
    assert_true(bt_r2p2_push_header(pkt, &h));
    b->reply_type = 0xff;
    deliver(b, pkt);
}

bool bed_ask(struct bed *b, const struct bed_ask *a)
{
    bed_send(b, a);
    for (int ms = 0; ms < 1000 && b->reply_type == 0xff; ms++) {
        bed_step(b);
    }
    return b->reply_type == BT_REPLY;
}

uint64_t bed_sum(const struct bed *b, unsigned at)
{
    assert_int_equal(b->reply_n, at + 8);
    return bt_get64(b->reply + at);
}
