// SPDX-License-Identifier: Apache-2.0
// Packets between members: the tag is looked at first, and covers all of it; and the document of a group, each
// of whose fields is refused by its name.
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/group_document.h"
#include "wire/group_packet.h"

static struct bt_pool_fixed fixed;

static struct bt_pkt *packet(const uint8_t *message, size_t n, const struct bt_key *key)
{
    static uint8_t mem[1 << 16];
    if (fixed.pool.get == NULL) {
        assert_true(bt_pool_fixed_bytes(8) <= sizeof mem);
        bt_pool_fixed_init(&fixed, mem, 8);
    }
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    assert_non_null(pkt);
    pkt->src = bt_addr_v4u(0x0a000001, 8100);
    pkt->dst = bt_addr_v4u(0x0a000002, 8100);
    assert_true(bt_group_packet_write(pkt, message, n, 0x0102030405060708, key));
    return pkt;
}

static const struct bt_keyring keys = {.key = {{.id = 3, .bytes = {1, 2, 3}}}};

static void r381_every_bit_is_under_the_tag(void **state)
{
    uint8_t message[BT_GROUP_HEADER + 10] = {1, 11};
    struct bt_group_packet out;
    (void)state;
    struct bt_pkt *pkt = packet(message, sizeof message, &keys.key[0]);
    assert_int_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_OK);
    assert_true(out.n == sizeof message && memcmp(out.message, message, out.n) == 0 && !out.is_note);
    assert_int_equal(out.disk, 0x0102030405060708);
    for (uint32_t bit = 0; bit < 8 * pkt->len; bit++) {
        pkt->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_OK);
        pkt->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t n = pkt->len; pkt->len > 0; pkt->len--) {
        if (pkt->len < n) {
            assert_int_not_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_OK);
        }
    }
    bt_pool_put(&fixed.pool, pkt);
}

// W-8: to and from a switch; only who asks for such packets gets one.
static void w8_a_packet_without_a_tag_is_read_where_that_is_asked_for(void **state)
{
    uint8_t message[BT_GROUP_HEADER + 10] = {1, 12};
    struct bt_group_packet out;
    (void)state;
    struct bt_pkt *pkt = packet(message, sizeof message, NULL);
    assert_int_equal(pkt->len, 8 + sizeof message + BT_GROUP_TRAILER); // R2P2's header alone, as a switch parses it
    assert_int_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_UNTAGGED);
    assert_int_equal(bt_group_packet_open_untagged(pkt, &out), BT_GROUP_PACKET_OK);
    assert_true(out.n == sizeof message && memcmp(out.message, message, out.n) == 0 && !out.is_note);
    assert_int_equal(out.disk, 0x0102030405060708);
    for (uint32_t n = pkt->len; pkt->len > 0; pkt->len--) {
        enum bt_group_packet_result want = pkt->len < 8                                        ? BT_GROUP_PACKET_FORM
                                           : pkt->len < 8 + BT_GROUP_HEADER + BT_GROUP_TRAILER ? BT_GROUP_PACKET_SHORT
                                                                                               : BT_GROUP_PACKET_OK;
        assert_true(pkt->len <= n && bt_group_packet_open_untagged(pkt, &out) == want);
    }
    bt_pool_put(&fixed.pool, pkt);
    pkt = packet(message, sizeof message, &keys.key[0]); // a tag is not passed over unread
    assert_int_equal(bt_group_packet_open_untagged(pkt, &out), BT_GROUP_PACKET_FORM);
    bt_pool_put(&fixed.pool, pkt);
}

static void r381_addresses_are_under_the_tag(void **state)
{
    uint8_t message[BT_GROUP_HEADER] = {1, 11};
    struct bt_group_packet out;
    (void)state;
    struct bt_pkt *pkt = packet(message, sizeof message, &keys.key[0]);
    bt_addr_set_port(&pkt->src, 8101);
    assert_int_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_WRONG_TAG);
    bt_addr_set_port(&pkt->src, 8100);
    pkt->dst.ip[15] ^= 1;
    assert_int_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_WRONG_TAG);
    bt_pool_put(&fixed.pool, pkt);
    struct bt_keyring others = {.key = {{.id = 4, .bytes = {1, 2, 3}}}};
    pkt = packet(message, sizeof message, &keys.key[0]);
    assert_int_equal(bt_group_packet_open(pkt, &others, &out), BT_GROUP_PACKET_UNKNOWN_KEY);
    bt_pool_put(&fixed.pool, pkt);
    pkt = packet(message, 4, &keys.key[0]);
    assert_int_equal(bt_group_packet_open(pkt, &keys, &out), BT_GROUP_PACKET_SHORT);
    bt_pool_put(&fixed.pool, pkt);
}

static void r382_notes_are_read_as_written(void **state)
{
    uint8_t p[BT_GROUP_NOTE];
    struct bt_group_note note = {BT_NOTE_REMOVED, 9, 7, 0x1122, 0x3344}, back;
    (void)state;
    bt_group_note_write(p, &note);
    assert_true(bt_group_note_read(p, sizeof p, &back));
    assert_true(back.why == note.why && back.id == 9 && back.group == 7 && back.cluster == 0x1122 &&
                back.disk == 0x3344);
    assert_false(bt_group_note_read(p, sizeof p - 1, &back));
    p[1] = BT_NOTE_HELLO + 1;
    assert_false(bt_group_note_read(p, sizeof p, &back));
}

/* --- the document --- */

static const char right[] =
    "{\"apiVersion\":\"dataplane.bobtail.dev/v1\",\"kind\":\"ReplicationGroup\",\"sources\":[],"
    "\"group\":{\"name\":\"o\",\"namespace\":\"s\",\"cluster\":\"00112233445566778899aabbccddeeff\",\"number\":7,"
    "\"storage\":\"Always\",\"deviceProfile\":\"Kernel\",\"electionMilliseconds\":150,\"heartbeatMilliseconds\":30,"
    "\"logEntries\":16384,\"snapshotEntries\":4096,\"maxSnapshotBytes\":16777216,\"inFlightLimit\":1000},"
    "\"initialMembers\":[\"m1\",\"m2\",\"m3\"],\"members\":["
    "{\"name\":\"m1\",\"id\":1,\"address\":\"10.0.0.1\",\"memberPort\":8100,\"clientPort\":8000},"
    "{\"name\":\"m2\",\"id\":2,\"address\":\"10.0.0.2\",\"memberPort\":8100,\"clientPort\":8000},"
    "{\"name\":\"m3\",\"id\":3,\"address\":\"10.0.0.3\",\"memberPort\":8100,\"clientPort\":8000}],\"wantedVoters\":[1,"
    "2,3],"
    "\"avoidLeaders\":[2],\"keyIds\":[1]}";

// The right document with one text replaced by another, at its n-th place.
static char *with(const char *find, const char *put)
{
    const char *at = strstr(right, find);
    assert_non_null(at);
    size_t head = (size_t)(at - right);
    char *out = malloc(sizeof right + strlen(put) + 1);
    assert_non_null(out);
    memcpy(out, right, head);
    strcpy(out + head, put);
    strcat(out, at + strlen(find));
    return out;
}

// A group of this protocol, with what the text says beside its members.
#define LIMIT            "\"inFlightLimit\":1000},"
#define OF(word, beside) "\"inFlightLimit\":1000,\"protocol\":\"" word "\"}," beside
#define BOX              "\"boxes\":[{\"name\":\"b\",\"address\":\"10.0.1.1\",\"clientPort\":8000,\"feedbackPort\":9000}],"
#define ONE_PORT_BOX     "\"boxes\":[{\"name\":\"b\",\"address\":\"10.0.1.1\",\"clientPort\":8000,\"feedbackPort\":8000}],"
#define SWITCH_BOX(address, messages)                                                                                  \
    "\"boxes\":[{\"name\":\"b\",\"address\":\"" address                                                                \
    "\",\"clientPort\":8000,\"feedbackPort\":9000,\"messages\":\"" messages "\"}],"
#define SWITCH(address, messages)                                                                                      \
    "\"aggregator\":{\"name\":\"a\",\"address\":\"" address "\",\"port\":8300,\"messages\":\"" messages "\"},"
#define AGGREGATOR(name, address, port)                                                                                \
    "\"aggregator\":{\"name\":\"" name "\",\"address\":\"" address "\",\"port\":" port "},"

static const struct {
    const char *find, *put, *field;
} faults[] = {
    {LIMIT, OF("Paxos", ""), "group.protocol"},
    {LIMIT, OF("HovercRaft", ""), "boxes"},
    {LIMIT, OF("HovercRaftPlusPlus", AGGREGATOR("a", "10.0.2.1", "8300")), "boxes"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX), "aggregator"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX AGGREGATOR("", "10.0.2.1", "8300")), "aggregator.name"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX AGGREGATOR("a", "224.0.0.1", "8300")), "aggregator.address"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX AGGREGATOR("a", "10.0.2.1", "0")), "aggregator.port"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX "\"aggregator\":{\"name\":\"a\",\"port\":1},"), "aggregator.address"},
    {LIMIT, OF("HovercRaft", ONE_PORT_BOX), "boxes[0].feedbackPort"},
    {LIMIT, OF("HovercRaft", SWITCH_BOX("10.0.1.1", "Unsigned")), "boxes[0].messages"},
    {LIMIT, OF("HovercRaft", SWITCH_BOX("fd00::1", "BySource")), "boxes[0].address"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX SWITCH("10.0.2.1", "Unsigned")), "aggregator.messages"},
    {LIMIT, OF("HovercRaftPlusPlus", BOX SWITCH("fd00::1", "BySource")), "aggregator.address"},
    {"bobtail.dev/v1", "bobtail.dev/v2", "apiVersion"},
    {"ReplicationGroup", "RpcService", "kind"},
    {"\"sources\":[]", "\"sources\":[{}]", "sources[0].kind"},
    {"\"name\":\"o\"", "\"name\":\"\"", "group.name"},
    {"\"namespace\":\"s\"", "\"namespace\":\"\"", "group.namespace"},
    {"00112233445566778899aabbccddeeff", "0011223344556677", "group.cluster"},
    {"00112233445566778899aabbccddeeff", "00000000000000000000000000000000", "group.cluster"},
    {"\"number\":7", "\"number\":0", "group.number"},
    {"\"number\":7", "\"number\":4294967296", "group.number"},
    {"Always", "Sometimes", "group.storage"},
    {"Kernel", "Carrier", "group.deviceProfile"},
    {"\"electionMilliseconds\":150", "\"electionMilliseconds\":9", "group.electionMilliseconds"},
    {"\"electionMilliseconds\":150", "\"electionMilliseconds\":60", "group.electionMilliseconds"},
    {"\"heartbeatMilliseconds\":30", "\"heartbeatMilliseconds\":0", "group.heartbeatMilliseconds"},
    {"\"logEntries\":16384", "\"logEntries\":512", "group.logEntries"},
    {"\"logEntries\":16384", "\"logEntries\":20000", "group.logEntries"},
    {"\"snapshotEntries\":4096", "\"snapshotEntries\":4097", "group.snapshotEntries"},
    {"\"maxSnapshotBytes\":16777216", "\"maxSnapshotBytes\":1", "group.maxSnapshotBytes"},
    {"\"inFlightLimit\":1000", "\"inFlightLimit\":4097", "group.inFlightLimit"},
    {LIMIT, "\"inFlightLimit\":1000,\"sessions\":0},", "group.sessions"},
    {LIMIT, "\"inFlightLimit\":1000,\"sessions\":1025},", "group.sessions"},
    {"[\"m1\",\"m2\",\"m3\"]", "[\"m1\",\"m2\"]", "initialMembers"},
    {"[\"m1\",\"m2\",\"m3\"]", "[\"m1\",\"m2\",\"m9\"]", "initialMembers[2]"},
    {"[\"m1\",\"m2\",\"m3\"]", "[\"m1\",\"m2\",\"m2\"]", "initialMembers[2]"},
    {"\"name\":\"m2\"", "\"name\":\"m1\"", "members[1].name"},
    {"\"name\":\"m2\"", "\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\"",
     "members[1].name"},
    {"\"id\":2", "\"id\":1", "members[1].id"},
    {"\"id\":2", "\"id\":65536", "members[1].id"},
    {"10.0.0.2\",\"memberPort\":8100", "10.0.0.2\",\"memberPort\":0", "members[1].memberPort"},
    {"10.0.0.2", "10.0.0.1", "members[1].memberPort"},
    {"10.0.0.2", "224.0.0.1", "members[1].address"},
    {"10.0.0.2\",\"memberPort\":8100", "10.0.0.2\",\"memberPort\":8000", "members[1].clientPort"},
    {"\"clientPort\":8000}],", "\"clientPort\":0}],", "members[2].clientPort"},
    {"\"wantedVoters\":[1,2,3]", "\"wantedVoters\":[1,2]", "wantedVoters"},
    {"\"wantedVoters\":[1,2,3]", "\"wantedVoters\":[1,2,8]", "wantedVoters[2]"},
    {"\"wantedVoters\":[1,2,3]", "\"wantedVoters\":[1,2,2]", "wantedVoters[2]"},
    {"\"wantedVoters\":[1,2,3]", "\"wantedVoters\":[]", "wantedVoters"},
    {"\"avoidLeaders\":[2]", "\"avoidLeaders\":[0]", "avoidLeaders[0]"},
    {"\"keyIds\":[1]", "\"keyIds\":[]", "keyIds"},
    {"\"keyIds\":[1]", "\"keyIds\":[1,1]", "keyIds[1]"},
    {"\"keyIds\":[1]", "\"keyIds\":[256]", "keyIds[0]"},
    {"\"keyIds\":[1]", "\"keyIds\":[1],\"more\":1", "more"},
};

static void documents_name_the_field_at_fault(void **state)
{
    (void)state;
    struct bt_ctl_error e;
    struct bt_group_document *d = bt_group_document_parse(right, strlen(right), &e);
    assert_non_null(d);
    assert_true(bt_group_document_founds(d, "m2") && d->member[1].client.port == 8000 && d->wanted_given);
    free(d);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char *text = with(faults[i].find, faults[i].put);
        d = bt_group_document_parse(text, strlen(text), &e);
        if (d != NULL || strcmp(e.field, faults[i].field) != 0) {
            fail_msg("%s: field %s, not %s", faults[i].put, d != NULL ? "accepted" : e.field, faults[i].field);
        }
        assert_true(e.message[0] != '\0');
        free(text);
    }
    for (size_t n = 0; n < strlen(right); n++) { // and cut short, whole it is not
        assert_null(bt_group_document_parse(right, n, &e));
    }
}

static void documents_name_what_stands_beside_members(void **state)
{
    (void)state;
    struct bt_ctl_error e;
    char *text = with(LIMIT, OF("HovercRaftPlusPlus", BOX AGGREGATOR("a", "10.0.2.1", "8300")));
    struct bt_group_document *d = bt_group_document_parse(text, strlen(text), &e);
    assert_non_null(d);
    assert_true(bt_group_document_is_apart(d) && d->protocol == BT_GROUP_HOVERCRAFT_PLUS_PLUS);
    struct bt_addr at = bt_addr_v4u(0x0a000201, 8300);
    assert_true(bt_addr_eq(&d->aggregator.address, &at) && strcmp(d->aggregator.name, "a") == 0);
    assert_int_equal(d->aggregator.messages, BT_GROUP_TAGGED);
    struct bt_group_document moved = *d; // it is exchanged while members run
    moved.aggregator.address = bt_addr_v4u(0x0a000202, 8300);
    moved.aggregator.messages = BT_GROUP_BY_SOURCE;
    assert_true(bt_group_document_may_follow(d, &moved, &e));
    moved.protocol = BT_GROUP_HOVERCRAFT;
    assert_false(bt_group_document_may_follow(d, &moved, &e));
    assert_string_equal(e.field, "group.protocol");
    free(d);
    free(text);
    text = with(LIMIT, OF("HovercRaft", SWITCH_BOX("10.0.1.1", "BySource")));
    d = bt_group_document_parse(text, strlen(text), &e);
    assert_true(d != NULL && d->box[0].messages == BT_GROUP_BY_SOURCE);
    struct bt_addr clients = bt_addr_v4u(0x0a000101u, 8000), feedback = bt_addr_v4u(0x0a000101u, 9000);
    assert_true(bt_group_document_has_switch_at(d, &clients) && !bt_group_document_has_switch_at(d, &feedback));
    free(d);
    free(text);
    text = with(LIMIT, OF("HovercRaftPlusPlus", BOX SWITCH("10.0.2.1", "BySource")));
    d = bt_group_document_parse(text, strlen(text), &e);
    assert_true(d != NULL && d->aggregator.messages == BT_GROUP_BY_SOURCE);
    free(d);
    free(text);
}

static void documents_say_what_may_not_change(void **state)
{
    static const struct {
        const char *find, *put, *field;
    } rows[] = {
        {"8899aabb", "8899aabc", "group.cluster"},
        {"\"number\":7", "\"number\":8", "group.number"},
        {"Always", "Volatile", "group.storage"},
        {"Kernel", "SRIOV", "group.deviceProfile"},
        {"\"electionMilliseconds\":150", "\"electionMilliseconds\":151", "group.electionMilliseconds"},
        {"\"heartbeatMilliseconds\":30", "\"heartbeatMilliseconds\":31", "group.heartbeatMilliseconds"},
        {"\"logEntries\":16384", "\"logEntries\":32768", "group.logEntries"},
        {"\"maxSnapshotBytes\":16777216", "\"maxSnapshotBytes\":16777217", "group.maxSnapshotBytes"},
        {"\"inFlightLimit\":1000", "\"inFlightLimit\":1000,\"sessions\":7", "group.sessions"},
        {"\"inFlightLimit\":1000", "\"inFlightLimit\":1001", NULL},
        {"10.0.0.2", "10.0.0.9", NULL},
    };
    (void)state;
    struct bt_ctl_error e;
    struct bt_group_document *now = bt_group_document_parse(right, strlen(right), &e);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = with(rows[i].find, rows[i].put);
        struct bt_group_document *next = bt_group_document_parse(text, strlen(text), &e);
        assert_non_null(next);
        bool may = bt_group_document_may_follow(now, next, &e);
        assert_int_equal(may, rows[i].field == NULL);
        if (!may) {
            assert_string_equal(e.field, rows[i].field);
        }
        free(next);
        free(text);
    }
    free(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r381_every_bit_is_under_the_tag),
        cmocka_unit_test(w8_a_packet_without_a_tag_is_read_where_that_is_asked_for),
        cmocka_unit_test(r381_addresses_are_under_the_tag),
        cmocka_unit_test(r382_notes_are_read_as_written),
        cmocka_unit_test(documents_name_the_field_at_fault),
        cmocka_unit_test(documents_name_what_stands_beside_members),
        cmocka_unit_test(documents_say_what_may_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
