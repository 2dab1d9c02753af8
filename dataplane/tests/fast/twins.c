// SPDX-License-Identifier: Apache-2.0
// See twins.h.
#include "fast/twins.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SHOT     2
#define REDIRECT 7

uint64_t twins_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

static void open_bed(struct bed *b, uint32_t k, uint32_t n, uint64_t now, bool keys)
{
    bed_defaults(b, k, n);
    if (keys) {
        bed_use_keys(b);
    }
    b->now = now;
    b->config.timers.loss_ns = 2 * MS; /* so that a short test sees requests found to be lost */
    bed_build(b);
}

/* Loading the program may take seconds on a busy machine: a worker that had joined before would be silent for too long.
 */
static void join(struct bed *b, uint32_t n, uint64_t now)
{
    b->now = now;
    bed_join_all(b, n);
}

bool twins_open(struct twins *t, uint32_t k, uint32_t n, bool away, bool keys)
{
    char why[256];
    memset(t, 0, sizeof *t);
    uint64_t now = twins_clock();
    open_bed(&t->whole, k, n, now, keys);
    open_bed(&t->lending, k, n, now, keys);
    struct bt_fast_setup setup = {.request = t->lending.requests,
                                  .feedback = t->lending.feedback,
                                  .detached = true,
                                  .out = away ? 1 : 0,
                                  .rest_ns = 1};
    t->away = away;
    t->fast = bt_fast_new(&setup, why, sizeof why);
    if (t->fast == NULL) {
        print_message("no program: %s\n", why);
        bed_close(&t->whole);
        bed_close(&t->lending);
        return false;
    }
    now = twins_clock();
    join(&t->whole, n, now);
    join(&t->lending, n, now);
    return true;
}

void twins_close(struct twins *t)
{
    bt_fast_free(t->fast);
    bed_close(&t->whole);
    bed_close(&t->lending);
}

void twins_set_up(struct twins *t, bool keys)
{
    if (!twins_open(t, 4, 3, false, keys)) {
        t->fast = NULL;
        return;
    }
    twins_turn(t);
    assert_true(bt_fast_lent(t->fast));
}

void twins_tear_down(struct twins *t)
{
    if (t->fast != NULL) {
        twins_close(t);
    }
}

void twins_need_program(const struct twins *t)
{
    if (t->fast == NULL) {
        skip();
    }
}

uint32_t twins_frame(uint8_t *frame, const struct bt_addr *from, const struct bt_addr *to, const uint8_t *payload,
                     uint32_t len, enum bt_udp_sum sum)
{
    static const uint8_t here[6] = {0}, there[6] = {2, 0, 0, 0, 0, 1}; /* the program runs as if on lo */
    uint8_t *ip = frame + BT_ETHER_HEAD, *udp = ip + BT_IP4_HEAD;
    assert_true(BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD + len <= FRAME_MAX);
    bt_ether_write(frame, here, there, BT_ETHER_IP4);
    memcpy(udp + BT_UDP_HEAD, payload, len);
    bt_udp_write(udp, from, to, len, sum);
    bt_ip4_write(ip, from, to, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD + len);
    return BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD + len;
}

uint32_t twins_request_payload(uint8_t *bytes, uint16_t req_id)
{
    struct bt_r2p2_hdr hdr = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = req_id, .count_or_index = 1};
    size_t head = bt_r2p2_encode(bytes, 64, &hdr);
    for (uint32_t i = 0; i < TWINS_REQUEST_BODY; i++) {
        bytes[head + i] = (uint8_t)(i * 37u + 5u);
    }
    return (uint32_t)head + TWINS_REQUEST_BODY;
}

uint32_t twins_request_frame(const struct twins *t, uint8_t *frame, enum bt_udp_sum sum)
{
    uint8_t bytes[128];
    uint32_t len = twins_request_payload(bytes, 7);
    return twins_frame(frame, &t->whole.client, &t->whole.requests, bytes, len, sum);
}

enum twin_fate twins_run(struct twins *t, const uint8_t *frame, uint32_t len, uint8_t *out, uint32_t *out_len)
{
    const struct bt_delegation_counters *c = &t->fast->log->counters;
    uint64_t requests = c->requests, feedback = c->feedback;
    struct __sk_buff skb = {.gso_size = t->segment, .gso_segs = t->segment != 0 ? 2 : 0};
    LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &skb, .ctx_size_in = sizeof skb, .data_in = frame,
                .data_size_in = len, .data_out = out, .data_size_out = FRAME_MAX, .repeat = 1);
    assert_int_equal(bpf_prog_test_run_opts(bt_fast_program(t->fast), &run), 0);
    *out_len = run.data_size_out;
    if (run.retval == SHOT) {
        if (c->feedback == feedback) {
            return TWIN_DROPPED;
        }
        return TWIN_TAKEN;
    }
    if (c->requests == requests) {
        assert_true(*out_len == len && memcmp(frame, out, len) == 0); /* what is passed is as it came */
        return TWIN_PASSED;
    }
    assert_int_equal(run.retval, t->away ? REDIRECT : (uint32_t)-1);
    return TWIN_FORWARDED;
}

static void tell(const struct twins *t, const struct bt_pkt *pkt)
{
    if (t->sent != NULL) {
        t->sent(t->arg, pkt);
    }
}

/* The frame is one that any UDP socket takes, or with a partial sum as a device may complete it, and carries what the
 * other router sent. */
static void compare_sent(struct twins *t, const uint8_t *frame, uint32_t len, enum bt_udp_sum sum)
{
    struct bt_pkt *sent = bed_packet(&t->whole);
    struct bt_ip ip;
    assert_non_null(sent);
    assert_int_equal(bt_ip4_judge(frame + BT_ETHER_HEAD, len - BT_ETHER_HEAD, true, &ip), BT_FRAME_OK);
    assert_int_equal(ip.ttl, BT_TTL);
    uint32_t datagram = ip.body_len;
    uint16_t check;
    memcpy(&check, ip.body + 6, sizeof check);
    if (sum == BT_UDP_SUM_NONE) {
        assert_int_equal(check, 0);
    }
    assert_int_equal(bt_udp_judge(&ip, sum == BT_UDP_SUM_FULL), BT_FRAME_OK);
    assert_int_equal(len, BT_ETHER_HEAD + BT_IP4_HEAD + datagram);
    assert_true(bt_addr_eq(&ip.src, &sent->src) && bt_addr_eq(&ip.dst, &sent->dst));
    assert_int_equal(ip.body_len, sent->len);
    assert_memory_equal(ip.body, sent->data, sent->len);
    tell(t, sent);
    bt_pool_put(t->whole.pool, sent);
}

static void give(struct bed *b, const struct bt_addr *from, bool feedback, const uint8_t *payload, uint32_t len)
{
    if (feedback) {
        bed_feedback_bytes(b, from, payload, len);
    } else {
        bed_request_bytes(b, from, payload, len);
    }
}

static void compare_queues(struct twins *t)
{
    struct bt_pkt *a, *b;
    while ((a = bed_packet(&t->whole)) != NULL) {
        b = bed_packet(&t->lending);
        assert_non_null(b);
        assert_int_equal(a->len, b->len);
        assert_memory_equal(a->data, b->data, a->len);
        assert_true(bt_addr_eq(&a->src, &b->src) && bt_addr_eq(&a->dst, &b->dst));
        tell(t, a);
        bt_pool_put(t->whole.pool, a);
        bt_pool_put(t->lending.pool, b);
    }
    assert_null(bed_packet(&t->lending));
}

/* That a request was lost the lending router finds when it reads the notes, in bobtail-router every 10 ms:
 * until then the program decides with too few credits. Here it reads at once, so that no such time has to be excused.
 */
static void catch_up(struct twins *t)
{
    if (bt_fast_lent(t->fast) && !bt_router_loan_holds(t->whole.r, &t->fast->terms.d)) {
        bt_fast_read(t->fast, t->lending.r, &t->lending.out);
        bt_fast_turn(t->fast, t->lending.r, t->lending.now, &t->lending.out);
    }
}

enum twin_fate twins_packet(struct twins *t, const struct bt_addr *from, bool feedback, const uint8_t *payload,
                            uint32_t len, enum bt_udp_sum sum)
{
    uint8_t frame[FRAME_MAX], out[FRAME_MAX];
    uint32_t out_len;
    uint32_t n = twins_frame(frame, from, feedback ? &t->whole.feedback : &t->whole.requests, payload, len, sum);
    enum twin_fate fate = twins_run(t, frame, n, out, &out_len);
    const struct bt_delegation_log *log = t->fast->log;
    if (fate == TWIN_PASSED) {
        t->whole.now = t->lending.now = twins_clock();
        bt_fast_take_back(t->fast, t->lending.r, t->lending.now, &t->lending.out);
        give(&t->lending, from, feedback, payload, len);
        t->saw.passed++;
    } else {
        t->whole.now = t->lending.now = log->note[(log->head - 1u) % BT_DELEGATION_NOTES].at;
        t->saw.forwarded += fate == TWIN_FORWARDED ? 1u : 0u;
        t->saw.taken += fate == TWIN_TAKEN ? 1u : 0u;
    }
    give(&t->whole, from, feedback, payload, len);
    if (fate == TWIN_FORWARDED) {
        compare_sent(t, out, out_len, sum);
    }
    compare_queues(t);
    catch_up(t);
    return fate;
}

void twins_turn(struct twins *t)
{
    t->whole.now = t->lending.now = twins_clock();
    bt_fast_read(t->fast, t->lending.r, &t->lending.out);
    bed_tick(&t->whole, 0);
    bed_tick(&t->lending, 0);
    compare_queues(t);
    bt_fast_turn(t->fast, t->lending.r, t->lending.now, &t->lending.out);
}

/* What each would lend now is what each would decide by; held requests apart. */
static void compare_terms(struct twins *t)
{
    struct bt_delegation a, b;
    enum bt_lend why = bt_router_lend(t->whole.r, &a);
    assert_int_equal(why, bt_router_lend(t->lending.r, &b));
    if (why != BT_LEND_YES) {
        return;
    }
    assert_memory_equal(&a, &b, sizeof a);
}

/* The kernel's own account, when it ended no loan by itself: level by level what the router knows now. */
static void compare_kernel(struct twins *t)
{
    struct bt_delegation now;
    const struct bt_delegation *had = &t->fast->seen.d;
    if (bt_router_lend(t->lending.r, &now) != BT_LEND_YES || !bt_router_loan_holds(t->lending.r, had)) {
        return;
    }
    assert_int_equal(had->turn, now.turn);
    assert_memory_equal(had->rank, now.rank, sizeof now.rank);
    assert_memory_equal(had->group, now.group, sizeof now.group);
    for (unsigned w = 0; w < BT_DELEGATION_WORKERS; w++) {
        assert_int_equal(had->worker[w].given, now.worker[w].given);
        assert_int_equal(had->worker[w].received, now.worker[w].received);
        assert_int_equal(had->worker[w].served, now.worker[w].served);
    }
}

void twins_compare(struct twins *t)
{
    struct bt_router_stats a, b;
    bool lent = bt_fast_lent(t->fast);
    bt_fast_take_back(t->fast, t->lending.r, t->lending.now, &t->lending.out);
    if (lent && t->fast->cut_short) {
        compare_kernel(t);
    }
    compare_terms(t);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    bt_router_read_stats(t->whole.r, t->whole.now, &a);
    bt_router_read_stats(t->lending.r, t->lending.now, &b);
    for (unsigned c = 0; c < BT_ROUTER_COUNTERS; c++) {
        if (a.counter[c] != b.counter[c]) {
            fail_msg("%s %s: %llu and %llu", bt_router_counter_descs[c].name,
                     bt_router_counter_descs[c].value != NULL ? bt_router_counter_descs[c].value : "",
                     (unsigned long long)a.counter[c], (unsigned long long)b.counter[c]);
        }
    }
    assert_memory_equal(&a, &b, sizeof a);
    for (uint32_t w = 0; w < t->whole.config.members_n; w++) {
        struct bt_router_member_stats of_a = bed_row(&t->whole, w), of_b = bed_row(&t->lending, w);
        assert_int_equal(of_a.outstanding, of_b.outstanding);
        assert_int_equal(of_a.sent, of_b.sent);
        assert_int_equal(of_a.done, of_b.done);
        assert_int_equal(of_a.lost, of_b.lost);
        assert_int_equal(of_a.feedback_age_ns, of_b.feedback_age_ns);
    }
}
