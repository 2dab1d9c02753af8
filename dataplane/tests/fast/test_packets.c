// SPDX-License-Identifier: Apache-2.0
// What the program makes of packets that are damaged, cut short, odd or not for it, and how a loan ends. A packet it
// does not deal with leaves it as it came, and nothing is counted as sent or served.
#include "fast/twins.h"

#include <bpf/bpf.h>
#include <string.h>

#include "wire/checksum.h"

static struct twins twins;

static int open_twins(void **state)
{
    (void)state;
    twins_set_up(&twins, false);
    return 0;
}

static int open_keyed(void **state)
{
    (void)state;
    twins_set_up(&twins, true);
    return 0;
}

static int close_twins(void **state)
{
    (void)state;
    twins_tear_down(&twins);
    return 0;
}

/* Worker w served a request. */
static uint32_t feedback_payload(uint8_t *bytes, uint32_t w, uint64_t received, uint64_t served)
{
    return (uint32_t)bed_feedback_make(
        &twins.whole, w,
        &(struct bed_report){
            .received = received, .served = served, .n = 3, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .req_id = 7},
        bytes);
}

static uint32_t feedback_frame(uint8_t *frame, uint32_t w, uint64_t received, uint64_t served, enum bt_udp_sum sum)
{
    uint8_t bytes[128];
    uint32_t len = feedback_payload(bytes, w, received, served);
    return twins_frame(frame, &twins.whole.members[w], &twins.whole.feedback, bytes, len, sum);
}

/* The loan as it was first given, whatever was done with it since; the routers do not hear of that. */
static void lend_again(void)
{
    const uint32_t zero = 0;
    struct bt_fast *f = twins.fast;
    f->log->open = 0;
    assert_int_equal(bpf_map_update_elem(f->state_fd, &zero, &f->terms, BPF_F_LOCK), 0);
    f->log->tail = f->tail = f->log->head;
    f->log->lease = UINT64_MAX;
    f->log->open = 1;
}

static enum twin_fate run_frame(const uint8_t *frame, uint32_t len)
{
    uint8_t out[FRAME_MAX];
    uint32_t out_len;
    return twins_run(&twins, frame, len, out, &out_len);
}

/* The frame is passed for this reason, which ends the loan. */
static void passes(const uint8_t *frame, uint32_t len, enum bt_delegation_pass why)
{
    assert_int_equal(twins.fast->log->open, 1);
    assert_int_equal(run_frame(frame, len), TWIN_PASSED);
    assert_int_equal(twins.fast->log->open, 0);
    assert_int_equal(twins.fast->log->why, why);
}

/* The frame is none of the program's business: no reason, no change. */
static void ignored(const uint8_t *frame, uint32_t len)
{
    const struct bt_delegation_counters before = twins.fast->log->counters;
    assert_int_equal(run_frame(frame, len), TWIN_PASSED);
    assert_memory_equal(&before, &twins.fast->log->counters, sizeof before);
    assert_int_equal(twins.fast->log->open, 1);
}

/* A socket would get it: it is for us, and both checksums hold. */
static bool deliverable(const uint8_t *frame, uint32_t len)
{
    static const uint8_t here[6] = {0};
    struct bt_ip ip;
    return memcmp(frame, here, 6) == 0 && frame[12] == 8 && frame[13] == 0 &&
           bt_ip4_judge(frame + BT_ETHER_HEAD, len - BT_ETHER_HEAD, true, &ip) == BT_FRAME_OK &&
           ip.proto == BT_PROTO_UDP && bt_udp_judge(&ip, true) == BT_FRAME_OK;
}

/* Every bit turned, one at a time: what no socket would get does not touch the loan. Returns how many were dealt with.
 */
static uint32_t turn_bits(uint8_t *frame, uint32_t len)
{
    uint32_t dealt_with = 0;
    for (uint32_t bit = 0; bit < 8u * len; bit++) {
        lend_again();
        frame[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
        enum twin_fate fate = run_frame(frame, len);
        assert_int_not_equal(fate, TWIN_DROPPED);
        if (!deliverable(frame, len) && (fate != TWIN_PASSED || twins.fast->log->open == 0)) {
            fail_msg("byte %u bit %u: fate %u, open %u", bit / 8u, bit % 8u, fate, twins.fast->log->open);
        }
        dealt_with += fate != TWIN_PASSED ? 1u : 0u;
        frame[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
    }
    return dealt_with;
}

#define MAC_BITS (8u * 6u) /* the sender's, which nobody reads */

static void damaged_requests(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    assert_int_equal(turn_bits(frame, len), MAC_BITS);
    assert_true(twins.fast->log->counters.damaged > 8u * TWINS_REQUEST_BODY);
    len = twins_request_frame(&twins, frame, BT_UDP_SUM_NONE);
    assert_true(turn_bits(frame, len) >= MAC_BITS + 8u * TWINS_REQUEST_BODY);
}

/* Worker 0 has one request, which it served. */
static void lend_busy(void)
{
    twins.fast->terms.d.worker[0].given = 1;
    twins.fast->terms.d.rank[0] = (uint16_t)(1u << 8 | (twins.fast->terms.d.rank[0] & 0xffu));
    lend_again();
}

/* FEEDBACK of worker 0: whole it is taken, with any bit turned it is not. Returns its length. */
static uint32_t nothing_may_change(uint8_t *frame, enum bt_udp_sum sum)
{
    lend_busy();
    uint32_t len = feedback_frame(frame, 0, 1, 1, sum);
    assert_int_equal(turn_bits(frame, len), MAC_BITS);
    lend_again();
    assert_int_equal(run_frame(frame, len), TWIN_TAKEN);
    return len;
}

static void damaged_feedback(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    (void)nothing_may_change(frame, BT_UDP_SUM_FULL);
}

/* nothing under the tag may change, nor the tag, whether a checksum sees it or not. */
static void damaged_tags(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    uint32_t len = nothing_may_change(frame, BT_UDP_SUM_NONE);
    lend_busy();
    frame[BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD + BT_R2P2_HEADER + 5] ^= 1;
    passes(frame, len, BT_PASS_TAG);
    lend_again();
    uint8_t bytes[128];
    uint32_t n = (uint32_t)bed_feedback_make(
        &twins.whole, 0,
        &(struct bed_report){
            .received = 1, .served = 1, .n = 3, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .untagged = true},
        bytes);
    len = twins_frame(frame, &twins.whole.members[0], &twins.whole.feedback, bytes, n, BT_UDP_SUM_FULL);
    passes(frame, len, BT_PASS_WORKER); /* no steady word is without its tag */
}

/* An empty slot stands under no address; 0.0.0.0, port 0, is none either. */
static void feedback_of_nobody(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX], bytes[128];
    const struct bt_addr nobody = bt_addr_v4u(0, 0);
    const struct bed_report report = {.received = 1, .served = 1, .n = 3, .incarnation = 1, .untagged = true};
    uint32_t n = (uint32_t)bed_feedback_make(&twins.whole, 0, &report, bytes);
    memset(bytes + BT_R2P2_HEADER, 0, n - BT_R2P2_HEADER);
    passes(frame, twins_frame(frame, &nobody, &twins.whole.feedback, bytes, n, BT_UDP_SUM_NONE), BT_PASS_WORKER);
}

static void cut_short(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    uint32_t whole = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    for (uint32_t len = BT_ETHER_HEAD + BT_IP4_HEAD; len < whole; len++) {
        ignored(frame, len);
    }
    lend_busy();
    whole = feedback_frame(frame, 0, 1, 1, BT_UDP_SUM_FULL);
    for (uint32_t len = BT_ETHER_HEAD + BT_IP4_HEAD; len < whole; len++) {
        ignored(frame, len);
    }
}

/* Bytes behind the datagram, as Ethernet pads short frames, do not travel on. */
static void padding_goes(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX] = {0}, out[FRAME_MAX];
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL), out_len;
    assert_int_equal(twins_run(&twins, frame, len + 11u, out, &out_len), TWIN_FORWARDED);
    assert_int_equal(out_len, len + 8u);
}

static void mend_ip_sum(uint8_t *frame)
{
    uint8_t *ip = frame + BT_ETHER_HEAD;
    memset(ip + 10, 0, 2);
    uint16_t sum = bt_csum_fold(bt_csum_bytes(0, ip, BT_IP4_HEAD));
    sum = (uint16_t)~sum;
    memcpy(ip + 10, &sum, sizeof sum);
}

/* Valid packets that are not for the program. */
static void not_ours(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t bytes[128], frame[FRAME_MAX];
    uint32_t n = twins_request_payload(bytes, 7);
    struct bt_addr other = twins.whole.requests;
    other.port++;
    ignored(frame, twins_frame(frame, &twins.whole.client, &other, bytes, n, BT_UDP_SUM_FULL));
    other = bt_addr_v4u(0x0a000002, twins.whole.requests.port);
    ignored(frame, twins_frame(frame, &twins.whole.client, &other, bytes, n, BT_UDP_SUM_FULL));
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    frame[BT_ETHER_HEAD + 6] = 0x20; /* first of several fragments */
    mend_ip_sum(frame);
    ignored(frame, len);
    len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    frame[BT_ETHER_HEAD + 9] = BT_PROTO_TCP;
    mend_ip_sum(frame);
    ignored(frame, len);
    len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    frame[0] = 2; /* another host's, overheard */
    ignored(frame, len);
}

/* Several requests that their sender gave to the kernel at once travel as one frame as far as they can. */
static void batches(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_PARTIAL);
    twins.segment = 16;
    passes(frame, len, BT_PASS_BATCH);
    twins.segment = 0;
    lend_again();
    assert_int_equal(run_frame(frame, len), TWIN_FORWARDED);
}

static void odd_sources(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t bytes[128], frame[FRAME_MAX];
    uint32_t n = twins_request_payload(bytes, 7);
    const struct bt_addr odd[] = {bt_addr_v4u(0xe0000001, 5), bt_addr_v4u(0x0a000063, 0), bt_addr_v4u(0, 5),
                                  twins.whole.requests, twins.whole.feedback};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        lend_again();
        passes(frame, twins_frame(frame, &odd[i], &twins.whole.requests, bytes, n, BT_UDP_SUM_FULL), BT_PASS_SOURCE);
    }
}

static void strange_feedback(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t bytes[128], frame[FRAME_MAX];
    const struct bt_addr stranger = bt_addr_v4u(0x0a020000, 8000);
    lend_busy();
    uint32_t n = feedback_payload(bytes, 0, 1, 1);
    passes(frame, twins_frame(frame, &stranger, &twins.whole.feedback, bytes, n, BT_UDP_SUM_FULL), BT_PASS_WORKER);
    lend_again();
    passes(frame, feedback_frame(frame, 0, 2, 1, BT_UDP_SUM_FULL), BT_PASS_ORDER); /* more than it was given */
    lend_again();
    passes(frame, feedback_frame(frame, 0, 0, 1, BT_UDP_SUM_FULL), BT_PASS_ORDER); /* contradicts itself */
    lend_again();
    passes(frame, feedback_frame(frame, 0, 0, 0, BT_UDP_SUM_FULL), BT_PASS_ORDER); /* nothing new */
    lend_again();
    assert_int_equal(run_frame(frame, feedback_frame(frame, 0, 1, 1, BT_UDP_SUM_FULL)), TWIN_TAKEN);
    passes(frame, feedback_frame(frame, 0, 1, 1, BT_UDP_SUM_FULL), BT_PASS_ORDER); /* twice */
}

/* never more than n to a worker, and nobody in between. */
static void bound_holds(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL), got[BT_DELEGATION_WORKERS] = {0};
    for (unsigned i = 0; i < 4 * 3; i++) {
        assert_int_equal(run_frame(frame, len), TWIN_FORWARDED);
        got[twins.fast->log->note[(twins.fast->log->head - 1u) % BT_DELEGATION_NOTES].worker]++;
    }
    for (unsigned w = 0; w < 4; w++) {
        assert_int_equal(got[w], 3);
    }
    passes(frame, len, BT_PASS_FULL);
    assert_int_equal(run_frame(frame, len), TWIN_PASSED); /* the router's, until it lends again */
}

static void loan_lapses(void **state)
{
    (void)state;
    twins_need_program(&twins);
    uint8_t frame[FRAME_MAX];
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    twins.fast->log->lease = twins_clock();
    passes(frame, len, BT_PASS_LAPSED);
    lend_again();
    twins.fast->log->lease = UINT64_MAX;
    twins.fast->log->tail = twins.fast->log->head - BT_DELEGATION_NOTES; /* as if none was read */
    passes(frame, len, BT_PASS_NOTES);
}

/* What docs/reference/metrics.md calls each of them. */
static uint64_t counted(const struct bt_fast *f, const char *name, const char *value)
{
    uint64_t values[BT_FAST_COUNTERS], found = UINT64_MAX;
    bt_fast_counters(f, values);
    for (unsigned i = 0; i < BT_FAST_COUNTERS; i++) {
        const struct bt_counter_desc *d = &bt_fast_counter_descs[i];
        assert_non_null(d->name);
        if (strcmp(d->name, name) == 0 && (value == NULL) == (d->value == NULL) &&
            (value == NULL || strcmp(d->value, value) == 0)) {
            assert_int_equal(found, UINT64_MAX); /* twice */
            found = values[i];
        }
    }
    return found;
}

static void counters_stand_under_their_names(void **state)
{
    static struct bt_delegation_log log = {
        .counters = {.requests = 1, .feedback = 2, .unsent = 3, .damaged = 6},
    };
    static const char *const reason[BT_PASS_REASONS] = {
        [BT_PASS_FORM] = "form",   [BT_PASS_BATCH] = "batch",   [BT_PASS_SOURCE] = "source", [BT_PASS_ROOM] = "room",
        [BT_PASS_FULL] = "full",   [BT_PASS_TAG] = "tag",       [BT_PASS_WORKER] = "worker", [BT_PASS_ORDER] = "order",
        [BT_PASS_NOTES] = "notes", [BT_PASS_LAPSED] = "lapsed",
    };
    struct bt_fast f = {.log = &log, .loans = 4, .disagreed = 5};
    (void)state;
    for (unsigned i = 0; i < BT_PASS_REASONS; i++) {
        f.passed[i] = 100 + i;
    }
    assert_int_equal(counted(&f, "router_fast_path_total", "request"), 1);
    assert_int_equal(counted(&f, "router_fast_path_total", "feedback"), 2);
    assert_int_equal(counted(&f, "router_fast_path_unsent_total", NULL), 3);
    assert_int_equal(counted(&f, "router_fast_path_loans_total", NULL), 4);
    assert_int_equal(counted(&f, "router_fast_path_disagreed_total", NULL), 5);
    assert_int_equal(counted(&f, "router_fast_path_damaged_total", NULL), 6);
    for (unsigned i = 0; i < BT_PASS_REASONS; i++) {
        assert_int_equal(counted(&f, "router_fast_path_passed_total", reason[i]), 100 + i);
    }
}

int main(void)
{
#define EACH(name)  cmocka_unit_test_setup_teardown(name, open_twins, close_twins)
#define KEYED(name) cmocka_unit_test_setup_teardown(name, open_keyed, close_twins)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_stand_under_their_names),
        EACH(damaged_requests),
        EACH(damaged_feedback),
        KEYED(damaged_tags),
        EACH(feedback_of_nobody),
        EACH(cut_short),
        EACH(padding_goes),
        EACH(not_ours),
        EACH(odd_sources),
        EACH(strange_feedback),
        EACH(batches),
        EACH(bound_holds),
        EACH(loan_lapses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
