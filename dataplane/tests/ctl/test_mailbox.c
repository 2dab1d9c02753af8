// SPDX-License-Identifier: Apache-2.0
// Letters to a packet loop that does not come: each is taken back after a while, and never opened later. How long that
// while is, is the test's (the linker puts its own function in the place of pthread_cond_timedwait).
#include "unit.h"

#include "ctl/mailbox.h"

#include <errno.h>
#include <time.h>

static struct bt_mailbox box;
static unsigned waits, woken, opened, polls;
static struct timespec until;

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *at);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *at)
{
    assert_ptr_equal(cond, &box.answered);
    assert_ptr_equal(mutex, &box.lock);
    waits++;
    until = *at;
    for (unsigned i = 0; i < polls; i++) {
        pthread_mutex_unlock(mutex);
        bt_mailbox_poll(&box);
        pthread_mutex_lock(mutex);
    }
    return ETIMEDOUT;
}

static void wake(void *arg)
{
    (void)arg;
    woken++;
}

static void letter(void *arg)
{
    assert_ptr_equal(arg, &opened);
    opened++;
}

static int open_box(void **state)
{
    (void)state;
    waits = woken = opened = polls = 0;
    bt_mailbox_init(&box, wake, NULL);
    return 0;
}

static int close_box(void **state)
{
    (void)state;
    bt_mailbox_close(&box);
    bt_mailbox_destroy(&box);
    return 0;
}

static void a_letter_that_nobody_fetches_is_taken_back(void **state)
{
    struct timespec now;
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_false(bt_mailbox_call(&box, letter, &opened));
    assert_int_equal(waits, 1);
    assert_int_equal(woken, 1); // the loop was told
    assert_true(until.tv_sec - now.tv_sec >= 5);
    bt_mailbox_poll(&box);
    bt_mailbox_poll(&box);
    assert_int_equal(opened, 0); // it is too late
    assert_false(bt_mailbox_due(&box));
    polls = 2; // the next one finds a loop that works
    assert_true(bt_mailbox_call(&box, letter, &opened));
    assert_int_equal(opened, 1);
    assert_int_equal(woken, 3); // again by the turn in the middle of which it came
}

static void a_letter_that_was_only_seen_is_taken_back_too(void **state)
{
    (void)state;
    polls = 1;
    assert_false(bt_mailbox_call(&box, letter, &opened));
    assert_int_equal(woken, 2);
    polls = 0;
    bt_mailbox_poll(&box);
    assert_int_equal(opened, 0);
    assert_false(bt_mailbox_call(&box, letter, &opened)); // and leaves the box empty
    assert_int_equal(waits, 2);
}

static void a_closed_box_takes_no_letters(void **state)
{
    (void)state;
    bt_mailbox_close(&box);
    assert_false(bt_mailbox_call(&box, letter, &opened));
    assert_int_equal(waits, 0);
    assert_int_equal(opened, 0);
    assert_int_equal(woken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_letter_that_nobody_fetches_is_taken_back, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_letter_that_was_only_seen_is_taken_back_too, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_closed_box_takes_no_letters, open_box, close_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
