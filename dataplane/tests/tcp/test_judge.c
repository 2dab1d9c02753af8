// SPDX-License-Identifier: Apache-2.0
// Signed reports of load: C-64 to C-66.
#include "unit.h"
#include "vector_file.h"

#include "tcp/crab_judge.h"

#include <string.h>

#define MILLISECOND UINT64_C(1000000)
#define SECOND      UINT64_C(1000000000)

enum { RUN = 77, ROOM = 2048 };

static struct bt_crab_judge judge;

static const char *const verdicts[] = {"believed", "malformed", "unsigned", "tag", "session", "replay"};

static void same_loads(const cJSON *want, const struct bt_crab_reported *r)
{
    assert_int_equal(r->n, cJSON_GetArraySize(want));
    for (uint32_t i = 0; i < r->n; i++) {
        const cJSON *load = cJSON_GetArrayItem(want, (int)i);
        struct bt_addr server;
        assert_int_equal(bt_addr_parse(vector_text(load, "server"), 0, &server), 0);
        assert_true(bt_addr_eq(&server, &r->loads[i].server));
        assert_int_equal(r->loads[i].open, (uint32_t)vector_get(load, "open")->valuedouble);
    }
}

// C-64, C-65: the file that the agents' tests read, too.
static void test_vectors(void **state)
{
    (void)state;
    cJSON *doc = vector_file("crab_reports.json");
    const cJSON *keys = vector_get(doc, "keys"), *d;
    bool seen[sizeof verdicts / sizeof *verdicts] = {0};
    bt_crab_judge_init(&judge, vector_u64(doc, "run"));
    for (uint32_t i = 0; i < BT_CRAB_SECRETS; i++) {
        struct bt_crab_secret *s = &judge.secrets[i];
        s->len = (uint32_t)vector_hex(cJSON_GetArrayItem(keys, (int)i)->valuestring, s->bytes, sizeof s->bytes);
    }
    cJSON_ArrayForEach(d, vector_get(doc, "datagrams"))
    {
        uint8_t bytes[ROOM], answer[BT_CRAB_CHALLENGE_BYTES];
        struct bt_crab_reported r;
        size_t n = vector_hex(vector_text(d, "hex"), bytes, sizeof bytes);
        uint64_t now = vector_uint(d, "atMilliseconds") * MILLISECOND;
        enum bt_crab_verdict got = bt_crab_judge_take(&judge, now, bytes, (uint32_t)n, &r);
        if (strcmp(verdicts[got], vector_text(d, "verdict")) != 0) {
            fail_msg("%s: %s, want %s", vector_text(d, "name"), verdicts[got], vector_text(d, "verdict"));
        }
        seen[got] = true;
        if (got == BT_CRAB_BELIEVED) {
            same_loads(vector_get(d, "loads"), &r);
        }
        if (got == BT_CRAB_REPORT_SESSION) {
            assert_int_equal(vector_hex(vector_text(d, "answer"), answer, sizeof answer), sizeof answer);
            assert_memory_equal(answer, r.answer, sizeof answer);
        }
    }
    for (size_t i = 0; i < sizeof seen; i++) {
        assert_true(seen[i]);
    }
    cJSON_Delete(doc);
}

// A report of one server that has `open` connections; its bytes.
static uint32_t write_report(uint8_t p[ROOM], uint64_t run, uint64_t session, uint64_t sequence, uint32_t open)
{
    static const uint8_t begin[] = {'C', 'R', 2, 1, 0, 1, 0, 0};
    struct bt_addr server = bt_addr_v4u(0x0a00001f, 80);
    memcpy(p, begin, sizeof begin);
    bt_put64(p + 8, run);
    bt_put64(p + 16, session);
    bt_put64(p + 24, 5);
    bt_put64(p + 32, sequence);
    memcpy(p + 40, server.ip, 16);
    bt_put16(p + 56, server.port);
    bt_put16(p + 58, 0);
    bt_put32(p + 60, open);
    bt_crab_secret_sign(&judge.secrets[0], p, 64);
    return 64 + BT_CRAB_SIGNED_TAG;
}

static enum bt_crab_verdict take(uint64_t now, uint64_t run, uint64_t session, uint64_t sequence)
{
    uint8_t p[ROOM];
    struct bt_crab_reported r;
    uint32_t n = write_report(p, run, session, sequence, 3);
    return bt_crab_judge_take(&judge, now, p, n, &r);
}

static void start(void)
{
    bt_crab_judge_init(&judge, RUN);
    judge.secrets[0] = (struct bt_crab_secret){.bytes = "sixteen bytes or", .len = 16};
}

// C-64: no bit of a report can be another one, and what was tried so changes nothing.
static void test_every_bit_counts(void **state)
{
    (void)state;
    uint8_t p[ROOM], q[ROOM];
    struct bt_crab_reported r;
    start();
    assert_int_equal(take(SECOND, 0, 0, 1), BT_CRAB_REPORT_SESSION);
    uint32_t n = write_report(p, RUN, 1, 2, 3);
    for (uint32_t bit = 0; bit < 8 * n; bit++) {
        memcpy(q, p, n);
        q[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum bt_crab_verdict v = bt_crab_judge_take(&judge, SECOND, q, n, &r);
        assert_true(v == BT_CRAB_REPORT_TAG || v == BT_CRAB_REPORT_MALFORMED);
        assert_int_equal(judge.opened, 1);
    }
    for (uint32_t len = 0; len < n; len++) {
        assert_int_equal(bt_crab_judge_take(&judge, SECOND, p, len, &r), BT_CRAB_REPORT_MALFORMED);
    }
    assert_int_equal(bt_crab_judge_take(&judge, SECOND, p, n, &r), BT_CRAB_BELIEVED);
}

// C-65: whatever was said before the balancer was started again is worth nothing, however often it is said.
static void test_restart_forgets(void **state)
{
    (void)state;
    start();
    assert_int_equal(take(SECOND, 0, 0, 1), BT_CRAB_REPORT_SESSION);
    assert_int_equal(take(SECOND, RUN, 1, 2), BT_CRAB_BELIEVED);
    bt_crab_judge_init(&judge, RUN + 1);
    judge.secrets[0] = (struct bt_crab_secret){.bytes = "sixteen bytes or", .len = 16};
    for (unsigned i = 0; i < 3 * BT_CRAB_SESSIONS; i++) {
        assert_int_equal(take(SECOND, RUN, 1, 2 + i % 2), BT_CRAB_REPORT_SESSION);
    }
    assert_int_equal(take(SECOND, RUN + 1, judge.opened, 1), BT_CRAB_BELIEVED);
}

// C-65: an old session whose place another one has taken does not come back; one that lives is not pushed out by
// somebody who repeats questions.
static void test_places(void **state)
{
    (void)state;
    start();
    assert_int_equal(take(SECOND, 0, 0, 1), BT_CRAB_REPORT_SESSION);
    assert_int_equal(take(SECOND, RUN, 1, 2), BT_CRAB_BELIEVED);
    for (unsigned i = 0; i < BT_CRAB_SESSIONS; i++) {
        assert_int_equal(take(SECOND, 0, 0, 1), BT_CRAB_REPORT_SESSION);
    }
    assert_int_equal(take(SECOND, RUN, 1, 3), BT_CRAB_BELIEVED);
    assert_int_equal(take(SECOND, RUN, 1 + BT_CRAB_SESSIONS, 1), BT_CRAB_BELIEVED);
    assert_int_equal(take(SECOND, RUN, 1, 4), BT_CRAB_REPORT_SESSION);
    // 4,098 were opened: of the second nobody knows any more when that was, of the third it is known.
    assert_int_equal(judge.opened, 2 + BT_CRAB_SESSIONS);
    assert_int_equal(take(SECOND, RUN, 3, 1), BT_CRAB_BELIEVED);
    assert_int_equal(take(SECOND, RUN, 2, 1), BT_CRAB_REPORT_SESSION);
}

// C-64: no key, no report; a key that is exchanged is heard at once, and the one before as long as it is there.
static void test_keys_are_exchanged(void **state)
{
    (void)state;
    uint8_t p[ROOM];
    struct bt_crab_reported r;
    start();
    assert_int_equal(take(SECOND, 0, 0, 1), BT_CRAB_REPORT_SESSION);
    uint32_t n = write_report(p, RUN, 1, 2, 3);
    struct bt_crab_secret first = judge.secrets[0];
    judge.secrets[0].bytes[3] ^= 1;
    assert_int_equal(bt_crab_judge_take(&judge, SECOND, p, n, &r), BT_CRAB_REPORT_TAG);
    judge.secrets[1] = first;
    assert_int_equal(bt_crab_judge_take(&judge, SECOND, p, n, &r), BT_CRAB_BELIEVED);
    assert_int_equal(take(SECOND, RUN, 1, 3), BT_CRAB_BELIEVED); // by the new one, in the same session
    memset(judge.secrets, 0, sizeof judge.secrets);
    n = write_report(p, RUN, 1, 4, 3); // with a key of no bytes
    assert_int_equal(bt_crab_judge_take(&judge, SECOND, p, n, &r), BT_CRAB_REPORT_TAG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_restart_forgets),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_keys_are_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
