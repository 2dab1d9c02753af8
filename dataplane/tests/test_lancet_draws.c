// SPDX-License-Identifier: Apache-2.0
// Every draw against the closed form of its distribution, number by number: a twin of the generator gives the same
// uniform numbers. test_lancet_workload.c looks at what many draws come to.
#include "lancet/keys.h"

#include "unit.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 20000 };

// Uniform in (0, 1].
static double positive(struct bt_rng *twin)
{
    return 1 - bt_rng_unit(twin);
}

static double uniform(const double *p, struct bt_rng *twin)
{
    return p[0] + floor(bt_rng_unit(twin) * (p[1] - p[0] + 1));
}

static double exponential(const double *p, struct bt_rng *twin)
{
    return -p[0] * log(positive(twin));
}

static double pareto(const double *p, struct bt_rng *twin)
{
    return p[0] / pow(positive(twin), 1 / p[1]);
}

static double general_pareto(const double *p, struct bt_rng *twin)
{
    return p[0] + p[1] * (pow(positive(twin), -p[2]) - 1) / p[2];
}

static double general_pareto_of_shape_0(const double *p, struct bt_rng *twin)
{
    return p[0] - p[1] * log(positive(twin));
}

static double gev(const double *p, struct bt_rng *twin)
{
    return p[0] + p[1] * (pow(-log(positive(twin)), -p[2]) - 1) / p[2];
}

static double gev_of_shape_0(const double *p, struct bt_rng *twin)
{
    return p[0] - p[1] * log(-log(positive(twin)));
}

static double bimodal(const double *p, struct bt_rng *twin)
{
    return bt_rng_unit(twin) < p[2] ? p[1] : p[0];
}

static double lognormal(const double *p, struct bt_rng *twin)
{
    double r = sqrt(-2 * log(positive(twin)));
    return exp(p[0] + p[1] * r * cos(2 * M_PI * bt_rng_unit(twin)));
}

// Atikoglu et al., SIGMETRICS'12, §5: sizes of values up to 14 bytes in 1/100000, the rest generalised Pareto.
static double etc_value(const double *p, struct bt_rng *twin)
{
    static const uint32_t share[15] = {536, 47, 17820, 9239, 18, 2740, 65, 606, 23, 837, 837, 8989, 92, 326, 1980};
    static const double rest[3] = {15, 214.476, 0.348238};
    (void)p;
    double u = bt_rng_unit(twin);
    for (unsigned bytes = 0; bytes < 15; bytes++) {
        if (u < share[bytes] / 100000.0) {
            return bytes;
        }
        u -= share[bytes] / 100000.0;
    }
    return general_pareto(rest, twin);
}

static double usr_key(const double *p, struct bt_rng *twin)
{
    return bt_rng_unit(twin) < p[0] ? 21 : 16;
}

static double constant(const double *p, struct bt_rng *twin)
{
    (void)twin;
    return p[0];
}

static const struct {
    const char *text;
    double (*want)(const double *p, struct bt_rng *twin);
    double p[3];
} laws[] = {
    {"fixed:12.5", constant, {12.5}},
    {"uni:3:9", uniform, {3, 9}},
    {"exp:100", exponential, {100}},
    {"pareto:10:3", pareto, {10, 3}},
    {"gpareto:15:20:0.25", general_pareto, {15, 20, 0.25}},
    {"gpareto:15:20:0", general_pareto_of_shape_0, {15, 20}},
    {"gev:30:8:0.1", gev, {30, 8, 0.1}},
    {"gev:30:8:0", gev_of_shape_0, {30, 8}},
    {"bimodal:10:1000:0.1", bimodal, {10, 1000, 0.1}},
    {"lognorm:3:0.5", lognormal, {3, 0.5}},
    {"fb-key", gev, {30.7984, 8.20449, 0.078688}},
    {"fb-value", etc_value, {0}},
    {"usr-key", usr_key, {0.6}},
    {"usr-value", constant, {2}},
};

static void draws_follow_their_laws(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        struct bt_dist d;
        struct bt_rng rng, twin;
        uint64_t turn = 0;
        assert_null(bt_dist_parse(laws[i].text, &d));
        bt_rng_seed(&rng, 17);
        twin = rng;
        for (unsigned k = 0; k < DRAWS; k++) {
            double got = bt_dist_real(&d, &rng, &turn), want = laws[i].want(laws[i].p, &twin);
            if (!(fabs(got - want) <= 1e-9 * fabs(want))) {
                fail_msg("%s, draw %u: %.12g, expected %.12g", laws[i].text, k, got, want);
            }
        }
        assert_int_equal(turn, 0);
    }
}

static void values_take_turns(void **state)
{
    static const double values[] = {4, 7, 5.5};
    (void)state;
    struct bt_dist d;
    uint64_t turn = 0;
    assert_null(bt_dist_parse("rr:4:7:5.5", &d));
    for (unsigned i = 0; i < 9; i++) {
        assert_true(bt_dist_real(&d, NULL, &turn) == values[i % 3]);
        assert_int_equal(turn, i + 1);
    }
}

// A whole number within the bounds, which are drawn as they are.
static void bounds_and_rounding(void **state)
{
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {{"fixed:7", 8},   {"fixed:8", 8},     {"fixed:8.4", 8},   {"fixed:8.5", 9},
                 {"fixed:99", 99}, {"fixed:99.4", 99}, {"fixed:100", 100}, {"fixed:1e15", 100}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bt_dist d;
        uint64_t turn = 0;
        assert_null(bt_dist_parse(cases[i].text, &d));
        assert_int_equal(bt_dist_draw(&d, NULL, &turn, 8, 100), cases[i].want);
    }
}

static struct bt_keys keys(uint64_t n, const char *order)
{
    struct bt_keys k = {0};
    assert_null(bt_keys_init(&k, n, order));
    return k;
}

// Gray et al., SIGMOD'94, §3, of a uniform number: the rank of the key.
static uint64_t zipf_rank(uint64_t n, double theta, double u)
{
    double zeta = 0;
    for (uint64_t i = 1; i <= n; i++) {
        zeta += pow((double)i, -theta);
    }
    double eta = (1 - pow(2.0 / (double)n, 1 - theta)) / (1 - (1 + pow(0.5, theta)) / zeta);
    if (u * zeta < 1) {
        return 0;
    }
    if (u * zeta < 1 + pow(0.5, theta)) {
        return 1;
    }
    return (uint64_t)((double)n * pow(eta * u - eta + 1, 1 / (1 - theta)));
}

// The first number that splitmix64 gives of a seed.
static uint64_t splitmix64(uint64_t seed)
{
    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

// Which key is how popular is the same in every run and program, as loaders and readers must agree.
static void popular_keys_are_scattered_by_splitmix64(void **state)
{
    enum { KEYS = 5000 };
    (void)state;
    struct bt_keys k = keys(KEYS, "zipf:0.9");
    struct bt_rng rng, twin;
    uint64_t turn = 0;
    assert_true(splitmix64(0) == UINT64_C(0xe220a8397b1dcdaf)); // as published
    assert_true(splitmix64(1) == UINT64_C(0x910a2dec89025cc1));
    bt_rng_seed(&rng, 23);
    twin = rng;
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t rank = zipf_rank(KEYS, 0.9, bt_rng_unit(&twin));
        assert_int_equal(bt_keys_draw(&k, &rng, &turn), splitmix64(rank) % KEYS);
    }
    assert_int_equal(turn, 0);
}

static void keys_in_turn_and_at_random(void **state)
{
    (void)state;
    struct bt_keys rr = keys(3, "rr"), any = keys(1000, "uni");
    struct bt_rng rng, twin;
    uint64_t turn = 0;
    bt_rng_seed(&rng, 29);
    twin = rng;
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(bt_keys_draw(&rr, NULL, &turn), i % 3);
        assert_int_equal(turn, i + 1);
        assert_int_equal(bt_keys_draw(&any, &rng, &turn), bt_rng_next(&twin) % 1000);
        assert_int_equal(turn, i + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_their_laws),    cmocka_unit_test(values_take_turns),
        cmocka_unit_test(bounds_and_rounding),        cmocka_unit_test(popular_keys_are_scattered_by_splitmix64),
        cmocka_unit_test(keys_in_turn_and_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
