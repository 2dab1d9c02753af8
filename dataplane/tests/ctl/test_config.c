// SPDX-License-Identifier: Apache-2.0
// The configuration document against the vectors it shares with clients/go/r2p2/config, and the
// keys it asks for.
#include "unit.h"

#include "ctl/config.h"
#include "ctl/file.h"
#include "ctl/keys.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR BT_VECTORS "/config/"

static char *read_vector(const char *name, size_t *len)
{
    char path[1024];
    struct bt_ctl_error e;
    snprintf(path, sizeof path, DIR "%s", name);
    char *text = bt_file_read(path, len, &e);
    if (text == NULL) {
        fail_msg("%s", e.message);
    }
    return text;
}

static void check_good(const char *name, const cJSON *want, const struct bt_config *c, const struct bt_ctl_error *e)
{
    const cJSON *first = cJSON_GetObjectItem(want, "firstMember");
    if (c == NULL) {
        fail_msg("%s is refused: %s: %s", name, e->field, e->message);
        return;
    }
    assert_int_equal(c->n_workers, cJSON_GetObjectItem(want, "workers")->valueint);
    if (first != NULL) {
        assert_string_equal(c->members[0].name, first->valuestring);
    }
}

static void check_bad(const char *name, const cJSON *want, const struct bt_config *c, const struct bt_ctl_error *e)
{
    const char *field = cJSON_GetObjectItem(want, "field")->valuestring;
    const char *says = cJSON_GetObjectItem(want, "says")->valuestring;
    if (c != NULL) {
        fail_msg("%s is accepted", name);
    }
    if (strcmp(e->field, field) != 0 || strstr(e->message, says) == NULL) {
        fail_msg("%s: \"%s: %s\", want field \"%s\" saying \"%s\"", name, e->field, e->message, field, says);
    }
    assert_string_equal(e->code, BT_CTL_INVALID_CONFIG);
}

static void shared_vectors_are_accepted_or_refused_at_their_field(void **state)
{
    size_t len;
    unsigned bad = 0;
    char *index = read_vector("expected.json", &len);
    cJSON *cases = cJSON_ParseWithLength(index, len);
    const cJSON *want;
    (void)state;
    assert_non_null(cases);
    cJSON_ArrayForEach(want, cases)
    {
        struct bt_ctl_error e = {.code = ""};
        const char *name = cJSON_GetObjectItem(want, "file")->valuestring;
        char *text = read_vector(name, &len);
        struct bt_config *c = bt_config_parse(text, len, &e);
        if (cJSON_IsTrue(cJSON_GetObjectItem(want, "ok"))) {
            check_good(name, want, c, &e);
        } else {
            check_bad(name, want, c, &e);
            bad++;
        }
        bt_config_free(c);
        free(text);
    }
    assert_true(bad >= 30);
    cJSON_Delete(cases);
    free(index);
}

// A document cut anywhere is refused, and reading it touches nothing behind its end.
static void every_prefix_is_refused(void **state)
{
    size_t len;
    char *text = read_vector("good-minimal.json", &len);
    (void)state;
    for (size_t n = 0; n < len; n++) {
        struct bt_ctl_error e;
        char *copy = malloc(n != 0 ? n : 1);
        memcpy(copy, text, n);
        assert_null(bt_config_parse(copy, n, &e));
        free(copy);
    }
    free(text);
}

static void values_arrive_where_they_belong(void **state)
{
    size_t len;
    struct bt_ctl_error e;
    char addr[BT_ADDR_TEXT];
    char *text = read_vector("good-upper-bounds.json", &len);
    struct bt_config *c = bt_config_parse(text, len, &e);
    (void)state;
    assert_non_null(c);
    const struct bt_config_service *s = &c->service;
    assert_int_equal(s->placement, BT_PLACE_SOFTWARE);
    assert_int_equal(s->policy, BT_ROUTER_POWER_OF_TWO);
    assert_int_equal(s->forwarding, BT_FORWARD_TRANSPARENT);
    assert_int_equal(s->device, BT_DEVICE_SRIOV);
    assert_true(s->legacy_peers);
    assert_int_equal(s->worker_queue_depth, 64);
    assert_int_equal(s->central_queue_limit, 1048576);
    assert_int_equal(s->max_queue_ms, 600000);
    assert_int_equal(s->request_timeout_ms, 600000);
    assert_int_equal(s->hold_back_packets, 1024);
    assert_int_equal(s->hold_back_us, 1000000);
    assert_string_equal(bt_addr_format(&c->members[0].addr, addr), "10.244.0.7:8000");
    assert_string_equal(bt_addr_format(&c->routers[0].request, addr), "10.244.1.9:8000");
    assert_string_equal(bt_addr_format(&c->routers[0].feedback, addr), "10.244.1.9:9000");
    assert_int_equal(c->n_key_ids, 2);
    assert_int_equal(c->key_ids[0], 255);
    assert_int_equal(c->sources[0].generation, 3);
    bt_config_free(c);
    free(text);
}

// absent is off; what is there arrives.
static void admission_arrives_where_it_belongs(void **state)
{
    size_t len, less;
    struct bt_ctl_error e;
    char *text = read_vector("good-admission.json", &len), *without = read_vector("good-minimal.json", &less);
    struct bt_config *c = bt_config_parse(text, len, &e), *none = bt_config_parse(without, less, &e);
    (void)state;
    assert_non_null(c);
    assert_non_null(none);
    const struct bt_config_admission *a = &c->service.admission;
    assert_true(a->given);
    assert_int_equal(a->mode, BT_ADMISSION_REJECT);
    assert_int_equal(a->controller, BT_CONTROL_TRACK);
    assert_int_equal(a->latency_us, 300);
    assert_int_equal(a->per_100k, 99000);
    assert_int_equal(a->n_droppable, 6);
    assert_int_equal(a->droppable[5], 7);
    assert_false(none->service.admission.given);
    bt_config_free(c);
    bt_config_free(none);
    free(text);
    free(without);
}

static void write_key(const char *dir, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

// keys come from files named by id; the document says which must be there.
static void r57_keys_are_read_in_the_documents_order(void **state)
{
    char dir[] = "/tmp/bobtail-keys-XXXXXX";
    struct bt_ctl_error e;
    struct bt_keyring ring;
    int64_t ids[] = {2, 1};
    struct bt_config c = {.key_ids = ids, .n_key_ids = 2};
    char path[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    write_key(dir, "1", "000102030405060708090a0b0c0d0e0f\n");
    assert_false(bt_keys_load(dir, &c, &ring, &e));
    assert_string_equal(e.field, "keyIds[0]");
    write_key(dir, "2", "ffeeddccbbaa99887766554433221100");
    assert_true(bt_keys_load(dir, &c, &ring, &e));
    assert_int_equal(ring.key[0].id, 2);
    assert_int_equal(ring.key[0].bytes[0], 0xff);
    assert_int_equal(ring.key[1].id, 1);
    assert_int_equal(ring.key[1].bytes[15], 0x0f);
    static const char *const broken[] = {"", "00", "zz0102030405060708090a0b0c0d0e0f",
                                         "000102030405060708090a0b0c0d0e0f00", "000102030405060708090a0b0c0d0e0f x"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        write_key(dir, "1", broken[i]);
        assert_false(bt_keys_load(dir, &c, &ring, &e));
        assert_string_equal(e.field, "keyIds[1]");
    }
    assert_false(bt_keys_load(NULL, &c, &ring, &e));
    assert_non_null(strstr(e.message, "--key-dir"));
    for (int id = 1; id <= 2; id++) {
        snprintf(path, sizeof path, "%s/%d", dir, id);
        unlink(path);
    }
    rmdir(dir);
}

static void the_hash_is_sha256_of_the_exact_bytes(void **state)
{
    char hash[BT_CONFIG_HASH];
    (void)state;
    bt_config_hash("abc", 3, hash);
    assert_string_equal(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// The minimal document with the first `find` replaced: refused at this field, or accepted (NULL).
static void expect(const char *find, const char *put, const char *field)
{
    size_t len;
    struct bt_ctl_error e = {.field = ""};
    char *good = read_vector("good-minimal.json", &len);
    good[len] = '\0'; // read into room for one byte more
    const char *at = strstr(good, find);
    assert_non_null(at);
    size_t room = len + strlen(put) + 1;
    char *text = malloc(room);
    assert_non_null(text);
    snprintf(text, room, "%.*s%s%s", (int)(at - good), good, put, at + strlen(find));
    struct bt_config *c = bt_config_parse(text, strlen(text), &e);
    if ((c != NULL) != (field == NULL) || (field != NULL && strcmp(e.field, field) != 0)) {
        fail_msg("%s: %s \"%s\"", put, c != NULL ? "accepted" : "refused at", c != NULL ? "" : e.field);
    }
    bt_config_free(c);
    free(text);
    free(good);
}

static void ports_have_their_bounds(void **state)
{
    (void)state;
    expect("\"requestPort\":8000", "\"requestPort\":0", "routers[0].requestPort");
    expect("\"requestPort\":8000", "\"requestPort\":1", NULL);
    expect("\"requestPort\":8000", "\"requestPort\":65535", NULL);
    expect("\"requestPort\":8000", "\"requestPort\":65536", "routers[0].requestPort");
    expect("\"feedbackPort\":9000", "\"feedbackPort\":0", "routers[0].feedbackPort");
    expect("\"feedbackPort\":9000", "\"feedbackPort\":1", NULL);
    expect("\"feedbackPort\":9000", "\"feedbackPort\":65535", NULL);
    expect("\"feedbackPort\":9000", "\"feedbackPort\":65536", "routers[0].feedbackPort");
    expect("\"feedbackPort\":9000", "\"feedbackPort\":8000", "routers[0].feedbackPort");
    expect("\"firstPort\":8000", "\"firstPort\":0", "members[0].firstPort");
    expect("\"firstPort\":8000", "\"firstPort\":1", NULL);
    expect("\"firstPort\":8000", "\"firstPort\":65532", NULL); // of four workers the last is at 65535
    expect("\"firstPort\":8000", "\"firstPort\":65533", "members[0].workers");
}

static void lists_that_are_wanted_are_missed(void **state)
{
    (void)state;
    expect("\"members\":[{\"address\":\"10.244.0.7\",\"firstPort\":8000,\"workers\":4,\"name\":\"echo-server-abc\"}],",
           "", "members");
    expect("\"routers\":[{\"address\":\"10.244.1.9\",\"requestPort\":8000,\"feedbackPort\":9000,\"name\":\"echo-router-"
           "0\"}],",
           "", "routers");
    expect(",\"keyIds\":[1]", "", "keyIds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_vectors_are_accepted_or_refused_at_their_field),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(values_arrive_where_they_belong),
        cmocka_unit_test(admission_arrives_where_it_belongs),
        cmocka_unit_test(r57_keys_are_read_in_the_documents_order),
        cmocka_unit_test(the_hash_is_sha256_of_the_exact_bytes),
        cmocka_unit_test(ports_have_their_bounds),
        cmocka_unit_test(lists_that_are_wanted_are_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
