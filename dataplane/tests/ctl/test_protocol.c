// SPDX-License-Identifier: Apache-2.0
// Requests and answers of the control protocol: what is right is done in the packet loop, what is
// wrong is refused with its field and changes nothing.
#include "unit.h"

#include "bed.h"
#include "ctl/file.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

static cJSON *ask_fd(struct bed *b, const char *request, const int *fds, size_t n)
{
    char *answer = bt_ctl_answer(b->ctl, request, strlen(request), fds, n);
    assert_non_null(answer);
    cJSON *json = cJSON_Parse(answer);
    if (json == NULL) {
        fail_msg("answer is no JSON: %s", answer);
    }
    free(answer);
    assert_int_equal(cJSON_GetObjectItem(json, "v")->valueint, 1);
    return json;
}

static cJSON *ask(struct bed *b, const char *request)
{
    return ask_fd(b, request, NULL, 0);
}

static const char *text_of(const cJSON *json, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(json, key));
}

static bool is_ok(const cJSON *json)
{
    return cJSON_IsTrue(cJSON_GetObjectItem(json, "ok"));
}

static void expect_error(struct bed *b, const char *request, const int *fds, size_t n, const char *code,
                         const char *field)
{
    cJSON *json = ask_fd(b, request, fds, n);
    const cJSON *e = cJSON_GetObjectItem(json, "error");
    if (is_ok(json) || e == NULL || strcmp(text_of(e, "code"), code) != 0 || strcmp(text_of(e, "field"), field) != 0) {
        char *got = cJSON_PrintUnformatted(json);
        fail_msg("%.80s: answer %s, want %s at \"%s\"", request, got, code, field);
    }
    assert_true(strlen(text_of(e, "message")) > 5);
    cJSON_Delete(json);
}

static void wrong_requests_are_refused_with_their_field(void **state)
{
    static const struct {
        const char *request, *code, *field;
    } cases[] = {
        {"", "InvalidRequest", ""},
        {"hello", "InvalidRequest", ""},
        {"[]", "InvalidRequest", ""},
        {"{\"v\":1,\"op\":\"hello\"", "InvalidRequest", ""},
        {"{\"v\":1,\"op\":\"hello\"}{}", "InvalidRequest", ""},
        {"{\"op\":\"hello\"}", "UnsupportedVersion", "v"},
        {"{\"v\":2,\"op\":\"hello\"}", "UnsupportedVersion", "v"},
        {"{\"v\":\"1\",\"op\":\"hello\"}", "InvalidRequest", "v"},
        {"{\"v\":1,\"v\":1,\"op\":\"hello\"}", "InvalidRequest", "v"},
        {"{\"v\":1}", "UnknownOperation", "op"},
        {"{\"v\":1,\"op\":\"reboot\"}", "UnknownOperation", "op"},
        {"{\"v\":1,\"op\":7}", "InvalidRequest", "op"},
        {"{\"v\":1,\"op\":\"hello\",\"why\":1}", "InvalidRequest", "why"},
        {"{\"v\":1,\"op\":\"apply\",\"hash\":\"00\"}", "InvalidRequest", "config"},
        {"{\"v\":1,\"op\":\"apply\",\"hash\":\"00\",\"config\":{}}", "HashMismatch", "hash"},
        {"{\"v\":1,\"op\":\"apply\",\"hash\":\"00\",\"memfd\":true,\"size\":10}", "InvalidRequest", "memfd"},
        {"{\"v\":1,\"op\":\"apply\",\"hash\":\"00\",\"memfd\":1}", "InvalidRequest", "memfd"},
        {"{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\"}", "InvalidRequest", "windowSeconds"},
        {"{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":601}", "InvalidRequest",
         "windowSeconds"},
        {"{\"v\":1,\"op\":\"histogram\",\"name\":\"size\",\"windowSeconds\":5}", "UnknownHistogram", "name"},
        {"{\"v\":1,\"op\":\"histogram\",\"windowSeconds\":1.5}", "InvalidRequest", "windowSeconds"},
        {"{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":5,\"parts\":0}", "InvalidRequest",
         "parts"},
        {"{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":5,\"parts\":21}", "InvalidRequest",
         "parts"},
        {"{\"v\":1,\"op\":\"traces\",\"after\":-1}", "InvalidRequest", "after"},
        {"{\"v\":1,\"op\":\"traces\",\"after\":\"0\"}", "InvalidRequest", "after"},
    };
    struct bed b;
    (void)state;
    bed_open(&b, true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_error(&b, cases[i].request, NULL, 0, cases[i].code, cases[i].field);
    }
    assert_int_equal(b.applied, 0);
    cJSON *json = ask(&b, "{\"v\":1,\"op\":\"hello\"}"); // still answers
    assert_true(is_ok(json));
    assert_string_equal(text_of(json, "role"), "router");
    assert_int_equal(cJSON_GetObjectItem(json, "incarnation")->valueint, 77);
    assert_int_equal(cJSON_GetObjectItem(json, "pid")->valueint, getpid());
    cJSON_Delete(json);
    bed_close(&b);
}

static void expect_applied(struct bed *b, const char *request, bool unchanged)
{
    cJSON *json = ask(b, request);
    assert_true(is_ok(json));
    assert_int_equal(strlen(text_of(json, "hash")), 64);
    assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(json, "unchanged")), unchanged);
    cJSON_Delete(json);
}

static void the_last_good_configuration_stays(void **state)
{
    struct bed b;
    size_t len;
    struct bt_ctl_error e;
    char *good = bed_document(&len);
    char *request = bed_apply_request(good, NULL);
    (void)state;
    bed_open(&b, true);
    expect_applied(&b, request, false);
    assert_int_equal(b.applied, 1);
    assert_int_equal(b.depth, 3);
    assert_int_equal(b.n_keys, 1);
    assert_true(pthread_equal(b.loop_id, b.loop)); // the program was called by its loop
    expect_applied(&b, request, true);
    assert_int_equal(b.applied, 1);

    char *bad = strdup(good);
    *strchr(strstr(bad, "workerQueueDepth"), '3') = '0';
    char *refused = bed_apply_request(bad, NULL);
    expect_error(&b, refused, NULL, 0, "InvalidConfig", "service.workerQueueDepth");
    *strchr(strstr(bad, "workerQueueDepth"), '0') = '5';
    char *unwelcome = bed_apply_request(bad, NULL);
    b.refuse = true;
    expect_error(&b, unwelcome, NULL, 0, "InvalidConfig", "members[0]");
    assert_int_equal(b.depth, 3);

    char *cached = bt_file_read(b.cache, &len, &e); // what survives a restart is the good one
    assert_non_null(cached);
    assert_int_equal(len, strlen(good));
    assert_memory_equal(cached, good, len);
    expect_applied(&b, unwelcome, false);
    assert_int_equal(b.depth, 5);
    bed_close(&b);
    free(good);
    free(bad);
    free(request);
    free(refused);
    free(unwelcome);
    free(cached);
}

static int memfd_of(const char *text, size_t len, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

// A disk that is full for a moment must not cost the next start its configuration.
static void a_cache_that_could_not_be_written_is_written_later(void **state)
{
    struct bed b;
    size_t len;
    size_t cached_len;
    struct bt_ctl_error e;
    char obstacle[96];
    char *good = bed_document(&len);
    char *request = bed_apply_request(good, NULL);
    (void)state;
    bed_open(&b, true);
    snprintf(obstacle, sizeof obstacle, "%s.new", b.cache);
    assert_int_equal(mkdir(obstacle, 0700), 0);
    expect_applied(&b, request, false); // in force all the same
    assert_null(bt_file_read(b.cache, &cached_len, &e));
    assert_int_equal(rmdir(obstacle), 0);
    expect_applied(&b, request, true);
    assert_int_equal(b.applied, 1);
    char *cached = bt_file_read(b.cache, &cached_len, &e);
    assert_non_null(cached);
    assert_int_equal(cached_len, strlen(good));
    assert_memory_equal(cached, good, cached_len);
    bed_close(&b);
    free(good);
    free(request);
    free(cached);
}

static void configurations_in_memfds_must_be_sealed(void **state)
{
    const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    static const int some[] = {0, F_SEAL_WRITE, F_SEAL_WRITE | F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW};
    struct bed b;
    size_t len;
    char hash[BT_CONFIG_HASH];
    char request[256];
    char *good = bed_document(&len);
    (void)state;
    bed_open(&b, true);
    bt_config_hash(good, len, hash);
    snprintf(request, sizeof request, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"memfd\":true,\"size\":%zu}", hash,
             len);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        int fd = memfd_of(good, len, some[i]);
        expect_error(&b, request, &fd, 1, "InvalidRequest", "memfd");
        close(fd);
    }
    int fds[2] = {memfd_of(good, len, all), memfd_of(good, len - 1, all)};
    expect_error(&b, request, fds, 2, "InvalidRequest", "memfd");    // which one?
    expect_error(&b, request, &fds[1], 1, "InvalidRequest", "size"); // shorter than it says
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);         // no memfd at all
    expect_error(&b, request, &file, 1, "InvalidRequest", "memfd");
    for (unsigned i = 0; i < 3; i++) {
        static const char *const sizes[] = {"0", "-1", "1048577"};
        snprintf(request, sizeof request, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"memfd\":true,\"size\":%s}", hash,
                 sizes[i]);
        expect_error(&b, request, fds, 1, "InvalidRequest", "size");
    }
    snprintf(request, sizeof request, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"memfd\":true,\"size\":%zu}", hash,
             len);
    assert_int_equal(b.applied, 0);
    cJSON *json = ask_fd(&b, request, fds, 1);
    assert_true(is_ok(json));
    assert_int_equal(b.applied, 1);
    cJSON_Delete(json);
    close(fds[0]);
    close(fds[1]);
    close(file);
    bed_close(&b);
    free(good);
}

static void a_configuration_whose_key_is_missing_is_refused(void **state)
{
    struct bed b;
    size_t len;
    char *text = bed_document(&len);
    (void)state;
    bed_open(&b, true);
    memcpy(strstr(text, "\"keyIds\":[1]"), "\"keyIds\":[9]", 12);
    char *request = bed_apply_request(text, NULL);
    expect_error(&b, request, NULL, 0, "InvalidConfig", "keyIds[0]");
    assert_int_equal(b.applied, 0);
    bed_close(&b);
    free(text);
    free(request);
}

static void state_counters_and_leave(void **state)
{
    struct bed b;
    (void)state;
    bed_open(&b, true);
    cJSON *json = ask(&b, "{\"v\":1,\"op\":\"state\"}");
    assert_string_equal(text_of(json, "hash"), "");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "members")), BT_CONFIG_WORKERS_MAX);
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "queue"), "held")->valueint, 2);
    cJSON_Delete(json);

    json = ask(&b, "{\"v\":1,\"op\":\"counters\"}");
    const cJSON *list = cJSON_GetObjectItem(json, "counters");
    assert_int_equal(cJSON_GetArraySize(list), 2); // the nameless one is left out
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    assert_string_equal(text_of(first, "name"), "router_dropped_total");
    assert_string_equal(text_of(cJSON_GetObjectItem(first, "labels"), "reason"), "queue_full");
    assert_int_equal(cJSON_GetObjectItem(first, "value")->valueint, 3);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "gauges")), 1);
    cJSON_Delete(json);

    json = ask(&b, "{\"v\":1,\"op\":\"leave\"}");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "draining")));
    assert_int_equal(b.left, 1);
    cJSON_Delete(json);
    bed_close(&b);
}

static void histograms_cover_their_window(void **state)
{
    struct bed b;
    const uint64_t second = UINT64_C(1000000000);
    (void)state;
    bed_open(&b, true);
    bt_hist_slices_record(b.slices, b.now - 8 * second, 5000); // outside of 3 seconds
    bt_hist_slices_arrived(b.slices, b.now - 8 * second, 5);
    bt_hist_slices_arrived(b.slices, b.now, 2);
    bt_hist_slices_rejected(b.slices, b.now, 1);
    bt_hist_slices_record(b.slices, b.now, 5000000);
    bt_hist_slices_record_inf(b.slices, b.now, 1);
    cJSON *json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":3}");
    const cJSON *h = cJSON_GetObjectItem(json, "histogram");
    assert_string_equal(text_of(json, "source"), "Router");
    assert_string_equal(text_of(json, "name"), "latency");
    assert_int_equal(cJSON_GetObjectItem(json, "windowSeconds")->valueint, 3);
    assert_int_equal(cJSON_GetObjectItem(json, "second")->valueint, b.now / second);
    assert_string_equal(text_of(h, "encoding"), "ll7");
    assert_int_equal(cJSON_GetObjectItem(h, "total")->valueint, 2);
    assert_int_equal(cJSON_GetObjectItem(h, "inf")->valueint, 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(h, "buckets")), 1);
    const cJSON *bucket = cJSON_GetArrayItem(cJSON_GetObjectItem(h, "buckets"), 0);
    assert_int_equal(cJSON_GetArrayItem(bucket, 0)->valueint, bt_hist_index(5000000));
    assert_int_equal(cJSON_GetArrayItem(bucket, 1)->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(json, "requests")->valueint, 2);
    assert_int_equal(cJSON_GetObjectItem(json, "rejected")->valueint, 1);
    cJSON_Delete(json);
    json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":600}");
    assert_int_equal(cJSON_GetObjectItem(json, "requests")->valueint, 7);
    assert_in_range(cJSON_GetObjectItem(json, "coveredSeconds")->valueint, 9, 11);
    cJSON_Delete(json);
    bed_close(&b);
}

/* A window and its stretches are one answer, the newest first; the whole is their sum. */
static void a_window_is_told_in_parts(void **state)
{
    struct bed b;
    const uint64_t second = UINT64_C(1000000000);
    const int want[] = {1, 0, 2, 3}; /* of seconds 0-1, 2-3, 4-5, 6-7 back; 8 back is none of them */
    const uint64_t back[] = {0, 4, 5, 6, 6, 7, 8};
    int sum = 0;
    (void)state;
    bed_open(&b, true);
    for (size_t i = sizeof back / sizeof back[0]; i-- > 0;) {
        bt_hist_slices_arrived(b.slices, b.now - back[i] * second, 1);
        bt_hist_slices_record(b.slices, b.now - back[i] * second, 5000);
    }
    cJSON *json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":8,\"parts\":4}");
    const cJSON *parts = cJSON_GetObjectItem(json, "parts");
    assert_int_equal(cJSON_GetArraySize(parts), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(parts, i), "total")->valueint, want[i]);
        sum += want[i];
    }
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "histogram"), "total")->valueint, sum);
    assert_int_equal(cJSON_GetObjectItem(json, "requests")->valueint, sum);
    assert_int_equal(cJSON_GetObjectItem(json, "coveredSeconds")->valueint, 8);
    cJSON_Delete(json);
    /* Before the program's life there is nothing to tell; more parts than seconds are as many as seconds. */
    json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":600,\"parts\":20}");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "parts")), 1);
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "histogram"), "total")->valueint, 7);
    cJSON_Delete(json);
    json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":3,\"parts\":20}");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "parts")), 3);
    cJSON_Delete(json);
    bed_close(&b);
}

/* the histogram of a class covers all there was; nobody need say how long. */
static void a_histogram_of_the_whole_life_needs_no_window(void **state)
{
    struct bed b;
    (void)state;
    bed_open(&b, true);
    bt_hist_record(&b.total, 5000000);
    bt_hist_record_inf(&b.total, 2);
    cJSON *json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"class3\"}");
    const cJSON *h = cJSON_GetObjectItem(json, "histogram");
    assert_int_equal(cJSON_GetObjectItem(h, "total")->valueint, 3);
    assert_int_equal(cJSON_GetObjectItem(h, "inf")->valueint, 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(h, "buckets")), 1);
    assert_string_equal(cJSON_GetObjectItem(json, "name")->valuestring, "class3");
    cJSON_Delete(json);
    bed_close(&b);
}

/* Asked right after requests arrived, the loop may be anywhere in its turn and may not have taken them yet. */
static void a_histogram_holds_what_arrived_before_it_was_asked_for(void **state)
{
    struct bed b;
    (void)state;
    bed_open(&b, true);
    for (int i = 1; i <= 200; i++) {
        atomic_fetch_add(&b.arriving, 1);
        cJSON *json = ask(&b, "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":600}");
        assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "histogram"), "total")->valueint, i);
        cJSON_Delete(json);
    }
    bed_close(&b);
}

/* an answer holds a bounded number of traces and says where the next one goes on. */
static void traces_come_in_portions(void **state)
{
    struct bed b;
    char request[80];
    int after = 0;
    (void)state;
    bed_open(&b, true);
    for (uint64_t id = 1; id <= 200; id++) {
        bt_trace_note(&b.traces, &(struct bt_trace){.id = id << 56 | 0xab,
                                                    .start_ns = 10 * id,
                                                    .middle_ns = 10 * id + 1,
                                                    .end_ns = 10 * id + 2,
                                                    .client = bt_addr_v4u(0x0a000001, 7000),
                                                    .worker = bt_addr_v4u(0x0a000002, 8000),
                                                    .req_id = (uint16_t)id,
                                                    .routed = true,
                                                    .dropped = id == 2});
    }
    for (int portion = 0; portion < 3; portion++) {
        snprintf(request, sizeof request, "{\"v\":1,\"op\":\"traces\",\"after\":%d}", after);
        cJSON *json = ask(&b, request);
        const cJSON *all = cJSON_GetObjectItem(json, "traces");
        const int want[] = {128, 72, 0};
        assert_int_equal(cJSON_GetArraySize(all), want[portion]);
        assert_int_equal(cJSON_GetObjectItem(json, "lost")->valueint, 0);
        if (portion == 0) {
            const cJSON *second = cJSON_GetArrayItem(all, 1);
            assert_string_equal(text_of(second, "id"), "02000000000000ab");
            assert_string_equal(text_of(second, "client"), "10.0.0.1:7000");
            assert_string_equal(text_of(second, "worker"), "10.0.0.2:8000");
            assert_int_equal(cJSON_GetObjectItem(second, "startNanoseconds")->valueint, 20);
            assert_int_equal(cJSON_GetObjectItem(second, "middleNanoseconds")->valueint, 21);
            assert_int_equal(cJSON_GetObjectItem(second, "endNanoseconds")->valueint, 22);
            assert_int_equal(cJSON_GetObjectItem(second, "request")->valueint, 2);
            assert_true(cJSON_IsTrue(cJSON_GetObjectItem(second, "routed")));
            assert_true(cJSON_IsTrue(cJSON_GetObjectItem(second, "dropped")));
            assert_int_equal(cJSON_GetObjectItem(json, "nowNanoseconds")->valuedouble, (double)b.now);
            assert_true(pthread_equal(b.loop_id, b.loop)); // the ring is the packet loop's
        }
        after = cJSON_GetObjectItem(json, "next")->valueint;
        cJSON_Delete(json);
    }
    bed_close(&b);
}

static void a_closed_loop_is_an_error_not_a_hang(void **state)
{
    struct bed b;
    (void)state;
    bed_open(&b, false);
    bt_mailbox_close(&b.mailbox);
    size_t len;
    char *good = bed_document(&len), *apply = bed_apply_request(good, NULL);
    const char *const requests[] = {
        "{\"v\":1,\"op\":\"state\"}",
        "{\"v\":1,\"op\":\"counters\"}",
        "{\"v\":1,\"op\":\"leave\"}",
        "{\"v\":1,\"op\":\"traces\",\"after\":0}",
        "{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":5}",
        "{\"v\":1,\"op\":\"histogram\",\"name\":\"class3\"}",
        apply,
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        expect_error(&b, requests[i], NULL, 0, "Internal", "");
    }
    assert_int_equal(b.applied + b.left, 0);
    free(apply);
    free(good);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_requests_are_refused_with_their_field),
        cmocka_unit_test(the_last_good_configuration_stays),
        cmocka_unit_test(a_cache_that_could_not_be_written_is_written_later),
        cmocka_unit_test(configurations_in_memfds_must_be_sealed),
        cmocka_unit_test(a_configuration_whose_key_is_missing_is_refused),
        cmocka_unit_test(state_counters_and_leave),
        cmocka_unit_test(histograms_cover_their_window),
        cmocka_unit_test(a_window_is_told_in_parts),
        cmocka_unit_test(a_histogram_of_the_whole_life_needs_no_window),
        cmocka_unit_test(a_histogram_holds_what_arrived_before_it_was_asked_for),
        cmocka_unit_test(traces_come_in_portions),
        cmocka_unit_test(a_closed_loop_is_an_error_not_a_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
