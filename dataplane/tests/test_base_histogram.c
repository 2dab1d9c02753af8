// SPDX-License-Identifier: Apache-2.0
// The ll7 encoding against the shared vectors, and the one-second slices with a
// concurrent reader.
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/rng.h"
#include "vector_file.h"

#define S 1000000000ull

static void ll7_index_and_value_match_vectors(void **state)
{
    (void)state;
    cJSON *doc = vector_file("histogram.json");
    const cJSON *v;
    cJSON_ArrayForEach(v, vector_get(doc, "index"))
        assert_int_equal(bt_hist_index(vector_u64(v, "value")), vector_uint(v, "index"));
    cJSON_ArrayForEach(v, vector_get(doc, "reported"))
        assert_int_equal(bt_hist_value(vector_uint(v, "index")), vector_u64(v, "value"));
    cJSON_Delete(doc);
}

static void ll7_percentiles_match_vectors(void **state)
{
    (void)state;
    cJSON *doc = vector_file("histogram.json");
    struct bt_hist *h = malloc(sizeof *h);
    const cJSON *v, *b, *p;
    cJSON_ArrayForEach(v, vector_get(doc, "percentiles"))
    {
        bt_hist_clear(h);
        bt_hist_record_inf(h, vector_uint(v, "inf"));
        cJSON_ArrayForEach(b, vector_get(v, "buckets"))
        {
            unsigned count = (unsigned)cJSON_GetArrayItem(b, 1)->valuedouble;
            h->bucket[cJSON_GetArrayItem(b, 0)->valueint] += count;
            h->total += count;
        }
        assert_int_equal(h->total, vector_uint(v, "total"));
        cJSON_ArrayForEach(p, vector_get(v, "per100k"))
        {
            uint64_t want = strcmp(p->valuestring, "inf") ? strtoull(p->valuestring, NULL, 10) : BT_HIST_INF;
            assert_int_equal(bt_hist_percentile(h, (uint32_t)atoi(p->string)), want);
        }
    }
    free(h);
    cJSON_Delete(doc);
}

static void ll7_every_bucket_is_narrow_and_reports_its_upper_edge(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < BT_HIST_OVERFLOW; i++) {
        uint64_t top = bt_hist_value(i), below = bt_hist_value(i - 1);
        assert_int_equal(bt_hist_index(top), i);
        assert_int_equal(bt_hist_index(below + 1), i);
        assert_true((top - below) * 100 <= below + 1); // at most 1 % wide
    }
}

/* However low the percentile, it is one of the values there are. */
static void ll7_lowest_percentile_is_the_smallest_value(void **state)
{
    (void)state;
    struct bt_hist *h = calloc(1, sizeof *h);
    assert_non_null(h);
    assert_int_equal(bt_hist_percentile(h, 50000), 0);
    bt_hist_record(h, 1000000);
    bt_hist_record(h, 5000000);
    for (uint32_t per_100k = 0; per_100k <= 50000; per_100k += 25000) {
        assert_int_equal(bt_hist_percentile(h, per_100k), bt_hist_value(bt_hist_index(1000000)));
    }
    assert_int_equal(bt_hist_percentile(h, 50001), bt_hist_value(bt_hist_index(5000000)));
    for (int i = 2; i < 100001; i++) { // one of 100,001 is a little less than 0.001 %, so two are asked for
        bt_hist_record(h, 5000000);
    }
    assert_int_equal(bt_hist_percentile(h, 1), bt_hist_value(bt_hist_index(5000000)));
    free(h);
}

static void ll7_merging_is_adding(void **state)
{
    (void)state;
    struct bt_hist *h = calloc(3, sizeof *h);
    struct bt_rng rng;
    bt_rng_seed(&rng, 5);
    for (int i = 0; i < 5000; i++) {
        uint64_t v = bt_rng_next(&rng) >> (20 + bt_rng_below(&rng, 40));
        bt_hist_record(&h[i & 1], v);
        bt_hist_record(&h[2], v);
    }
    bt_hist_merge(&h[0], &h[1]);
    assert_memory_equal(&h[0], &h[2], sizeof *h);
    free(h);
}

/* The first second of a clock that begins at 0, and neighbouring buckets of one slice. */
static void slices_hold_all_from_the_first_second_on(void **state)
{
    (void)state;
    struct bt_hist_slices *s = calloc(1, bt_hist_slices_bytes());
    struct bt_hist *h = malloc(sizeof *h);
    struct bt_hist_window w;
    assert_true(s != NULL && h != NULL);
    bt_hist_slices_init(s, 0);
    for (uint32_t i = 0; i < 4; i++) {
        bt_hist_slices_record(s, 1, bt_hist_value(100 + i));
    }
    for (uint32_t i = 1; i < 4; i++) {
        bt_hist_slices_record(s, 1, bt_hist_value(100 - i));
    }
    bt_hist_slices_merge(s, 2, 1, h, &w);
    assert_int_equal(h->total, 7);
    assert_int_equal(bt_hist_percentile(h, 100000), bt_hist_value(103));
    free(h);
    free(s);
}

static void slices_forget_after_the_window(void **state)
{
    (void)state;
    struct bt_hist_slices *s = calloc(1, bt_hist_slices_bytes());
    struct bt_hist *h = malloc(sizeof *h);
    struct bt_hist_window w;
    bt_hist_slices_init(s, 1000 * S);
    for (uint64_t t = 0; t < 1500; t++) {
        bt_hist_slices_arrived(s, (1000 + t) * S, 3);
        bt_hist_slices_record(s, (1000 + t) * S, (t + 1) * 1000000);
        bt_hist_slices_record_inf(s, (1000 + t) * S + 5, 1);
        bt_hist_slices_rejected(s, (1000 + t) * S + 6, 1);
        bt_hist_slices_merge(s, (1000 + t) * S + 7, 30, h, &w);
        uint64_t want = t + 1 < 30 ? t + 1 : 30;
        assert_int_equal(w.covered_seconds, want);
        assert_int_equal(h->total, 2 * want);
        assert_int_equal(h->inf, want);
        assert_int_equal(w.arrived, 3 * want);
        assert_int_equal(w.rejected, want);
    }
    bt_hist_slices_merge(s, 2499 * S, 600, h, &w);
    assert_int_equal(h->total, 1200);
    assert_true(bt_hist_percentile(h, 1) >= 900 * 1000000ull); // the oldest kept: t = 900
    bt_hist_slices_merge(s, 9999 * S, 600, h, &w);
    assert_int_equal(h->total, 0); // long silence: stale slices do not count
    free(h);
    free(s);
}

// Three of one window: what they hold together, second by second, is what one that recorded all of it holds.
static void slices_of_several_add_up(void **state)
{
    (void)state;
    struct bt_hist_slices *from[3], *all = calloc(1, bt_hist_slices_bytes()), *into = calloc(1, bt_hist_slices_bytes());
    struct bt_hist *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    struct bt_hist_window w, v;
    assert_true(all != NULL && into != NULL && want != NULL && got != NULL);
    bt_hist_slices_init(all, 98 * S);
    bt_hist_slices_init(into, 5 * S);
    for (unsigned k = 0; k < 3; k++) {
        from[k] = calloc(1, bt_hist_slices_bytes());
        assert_non_null(from[k]);
        bt_hist_slices_init(from[k], (100 - k) * S);
    }
    for (uint64_t t = 100; t < 110; t++) {
        for (unsigned k = 0; k < 3; k++) {
            struct bt_hist_slices *both[] = {from[k], all};
            for (unsigned i = 0; i < 2 && (t + k) % 4 != 0; i++) {
                bt_hist_slices_record(both[i], t * S, (t - 99) * 10000 * (k + 1));
                bt_hist_slices_record_inf(both[i], t * S, k + 1);
                bt_hist_slices_arrived(both[i], t * S, 10 * (k + 1));
                bt_hist_slices_rejected(both[i], t * S, 3 * (k + 1));
            }
        }
    }
    for (unsigned again = 0; again < 2; again++) { // what it held before is forgotten
        bt_hist_slices_sum(into, from, 3);
        for (uint32_t window = 1; window <= 20; window++) {
            bt_hist_slices_merge(all, 109 * S, window, want, &w);
            bt_hist_slices_merge(into, 109 * S, window, got, &v);
            assert_memory_equal(got, want, sizeof *got);
            assert_memory_equal(&v, &w, sizeof v);
        }
        assert_int_equal(w.covered_seconds, 12); // since the first of them
        assert_true(got->total > 20 && v.arrived > 0 && v.rejected > 0);
    }
    for (unsigned k = 0; k < 3; k++) {
        free(from[k]);
    }
    free(all);
    free(into);
    free(want);
    free(got);
}

// One that stopped recording holds a second that is 600 older at the place of a new one, in whichever order they come.
static void slices_of_another_age_are_not_added(void **state)
{
    (void)state;
    struct bt_hist_slices *old = calloc(1, bt_hist_slices_bytes()), *new = calloc(1, bt_hist_slices_bytes()),
                          *into = calloc(1, bt_hist_slices_bytes());
    struct bt_hist *h = malloc(sizeof *h);
    struct bt_hist_window w;
    assert_true(old != NULL && new != NULL &&into != NULL &&h != NULL);
    bt_hist_slices_init(old, 600 * S);
    bt_hist_slices_init(new, 600 * S);
    bt_hist_slices_record(old, 600 * S, 5000);
    bt_hist_slices_arrived(old, 600 * S, 7);
    bt_hist_slices_record(new, 1200 * S, 9000);
    bt_hist_slices_arrived(new, 1200 * S, 1);
    struct bt_hist_slices *orders[2][2] = {{old, new}, {new, old}};
    for (unsigned i = 0; i < 2; i++) {
        bt_hist_slices_sum(into, orders[i], 2);
        bt_hist_slices_merge(into, 1200 * S, 1, h, &w);
        assert_int_equal(h->total, 1);
        assert_int_equal(h->sum_ns, 9000);
        assert_int_equal(w.arrived, 1);
    }
    bt_hist_slices_sum(into, orders[0], 0); // of nobody
    bt_hist_slices_merge(into, 1200 * S, 600, h, &w);
    assert_int_equal(h->total, 0);
    assert_int_equal(w.covered_seconds, 0);
    free(old);
    free(new);
    free(into);
    free(h);
}

struct race {
    struct bt_hist_slices *s;
    _Atomic int stop;
    _Atomic uint64_t now;
};

static void *write_fast(void *arg)
{
    struct race *r = arg;
    uint64_t now = 5 * S;
    while (!atomic_load(&r->stop)) {
        now += S / 50; // 50 records of one value in each second
        atomic_store(&r->now, now);
        bt_hist_slices_record(r->s, now, (now / S) * 1000);
    }
    return NULL;
}

static void slices_are_torn_free_for_a_reader(void **state)
{
    (void)state;
    struct race r = {.s = calloc(1, bt_hist_slices_bytes()), .now = 5 * S};
    struct bt_hist *h = malloc(sizeof *h);
    pthread_t thread;
    bt_hist_slices_init(r.s, 5 * S);
    assert_int_equal(pthread_create(&thread, NULL, write_fast, &r), 0);
    for (int i = 0; i < 3000; i++) {
        struct bt_hist_window w;
        bt_hist_slices_merge(r.s, atomic_load(&r.now), 600, h, &w);
        // A slice caught half way through its reset would show counts twice.
        assert_true(h->total <= 600 * 50);
    }
    atomic_store(&r.stop, 1);
    pthread_join(thread, NULL);
    free(h);
    free(r.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ll7_index_and_value_match_vectors),
        cmocka_unit_test(ll7_percentiles_match_vectors),
        cmocka_unit_test(ll7_every_bucket_is_narrow_and_reports_its_upper_edge),
        cmocka_unit_test(ll7_lowest_percentile_is_the_smallest_value),
        cmocka_unit_test(ll7_merging_is_adding),
        cmocka_unit_test(slices_hold_all_from_the_first_second_on),
        cmocka_unit_test(slices_forget_after_the_window),
        cmocka_unit_test(slices_of_several_add_up),
        cmocka_unit_test(slices_of_another_age_are_not_added),
        cmocka_unit_test(slices_are_torn_free_for_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
