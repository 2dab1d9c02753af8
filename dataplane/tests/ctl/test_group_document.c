// SPDX-License-Identifier: Apache-2.0
// The document of a replication group with everything in it: each value arrives at its place, each bound holds, and
// what two entries must not share is refused at the later one. Beside these: tests/run/test_packet.c.
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/group_document.h"

#define MEMBER(n)                                                                                                      \
    "{\"name\":\"m" n "\",\"id\":1" n ",\"address\":\"10.0.0." n "\",\"memberPort\":810" n ",\"clientPort\":800" n "}"
#define BOX(n) "{\"name\":\"b" n "\",\"address\":\"10.0.1." n "\",\"clientPort\":801" n ",\"feedbackPort\":901" n "}"

static const char whole[] =
    "{\"apiVersion\":\"dataplane.bobtail.dev/v1\",\"kind\":\"ReplicationGroup\","
    "\"sources\":[{\"kind\":\"K\",\"namespace\":\"sn\",\"name\":\"so\",\"uid\":\"u\",\"generation\":5}],"
    "\"group\":{\"name\":\"gn\",\"namespace\":\"gs\",\"cluster\":\"00112233445566778899aabbccddeeff\",\"number\":7,"
    "\"storage\":\"Volatile\",\"deviceProfile\":\"SRIOV\",\"electionMilliseconds\":150,\"heartbeatMilliseconds\":30,"
    "\"logEntries\":16384,\"snapshotEntries\":4096,\"maxSnapshotBytes\":16777216,\"inFlightLimit\":1000,"
    "\"sessions\":900,\"protocol\":\"HovercRaftPlusPlus\",\"repliers\":\"Random\",\"replierBound\":64},"
    "\"initialMembers\":[\"m1\",\"m2\",\"m3\"],\"members\":[" MEMBER("1") "," MEMBER("2") "," MEMBER(
        "3") "],"
             "\"boxes\":[" BOX("1") "," BOX(
                 "2") "],"
                      "\"aggregator\":{\"name\":\"a\",\"address\":\"10.0.2.1\",\"port\":8300},"
                      "\"multicast\":{\"address\":\"239.0.0.1\",\"port\":8200},"
                      "\"wantedVoters\":[12],\"avoidLeaders\":[11,13],\"keyIds\":[21,22]}";

// The whole document with the first `find` replaced.
static char *with(const char *find, const char *put)
{
    const char *at = strstr(whole, find);
    size_t room = sizeof whole + strlen(put);
    char *out = malloc(room);
    if (at == NULL || out == NULL) {
        fail_msg("%s is not in the document", find);
    }
    snprintf(out, room, "%.*s%s%s", (int)(at - whole), whole, put, at + strlen(find));
    return out;
}

static void expect(const char *find, const char *put, const char *field)
{
    struct bt_ctl_error e = {.field = ""};
    char *text = with(find, put);
    struct bt_group_document *d = bt_group_document_parse(text, strlen(text), &e);
    if ((d == NULL) != (field != NULL) || (d == NULL && strcmp(e.field, field) != 0)) {
        fail_msg("%s: %s \"%s\", want \"%s\"", put, d != NULL ? "accepted" : "refused at", d != NULL ? "" : e.field,
                 field != NULL ? field : "accepted");
    }
    free(d);
    free(text);
}

static struct bt_group_document *read_it(const char *find, const char *put)
{
    struct bt_ctl_error e;
    char *text = with(find, put);
    struct bt_group_document *d = bt_group_document_parse(text, strlen(text), &e);
    free(text);
    if (d == NULL) {
        fail_msg("%s: %s", e.field, e.message);
    }
    return d;
}

static void is_at(const struct bt_addr *got, uint32_t ip, uint16_t port)
{
    struct bt_addr want = bt_addr_v4u(ip, port);
    assert_true(bt_addr_eq(got, &want));
}

static void every_value_of_the_group_arrives(void **state)
{
    static const uint8_t cluster[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                        0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    struct bt_group_document *d = read_it("{", "{");
    (void)state;
    assert_int_equal(d->n_sources, 1);
    assert_string_equal(d->sources[0].kind, "K");
    assert_string_equal(d->sources[0].namespace, "sn");
    assert_string_equal(d->sources[0].name, "so");
    assert_string_equal(d->sources[0].uid, "u");
    assert_int_equal(d->sources[0].generation, 5);
    assert_string_equal(d->name, "gn");
    assert_string_equal(d->namespace, "gs");
    assert_memory_equal(d->cluster, cluster, sizeof cluster);
    assert_int_equal(d->number, 7);
    assert_int_equal(d->storage, BT_GROUP_VOLATILE);
    assert_int_equal(d->device, BT_DEVICE_SRIOV);
    assert_int_equal(d->election_ms, 150);
    assert_int_equal(d->heartbeat_ms, 30);
    assert_int_equal(d->log_entries, 16384);
    assert_int_equal(d->snapshot_entries, 4096);
    assert_int_equal(d->snapshot_bytes, 16777216);
    assert_int_equal(d->in_flight, 1000);
    assert_int_equal(d->sessions, 900);
    assert_int_equal(d->protocol, BT_GROUP_HOVERCRAFT_PLUS_PLUS);
    assert_int_equal(d->repliers, BT_GROUP_RANDOM);
    assert_int_equal(d->replier_bound, 64);
    free(d);
}

static void every_value_of_the_others_arrives(void **state)
{
    struct bt_group_document *d = read_it("{", "{");
    (void)state;
    assert_int_equal(d->n_founders, 3);
    assert_int_equal(d->n_members, 3);
    for (uint16_t i = 1; i <= 3; i++) {
        const struct bt_group_document_member *m = &d->member[i - 1];
        char name[8];
        snprintf(name, sizeof name, "m%u", i);
        assert_string_equal(d->founder[i - 1], name);
        assert_string_equal(m->name, name);
        assert_int_equal(m->id, 10 + i);
        is_at(&m->address, 0x0a000000u + i, (uint16_t)(8100 + i));
        is_at(&m->client, 0x0a000000u + i, (uint16_t)(8000 + i));
        assert_ptr_equal(bt_group_document_find(d, name), m);
        assert_ptr_equal(bt_group_document_by_id(d, 10 + i), m);
        assert_true(bt_group_document_founds(d, name));
    }
    assert_int_equal(d->n_boxes, 2);
    for (uint16_t i = 1; i <= 2; i++) {
        char name[8];
        snprintf(name, sizeof name, "b%u", i);
        assert_ptr_equal(bt_group_document_box_find(d, name), &d->box[i - 1]);
        is_at(&d->box[i - 1].client, 0x0a000100u + i, (uint16_t)(8010 + i));
        is_at(&d->box[i - 1].feedback, 0x0a000100u + i, (uint16_t)(9010 + i));
        assert_int_equal(d->box[i - 1].messages, BT_GROUP_TAGGED);
        assert_false(bt_group_document_has_switch_at(d, &d->box[i - 1].client)); // it signs
    }
    assert_string_equal(d->aggregator.name, "a");
    is_at(&d->aggregator.address, 0x0a000201, 8300);
    is_at(&d->multicast, 0xef000001, 8200);
    assert_true(d->wanted_given && d->n_wanted == 1 && d->wanted[0] == 12);
    assert_true(d->n_avoided == 2 && d->avoided[0] == 11 && d->avoided[1] == 13);
    assert_true(d->n_key_ids == 2 && d->key_id[0] == 21 && d->key_id[1] == 22);
    free(d);
}

static void who_is_not_in_it_is_not_found(void **state)
{
    struct bt_group_document *d = read_it("[\"m1\",\"m2\",\"m3\"]", "[\"m2\"]");
    (void)state;
    assert_null(bt_group_document_find(d, "m4"));
    assert_null(bt_group_document_by_id(d, 14));
    assert_null(bt_group_document_box_find(d, "b3"));
    assert_true(bt_group_document_founds(d, "m2") && !bt_group_document_founds(d, "m1"));
    for (int64_t id = 10; id <= 14; id++) {
        assert_int_equal(bt_group_document_wants(d, id), id == 12);
        assert_int_equal(bt_group_document_avoids(d, id), id == 11 || id == 13);
    }
    free(d);
}

// What is left out that must be there.
static void every_field_that_is_wanted_is_missed(void **state)
{
    static const struct {
        const char *part, *field;
    } rows[] = {
        {"\"apiVersion\":\"dataplane.bobtail.dev/v1\",", "apiVersion"},
        {"\"kind\":\"ReplicationGroup\",", "kind"},
        {"\"kind\":\"K\",", "sources[0].kind"},
        {"\"namespace\":\"sn\",", "sources[0].namespace"},
        {"\"name\":\"so\",", "sources[0].name"},
        {"\"uid\":\"u\",", "sources[0].uid"},
        {",\"generation\":5", "sources[0].generation"},
        {"\"name\":\"gn\",", "group.name"},
        {"\"namespace\":\"gs\",", "group.namespace"},
        {"\"cluster\":\"00112233445566778899aabbccddeeff\",", "group.cluster"},
        {"\"number\":7,", "group.number"},
        {"\"storage\":\"Volatile\",", "group.storage"},
        {"\"deviceProfile\":\"SRIOV\",", "group.deviceProfile"},
        {"\"electionMilliseconds\":150,", "group.electionMilliseconds"},
        {"\"heartbeatMilliseconds\":30,", "group.heartbeatMilliseconds"},
        {"\"logEntries\":16384,", "group.logEntries"},
        {"\"snapshotEntries\":4096,", "group.snapshotEntries"},
        {"\"maxSnapshotBytes\":16777216,", "group.maxSnapshotBytes"},
        {"\"inFlightLimit\":1000,", "group.inFlightLimit"},
        {"\"initialMembers\":[\"m1\",\"m2\",\"m3\"],", "initialMembers"},
        {"\"members\":[" MEMBER("1") "," MEMBER("2") "," MEMBER("3") "],", "members"},
        {"\"name\":\"m2\",", "members[1].name"},
        {"\"id\":12,", "members[1].id"},
        {"\"address\":\"10.0.0.2\",", "members[1].address"},
        {"\"memberPort\":8102,", "members[1].memberPort"},
        {",\"clientPort\":8002", "members[1].clientPort"},
        {"\"name\":\"b2\",", "boxes[1].name"},
        {"\"address\":\"10.0.1.2\",", "boxes[1].address"},
        {"\"clientPort\":8012,", "boxes[1].clientPort"},
        {",\"feedbackPort\":9012", "boxes[1].feedbackPort"},
        {"\"name\":\"a\",", "aggregator.name"},
        {"\"address\":\"10.0.2.1\",", "aggregator.address"},
        {",\"port\":8300", "aggregator.port"},
        {"\"address\":\"239.0.0.1\",", "multicast.address"},
        {",\"port\":8200", "multicast.port"},
        {",\"keyIds\":[21,22]", "keyIds"},
        {"\"boxes\":[" BOX("1") "," BOX("2") "],", "boxes"}, // by its protocol
        {"\"aggregator\":{\"name\":\"a\",\"address\":\"10.0.2.1\",\"port\":8300},", "aggregator"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].part, "", rows[i].field);
    }
}

static void what_may_be_left_out_has_its_default(void **state)
{
    struct bt_group_document *d = read_it("\"sessions\":900,", "");
    (void)state;
    assert_int_equal(d->sessions, 0);
    free(d);
    d = read_it(",\"repliers\":\"Random\",\"replierBound\":64", "");
    assert_true(d->repliers == BT_GROUP_JBSQ && d->replier_bound == 0);
    free(d);
    d = read_it("\"protocol\":\"HovercRaftPlusPlus\",", "");
    assert_true(d->protocol == BT_GROUP_RAFT && !bt_group_document_is_apart(d));
    free(d);
    d = read_it("\"multicast\":{\"address\":\"239.0.0.1\",\"port\":8200},", "");
    assert_int_equal(d->multicast.port, 0);
    free(d);
    d = read_it("\"wantedVoters\":[12],\"avoidLeaders\":[11,13],", "");
    assert_true(!d->wanted_given && d->n_wanted == 0 && d->n_avoided == 0);
    free(d);
    d = read_it("[\"m1\",\"m2\",\"m3\"]", "[]");
    assert_int_equal(d->n_founders, 0);
    free(d);
}

// Its lowest and its highest value are taken; one below, one above is not.
static void every_number_has_its_bounds(void **state)
{
    static const struct {
        const char *find, *head;
        int64_t low, high;
        const char *field;
    } rows[] = {
        {"\"number\":7", "\"number\":", 1, 4294967295, "group.number"},
        {"\"electionMilliseconds\":150", "\"electionMilliseconds\":", 61, 10000, "group.electionMilliseconds"},
        {"\"electionMilliseconds\":150,\"heartbeatMilliseconds\":30",
         "\"heartbeatMilliseconds\":1,\"electionMilliseconds\":", 10, 10000, "group.electionMilliseconds"},
        {"\"electionMilliseconds\":150,\"heartbeatMilliseconds\":30",
         "\"electionMilliseconds\":10000,\"heartbeatMilliseconds\":", 1, 1000, "group.heartbeatMilliseconds"},
        {"\"snapshotEntries\":4096", "\"snapshotEntries\":", 128, 4096, "group.snapshotEntries"},
        {"\"logEntries\":16384,\"snapshotEntries\":4096", "\"logEntries\":1048576,\"snapshotEntries\":", 128, 262144,
         "group.snapshotEntries"},
        {"\"maxSnapshotBytes\":16777216", "\"maxSnapshotBytes\":", 65536, 268435456, "group.maxSnapshotBytes"},
        {"\"inFlightLimit\":1000", "\"inFlightLimit\":", 1, 4096, "group.inFlightLimit"},
        {"\"sessions\":900", "\"sessions\":", 1, 1024, "group.sessions"},
        {"\"replierBound\":64", "\"replierBound\":", 1, 4096, "group.replierBound"},
        {"\"id\":11", "\"id\":", 1, 65534, "members[0].id"},
        {"\"memberPort\":8101", "\"memberPort\":", 1, 65535, "members[0].memberPort"},
        {"\"clientPort\":8001", "\"clientPort\":", 1, 65535, "members[0].clientPort"},
        {"\"clientPort\":8011", "\"clientPort\":", 1, 65535, "boxes[0].clientPort"},
        {"\"feedbackPort\":9011", "\"feedbackPort\":", 1, 65535, "boxes[0].feedbackPort"},
        {"\"port\":8300", "\"port\":", 1, 65535, "aggregator.port"},
        {"\"port\":8200", "\"port\":", 1, 65535, "multicast.port"},
    };
    char put[160];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < 4; k++) {
            int64_t v = k < 2 ? rows[i].low - (k == 0) : rows[i].high + (k == 3);
            snprintf(put, sizeof put, "%s%lld", rows[i].head, (long long)v);
            expect(rows[i].find, put, k == 0 || k == 3 ? rows[i].field : NULL);
        }
    }
}

static void entries_of_lists_have_their_bounds(void **state)
{
    static const struct {
        const char *find, *put, *field;
    } rows[] = {
        {"[11,13]", "[1,65534]", NULL},
        {"[11,13]", "[]", NULL},
        {"[11,13]", "[0]", "avoidLeaders[0]"},
        {"[11,13]", "[65535]", "avoidLeaders[0]"},
        {"[11,13]", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", NULL},
        {"[11,13]", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "avoidLeaders"},
        {"[12]", "[0]", "wantedVoters[0]"},
        {"[12]", "[65535]", "wantedVoters[0]"},
        {"[12]", "[11,12,13]", NULL},
        {"[12]", "[11,12,11]", "wantedVoters[2]"},
        {"[12]", "[11,13]", "wantedVoters"},
        {"[12]", "[14]", "wantedVoters[0]"},
        {"[21,22]", "[1,255]", NULL},
        {"[21,22]", "[1]", NULL},
        {"[21,22]", "[]", "keyIds"},
        {"[21,22]", "[0,1]", "keyIds[0]"},
        {"[21,22]", "[1,256]", "keyIds[1]"},
        {"[21,22]", "[1,2,3]", "keyIds"},
        {"[21,22]", "[2,2]", "keyIds[1]"},
        {"[\"m1\",\"m2\",\"m3\"]", "[\"m1\"]", NULL},
        {"[\"m1\",\"m2\",\"m3\"]", "[\"m1\",\"m3\"]", "initialMembers"},
        {"[\"m1\",\"m2\",\"m3\"]", "[\"m1\",\"m3\",\"m1\"]", "initialMembers[2]"},
        {"[\"m1\",\"m2\",\"m3\"]", "[\"m4\"]", "initialMembers[0]"},
        {"[\"m1\",\"m2\",\"m3\"]", "[\"\"]", "initialMembers[0]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].find, rows[i].put, rows[i].field);
    }
}

static void the_log_is_a_power_of_two(void **state)
{
    (void)state;
#define LOG "\"logEntries\":16384,\"snapshotEntries\":4096"
    expect(LOG, "\"logEntries\":1024,\"snapshotEntries\":256", NULL);
    expect(LOG, "\"logEntries\":1024,\"snapshotEntries\":257", "group.snapshotEntries");
    expect(LOG, "\"logEntries\":1048576,\"snapshotEntries\":128", NULL);
    expect(LOG, "\"logEntries\":512,\"snapshotEntries\":128", "group.logEntries");
    expect(LOG, "\"logEntries\":2097152,\"snapshotEntries\":128", "group.logEntries");
    expect(LOG, "\"logEntries\":1025,\"snapshotEntries\":128", "group.logEntries");
    expect(LOG, "\"logEntries\":1048575,\"snapshotEntries\":128", "group.logEntries");
}

static void words_are_those_that_there_are(void **state)
{
    struct bt_group_document *d = read_it("\"Volatile\"", "\"Always\"");
    (void)state;
    assert_int_equal(d->storage, BT_GROUP_ALWAYS);
    free(d);
    d = read_it("\"HovercRaftPlusPlus\"", "\"HovercRaft\"");
    assert_true(d->protocol == BT_GROUP_HOVERCRAFT && bt_group_document_is_apart(d));
    free(d);
    d = read_it("\"HovercRaftPlusPlus\"", "\"Raft\"");
    assert_true(d->protocol == BT_GROUP_RAFT && !bt_group_document_is_apart(d));
    free(d);
    d = read_it("\"Random\"", "\"JBSQ\"");
    assert_int_equal(d->repliers, BT_GROUP_JBSQ);
    free(d);
    expect("\"Random\"", "\"Any\"", "group.repliers");
    expect("\"Volatile\"", "\"volatile\"", "group.storage");
}

static void addresses_are_of_one_host(void **state)
{
    static const char *const places[][2] = {
        {"\"10.0.0.2\"", "members[1].address"},
        {"\"10.0.1.2\"", "boxes[1].address"},
        {"\"10.0.2.1\"", "aggregator.address"},
    };
    static const char *const wrong[] = {
        "\"\"",           "\"10.0.0\"",
        "\"10.0.0.2:1\"", "\"[fd00::1]\"",
        "\"host\"",       "\"fe80::1%eth0\"",
        "\"224.0.0.1\"",  "\"255.255.255.255\"",
        "\"0.0.0.0\"",    "\"ff02::1\"",
        "\"::\"",         "\"00000000000000000000000000000000000000000000000000000000000000000010.0.0.9\""};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            expect(places[i][0], wrong[k], places[i][1]);
        }
        expect(places[i][0], "\"fd00::1\"", NULL);
    }
    struct bt_group_document *d = read_it("\"10.0.0.2\"", "\"fd00::9\"");
    assert_true(!bt_addr_is_v4(&d->member[1].address) && d->member[1].address.ip[15] == 9);
    assert_int_equal(d->member[1].address.port, 8102);
    assert_int_equal(d->member[1].client.port, 8002);
    free(d);
}

static void a_multicast_group_is_one_and_of_its_boxes_family(void **state)
{
    static const char *const wrong[] = {"\"10.0.0.9\"", "\"239.0.0.1:1\"",  "\"[ff02::1]\"",
                                        "\"\"",         "\"ff02::1%eth0\"", "\"ff0e::1\""};
    (void)state;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        expect("\"239.0.0.1\"", wrong[k], "multicast.address");
    }
    expect("\"239.0.0.1\"", "\"224.0.1.7\"", NULL);
    expect("\"boxes\":[" BOX("1") "," BOX("2") "]",
           "\"boxes\":[{\"name\":\"b\",\"address\":\"fd00::1\",\"clientPort\":1,\"feedbackPort\":2}]",
           "multicast.address");
}

// The later one of two is named, with what is shared.
static void two_members_share_nothing(void **state)
{
    static const struct {
        const char *find, *put, *field;
    } rows[] = {
        {"\"id\":13", "\"id\":12", "members[2].id"},
        {"\"name\":\"m3\",\"id\"", "\"name\":\"m2\",\"id\"", "members[2].name"},
        {"10.0.0.3\",\"memberPort\":8103", "10.0.0.2\",\"memberPort\":8102", "members[2].memberPort"},
        {"10.0.0.3\",\"memberPort\":8103", "10.0.0.2\",\"memberPort\":8002", "members[2].memberPort"},
        {"10.0.0.3\",\"memberPort\":8103,\"clientPort\":8003", "10.0.0.2\",\"memberPort\":8103,\"clientPort\":8002",
         "members[2].clientPort"},
        {"10.0.0.3\",\"memberPort\":8103,\"clientPort\":8003", "10.0.0.2\",\"memberPort\":8103,\"clientPort\":8102",
         "members[2].clientPort"},
        {"10.0.0.3", "10.0.0.2", NULL}, // at other ports of the same host
        {"10.0.0.3\",\"memberPort\":8103,\"clientPort\":8003", "10.0.0.3\",\"memberPort\":8102,\"clientPort\":8002",
         NULL},
        {"\"clientPort\":8003", "\"clientPort\":8103", "members[2].clientPort"},
        {"\"memberPort\":8101", "\"memberPort\":8001", "members[0].clientPort"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].find, rows[i].put, rows[i].field);
    }
}

static void two_boxes_share_nothing(void **state)
{
    static const struct {
        const char *find, *put, *field;
    } rows[] = {
        {"\"name\":\"b2\"", "\"name\":\"b1\"", "boxes[1].name"},
        {"10.0.1.2\",\"clientPort\":8012", "10.0.1.1\",\"clientPort\":8011", "boxes[1].name"},
        {"10.0.1.2", "10.0.1.1", NULL},
        {"\"clientPort\":8012", "\"clientPort\":8011", NULL},
        {"\"feedbackPort\":9012", "\"feedbackPort\":8012", "boxes[1].feedbackPort"},
        {BOX("2"), BOX("2") "," BOX("3") "," BOX("4"), NULL},
        {BOX("2"), BOX("2") "," BOX("3") "," BOX("4") "," BOX("5"), "boxes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].find, rows[i].put, rows[i].field);
    }
}

// W-8: a switch is believed by its address, where the document says that it is one.
static void w8_a_switch_is_where_the_document_says(void **state)
{
    (void)state;
    struct bt_group_document *d = read_it("\"feedbackPort\":9012", "\"feedbackPort\":9012,\"messages\":\"BySource\"");
    struct bt_addr other_port = d->box[1].client;
    other_port.port++;
    assert_int_equal(d->box[0].messages, BT_GROUP_TAGGED);
    assert_int_equal(d->box[1].messages, BT_GROUP_BY_SOURCE);
    assert_true(bt_group_document_has_switch_at(d, &d->box[1].client));
    assert_false(bt_group_document_has_switch_at(d, &d->box[1].feedback));
    assert_false(bt_group_document_has_switch_at(d, &d->box[0].client));
    assert_false(bt_group_document_has_switch_at(d, &other_port));
    free(d);
    d = read_it("\"port\":8300", "\"port\":8300,\"messages\":\"BySource\"");
    assert_int_equal(d->aggregator.messages, BT_GROUP_BY_SOURCE);
    free(d);
    expect("\"address\":\"10.0.2.1\"", "\"messages\":\"BySource\",\"address\":\"fd00::1\"", "aggregator.address");
    expect("\"address\":\"10.0.1.2\"", "\"messages\":\"BySource\",\"address\":\"fd00::1\"", "boxes[1].address");
}

static void what_its_members_were_started_with_stays(void **state)
{
    static const struct {
        const char *find, *put, *field;
    } rows[] = {
        {"00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeefe", "group.cluster"},
        {"\"number\":7", "\"number\":8", "group.number"},
        {"Volatile", "Always", "group.storage"},
        {"SRIOV", "Kernel", "group.deviceProfile"},
        {"\"electionMilliseconds\":150", "\"electionMilliseconds\":151", "group.electionMilliseconds"},
        {"\"heartbeatMilliseconds\":30", "\"heartbeatMilliseconds\":31", "group.heartbeatMilliseconds"},
        {"\"logEntries\":16384", "\"logEntries\":32768", "group.logEntries"},
        {"\"maxSnapshotBytes\":16777216", "\"maxSnapshotBytes\":16777217", "group.maxSnapshotBytes"},
        {"\"sessions\":900", "\"sessions\":901", "group.sessions"},
        {"HovercRaftPlusPlus", "HovercRaft", "group.protocol"},
        {"Random", "JBSQ", "group.repliers"},
        {"\"replierBound\":64", "\"replierBound\":65", "group.replierBound"},
        {"239.0.0.1", "239.0.0.2", "multicast"},
        {"\"port\":8200", "\"port\":8201", "multicast"},
        {"\"snapshotEntries\":4096", "\"snapshotEntries\":4095", NULL},
        {"\"inFlightLimit\":1000", "\"inFlightLimit\":1001", NULL},
        {"10.0.0.2", "10.0.0.9", NULL},
        {"10.0.1.2", "10.0.1.9", NULL},
        {"10.0.2.1", "10.0.2.9", NULL},
        {"[21,22]", "[23]", NULL},
    };
    struct bt_group_document *now = read_it("{", "{");
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bt_ctl_error e;
        struct bt_group_document *next = read_it(rows[i].find, rows[i].put);
        bool may = bt_group_document_may_follow(now, next, &e);
        if (may != (rows[i].field == NULL) || (!may && strcmp(e.field, rows[i].field) != 0)) {
            fail_msg("%s: %s", rows[i].put, may ? "may follow" : e.field);
        }
        free(next);
    }
    free(now);
}

static void a_document_without_its_group_is_none(void **state)
{
    const char *begin = strstr(whole, "\"group\":"), *behind = strstr(whole, "\"initialMembers\"");
    char group[sizeof whole];
    (void)state;
    snprintf(group, sizeof group, "%.*s", (int)(behind - begin), begin);
    expect(group, "", "group");
    expect("\"sources\":[{\"kind\":\"K\",\"namespace\":\"sn\",\"name\":\"so\",\"uid\":\"u\",\"generation\":5}],", "",
           "sources");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_of_the_group_arrives),
        cmocka_unit_test(every_value_of_the_others_arrives),
        cmocka_unit_test(who_is_not_in_it_is_not_found),
        cmocka_unit_test(every_field_that_is_wanted_is_missed),
        cmocka_unit_test(what_may_be_left_out_has_its_default),
        cmocka_unit_test(every_number_has_its_bounds),
        cmocka_unit_test(entries_of_lists_have_their_bounds),
        cmocka_unit_test(the_log_is_a_power_of_two),
        cmocka_unit_test(words_are_those_that_there_are),
        cmocka_unit_test(addresses_are_of_one_host),
        cmocka_unit_test(a_multicast_group_is_one_and_of_its_boxes_family),
        cmocka_unit_test(two_members_share_nothing),
        cmocka_unit_test(two_boxes_share_nothing),
        cmocka_unit_test(w8_a_switch_is_where_the_document_says),
        cmocka_unit_test(what_its_members_were_started_with_stays),
        cmocka_unit_test(a_document_without_its_group_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
