// SPDX-License-Identifier: Apache-2.0
// Load-aware hedging: the published state tables for two replicas, and what must hold after every event for any number.
#include "unit.h"

#include <string.h>

#include "laedge.h"

enum { CAPACITY = 64, REQUESTS = 4000 };

static struct sim_laedge h;
static struct sim_laedge_steps steps;
static uint64_t ring[CAPACITY];

static void begin(enum sim_laedge_mode mode, uint32_t replicas)
{
    assert_null(sim_laedge_judge(mode, replicas, CAPACITY));
    sim_laedge_init(&h, mode, replicas, ring, CAPACITY, 7);
}

static void arrive(uint64_t request, uint64_t now)
{
    assert_true(sim_laedge_arrive(&h, request, now, &steps));
}

/* The step is: start of the request, anywhere, as first copy or as second one. */
static void assert_start(uint32_t i, uint64_t request, bool copy)
{
    assert_true(i < steps.n);
    assert_false(steps.step[i].cancel);
    assert_int_equal(steps.step[i].request, request);
    assert_int_equal(steps.step[i].copy, copy);
}

static void assert_cancel(uint32_t i, uint64_t request)
{
    assert_true(i < steps.n);
    assert_true(steps.step[i].cancel);
    assert_int_equal(steps.step[i].request, request);
}

static void r240_an_arrival_takes_two_idle_replicas_or_one_or_waits(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_LOAD_AWARE, 3);
    arrive(1, 10);
    assert_int_equal(steps.n, 2);
    assert_start(0, 1, false);
    assert_start(1, 1, true);
    assert_int_not_equal(steps.step[0].replica, steps.step[1].replica);
    arrive(2, 20);
    assert_int_equal(steps.n, 1);
    assert_start(0, 2, false);
    arrive(3, 30);
    assert_int_equal(steps.n, 0);
    assert_int_equal(h.queued, 1);
}

static void r240_each_idle_replica_is_as_likely(void **state)
{
    (void)state;
    uint32_t seen[3] = {0};
    begin(SIM_LAEDGE_OFF, 3);
    for (uint64_t i = 0; i < 3000; i++) {
        arrive(i, i);
        seen[steps.step[0].replica]++;
        assert_int_equal(sim_laedge_respond(&h, steps.step[0].replica, i, i, &steps), SIM_LAEDGE_FIRST);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_in_range(seen[i], 900, 1100);
    }
}

static void r240_a_full_queue_refuses_and_counts(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_LOAD_AWARE, 1);
    for (uint64_t i = 0; i <= CAPACITY; i++) {
        arrive(i, i);
    }
    assert_false(sim_laedge_arrive(&h, 99, 99, &steps));
    assert_int_equal(steps.n, 0);
    assert_int_equal(h.stats.refused, 1);
    assert_int_equal(h.queued, CAPACITY);
    assert_int_equal(h.stats.arrivals, CAPACITY + 1);
}

/* LÆDGE without cancels, L1 to L3 of the state table. */
static void r241_a_stale_twin_runs_on_and_its_reply_is_late(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_LOAD_AWARE, 2);
    arrive(1, 0);
    uint32_t a = steps.step[0].replica, b = steps.step[1].replica;
    assert_int_equal(sim_laedge_respond(&h, a, 1, 5, &steps), SIM_LAEDGE_FIRST);
    assert_int_equal(steps.n, 0); /* L1: one idle, one stale; what is answered is not copied again */
    arrive(2, 6);
    assert_int_equal(steps.n, 1); /* L2: one copy only */
    assert_start(0, 2, false);
    assert_int_equal(steps.step[0].replica, a);
    arrive(3, 7);
    assert_int_equal(steps.n, 0); /* L3 */
    assert_int_equal(sim_laedge_respond(&h, b, 1, 8, &steps), SIM_LAEDGE_LATE);
    assert_int_equal(steps.n, 1); /* S2: the head of the queue, no copy */
    assert_start(0, 3, false);
    assert_int_equal(sim_laedge_respond(&h, a, 2, 9, &steps), SIM_LAEDGE_FIRST);
    assert_int_equal(steps.n, 1); /* S4: the freed one copies the survivor */
    assert_start(0, 3, true);
    assert_int_equal(h.stats.late, 1);
}

static void r241_the_oldest_single_copy_is_hedged(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_LOAD_AWARE, 3);
    arrive(1, 0);
    uint32_t first = steps.step[0].replica, second = steps.step[1].replica;
    arrive(2, 1);
    assert_int_equal(sim_laedge_respond(&h, first, 1, 2, &steps), SIM_LAEDGE_FIRST);
    assert_start(0, 2, true); /* 1 is answered: its stale copy is none to hedge */
    assert_int_equal(sim_laedge_respond(&h, second, 1, 3, &steps), SIM_LAEDGE_LATE);
    assert_int_equal(steps.n, 0); /* 2 has two copies: no third */
    arrive(3, 4);
    arrive(4, 5);
    assert_int_equal(h.queued, 1);
    assert_int_equal(sim_laedge_respond(&h, first, 2, 6, &steps), SIM_LAEDGE_FIRST);
    assert_start(0, 4, false);
    for (uint32_t i = 0; i < 3; i++) {
        if (h.replica[i].stale) {
            assert_int_equal(sim_laedge_respond(&h, i, 2, 7, &steps), SIM_LAEDGE_LATE);
            assert_start(0, 3, true); /* 3 started before 4 */
            return;
        }
    }
    fail_msg("nothing stale");
}

static void r242_a_reply_of_nothing_that_runs_changes_nothing(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_PREEMPTIVE, 2);
    arrive(1, 0);
    uint32_t at = steps.step[0].replica;
    assert_int_equal(sim_laedge_respond(&h, at, 2, 1, &steps), SIM_LAEDGE_UNKNOWN);
    assert_int_equal(sim_laedge_respond(&h, 2, 1, 1, &steps), SIM_LAEDGE_UNKNOWN);
    assert_int_equal(sim_laedge_respond(&h, at, 1, 1, &steps), SIM_LAEDGE_FIRST);
    assert_int_equal(sim_laedge_respond(&h, at, 1, 1, &steps), SIM_LAEDGE_UNKNOWN);
    assert_int_equal(h.stats.unknown, 3);
    assert_int_equal(h.idle, 3);
}

/* S5 of +CC with 1, 2 and 3 waiting. */
static void r245_cleanup_frees_two_replicas_for_the_queue(void **state)
{
    (void)state;
    for (uint64_t waiting = 0; waiting <= 3; waiting++) {
        begin(SIM_LAEDGE_CLEANUP, 2);
        arrive(1, 0);
        for (uint64_t i = 0; i < waiting; i++) {
            arrive(2 + i, 1);
        }
        assert_int_equal(sim_laedge_respond(&h, 0, 1, 5, &steps), SIM_LAEDGE_FIRST);
        assert_cancel(0, 1);
        assert_int_equal(steps.step[0].replica, 1);
        assert_int_equal(steps.n, waiting == 0 ? 1 : 3);
        if (waiting > 0) {
            assert_start(1, 2, false);
            assert_start(2, waiting == 1 ? 2 : 3, waiting == 1);
        }
        assert_int_equal(h.queued, waiting == 3 ? 1 : 0);
    }
}

/* With one waiting and another that runs alone, that one is copied and the waiting one gets one replica (algorithm 2).
 */
static void r245_one_waits_and_one_runs_alone(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_CLEANUP, 3);
    arrive(1, 0);
    uint32_t a = steps.step[0].replica;
    arrive(2, 1);
    arrive(3, 2);
    assert_int_equal(sim_laedge_respond(&h, a, 1, 5, &steps), SIM_LAEDGE_FIRST);
    assert_int_equal(steps.n, 3);
    assert_cancel(0, 1);
    assert_start(1, 3, false);
    assert_start(2, 2, true);
    assert_int_equal(steps.step[2].replica, a);
}

/* S1 and S4 of +CC +PC. */
static void r246_a_newcomer_takes_the_place_of_the_newest_twin(void **state)
{
    (void)state;
    begin(SIM_LAEDGE_PREEMPTIVE, 2);
    arrive(1, 0);
    arrive(2, 1); /* S1 → S2 */
    assert_int_equal(steps.n, 2);
    assert_cancel(0, 1);
    assert_start(1, 2, false);
    uint32_t of2 = steps.step[1].replica, of1 = 1 - of2;
    arrive(3, 2);
    assert_int_equal(steps.n, 0); /* S3 */
    assert_int_equal(sim_laedge_respond(&h, of1, 1, 3, &steps), SIM_LAEDGE_FIRST);
    assert_start(0, 3, false);
    assert_int_equal(sim_laedge_respond(&h, of2, 2, 4, &steps), SIM_LAEDGE_FIRST);
    assert_start(0, 3, true); /* S4: 3 runs since 3 and since 4 */
    arrive(4, 5);
    assert_cancel(0, 3);
    assert_int_equal(steps.step[0].replica, of2);
    assert_start(1, 4, false);
    assert_int_equal(h.stats.preemptions, 2);
}

static void r246_twins_of_one_start_are_as_likely(void **state)
{
    (void)state;
    uint32_t seen[2] = {0};
    begin(SIM_LAEDGE_PREEMPTIVE, 2);
    for (uint64_t i = 0; i < 2000; i++) {
        arrive(2 * i, i);
        arrive(2 * i + 1, i);
        seen[steps.step[0].replica]++;
        sim_laedge_respond(&h, 0, h.replica[0].request, i, &steps);
        sim_laedge_respond(&h, 1, h.replica[1].request, i, &steps);
        assert_int_equal(h.idle, 3);
    }
    assert_in_range(seen[0], 900, 1100);
}

static void r247_idealized_cancels_what_would_end_later(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < 2; slow++) {
        begin(SIM_LAEDGE_IDEALIZED, 2);
        arrive(1, 0);
        sim_laedge_foresee(&h, slow, 50);
        sim_laedge_foresee(&h, 1 - slow, 10);
        arrive(2, 1);
        assert_int_equal(steps.step[0].replica, slow);
    }
}

/* --- what must hold after every event ---------------------------------------------------------------------------- */

struct seen {
    uint32_t copies, answers;
    bool dispatched;
};

static struct seen seen[REQUESTS];
static uint64_t dispatched; /* first starts so far: they come in the order of arrival */

static void note_steps(void)
{
    for (uint32_t i = 0; i < steps.n; i++) {
        const struct sim_laedge_step *s = &steps.step[i];
        struct seen *q = &seen[s->request];
        q->copies = s->cancel ? q->copies - 1 : q->copies + 1;
        if (s->cancel || s->copy) {
            continue;
        }
        assert_int_equal(s->request, dispatched++); /* first come, first served */
        assert_false(q->dispatched);
        q->dispatched = true;
    }
}

static void check(void)
{
    bool idle = false, single = false, twins = false;
    for (uint32_t i = 0; i < h.replicas; i++) {
        const struct sim_laedge_replica *r = &h.replica[i];
        if ((h.idle >> i & 1) != 0) {
            idle = true;
            continue;
        }
        const struct seen *q = &seen[r->request];
        assert_in_range(q->copies, 1, 2); /* */
        assert_int_equal(r->stale, q->answers == 1);
        single = single || (q->answers == 0 && q->copies == 1);
        twins = twins || r->twin != SIM_LAEDGE_NONE;
        if (h.mode >= SIM_LAEDGE_CLEANUP) {
            assert_int_equal(q->answers, 0); /* what is answered runs nowhere */
        }
    }
    if (idle) {
        assert_int_equal(h.queued, 0); /* nobody waits for an idle replica */
    }
    if (idle && h.mode != SIM_LAEDGE_OFF) {
        assert_false(single); /* */
    }
    if (h.mode == SIM_LAEDGE_OFF) {
        assert_false(twins);
    }
    if (h.mode >= SIM_LAEDGE_PREEMPTIVE && h.queued > 0) {
        assert_false(twins); /* */
    }
}

static void one_reply(struct bt_rng *g, uint64_t now)
{
    uint32_t at = bt_rng_below(g, h.replicas);
    if ((h.idle >> at & 1) != 0) {
        return;
    }
    struct seen *q = &seen[h.replica[at].request];
    enum sim_laedge_reply reply = sim_laedge_respond(&h, at, h.replica[at].request, now, &steps);
    q->copies--;
    assert_int_equal(reply, q->answers == 0 ? SIM_LAEDGE_FIRST : SIM_LAEDGE_LATE); /* exactly one is forwarded */
    q->answers = 1;
    for (uint32_t i = 0; i < steps.n; i++) {
        assert_false(steps.step[i].copy && h.queued > 0); /* no copy while anyone waits */
    }
    note_steps();
}

static void play(enum sim_laedge_mode mode, uint32_t replicas, uint64_t seed)
{
    struct bt_rng g;
    uint64_t next = 0, now = 0;
    bt_rng_seed(&g, seed);
    begin(mode, replicas);
    memset(seen, 0, sizeof seen);
    dispatched = 0;
    while (next < REQUESTS || h.idle != (UINT32_C(1) << replicas) - 1) {
        now += bt_rng_below(&g, 3); /* equal times happen */
        if (next < REQUESTS && h.queued < CAPACITY && bt_rng_below(&g, 100) < 20 + 15 * (next / 500 % 2)) {
            arrive(next++, now);
            note_steps();
        } else {
            one_reply(&g, now);
        }
        for (uint32_t i = 0; i < replicas; i++) {
            sim_laedge_foresee(&h, i, now + bt_rng_below(&g, 50));
        }
        check();
    }
    assert_int_equal(dispatched, REQUESTS);
    assert_int_equal(h.stats.first, REQUESTS);
    assert_int_equal(h.stats.starts, h.stats.first + h.stats.late + h.stats.cleanups + h.stats.preemptions);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(seen[i].answers, 1);
    }
}

static void r244_after_every_event_in_every_mode(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode < SIM_LAEDGE_MODES; mode++) {
        for (uint32_t replicas = 1; replicas <= 6; replicas++) {
            play((enum sim_laedge_mode)mode, replicas, 100 * mode + replicas);
        }
    }
}

static void r240_values_that_cannot_be_are_named(void **state)
{
    (void)state;
    assert_non_null(strstr(sim_laedge_judge(SIM_LAEDGE_MODES, 2, 64), "mode"));
    assert_non_null(strstr(sim_laedge_judge(SIM_LAEDGE_OFF, 0, 64), "replicas"));
    assert_non_null(strstr(sim_laedge_judge(SIM_LAEDGE_OFF, 17, 64), "replicas"));
    assert_non_null(strstr(sim_laedge_judge(SIM_LAEDGE_OFF, 2, 48), "capacity"));
    assert_non_null(strstr(sim_laedge_judge(SIM_LAEDGE_OFF, 2, 0), "capacity"));
    assert_null(sim_laedge_judge(SIM_LAEDGE_IDEALIZED, 16, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r240_an_arrival_takes_two_idle_replicas_or_one_or_waits),
        cmocka_unit_test(r240_each_idle_replica_is_as_likely),
        cmocka_unit_test(r240_a_full_queue_refuses_and_counts),
        cmocka_unit_test(r240_values_that_cannot_be_are_named),
        cmocka_unit_test(r241_a_stale_twin_runs_on_and_its_reply_is_late),
        cmocka_unit_test(r241_the_oldest_single_copy_is_hedged),
        cmocka_unit_test(r242_a_reply_of_nothing_that_runs_changes_nothing),
        cmocka_unit_test(r244_after_every_event_in_every_mode),
        cmocka_unit_test(r245_cleanup_frees_two_replicas_for_the_queue),
        cmocka_unit_test(r245_one_waits_and_one_runs_alone),
        cmocka_unit_test(r246_a_newcomer_takes_the_place_of_the_newest_twin),
        cmocka_unit_test(r246_twins_of_one_start_are_as_likely),
        cmocka_unit_test(r247_idealized_cancels_what_would_end_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
