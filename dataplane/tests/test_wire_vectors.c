// SPDX-License-Identifier: Apache-2.0
// Every shared wire vector: decoded fields, canonical encoding, M-cases, tags.
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "vector_file.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "wire/sack.h"
#include "wire/tag.h"

static enum bt_role role_of(const char *name)
{
    static const char *const names[] = {"client", "server", "router", "router-requests", "router-feedback", "any"};
    for (unsigned i = 0; i < 6; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (enum bt_role)i;
        }
    }
    fail_msg("unknown role %s", name);
    return BT_ROLE_ANY;
}

static unsigned type_of(const char *name)
{
    static const char *const names[] = {"REQUEST", "REPLY", "FEEDBACK", "REQRDY", "DROP", "", "", "", "SACK", "CANCEL"};
    for (unsigned i = 0; i < 10; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    fail_msg("unknown type %s", name);
    return 0;
}

static struct bt_addr addr_of(const char *text)
{
    struct bt_addr a;
    if (strcmp(text, "0.0.0.0:0") == 0) {
        return bt_addr_v4u(0, 0);
    }
    if (bt_addr_parse(text, 0, &a)) {
        fail_msg("bad address %s in vectors", text);
    }
    return a;
}

static void check_options(const cJSON *d, const struct bt_options *o)
{
    const cJSON *v;
    assert_int_equal(cJSON_HasObjectItem(d, "forwarded"), !!(o->present & BT_HAS_FORWARDED));
    if (cJSON_HasObjectItem(d, "forwarded")) {
        struct bt_addr a = addr_of(vector_text(d, "forwarded"));
        assert_true(bt_addr_eq(&a, &o->forwarded));
    }
    v = cJSON_GetObjectItem(d, "tag");
    assert_int_equal(v != NULL, !!(o->present & BT_HAS_TAG));
    if (v) {
        uint8_t tag[8];
        vector_hex(vector_text(v, "hex"), tag, 8);
        assert_memory_equal(tag, o->tag, 8);
        assert_int_equal(o->key_id, vector_uint(v, "keyId"));
        assert_int_equal(o->tag_flags, vector_uint(v, "flags"));
    }
    v = cJSON_GetObjectItem(d, "class");
    assert_int_equal(v != NULL, !!(o->present & BT_HAS_CLASS));
    if (v) {
        assert_int_equal(o->class_id, vector_uint(v, "id"));
        assert_int_equal(o->class_flags, vector_uint(v, "flags"));
    }
    assert_int_equal(cJSON_HasObjectItem(d, "trace"), !!(o->present & BT_HAS_TRACE));
    if (o->present & BT_HAS_TRACE) {
        assert_int_equal(o->trace, vector_u64(d, "trace"));
    }
    assert_int_equal(cJSON_HasObjectItem(d, "routerId"), !!(o->present & BT_HAS_ROUTER));
    if (o->present & BT_HAS_ROUTER) {
        assert_int_equal(o->router_id, vector_uint(d, "routerId"));
    }
    assert_int_equal(cJSON_HasObjectItem(d, "copy"), !!(o->present & BT_HAS_COPY));
    if (o->present & BT_HAS_COPY) {
        assert_int_equal(o->copy, vector_uint(d, "copy"));
    }
    assert_int_equal(cJSON_HasObjectItem(d, "flow"), !!(o->present & BT_HAS_FLOW));
    if (o->present & BT_HAS_FLOW) {
        assert_int_equal(o->flow, vector_uint(d, "flow"));
    }
}

static void check_decoded(const cJSON *v, const struct bt_r2p2_hdr *h)
{
    static uint8_t payload[2048];
    const cJSON *d = vector_get(v, "decoded");
    assert_int_equal(h->type, type_of(vector_text(d, "type")));
    assert_int_equal(h->policy, vector_uint(d, "policy"));
    assert_int_equal(h->first, cJSON_IsTrue(vector_get(d, "first")));
    assert_int_equal(h->last, cJSON_IsTrue(vector_get(d, "last")));
    assert_int_equal(h->ext, cJSON_IsTrue(vector_get(d, "ext")));
    assert_int_equal(h->legacy, cJSON_IsTrue(vector_get(d, "legacy")));
    assert_int_equal(h->req_id, vector_uint(d, "reqId"));
    assert_int_equal(h->count_or_index, vector_uint(d, "countOrIndex"));
    assert_int_equal(h->hdr_size, vector_uint(d, "headerSize"));
    size_t n = vector_hex(vector_text(d, "payload"), payload, sizeof payload);
    assert_int_equal(h->payload_len, n);
    assert_memory_equal(h->payload, payload, n);
    check_options(d, &h->opt);
}

static void r54_packets_decode_as_the_vectors_say(void **state)
{
    (void)state;
    static uint8_t raw[2048], again[2048];
    cJSON *doc = vector_file("r2p2.json");
    const cJSON *v;
    cJSON_ArrayForEach(v, vector_get(doc, "packets"))
    {
        const char *name = vector_text(v, "name"), *want = vector_text(v, "case");
        struct bt_r2p2_hdr h;
        size_t n = vector_hex(vector_text(v, "hex"), raw, sizeof raw);
        enum bt_mcase m = bt_r2p2_decode(raw, n, role_of(vector_text(v, "role")), &h);
        if (strcmp(bt_mcase_name(m), want) != 0) {
            fail_msg("%s: %s, want %s", name, bt_mcase_name(m), want);
        }
        if (m) {
            continue;
        }
        check_decoded(v, &h);
        if (!cJSON_IsTrue(vector_get(v, "canonical"))) {
            continue;
        }
        size_t head = bt_r2p2_encode(again, sizeof again, &h);
        assert_int_equal(head, h.hdr_size);
        assert_memory_equal(again, raw, head);
        assert_int_equal(bt_r2p2_encode(again, head - 1, &h), 0);
    }
    cJSON_Delete(doc);
}

static void r38_feedback_decodes_as_the_vectors_say(void **state)
{
    (void)state;
    uint8_t raw[64], again[64];
    cJSON *doc = vector_file("r2p2.json");
    const cJSON *v;
    cJSON_ArrayForEach(v, vector_get(doc, "feedback"))
    {
        const char *name = vector_text(v, "name");
        struct bt_feedback fb;
        size_t n = vector_hex(vector_text(v, "hex"), raw, sizeof raw);
        enum bt_mcase m = bt_feedback_decode(raw, n, &fb);
        if (strcmp(bt_mcase_name(m), vector_text(v, "case")) != 0) {
            fail_msg("%s: %s", name, bt_mcase_name(m));
        }
        if (m) {
            continue;
        }
        const cJSON *d = vector_get(v, "decoded");
        struct bt_addr client = addr_of(vector_text(d, "client"));
        assert_true(bt_addr_eq(&client, &fb.client));
        assert_int_equal(fb.version, vector_uint(d, "version"));
        assert_int_equal(fb.flags, vector_uint(d, "flags"));
        assert_int_equal(fb.req_id, vector_uint(d, "reqId"));
        assert_int_equal(fb.n, vector_uint(d, "n"));
        assert_int_equal(fb.incarnation, vector_uint(d, "incarnation"));
        assert_int_equal(fb.received, vector_u64(d, "received"));
        assert_int_equal(fb.signal, cJSON_HasObjectItem(d, "signal") ? vector_uint(d, "signal") : 0);
        assert_int_equal(fb.served, vector_u64(d, "served"));
        if (fb.version > 2) {
            continue;
        }
        assert_int_equal(bt_feedback_encode(again, sizeof again, &fb), n);
        assert_memory_equal(again, raw, n);
        assert_int_equal(bt_feedback_encode(again, n - 1, &fb), 0);
    }
    cJSON_Delete(doc);
}

static void r22_sack_decodes_as_the_vectors_say(void **state)
{
    (void)state;
    uint8_t raw[256], again[256];
    cJSON *doc = vector_file("r2p2.json");
    const cJSON *v, *m;
    cJSON_ArrayForEach(v, vector_get(doc, "sack"))
    {
        struct bt_sack s;
        size_t n = vector_hex(vector_text(v, "hex"), raw, sizeof raw);
        enum bt_mcase got = bt_sack_decode(raw, n, &s);
        if (strcmp(bt_mcase_name(got), vector_text(v, "case")) != 0) {
            fail_msg("%s: %s", vector_text(v, "name"), bt_mcase_name(got));
        }
        if (got) {
            continue;
        }
        const cJSON *d = vector_get(v, "decoded");
        assert_int_equal(s.what, vector_uint(d, "what"));
        assert_int_equal(s.base, vector_uint(d, "base"));
        assert_int_equal(s.nbits, vector_uint(d, "nbits"));
        int missing = 0;
        for (unsigned i = 0; i < s.nbits; i++) {
            missing += bt_sack_missing(&s, i);
        }
        assert_int_equal(missing, cJSON_GetArraySize(vector_get(d, "missing")));
        cJSON_ArrayForEach(m, vector_get(d, "missing"))
            assert_true(bt_sack_missing(&s, (unsigned)m->valueint - s.base));
        assert_int_equal(bt_sack_encode(again, sizeof again, &s), n);
        assert_memory_equal(again, raw, n);
    }
    cJSON_Delete(doc);
}

static struct bt_keyring keys_of(const cJSON *doc)
{
    struct bt_keyring ring = {0};
    int i = 0;
    const cJSON *v;
    cJSON_ArrayForEach(v, vector_get(doc, "keys"))
    {
        ring.key[i].id = (uint8_t)vector_uint(v, "id");
        assert_int_equal(vector_hex(vector_text(v, "hex"), ring.key[i++].bytes, 16), 16);
    }
    return ring;
}

static void check_signing(const struct bt_keyring *ring, uint8_t *raw, size_t n, struct bt_r2p2_hdr *h,
                          const struct bt_addr *src, const struct bt_addr *dst)
{
    uint8_t copy[2048];
    memcpy(copy, raw, n);
    memset(copy + h->opt.tag_offset, 0xaa, 8);
    const struct bt_key *key = ring->key[0].id == h->opt.key_id ? &ring->key[0] : &ring->key[1];
    assert_true(bt_tag_sign(copy, n, h, key, src, dst));
    assert_memory_equal(copy, raw, n);
}

static void r57_tags_verify_as_the_vectors_say(void **state)
{
    (void)state;
    static const char *const names[] = {"valid", "absent", "unknown-key", "wrong"};
    uint8_t raw[2048];
    cJSON *doc = vector_file("r2p2.json");
    struct bt_keyring ring = keys_of(doc);
    const cJSON *v;
    cJSON_ArrayForEach(v, vector_get(doc, "tags"))
    {
        struct bt_r2p2_hdr h;
        size_t n = vector_hex(vector_text(v, "hex"), raw, sizeof raw);
        assert_int_equal(bt_r2p2_decode(raw, n, BT_ROLE_ANY, &h), BT_M_OK);
        struct bt_addr src = addr_of(vector_text(v, "src")), dst = addr_of(vector_text(v, "dst"));
        enum bt_tag_result r = bt_tag_verify(raw, n, &h, &ring, &src, &dst);
        if (strcmp(names[r], vector_text(v, "result")) != 0) {
            fail_msg("%s: %s", vector_text(v, "name"), names[r]);
        }
        if (r == BT_TAG_VALID && h.type != BT_REQUEST) {
            check_signing(&ring, raw, n, &h, &src, &dst);
        }
    }
    cJSON_ArrayForEach(v, vector_get(doc, "routerIds"))
    {
        struct bt_addr a = addr_of(vector_text(v, "address"));
        assert_int_equal(bt_router_id(&a), vector_uint(v, "id"));
    }
    cJSON_Delete(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r54_packets_decode_as_the_vectors_say),
        cmocka_unit_test(r38_feedback_decodes_as_the_vectors_say),
        cmocka_unit_test(r22_sack_decodes_as_the_vectors_say),
        cmocka_unit_test(r57_tags_verify_as_the_vectors_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
