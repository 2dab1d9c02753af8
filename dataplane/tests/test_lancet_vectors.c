// SPDX-License-Identifier: Apache-2.0
// The texts of distributions and key orders that vectors/distributions.json holds: the agent takes and refuses
// exactly these, in words that name the right form. The coordinator's test in Go reads the same file.
#include "lancet/keys.h"
#include "lancet/request.h"

#include "unit.h"
#include "vector_file.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 100000 };

// The seed is fixed: seven standard errors hold always or never.
static void check_mean(const char *text, const struct bt_dist *d, double mean, double deviation)
{
    struct bt_rng rng;
    uint64_t turn = 0;
    double sum = 0;
    bt_rng_seed(&rng, 11);
    for (unsigned i = 0; i < DRAWS; i++) {
        sum += bt_dist_real(d, &rng, &turn);
    }
    double room = 7 * deviation / sqrt(DRAWS) + 1e-9 * fabs(mean);
    if (!(fabs(sum / DRAWS - mean) <= room)) {
        fail_msg("%s: mean %.9g, expected %.9g within %g", text, sum / DRAWS, mean, room);
    }
}

static void distributions_that_are_taken(void **state)
{
    (void)state;
    cJSON *doc = vector_file("distributions.json");
    const cJSON *one;
    unsigned n = 0;
    cJSON_ArrayForEach(one, vector_get(doc, "accepted"))
    {
        struct bt_dist d;
        const char *text = vector_text(one, "text");
        const char *why = bt_dist_parse(text, &d);
        if (why != NULL) {
            fail_msg("%s is refused: %s", text, why);
        }
        const cJSON *mean = cJSON_GetObjectItemCaseSensitive(one, "mean");
        if (mean != NULL) {
            check_mean(text, &d, mean->valuedouble, vector_get(one, "deviation")->valuedouble);
        }
        n++;
    }
    assert_true(n >= 30);
    cJSON_Delete(doc);
}

// What is refused must say how the right form looks.
static void check_refusal(const cJSON *one, const char *why)
{
    const char *text = vector_text(one, "text");
    const char *says = vector_text(one, "says");
    if (why == NULL || strstr(why, says) == NULL) {
        fail_msg("\"%s\": \"%s\", which must say %s", text, why != NULL ? why : "(taken)", says);
    }
}

static void distributions_that_are_refused(void **state)
{
    (void)state;
    cJSON *doc = vector_file("distributions.json");
    const cJSON *one;
    unsigned n = 0;
    cJSON_ArrayForEach(one, vector_get(doc, "refused"))
    {
        struct bt_dist d;
        check_refusal(one, bt_dist_parse(vector_text(one, "text"), &d));
        n++;
    }
    assert_true(n >= 60);
    cJSON_Delete(doc);
}

static void orders_of_keys(void **state)
{
    (void)state;
    cJSON *doc = vector_file("distributions.json");
    const cJSON *orders = vector_get(doc, "orders");
    const cJSON *one;
    cJSON_ArrayForEach(one, vector_get(orders, "accepted"))
    {
        struct bt_keys k = {0};
        const char *why = bt_keys_init(&k, 1000, one->valuestring);
        if (why != NULL) {
            fail_msg("%s is refused: %s", one->valuestring, why);
        }
    }
    cJSON_ArrayForEach(one, vector_get(orders, "refused"))
    {
        struct bt_keys k = {0};
        check_refusal(one, bt_keys_init(&k, 1000, vector_text(one, "text")));
    }
    cJSON_Delete(doc);
}

static void orders_of_keys_by_default(void **state)
{
    (void)state;
    cJSON *doc = vector_file("distributions.json");
    const cJSON *by_mix = vector_get(vector_get(doc, "orders"), "default");
    assert_int_equal(cJSON_GetArraySize(by_mix), 2);
    assert_string_equal(bt_workload_key_order(false), vector_text(by_mix, "get-set"));
    assert_string_equal(bt_workload_key_order(true), vector_text(by_mix, "ycsb-e"));
    cJSON_Delete(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions_that_are_taken),
        cmocka_unit_test(distributions_that_are_refused),
        cmocka_unit_test(orders_of_keys),
        cmocka_unit_test(orders_of_keys_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
