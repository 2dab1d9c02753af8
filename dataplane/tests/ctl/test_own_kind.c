// SPDX-License-Identifier: Apache-2.0
// A program whose documents are of a kind of their own, and that answers operations of its own: what reaches it, what
// is remembered of it, and what its answers look like.
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/file.h"

static struct program {
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    pthread_t loop, called; // called: which thread the program was called by last
    atomic_bool stop;
    char dir[40], cache[80], file[80];
    unsigned applied;
    char text[64], keys[80];
    bool refuse;
    struct bt_ctl_ask ask;
    char name[32], address[32];
} p;

static bool apply_text(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e)
{
    struct program *to = arg;
    to->called = pthread_self();
    if (to->refuse) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "verse[2]", "not today");
    }
    to->applied++;
    snprintf(to->text, sizeof to->text, "%.*s", (int)len, text);
    snprintf(to->keys, sizeof to->keys, "%s", key_dir);
    return true;
}

static bool answer(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct program *to = arg;
    to->called = pthread_self();
    to->ask = *ask;
    snprintf(to->name, sizeof to->name, "%s", ask->name);
    snprintf(to->address, sizeof to->address, "%s", ask->address);
    bt_json_out_u64(o, "index", 7);
    return !to->refuse || bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "id", "not that one");
}

static bool other(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    (void)arg;
    (void)ask;
    (void)e;
    bt_json_out_bool(o, "other", true);
    return true;
}

static void no_wake(void *arg)
{
    (void)arg;
}

static void *loop(void *arg)
{
    struct program *of = arg;
    while (!atomic_load(&of->stop)) {
        bt_mailbox_poll(&of->mailbox);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static const struct bt_ctl_operation operations[] = {{"add", answer}, {"other", other}, {NULL, NULL}};

static void start(bool with_documents)
{
    struct bt_ctl_app app = {.role = "member", .arg = &p};
    if (with_documents) {
        app.apply_text = apply_text;
        app.operations = operations;
    }
    struct bt_ctl_options options = {.key_dir = p.dir, .config_cache = p.cache};
    bt_mailbox_init(&p.mailbox, no_wake, NULL);
    p.ctl = bt_ctl_new(&app, &options, &p.mailbox);
    assert_non_null(p.ctl);
    atomic_store(&p.stop, false);
    assert_int_equal(pthread_create(&p.loop, NULL, loop, &p), 0);
}

static void end(void)
{
    atomic_store(&p.stop, true);
    pthread_join(p.loop, NULL);
    bt_mailbox_close(&p.mailbox);
    bt_ctl_stop(p.ctl);
    bt_mailbox_destroy(&p.mailbox);
}

static int opened(void **state)
{
    (void)state;
    memset(&p, 0, sizeof p);
    strcpy(p.dir, "/tmp/bobtail-ctl-XXXXXX");
    assert_non_null(mkdtemp(p.dir));
    snprintf(p.cache, sizeof p.cache, "%s/cache.json", p.dir);
    snprintf(p.file, sizeof p.file, "%s/file.json", p.dir);
    start(true);
    return 0;
}

static int closed(void **state)
{
    (void)state;
    end();
    unlink(p.cache);
    unlink(p.file);
    return rmdir(p.dir);
}

static void answers(const char *request, const char *want)
{
    char *got = bt_ctl_answer(p.ctl, request, strlen(request), NULL, 0);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

// Asks for this document to be put in force.
static void apply(const char *document, const char *tail)
{
    char hash[BT_CONFIG_HASH], request[256], want[256];
    bt_config_hash(document, strlen(document), hash);
    snprintf(request, sizeof request, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"config\":%s}", hash, document);
    if (tail[0] == ',') {
        snprintf(want, sizeof want, "{\"v\":1,\"ok\":true,\"hash\":\"%s\"%s", hash, tail);
    } else {
        snprintf(want, sizeof want, "%s", tail);
    }
    answers(request, want);
}

static bool cache_is(const char *text)
{
    size_t len;
    struct bt_ctl_error e;
    char *got = bt_file_read(p.cache, &len, &e);
    bool same = got != NULL && len == strlen(text) && memcmp(got, text, len) == 0;
    free(got);
    return same;
}

#define NEW   ",\"unchanged\":false}"
#define KNOWN ",\"unchanged\":true}"

static void a_document_of_its_own_kind_is_handed_over_every_time(void **state)
{
    (void)state;
    apply("{\"a\":1}", NEW);
    assert_int_equal(p.applied, 1);
    assert_string_equal(p.text, "{\"a\":1}");
    assert_string_equal(p.keys, p.dir);
    assert_true(pthread_equal(p.called, p.loop));
    assert_true(cache_is("{\"a\":1}"));
    apply("{\"a\":1}", KNOWN); // a key's file may hold another key
    assert_int_equal(p.applied, 2);
    apply("{\"a\":2}", NEW);
    assert_int_equal(p.applied, 3);
    assert_true(cache_is("{\"a\":2}"));
    p.refuse = true;
    apply("{\"a\":3}", "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"InvalidConfig\",\"field\":\"verse[2]\","
                       "\"message\":\"not today\"}}");
    p.refuse = false;
    assert_true(cache_is("{\"a\":2}"));
    apply("{\"a\":2}", KNOWN); // it is still the one in force
    apply("{\"a\":3}", NEW);
    assert_int_equal(p.applied, 5);
}

// From a file at start, by the thread that will run the loop; no copy of it is needed.
static void a_file_of_its_own_kind_is_read_at_start(void **state)
{
    (void)state;
    struct bt_ctl_error e;
    assert_false(bt_ctl_load(p.ctl, p.file, &e)); // there is none
    assert_true(bt_file_replace(p.file, "{\"f\":1}", 7, &e));
    assert_true(bt_ctl_load(p.ctl, p.file, &e));
    assert_int_equal(p.applied, 1);
    assert_string_equal(p.text, "{\"f\":1}");
    assert_true(pthread_equal(p.called, pthread_self()));
    assert_int_not_equal(access(p.cache, F_OK), 0);
    apply("{\"f\":1}", KNOWN);
    assert_int_not_equal(access(p.cache, F_OK), 0);
    apply("{\"f\":2}", NEW);
    assert_true(cache_is("{\"f\":2}"));
    p.refuse = true;
    assert_false(bt_ctl_load(p.ctl, p.file, &e));
    assert_string_equal(e.field, "verse[2]");
}

static void operations_of_its_own_are_told_what_was_given(void **state)
{
    (void)state;
    answers("{\"v\":1,\"op\":\"add\",\"id\":4,\"name\":\"m4\",\"address\":\"10.0.0.4\",\"memberPort\":81,"
            "\"clientPort\":80}",
            "{\"v\":1,\"ok\":true,\"index\":7}");
    assert_int_equal(p.ask.id, 4);
    assert_int_equal(p.ask.member_port, 81);
    assert_int_equal(p.ask.client_port, 80);
    assert_string_equal(p.name, "m4");
    assert_string_equal(p.address, "10.0.0.4");
    assert_true(pthread_equal(p.called, p.loop));
    answers("{\"v\":1,\"op\":\"add\"}", "{\"v\":1,\"ok\":true,\"index\":7}");
    assert_true(p.ask.id == 0 && p.ask.member_port == 0 && p.ask.client_port == 0);
    assert_true(p.name[0] == '\0' && p.address[0] == '\0');
    answers("{\"v\":1,\"op\":\"other\"}", "{\"v\":1,\"ok\":true,\"other\":true}");
    p.refuse = true; // what was written of an answer by then is no part of the refusal
    answers("{\"v\":1,\"op\":\"add\"}", "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"InvalidRequest\",\"field\":\"id\","
                                        "\"message\":\"not that one\"}}");
}

static void who_takes_no_documents_and_keeps_no_traces_says_so(void **state)
{
    (void)state;
    end();
    start(false);
    apply("{\"a\":1}", "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"InvalidRequest\",\"field\":\"op\","
                       "\"message\":\"a member takes no configuration\"}}");
    answers("{\"v\":1,\"op\":\"traces\"}", "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"UnknownOperation\","
                                           "\"field\":\"op\",\"message\":\"a member keeps no traces\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_document_of_its_own_kind_is_handed_over_every_time, opened, closed),
        cmocka_unit_test_setup_teardown(a_file_of_its_own_kind_is_read_at_start, opened, closed),
        cmocka_unit_test_setup_teardown(operations_of_its_own_are_told_what_was_given, opened, closed),
        cmocka_unit_test_setup_teardown(who_takes_no_documents_and_keeps_no_traces_says_so, opened, closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
