// SPDX-License-Identifier: Apache-2.0
// What a member reads that others wrote: the first byte chooses between commands of the log, the roster and the
// sessions of a snapshot, a packet between members with its notes, and the document. What is accepted is written back
// and read again the same.
#include "ctl/group_document.h"
#include "input.h"
#include "run/command.h"
#include "run/roster.h"
#include "replica/sessions.h"
#include "wire/group_packet.h"

enum { ROOM = 1 << 21 };
static uint8_t again[ROOM];

static void command(const uint8_t *p, size_t n)
{
    struct bt_command c;
    if (n <= 65536 && bt_command_get(p, (uint32_t)n, &c)) {
        CHECK(bt_command_put(again, ROOM, &c) == n);
        CHECK(memcmp(again, p, n) == 0);
    }
}

static void roster(const uint8_t *p, size_t n)
{
    static struct bt_roster first, second;
    size_t took = bt_roster_read(&first, p, n);
    CHECK(took <= n);
    if (took != 0) {
        size_t wrote = bt_roster_write(&first, again, ROOM);
        CHECK(bt_roster_read(&second, again, wrote) == wrote);
        CHECK(memcmp(&first, &second, sizeof first) == 0);
    }
}

static void sessions(const uint8_t *p, size_t n)
{
    static struct bt_sessions first, second;
    size_t took = bt_sessions_read(&first, p, n);
    CHECK(took <= n);
    if (took != 0) {
        size_t wrote = bt_sessions_write(&first, again, ROOM);
        CHECK(bt_sessions_read(&second, again, wrote) == wrote);
        CHECK(second.count == first.count);
    }
}

static void packet(const uint8_t *p, size_t n)
{
    static const struct bt_keyring keys = {.key = {{.id = 1, .bytes = {1}}}};
    struct bt_group_packet out;
    struct bt_group_note note;
    uint8_t *copy = malloc(n + 1); // so that a byte behind it is seen
    CHECK(copy != NULL);
    memcpy(copy, p, n);
    struct bt_pkt pkt = {.data = copy, .len = (uint32_t)n};
    if (bt_group_packet_open(&pkt, &keys, &out) == BT_GROUP_PACKET_OK) {
        CHECK(out.message >= copy && out.message + out.n + BT_GROUP_TRAILER == copy + n);
    }
    if (bt_group_packet_open_untagged(&pkt, &out) == BT_GROUP_PACKET_OK) { // as from a switch
        CHECK(out.message >= copy && out.message + out.n + BT_GROUP_TRAILER == copy + n);
    }
    if (bt_group_note_read(copy, n, &note)) {
        bt_group_note_write(again, &note);
        CHECK(memcmp(again, copy, n) == 0);
    }
    free(copy);
}

static void document(const uint8_t *p, size_t n)
{
    struct bt_ctl_error e = {0};
    struct bt_group_document *d = bt_group_document_parse((const char *)p, n, &e);
    CHECK(d != NULL || e.message[0] != '\0');
    for (size_t i = 0; d != NULL && i < d->n_founders; i++) {
        CHECK(bt_group_document_find(d, d->founder[i]) != NULL);
    }
    free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {command, roster, sessions, packet, document};
    if (size > 0) {
        readers[data[0] % 5](data + 1, size - 1);
    }
    return 0;
}
