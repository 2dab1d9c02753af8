// SPDX-License-Identifier: Apache-2.0
// A disk that anybody may have written: raw bytes, or a disk of a store's own with blocks
// changed and sealed again, so that what is behind the checksums is reached. Opening ends, stays in its memory, and
// what it believes makes sense and is found again.
#include "input.h"

#include "../tests/store/ram.h"
#include "base/bytes.h"
#include "store/store.h"

enum { BATCH = 2048, FILES = 64, ROOM = 1 << 16 };

static const struct bt_store_config config = {
    .ids = {.cluster = "the cluster", .member = "the member"},
    .first = {.count = 1, .member = {{.id = 1, .role = BT_GROUP_VOTER}}},
    .segment_bytes = 4 * BATCH,
    .batch_bytes = BATCH,
    .files_max = FILES,
    .snapshot_max = ROOM,
};

struct opened {
    struct bt_store store;
    struct bt_image image;
    struct bt_recovery found;
    void *memory;
    bool ok;
};

static void open_disk(struct opened *o, struct ram *ram)
{
    struct bt_store_config c = config;
    struct bt_mem mem;
    memset(o, 0, sizeof *o);
    c.disk = &ram->disk;
    bt_mem_init(&mem, NULL, 0);
    CHECK(bt_store_init(&o->store, &c, &mem));
    size_t bytes = mem.used;
    CHECK(posix_memalign(&o->memory, 64, bytes) == 0);
    bt_mem_init(&mem, o->memory, bytes);
    CHECK(bt_store_init(&o->store, &c, &mem));
    if (bt_store_room(&o->store, &o->image)) {
        o->image.entry =
            malloc(o->image.entries_max * sizeof *o->image.entry + 1); // of their sizes, for AddressSanitizer
        o->image.bytes = malloc(o->image.bytes_max + 1);
        CHECK(o->image.entry != NULL && o->image.bytes != NULL);
        o->ok = bt_store_open(&o->store, &o->image);
    }
    bt_store_recovered(&o->store, &o->image, &o->found);
}

static void close_disk(struct opened *o)
{
    free(o->image.entry);
    free(o->image.bytes);
    free(o->memory);
}

static void sensible(const struct opened *o)
{
    const struct bt_recovery *r = &o->found;
    CHECK(r->snapshot.config.count <= BT_GROUP_MEMBERS_MAX);
    CHECK(r->count <= o->image.entries_max);
    for (uint64_t i = 0; i < r->count; i++) {
        CHECK(r->entry[i].kind < BT_ENTRY_KINDS);
        CHECK(r->entry[i].index == r->entry[0].index + i);
        CHECK(r->entry[i].body >= o->image.bytes &&
              r->entry[i].body + r->entry[i].length <= o->image.bytes + o->image.bytes_max);
    }
    CHECK(r->count == 0 || r->entry[0].index <= r->snapshot.last_index + 1);
    CHECK(r->snapshot.length == 0 || (r->snapshot.bytes >= o->image.bytes &&
                                      r->snapshot.bytes + r->snapshot.length <= o->image.bytes + o->image.bytes_max));
}

static void same(const struct bt_recovery *a, const struct bt_recovery *b)
{
    CHECK(a->hard_state.term == b->hard_state.term && a->hard_state.vote == b->hard_state.vote);
    CHECK(a->snapshot.last_index == b->snapshot.last_index && a->snapshot.length == b->snapshot.length);
    CHECK(a->count == b->count);
    for (uint64_t i = 0; i < a->count; i++) {
        CHECK(a->entry[i].index == b->entry[i].index && a->entry[i].term == b->entry[i].term);
        CHECK(a->entry[i].length == b->entry[i].length);
        CHECK(memcmp(a->entry[i].body, b->entry[i].body, a->entry[i].length) == 0);
    }
}

// Operations of all kinds; wrong ones end the store, and what is on the disk stays.
static void operate(struct input *in, struct bt_store *s)
{
    uint8_t body[300] = {1, 2, 3};
    uint64_t generation = 0;
    for (uint8_t n = in8(in) % 24; n > 0 && in->left > 0; n--) {
        uint8_t how = in8(in), x = in8(in);
        struct bt_entry e = {
            .index = s->log.last + 1, .term = x, .kind = x % 3, .body = body, .length = in16(in) % 300};
        struct bt_store_op op = {.generation = ++generation, .kind = how % 5};
        switch (op.kind) {
        case BT_STORE_APPEND:
            op.append.entry = &e;
            op.append.count = 1;
            break;
        case BT_STORE_HARD_STATE:
            op.hard_state = (struct bt_hard_state){.term = s->log.hard.term + x % 2, .vote = x % 4};
            break;
        case BT_STORE_SNAPSHOT:
            op.snapshot =
                (struct bt_snapshot){.last_index = s->log.snapshot + x % 8, .last_term = x, .bytes = body, .length = x};
            break;
        case BT_STORE_TRUNCATE:
            op.from = s->log.last + 1 - (x % 4 < s->log.last ? x % 4 : 0);
            break;
        default:
            op.to = s->log.snapshot;
        }
        bt_store_take(s, &op);
        if (how & 0x80) {
            bt_store_commit(s, &(uint64_t){0});
        }
    }
    bt_store_commit(s, &generation);
}

// A change to one block, and its seal made good again where that is asked for.
static void change(struct input *in, struct ram *ram)
{
    if (ram->files == 0) {
        return;
    }
    struct ram_file *f = &ram->file[in8(in) % ram->files];
    uint32_t blocks = (uint32_t)(f->size / BT_BLOCK_BYTES);
    if (blocks == 0) {
        return;
    }
    uint8_t *block = f->bytes + (size_t)(in8(in) % blocks) * BT_BLOCK_BYTES, how = in8(in);
    struct bt_block_head h;
    bool sealed = bt_block_open(block, &h) == BT_BLOCK_VALID;
    for (uint8_t n = 1 + how % 4; n > 0; n--) {
        uint32_t at = in16(in) % BT_BLOCK_BYTES;
        block[at] = (how & 0x10) != 0 ? in8(in) : (uint8_t)(block[at] + 1);
    }
    if (sealed && (how & 0x20) != 0) { // a payload that only a writer's mistake could make
        uint8_t payload[BT_BLOCK_ROOM];
        memcpy(payload, block + BT_BLOCK_HEAD, sizeof payload);
        h.at += (how & 0x40) != 0 ? in8(in) % 3 : 0;
        h.count += (how & 0x80) != 0 ? in8(in) % 3 : 0;
        bt_block_seal(block, &h, payload);
    }
}

static void raw_files(struct input *in, struct ram *ram)
{
    for (uint8_t n = in8(in) % 4; n > 0; n--) {
        struct bt_disk_file id = {.number = in8(in) % 8, .kind = (uint8_t)(1 + in8(in) % 2)};
        uint64_t size = in16(in) % 3000;
        size = size < in->left ? size : in->left;
        ram_put(ram, id, in->p, size);
        in->p += size;
        in->left -= size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct ram ram;
    struct opened o;
    ram_init(&ram);
    uint8_t how = in8(&in);
    for (uint8_t lives = how % 4; lives > 0; lives--) {
        open_disk(&o, &ram);
        if (!o.ok) {
            char why[200];
            bt_store_error_text(&o.store.why, why, sizeof why);
            fprintf(stderr, "an undamaged disk: %s\n", why);
        }
        CHECK(o.ok);
        operate(&in, &o.store);
        close_disk(&o);
    }
    if (how & 0x10) {
        raw_files(&in, &ram);
    }
    for (uint8_t n = how >> 5; n > 0; n--) {
        change(&in, &ram);
    }
    open_disk(&o, &ram);
    if (o.ok) {
        struct opened again;
        sensible(&o);
        open_disk(&again, &ram);
        CHECK(again.ok);
        same(&o.found, &again.found);
        close_disk(&again);
    }
    close_disk(&o);
    ram_free(&ram);
    return 0;
}
