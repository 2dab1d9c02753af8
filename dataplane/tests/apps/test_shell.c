// SPDX-License-Identifier: Apache-2.0
// The pieces the programs are made of: times on the command line, drawn service times, the queue
// between threads, the mailbox, the buffer pool.
#include "unit.h"

#include "bobtail-serve/service_time.h"
#include "ctl/mailbox.h"
#include "shell/cli.h"
#include "shell/device_claim.h"
#include "shell/device_told.h"
#include "shell/log.h"
#include "shell/pool.h"
#include "shell/spsc.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void durations_have_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"0", 0}, {"5ms", 5000000}, {"1.5s", 1500000000}, {"250us", 250000}, {"7ns", 7}, {"2m", 120000000000}};
    static const char *const bad[] = {"", "5", "ms", "-1s", "1 s", "1sec", "inf", "nan", "1e300s", "0x5s", "+1s"};
    uint64_t ns;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(bt_duration_parse(good[i].text, &ns));
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (bt_duration_parse(bad[i], &ns)) {
            fail_msg("accepted \"%s\"", bad[i]);
        }
    }
}

// Mean of many draws, and the share of draws above `limit`.
static double draw(const char *text, double limit, double *above)
{
    enum { DRAWS = 200000 };
    struct service_time s;
    struct bt_rng rng;
    double sum = 0;
    unsigned over = 0;
    bt_rng_seed(&rng, 42);
    if (!service_time_parse(text, &s)) {
        fail_msg("refused \"%s\"", text);
    }
    for (unsigned i = 0; i < DRAWS; i++) {
        double ns = (double)service_time_draw(&s, &rng);
        sum += ns;
        over += ns > limit;
    }
    *above = (double)over / DRAWS;
    return sum / DRAWS;
}

static bool near(double got, double want, double share)
{
    return got > want * (1 - share) && got < want * (1 + share);
}

static void drawn_times_follow_their_distribution(void **state)
{
    double above;
    (void)state;
    assert_true(near(draw("fixed:5ms", 4.9e6, &above), 5e6, 1e-6));
    assert_true(near(above, 1, 1e-9));
    assert_true(near(draw("exp:5ms", 5e6, &above), 5e6, 0.02));
    assert_true(near(above, 0.3679, 0.02)); // e^-1
    // 90 % 0.5, 10 % 5.5 have mean 1.
    assert_true(near(draw("bimodal:500us:5.5ms:10", 1e6, &above), 1e6, 0.02));
    assert_true(near(above, 0.1, 0.03));
    // The median of a lognormal with mean m and sigma s is m * exp(-s^2/2).
    assert_true(near(draw("lognormal:1ms:1", 1e6 * 0.60653, &above), 1e6, 0.05));
    assert_true(near(above, 0.5, 0.02));
}

static void zero_times_are_known_and_wrong_texts_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "fixed",
                                      "fixed:",
                                      "fixed:5",
                                      "exp:1ms:2",
                                      "bimodal:1ms:2ms",
                                      "gauss:1ms",
                                      "bimodal:1ms:2ms:x",
                                      "lognormal:1ms:-1",
                                      "lognormal:1ms:9",
                                      "fixed:11m"};
    struct service_time s;
    (void)state;
    assert_true(service_time_parse("fixed:0", &s) && service_time_is_zero(&s));
    assert_true(service_time_parse("exp:1us", &s) && !service_time_is_zero(&s));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (service_time_parse(bad[i], &s)) {
            fail_msg("accepted \"%s\"", bad[i]);
        }
    }
}

enum { ITEMS = 100000 };

static void *produce(void *arg)
{
    static int items[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        items[i] = i;
        while (!bt_spsc_push(arg, &items[i])) {
            sched_yield();
        }
    }
    return NULL;
}

static void a_queue_between_threads_loses_nothing(void **state)
{
    struct bt_spsc q;
    pthread_t t;
    (void)state;
    assert_true(bt_spsc_open(&q, 50));
    assert_null(bt_spsc_pop(&q));
    assert_int_equal(pthread_create(&t, NULL, produce, &q), 0);
    for (int i = 0; i < ITEMS; i++) {
        const int *item;
        while ((item = bt_spsc_pop(&q)) == NULL) {
            sched_yield();
        }
        assert_int_equal(*item, i);
    }
    pthread_join(t, NULL);
    assert_null(bt_spsc_pop(&q));
    bt_spsc_close(&q);
}

struct post {
    struct bt_mailbox box;
    unsigned count; // plain: only the loop touches it
    atomic_uint failed, answered, senders;
};

static void add_one(void *arg)
{
    struct post *p = arg;
    p->count++;
}

static void *send_letters(void *arg)
{
    struct post *p = arg;
    for (int i = 0; i < 500; i++) {
        if (bt_mailbox_call(&p->box, add_one, p)) {
            atomic_fetch_add(&p->answered, 1);
        } else {
            atomic_fetch_add(&p->failed, 1);
        }
    }
    atomic_fetch_sub(&p->senders, 1);
    return NULL;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void *send_one_letter(void *arg)
{
    struct post *p = arg;
    atomic_store(&p->answered, bt_mailbox_call(&p->box, add_one, p) ? 1 : 0);
    return NULL;
}

static void count_letter(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* What arrived before the letter is taken in the turn that begins after it, so that turn opens it. */
static void a_letter_is_opened_after_one_whole_turn(void **state)
{
    struct post p = {.count = 0};
    atomic_uint woken = 0;
    pthread_t t;
    (void)state;
    bt_mailbox_init(&p.box, count_letter, &woken);
    assert_int_equal(pthread_create(&t, NULL, send_one_letter, &p), 0);
    while (atomic_load(&woken) == 0) {
        sched_yield();
    }
    bt_mailbox_poll(&p.box);
    assert_int_equal(p.count, 0);
    assert_int_equal(atomic_load(&woken), 2); // or the loop would sleep on
    bt_mailbox_poll(&p.box);
    assert_int_equal(p.count, 1);
    pthread_join(t, NULL);
    assert_int_equal(atomic_load(&p.answered), 1);
    bt_mailbox_destroy(&p.box);
}

/* The loop ends in the very turn that answers a letter: the next call must fail at once, not wait out its patience. */
static void a_close_behind_an_answer_is_not_lost(void **state)
{
    struct post p = {.count = 0};
    pthread_t t;
    struct timespec before, after;
    (void)state;
    bt_mailbox_init(&p.box, nothing, NULL);
    assert_int_equal(pthread_create(&t, NULL, send_one_letter, &p), 0);
    while (p.count < 1) {
        bt_mailbox_close(&p.box); // polls, then closes behind the answer
        if (p.count < 1) {
            pthread_join(t, NULL); // the letter was not there yet: begin again
            bt_mailbox_destroy(&p.box);
            bt_mailbox_init(&p.box, nothing, NULL);
            assert_int_equal(pthread_create(&t, NULL, send_one_letter, &p), 0);
            usleep(1000);
        }
    }
    pthread_join(t, NULL);
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_false(bt_mailbox_call(&p.box, add_one, &p));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(after.tv_sec - before.tv_sec < 4); // an open box would keep the caller for five seconds
    bt_mailbox_destroy(&p.box);
}

static void every_letter_is_answered_once_or_refused(void **state)
{
    struct post p = {.count = 0};
    pthread_t t[3];
    (void)state;
    bt_mailbox_init(&p.box, nothing, NULL);
    atomic_store(&p.senders, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, send_letters, &p), 0);
    }
    while (p.count < 1000) { // then the loop ends, with letters still coming
        bt_mailbox_poll(&p.box);
        sched_yield();
    }
    bt_mailbox_close(&p.box);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
    }
    assert_int_equal(p.count, atomic_load(&p.answered));
    assert_int_equal(atomic_load(&p.answered) + atomic_load(&p.failed), 1500);
    assert_true(atomic_load(&p.failed) > 0);
    bt_mailbox_destroy(&p.box);
}

static void buffers_are_lent_and_taken_back(void **state)
{
    struct bt_pool_mapped m;
    struct bt_pkt *p[8];
    (void)state;
    assert_true(bt_pool_mapped_open(&m, 8));
    for (int i = 0; i < 8; i++) {
        p[i] = bt_pool_get(&m.pool);
        assert_non_null(p[i]);
        assert_int_equal(p[i]->room_before, BT_PKT_HEADROOM);
        memset(p[i]->data, i, p[i]->room_after); // each has its own bytes
    }
    assert_null(bt_pool_get(&m.pool));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(p[i]->data[0], i);
        assert_int_equal(p[i]->data[p[i]->room_after - 1], i);
    }
    bt_pkt_append(p[3], 100);
    bt_pool_put(&m.pool, p[3]);
    assert_int_equal(m.in_use, 7);
    struct bt_pkt *again = bt_pool_get(&m.pool);
    assert_ptr_equal(again, p[3]);
    assert_int_equal(again->len, 0);
    assert_null(again->next);
    bt_pool_mapped_close(&m);
}

// receivers compare incarnations by serial arithmetic.
static void incarnations_grow(void **state)
{
    (void)state;
    uint32_t a = bt_new_incarnation();
    struct timespec t = {.tv_nsec = 140 * 1000000};
    nanosleep(&t, NULL);
    uint32_t b = bt_new_incarnation();
    assert_true((int32_t)(b - a) > 0);
}

static unsigned wakes;

static void count_wake(struct bt_io *io)
{
    (void)io;
    wakes++;
}

static void a_signal_wakes_the_loop_but_not_a_closed_one(void **state)
{
    static const struct bt_io_ops ops = {.wake = count_wake};
    struct bt_io io = {.ops = &ops};
    (void)state;
    bt_stop_install(&io);
    raise(SIGTERM);
    assert_int_equal(wakes, 1);
    raise(SIGPIPE); // whoever asked has gone: no reason to stop
    assert_int_equal(wakes, 1);
    assert_int_equal(bt_stop_count(), 1);
    bt_stop_install(NULL); // as every program does before it closes its io
    raise(SIGINT);
    assert_int_equal(wakes, 1);
    assert_int_equal(bt_stop_count(), 2);
}

// A device that is lost stops the loop as signals do, and the program ends with a status of its own; its reason is the
// last thing it says.
static void a_lost_device_ends_the_program_with_its_reason(void **state)
{
    static const struct bt_io_ops ops = {.wake = count_wake};
    struct bt_io io = {.ops = &ops};
    unsigned before = bt_stop_count();
    char said[400] = "";
    int out[2], kept = dup(2);
    (void)state;
    assert_int_equal(bt_stop_status(1), 1);
    wakes = 0;
    bt_stop_install(&io);
    bt_stop_without_device(false, "it is wanted back");
    assert_int_equal(bt_stop_count(), before + 1); // what was asked is still answered
    bt_stop_without_device(true, "interface net1 is gone");
    assert_int_equal(bt_stop_count(), before + 3);
    assert_int_equal(wakes, 2);
    bt_stop_install(NULL);
    assert_int_equal(pipe(out), 0);
    dup2(out[1], 2);
    int status = bt_stop_status(0);
    dup2(kept, 2);
    assert_true(read(out[0], said, sizeof said - 1) > 0);
    for (unsigned i = 0; i < 2; i++) {
        close(out[i]);
    }
    close(kept);
    assert_int_equal(status, BT_EXIT_DEVICE_LOST);
    assert_non_null(strstr(said, "interface net1 is gone"));
}

/* What is logged is what peers and files said: a line stays one line, and JSON, whatever stands in it. */
static void a_line_of_json_is_whole_whatever_it_says(void **state)
{
    char said[900], line[8192] = "";
    int out[2], before = dup(2);
    (void)state;
    memset(said, '\1', sizeof said - 1);
    said[sizeof said - 1] = '\0';
    assert_int_equal(pipe(out), 0);
    assert_int_equal(dup2(out[1], 2), 2);
    bt_log_init("test", BT_LOG_JSON);
    bt_log_warn("%s", said);
    bt_log_init("test", BT_LOG_TEXT);
    assert_int_equal(dup2(before, 2), 2);
    ssize_t n = read(out[0], line, sizeof line - 1);
    close(out[0]);
    close(out[1]);
    close(before);
    assert_true(n > 2 && strcmp(line + n - 2, "}\n") == 0);
    unsigned escaped = 0;
    for (const char *at = line; (at = strstr(at, "\\u0001")) != NULL; at++) {
        escaped++;
    }
    assert_int_equal(escaped, 799); // what a line has room for
}

// Who tells of a pod's device tells the same, or the message names two of them (docs/guides/devices.md).
static void sources_of_a_device_agree_or_are_named(void **state)
{
    static const char one[] = "{\"0000:01:10.0\":{\"generic\":{\"deviceID\":\"0000:01:10.0\"},\"vfio\":{}}}";
    static const char other[] = "{\"0000:01:10.2\":{}}";
    static const struct {
        const char *value, *info, *file;
        const char *why; // NULL: they agree
    } rows[] = {
        {"0000:01:10.0", NULL, NULL, NULL},
        {"0000:01:10.0", one, "0000:01:10.0\n", NULL},
        {"0000:AB:10.0", "{\"0000:ab:10.0\":{}}", "0000:ab:10.0", NULL},
        {"0000:01:10.0", "{\"0000:01:10.2\":{},\"0000:01:10.0\":{}}", NULL, NULL},
        {NULL, one, NULL, "PCIDEVICE_T is not set"},
        {"", NULL, NULL, "PCIDEVICE_T is not set"},
        {"0000:01:10.0,0000:01:10.2", NULL, NULL, "must tell one device"},
        {"eth3", NULL, NULL, "must be a PCI address"},
        {"0000:01:10.8", NULL, NULL, "must be a PCI address"},
        {"0000:01:10.00", NULL, NULL, "must be a PCI address"},
        {"0000:01:10.0", other, NULL, "PCIDEVICE_T says 0000:01:10.0 and PCIDEVICE_T_INFO says 0000:01:10.2"},
        {"0000:01:10.0", "{}", NULL, "PCIDEVICE_T_INFO says none"},
        {"0000:01:10.0", "{\"0000:01:10.0\":", NULL, "must be a JSON object"},
        {"0000:01:10.0", "[]", NULL, "must be a JSON object"},
        {"0000:01:10.0", "{\"0000:01:10.0\":{}} x", NULL, "must be a JSON object"},
        {"0000:01:10.0", one, "0000:01:10.4\n", "network-status (/run/pci) says 0000:01:10.4"},
        {"0000:01:10.0", one, "", "network-status (/run/pci) says :"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_device_told told = {"PCIDEVICE_T", rows[i].value, rows[i].info, "/run/pci", rows[i].file};
        char pci[BT_DEVICE_PCI] = "";
        char why[400] = "";
        bool agreed = bt_device_agreed(&told, pci, why, sizeof why);
        if (agreed != (rows[i].why == NULL) || (!agreed && strstr(why, rows[i].why) == NULL)) {
            fail_msg("row %zu: %s %s, want %s", i, agreed ? pci : "", why, rows[i].why != NULL ? rows[i].why : "");
        }
        assert_true(!agreed || strcmp(pci, rows[i].value[5] == 'A' ? "0000:ab:10.0" : "0000:01:10.0") == 0);
    }
}

// The variables of this process, and a file that is not there: it says nothing.
static void a_device_is_found_in_the_environment(void **state)
{
    char pci[BT_DEVICE_PCI];
    char why[400];
    (void)state;
    assert_false(bt_device_from_environment("PCIDEVICE_TEST", NULL, pci, why, sizeof why));
    assert_int_equal(setenv("PCIDEVICE_TEST", "0000:01:10.0", 1), 0);
    assert_true(bt_device_from_environment("PCIDEVICE_TEST", "/nowhere/pci", pci, why, sizeof why));
    assert_string_equal(pci, "0000:01:10.0");
    assert_int_equal(setenv("PCIDEVICE_TEST_INFO", "{\"0000:01:10.6\":{}}", 1), 0);
    assert_false(bt_device_from_environment("PCIDEVICE_TEST", NULL, pci, why, sizeof why));
    assert_non_null(strstr(why, "0000:01:10.6"));
    assert_false(bt_device_from_environment("PCIDEVICE_TEST", "/", pci, why, sizeof why));
    assert_non_null(strstr(why, "cannot read /"));
}

#define META(devices)                                                                                                  \
    "{\"apiVersion\":\"metadata.resource.k8s.io/v1alpha1\",\"requests\":[{\"name\":\"vf\",\"devices\":[" devices       \
    "]}]}\n"
#define AT(address)                                                                                                    \
    "{\"driver\":\"d\",\"attributes\":{\"x/y\":{\"int\":1},\"resource.kubernetes.io/pciBusID\":{\"string\":\"" address \
    "\"}}"                                                                                                             \
    "}"

// The files of a DRA driver: one address, in every version of the format and for every device in them.
static void metadata_of_a_claim_tell_one_address(void **state)
{
    static const struct {
        const char *text;
        const char *pci; // that is found; NULL: why says the other
        const char *why;
    } rows[] = {
        {META(AT("0000:01:10.2")), "0000:01:10.2", NULL},
        {META(AT("0000:01:10.2")) META(AT("0000:01:10.2")), "0000:01:10.2", NULL},
        {META("{\"name\":\"no attributes\"},{\"attributes\":null}"), "", NULL},
        {"{\"apiVersion\":\"metadata.resource.k8s.io/v9\",\"other\":{}} " META(AT("0000:AB:10.2")), "0000:ab:10.2",
         NULL},
        {META(AT("0000:01:10.2") "," AT("0000:01:10.4")), NULL, "says 0000:01:10.2 and, in /f, 0000:01:10.4"},
        {META(AT("0000:01:10.2")) META(AT("0000:01:10.4")), NULL, "a program drives one device"},
        {META(AT("eth0")), NULL,
         "/f: resource.kubernetes.io/pciBusID must be a PCI address such as 0000:05:00.0; got \"eth0\""},
        {META(AT("")), NULL, "got \"nothing\""},
        {META("{\"attributes\":{\"resource.kubernetes.io/pciBusID\":{\"string\":7}}}"), NULL,
         "cannot be read from byte"},
        {"", NULL, "cannot be read from byte 0 on"},
        {"[]", NULL, "must be DRA metadata"},
        {META(AT("0000:01:10.2")) "{", NULL, "cannot be read from byte"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char pci[BT_DEVICE_PCI] = "";
        char why[800] = "";
        bool good = bt_device_claim_read("/f", rows[i].text, strlen(rows[i].text), pci, why, sizeof why);
        if (good != (rows[i].pci != NULL) ||
            (good ? strcmp(pci, rows[i].pci) != 0 : strstr(why, rows[i].why) == NULL)) {
            fail_msg("row %zu: %s %s", i, pci, why);
        }
    }
}

// Metadata and network-status agree, or the message names both; one of them is enough.
static void sources_of_a_claim_agree_or_are_named(void **state)
{
    static const struct {
        const char *metadata, *file;
        const char *why; // NULL: they agree
    } rows[] = {
        {"0000:01:10.2", "0000:01:10.2\n", NULL},
        {"0000:01:10.2", NULL, NULL},
        {"", "0000:01:10.2\n", NULL},
        {"0000:01:10.2", "0000:01:10.4\n",
         "DRA metadata (/m) says 0000:01:10.2 and network-status (/run/pci) says 0000:01:10.4"},
        {"", NULL, "neither DRA metadata (/m) nor network-status (/run/pci)"},
        {"", "net1\n", "network-status (/run/pci) must tell a PCI address such as 0000:05:00.0; got \"net1\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_device_claim told = {.metadata = "/m", .file = "/run/pci", .file_text = rows[i].file};
        char pci[BT_DEVICE_PCI] = "";
        char why[800] = "";
        snprintf(told.metadata_pci, sizeof told.metadata_pci, "%s", rows[i].metadata);
        bool agreed = bt_device_claimed(&told, pci, why, sizeof why);
        if (agreed != (rows[i].why == NULL) ||
            (agreed ? strcmp(pci, "0000:01:10.2") != 0 : strstr(why, rows[i].why) == NULL)) {
            fail_msg("row %zu: %s %s", i, pci, why);
        }
    }
}

// The folder of a claim has a folder for each request, with a file for each driver.
static void a_claim_is_found_in_its_folder(void **state)
{
    char folder[] = "/tmp/bobtail-claim-XXXXXX";
    char path[64];
    char pci[BT_DEVICE_PCI];
    char why[800];
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_false(bt_device_from_claim(folder, NULL, pci, why, sizeof why));
    assert_non_null(strstr(why, "nobody tells"));
    assert_false(bt_device_from_claim("nowhere", NULL, pci, why, sizeof why));
    assert_non_null(strstr(why, BT_DEVICE_CLAIMS "/nowhere/"));
    snprintf(path, sizeof path, "%s/vf", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/vf/a-metadata.json", folder);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(META(AT("0000:01:10.6")), f);
    fclose(f);
    assert_true(bt_device_from_claim(folder, "/nowhere/pci", pci, why, sizeof why));
    assert_string_equal(pci, "0000:01:10.6");
    unlink(path);
    snprintf(path, sizeof path, "%s/vf", folder);
    rmdir(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(drawn_times_follow_their_distribution),
        cmocka_unit_test(zero_times_are_known_and_wrong_texts_refused),
        cmocka_unit_test(a_queue_between_threads_loses_nothing),
        cmocka_unit_test(a_letter_is_opened_after_one_whole_turn),
        cmocka_unit_test(a_close_behind_an_answer_is_not_lost),
        cmocka_unit_test(every_letter_is_answered_once_or_refused),
        cmocka_unit_test(buffers_are_lent_and_taken_back),
        cmocka_unit_test(incarnations_grow),
        cmocka_unit_test(sources_of_a_device_agree_or_are_named),
        cmocka_unit_test(a_device_is_found_in_the_environment),
        cmocka_unit_test(metadata_of_a_claim_tell_one_address),
        cmocka_unit_test(sources_of_a_claim_agree_or_are_named),
        cmocka_unit_test(a_claim_is_found_in_its_folder),
        cmocka_unit_test(a_line_of_json_is_whole_whatever_it_says),
        cmocka_unit_test(a_signal_wakes_the_loop_but_not_a_closed_one),
        cmocka_unit_test(a_lost_device_ends_the_program_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
