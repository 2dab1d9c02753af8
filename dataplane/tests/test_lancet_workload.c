// SPDX-License-Identifier: Apache-2.0
// Distributions against their means and quantiles, keys, and requests byte by byte. The seeds are fixed,
// so the bounds, several standard errors wide, hold always or never.
#include "lancet/keys.h"
#include "lancet/request.h"

#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 200000 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Mean and median of draws; NaN leaves one out (no finite variance, or not known in closed form).
static void check_dist(const char *text, double mean, double median, double tolerance)
{
    static double v[DRAWS];
    struct bt_dist d;
    struct bt_rng rng;
    uint64_t turn = 0;
    double sum = 0;
    assert_null(bt_dist_parse(text, &d));
    bt_rng_seed(&rng, 7);
    for (unsigned i = 0; i < DRAWS; i++) {
        v[i] = bt_dist_real(&d, &rng, &turn);
        sum += v[i];
    }
    qsort(v, DRAWS, sizeof v[0], ascending);
    if (!isnan(mean) && fabs(sum / DRAWS - mean) > tolerance * mean) {
        fail_msg("%s: mean %g, expected %g", text, sum / DRAWS, mean);
    }
    if (!isnan(median) && fabs(v[DRAWS / 2] - median) > tolerance * median) {
        fail_msg("%s: median %g, expected %g", text, v[DRAWS / 2], median);
    }
}

static void distributions(void **state)
{
    (void)state;
    check_dist("fixed:12", 12, 12, 0);
    check_dist("rr:1:2:6", 3, 2, 0.001);
    check_dist("uni:1:100", 50.5, 50.5, 0.01);
    check_dist("exp:100", 100, 100 * log(2), 0.02);
    check_dist("pareto:10:3", 15, 10 * pow(2, 1.0 / 3), 0.02);
    check_dist("gpareto:15:214.476:0.348238", 15 + 214.476 / (1 - 0.348238),
               15 + 214.476 * (pow(2, 0.348238) - 1) / 0.348238, 0.03);
    check_dist("gpareto:0:10:0", 10, 10 * log(2), 0.02);
    check_dist("gev:30:8:0", 30 + 8 * 0.577216, 30 - 8 * log(log(2)), 0.01);
    check_dist("fb-key", 30.7984 + 8.20449 * (tgamma(1 - 0.078688) - 1) / 0.078688,
               30.7984 + 8.20449 * (pow(log(2), -0.078688) - 1) / 0.078688, 0.01);
    check_dist("bimodal:10:1000:0.1", 109, 10, 0.03);
    check_dist("lognorm:3:0.5", exp(3 + 0.125), exp(3), 0.01);
    check_dist("gamma:2.5:4", 10, NAN, 0.01);
    check_dist("gamma:0.5:4", 2, NAN, 0.02);
    check_dist("usr-key", 19, 21, 0.01);
    check_dist("usr-value", 2, 2, 0);
    // 44.155 % of ETC's values are below 15 bytes and add 2.29836 to the mean; the rest is the Pareto part.
    check_dist("fb-value", (1 - 0.44155) * (15 + 214.476 / (1 - 0.348238)) + 2.29836, NAN, 0.03);
}

// To the nearest whole number: cut off, sizes and times would be half a unit short on average.
static void draws_are_rounded(void **state)
{
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {{"fixed:2.4", 2}, {"fixed:2.5", 3}, {"fixed:2.7", 3}, {"fixed:249.9", 250}, {"fixed:0.4", 0}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bt_dist d;
        uint64_t turn = 0;
        assert_null(bt_dist_parse(cases[i].text, &d));
        assert_int_equal(bt_dist_draw(&d, NULL, &turn, 0, 250), cases[i].want);
    }
}

static void draws_are_held_within_bounds(void **state)
{
    (void)state;
    struct bt_dist d;
    struct bt_rng rng;
    uint64_t turn = 0;
    bt_rng_seed(&rng, 1);
    assert_null(bt_dist_parse("gev:0:1e15:3", &d));
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t v = bt_dist_draw(&d, &rng, &turn, 8, 250);
        assert_in_range(v, 8, 250);
    }
}

static int descending_count(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static struct bt_keys make_keys(uint64_t n, const char *order, const char *bytes)
{
    struct bt_keys k = {0};
    assert_null(bt_dist_parse(bytes, &k.bytes));
    assert_null(bt_keys_init(&k, n, order));
    return k;
}

// The share of the most popular key is 1/zeta(n, theta), that of the second 2^-theta of it, that of the hundred most
// popular zeta(100, theta)/zeta(n, theta).
static void zipf(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 1000, 100000, 1000000};
    static uint32_t count[1000000];
    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct bt_keys k = make_keys(sizes[s], "zipf:0.99", "fixed:30");
        struct bt_rng rng;
        double zeta = 0;
        uint64_t turn = 0;
        double head = 0; // the same sum of the hundred most popular
        bt_rng_seed(&rng, 3);
        memset(count, 0, sizeof count);
        for (uint64_t i = 1; i <= sizes[s]; i++) {
            zeta += pow((double)i, -0.99);
            head += i <= 100 ? pow((double)i, -0.99) : 0;
        }
        for (unsigned i = 0; i < DRAWS; i++) {
            uint64_t key = bt_keys_draw(&k, &rng, &turn);
            assert_true(key < sizes[s]);
            count[key]++;
        }
        assert_true(fabs(k.zeta - zeta) < 1e-6);
        if (sizes[s] > 3) { // the hash may put two of few keys together
            double drawn = 0;
            qsort(count, sizes[s], sizeof count[0], descending_count);
            for (unsigned i = 0; i < 100; i++) {
                drawn += count[i] / (double)DRAWS;
            }
            assert_true(fabs(count[0] / (double)DRAWS * zeta - 1) < 0.05);
            assert_true(fabs(count[1] / (double)count[0] - pow(2, -0.99)) < 0.05);
            // The method is 3 % off there, and keys that the hash put together help each other into the hundred.
            assert_true(fabs(drawn * zeta / head - 1) < 0.15);
        }
    }
    struct bt_keys k;
    assert_non_null(bt_keys_init(&k, 10, "zipf:1"));
    assert_non_null(bt_keys_init(&k, 10, "zipf:"));
    assert_non_null(bt_keys_init(&k, 10, "zipf:-0.5"));
    assert_non_null(bt_keys_init(&k, 10, "random"));
}

static void key_names(void **state)
{
    (void)state;
    struct bt_keys k = make_keys(1000, "rr", "fb-key");
    char a[BT_KEY_MAX];
    char b[BT_KEY_MAX];
    for (uint64_t key = 0; key < 1000; key++) {
        size_t n = bt_key_write(&k, key, a);
        assert_in_range(n, BT_KEY_MIN, BT_KEY_MAX);
        assert_int_equal(bt_key_write(&k, key, b), n); // the same every time
        assert_memory_equal(a, b, n);
    }
    k = make_keys(10, "uni", "fixed:12");
    assert_int_equal(bt_key_write(&k, 0x1234abcd, a), 12);
    assert_memory_equal(a, "1234abcdkkkk", 12);
}

static void check_request(uint8_t protocol, bool scans, double read_ratio, const char *want, size_t n)
{
    static uint8_t out[BT_BODY_MAX + 1024];
    struct bt_workload w = {.protocol = protocol, .scans = scans, .read_ratio = read_ratio};
    struct bt_request_stream s = {.workload = &w, .serial = 5};
    struct bt_expect expect;
    enum bt_operation op;
    w.keys = make_keys(1, "uni", "fixed:9");
    assert_null(bt_dist_parse("fixed:3", &w.value_bytes));
    assert_null(bt_dist_parse("fixed:7", &w.scan_length));
    assert_null(bt_dist_parse("fixed:26", &w.request_bytes));
    assert_null(bt_dist_parse("fixed:1000", &w.reply_bytes));
    assert_null(bt_dist_parse("fixed:12000", &w.service_ns));
    memcpy(w.path, "/x", 3);
    memcpy(w.host, "h:80", 5);
    bt_rng_seed(&s.rng, 1);
    size_t got = bt_request_next(&s, out, &expect, &op);
    assert_int_equal(got, n);
    assert_memory_equal(out, want, n);
    assert_true(got <= bt_request_max(&w));
    assert_int_equal(s.serial, 6);
}

#define CHECK(protocol, scans, ratio, text) check_request(protocol, scans, ratio, text, sizeof(text) - 1)

static void requests(void **state)
{
    (void)state;
    CHECK(BT_REPLY_REDIS, false, 1, "*2\r\n$3\r\nGET\r\n$9\r\n00000000k\r\n");
    CHECK(BT_REPLY_REDIS, false, 0, "*3\r\n$3\r\nSET\r\n$9\r\n00000000k\r\n$3\r\nvvv\r\n");
    CHECK(BT_REPLY_REDIS, true, 1,
          "*7\r\n$11\r\nZRANGEBYLEX\r\n$14\r\nbobtail-ycsb-e\r\n$10\r\n[00000000k\r\n$1\r\n+\r\n$5\r\nLIMIT\r\n$"
          "1\r\n0\r\n$1\r\n7\r\n");
    CHECK(BT_REPLY_MEMCACHED_TEXT, false, 1, "get 00000000k\r\n");
    CHECK(BT_REPLY_MEMCACHED_TEXT, false, 0, "set 00000000k 0 0 3\r\nvvv\r\n");
    CHECK(BT_REPLY_MEMCACHED_BINARY, false, 1,
          "\x80\0\0\x09\0\0\0\0\0\0\0\x09\0\0\0\x05\0\0\0\0\0\0\0\0"
          "00000000k");
    CHECK(BT_REPLY_MEMCACHED_BINARY, false, 0,
          "\x80\1\0\x09\x08\0\0\0\0\0\0\x14\0\0\0\x05\0\0\0\0\0\0\0\0"
          "\0\0\0\0\0\0\0\0"
          "00000000kvvv");
    CHECK(BT_REPLY_HTTP, false, 1, "GET /x HTTP/1.1\r\nHost: h:80\r\nUser-Agent: bobtail-load\r\n\r\n");
    CHECK(BT_REPLY_SYNTHETIC, false, 1, "\x0c\0\0\0\0\0\0\0");
    CHECK(BT_REPLY_STSS, false, 1, "\x0c\0\0\0\0\0\0\0\x1a\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0vv");
}

// An insert is of a key beyond those there are, another one each time, with its value in the member.
static void inserts(void **state)
{
    (void)state;
    static const char before[] = "*4\r\n$4\r\nZADD\r\n$14\r\nbobtail-ycsb-e\r\n$1\r\n0\r\n$13\r\n";
    struct bt_workload w = {.protocol = BT_REPLY_REDIS, .scans = true, .read_ratio = 0};
    struct bt_request_stream s = {.workload = &w};
    unsigned long last = 0;
    w.keys = make_keys(1000000, "uni", "fixed:9");
    assert_null(bt_dist_parse("fixed:3", &w.value_bytes));
    bt_rng_seed(&s.rng, 1);
    for (unsigned i = 0; i < 100; i++) {
        char out[512] = {0};
        struct bt_expect expect;
        enum bt_operation op;
        size_t n = bt_request_next(&s, (uint8_t *)out, &expect, &op);
        assert_int_equal(n, sizeof before - 1 + 13 + 2);
        assert_int_equal(op, BT_OP_INSERT);
        assert_memory_equal(out, before, sizeof before - 1);
        assert_string_equal(out + sizeof before - 1 + 8, "k:vvv\r\n");
        unsigned long key = strtoul(out + sizeof before - 1, NULL, 16);
        assert_true(key >= 1000000 && key != last);
        last = key;
    }
}

// Where a scan starts and how much it asks for, of the bytes of its request.
static void read_scan(char *request, size_t n, unsigned long *from, unsigned long *length)
{
    request[n] = '\0';
    const char *key = strchr(request, '[');
    const char *last = strrchr(request, '$');
    assert_true(key != NULL && last != NULL);
    *from = strtoul(key + 1, NULL, 16);
    *length = strtoul(strchr(last, '\n') + 1, NULL, 10);
}

// By the law of Zipf: as in zipf() above, of the counts of fewer draws.
static void check_zipfian(uint32_t *count, unsigned keys, unsigned draws)
{
    double zeta = 0;
    double head = 0;
    double drawn = 0;
    for (unsigned i = 1; i <= keys; i++) {
        zeta += pow(i, -0.99);
        head += i <= 100 ? pow(i, -0.99) : 0;
    }
    qsort(count, keys, sizeof count[0], descending_count);
    for (unsigned i = 0; i < 100; i++) {
        drawn += count[i] / (double)draws;
    }
    assert_true(fabs(count[0] / (double)draws * zeta - 1) < 0.1);
    assert_true(fabs(count[1] / (double)count[0] - pow(2, -0.99)) < 0.07);
    assert_true(fabs(drawn * zeta / head - 1) < 0.15);
}

// Workload E of YCSB (SoCC'10, §4): 95 % scans from Zipfian keys, of uniform length, and 5 % inserts.
static void mix_of_ycsb_e(void **state)
{
    enum { REQUESTS = 20000, KEYS = 1000, LONGEST = 100 };
    static uint32_t start[KEYS];
    uint32_t lengths[LONGEST] = {0};
    struct bt_workload w = {.protocol = BT_REPLY_REDIS, .scans = true, .read_ratio = 0.95};
    struct bt_request_stream s = {.workload = &w};
    unsigned scans = 0;
    double chi2 = 0;
    (void)state;
    w.keys = make_keys(KEYS, bt_workload_key_order(true), "fixed:9");
    assert_null(bt_dist_parse("fixed:3", &w.value_bytes));
    assert_null(bt_dist_parse("uni:1:100", &w.scan_length));
    bt_rng_seed(&s.rng, 5);
    for (unsigned i = 0; i < REQUESTS; i++) {
        char out[512];
        struct bt_expect expect;
        enum bt_operation op;
        size_t n = bt_request_next(&s, (uint8_t *)out, &expect, &op);
        if (op == BT_OP_SCAN) {
            unsigned long from;
            unsigned long length;
            read_scan(out, n, &from, &length);
            assert_in_range(length, 1, LONGEST);
            assert_true(from < KEYS);
            lengths[length - 1]++;
            start[from]++;
            scans++;
        } else {
            assert_int_equal(op, BT_OP_INSERT);
        }
    }
    assert_in_range(REQUESTS - scans, 880, 1120); // 5 % within 0.6 %: four standard deviations
    for (unsigned i = 0; i < LONGEST; i++) {
        double expected = scans / (double)LONGEST;
        chi2 += (lengths[i] - expected) * (lengths[i] - expected) / expected;
    }
    assert_true(chi2 < 148.2); // of 99 degrees of freedom one in a thousand is above
    check_zipfian(start, KEYS, scans);
}

// A body holds its own head at least: 24 bytes of stss, one of echo.
static void smallest_bodies(void **state)
{
    (void)state;
    static const struct {
        uint8_t protocol, bytes;
    } cases[] = {{BT_REPLY_STSS, 24}, {BT_REPLY_ECHO, 1}};
    for (unsigned i = 0; i < 2; i++) {
        uint8_t out[64];
        struct bt_workload w = {.protocol = cases[i].protocol};
        struct bt_request_stream s = {.workload = &w};
        struct bt_expect expect;
        enum bt_operation op;
        assert_null(bt_dist_parse("fixed:0", &w.request_bytes));
        assert_null(bt_dist_parse("fixed:0", &w.reply_bytes));
        assert_null(bt_dist_parse("fixed:0", &w.service_ns));
        assert_int_equal(bt_request_next(&s, out, &expect, &op), cases[i].bytes);
    }
}

// Where there are no keys there is nothing to store, and nothing is written.
static void only_keys_are_stored(void **state)
{
    (void)state;
    static uint8_t out[BT_BODY_MAX + 4096];
    for (uint8_t protocol = 0; protocol < BT_REPLY_PROTOCOLS; protocol++) {
        struct bt_workload w = {.protocol = protocol, .path = "/"};
        struct bt_request_stream s = {.workload = &w, .serial = 5};
        struct bt_expect expect;
        w.keys = make_keys(10, "uni", "fixed:9");
        assert_null(bt_dist_parse("fixed:30", &w.value_bytes));
        w.request_bytes = w.reply_bytes = w.service_ns = w.scan_length = w.value_bytes;
        bool keys =
            protocol == BT_REPLY_REDIS || protocol == BT_REPLY_MEMCACHED_TEXT || protocol == BT_REPLY_MEMCACHED_BINARY;
        assert_int_equal(bt_workload_has_keys(&w), keys);
        assert_int_equal(bt_request_store(&s, 7, out, &expect) > 0, keys);
        assert_int_equal(s.serial, keys ? 6 : 5);
    }
}

// No draw may outgrow what the buffers were made for.
static void requests_fit(void **state)
{
    (void)state;
    static uint8_t out[BT_BODY_MAX + 4096];
    for (uint8_t protocol = 0; protocol < BT_REPLY_PROTOCOLS; protocol++) {
        struct bt_workload w = {.protocol = protocol, .read_ratio = 0.5, .path = "/"};
        struct bt_request_stream s = {.workload = &w};
        struct bt_expect expect;
        enum bt_operation op;
        w.keys = make_keys(BT_KEYS_MAX, "uni", "fixed:1000000");
        w.scans = protocol == BT_REPLY_REDIS;
        assert_null(bt_dist_parse("exp:1e15", &w.value_bytes));
        w.scan_length = w.request_bytes = w.reply_bytes = w.service_ns = w.value_bytes;
        for (unsigned i = 0; i < 64; i++) {
            assert_true(bt_request_next(&s, out, &expect, &op) <= bt_request_max(&w));
            assert_true(bt_request_store(&s, i, out, &expect) <= bt_request_max(&w));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions),
        cmocka_unit_test(draws_are_rounded),
        cmocka_unit_test(draws_are_held_within_bounds),
        cmocka_unit_test(zipf),
        cmocka_unit_test(key_names),
        cmocka_unit_test(requests),
        cmocka_unit_test(inserts),
        cmocka_unit_test(mix_of_ycsb_e),
        cmocka_unit_test(smallest_bodies),
        cmocka_unit_test(only_keys_are_stored),
        cmocka_unit_test(requests_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
