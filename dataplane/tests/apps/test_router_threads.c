// SPDX-License-Identifier: Apache-2.0
// How the two threads of a router stop for what needs both (apps/bobtail-router/threads.c), over an io that the test
// holds.
#include "../../apps/bobtail-router/threads.h"
#include "router/split_bed.h"

#include <sched.h>
#include <semaphore.h>

struct held_io {
    struct bt_io io;
    struct router_threads *threads;
    struct bt_pkt *_Atomic arrived;
    struct bt_pkt *late; // arrives while the thread looks at the clock, after it was asked to stand still
    atomic_bool armed;
    sem_t woken, looking;
    uint64_t now;
};

static unsigned take(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct held_io *h = (struct held_io *)io;
    (void)local;
    (void)max;
    pkts[0] = atomic_exchange(&h->arrived, NULL);
    return pkts[0] != NULL ? 1 : 0;
}

static void sleep_until_woken(struct bt_io *io, uint64_t until_ns)
{
    (void)until_ns;
    sem_wait(&((struct held_io *)io)->woken);
}

static void wake(struct bt_io *io)
{
    sem_post(&((struct held_io *)io)->woken);
}

static uint64_t clock_of(struct bt_io *io)
{
    struct held_io *h = (struct held_io *)io;
    if (atomic_exchange(&h->armed, false)) {
        sem_post(&h->looking);
        while (!atomic_load(&h->threads->asked)) {
            sched_yield();
        }
        atomic_store(&h->arrived, h->late);
    }
    return h->now;
}

// Who asks after an event sees it (ctl/mailbox.h), also when it came between the thread's last look and its rest.
static void what_arrived_before_the_pause_is_taken(void **state)
{
    static const struct bt_io_ops ops = {.rx = take, .wait = sleep_until_woken, .wake = wake, .now = clock_of};
    static struct bed b;
    static struct split_bed s;
    static struct router_threads t;
    uint8_t bytes[128];
    (void)state;
    bed_defaults(&b, 1, 4);
    split_open(&s, &b, 16, 0, 0);
    const struct bed_report join = {.n = 4, .incarnation = 1, .flags = BT_FEEDBACK_JOIN};
    size_t len = bed_feedback_make(&b, 0, &join, bytes);
    struct held_io h = {.io = {&ops}, .threads = &t, .now = b.now};
    h.late = split_packet(&s, &b, true, &b.members[0], bytes, len);
    sem_init(&h.woken, 0, 0);
    sem_init(&h.looking, 0, 0);
    t.router = s.s;
    t.request_io = t.feedback_io = &h.io;
    assert_int_equal(router_threads_start(&t), 0);
    wake(&h.io);
    atomic_store(&h.armed, true);
    wake(&h.io);
    sem_wait(&h.looking);
    router_threads_pause(&t);
    struct bt_router_member_stats m;
    bool joined = bt_router_member(s.s, b.now, 0, &m) && m.joined;
    router_threads_resume(&t);
    router_threads_stop(&t);
    assert_true(joined);
    split_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_arrived_before_the_pause_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
