// SPDX-License-Identifier: Apache-2.0
// Which stamp belongs to which request (L-51…L-54), and requests given up before their reply comes.
#include "lancet/flight.h"

#include "unit.h"

#include <string.h>

struct seen {
    unsigned n;
    uint64_t sent[16], tx[16], rx[16];
    bool over[16];
};

static void on_reply(void *arg, const struct bt_flight_slot *slot, uint64_t rx_stamp_ns, const struct bt_reply *reply)
{
    struct seen *s = arg;
    (void)reply;
    assert_true(s->n < 16);
    s->sent[s->n] = slot->sent_ns;
    s->tx[s->n] = slot->tx_stamp_ns;
    s->over[s->n] = slot->over;
    s->rx[s->n++] = rx_stamp_ns;
}

static struct bt_flight_slot slots[8];

// Requests of 20 bytes each, sent at 1, 2, 3 …; replies are lines of Redis.
static void send_some(struct bt_flight *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct bt_flight_slot *s = bt_flight_send(f, 20);
        assert_non_null(s);
        s->sent_ns = i + 1;
    }
}

static void receive(struct bt_flight *f, const char *text, uint64_t stamp, struct seen *seen)
{
    assert_null(bt_flight_receive(f, (const uint8_t *)text, strlen(text), stamp, on_reply, seen));
}

static void l51_id_plus_one_is_the_end_offset(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 8);
    send_some(&f, 3);
    bt_flight_tx_stamp(&f, 18, 90); // not yet the last byte of the first
    bt_flight_tx_stamp(&f, 19, 100);
    bt_flight_tx_stamp(&f, 39, 200);
    receive(&f, "+1\r\n", 1000, &seen);
    receive(&f, "+2\r\n", 2000, &seen);
    receive(&f, "+3\r\n", 3000, &seen);
    assert_int_equal(seen.tx[0], 100);
    assert_int_equal(seen.tx[1], 200);
    assert_int_equal(seen.tx[2], BT_NO_STAMP);
    assert_int_equal(seen.rx[2], 3000);
    assert_int_equal(f.stale_stamps, 1);
}

static void l52_duplicates_are_ignored_and_one_stamp_serves_several(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 8);
    send_some(&f, 4);
    bt_flight_tx_stamp(&f, 19, 100);
    bt_flight_tx_stamp(&f, 19, 150); // a retransmission
    bt_flight_tx_stamp(&f, 79, 200); // 2, 3 and 4 left in one segment
    bt_flight_tx_stamp(&f, 39, 250); // and 2 was sent again
    receive(&f, "+1\r\n+2\r\n+3\r\n+4\r\n", BT_NO_STAMP, &seen);
    assert_int_equal(seen.n, 4);
    assert_int_equal(seen.tx[0], 100);
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(seen.tx[i], 200);
    }
    assert_int_equal(f.stale_stamps, 2);
}

static void l52_the_byte_counter_wraps(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 8);
    f.bytes = UINT32_MAX - 29; // the second request ends at 10, beyond the wrap
    send_some(&f, 3);
    assert_int_equal(slots[1].end, 10);
    bt_flight_tx_stamp(&f, UINT32_MAX - 10, 100);
    bt_flight_tx_stamp(&f, 9, 200);
    bt_flight_tx_stamp(&f, UINT32_MAX - 10, 300); // old: below, not far above
    receive(&f, "+1\r\n+2\r\n+3\r\n", BT_NO_STAMP, &seen);
    assert_int_equal(seen.tx[0], 100);
    assert_int_equal(seen.tx[1], 200);
    assert_int_equal(seen.tx[2], BT_NO_STAMP);
}

static void l53_only_the_reply_that_ends_the_read_is_stamped(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 8);
    send_some(&f, 4);
    receive(&f, "+1\r\n+2\r\n", 1000, &seen); // the stamp is the second one's
    receive(&f, "+3", 2000, &seen);           // nobody's
    receive(&f, "\r\n", 3000, &seen);         // the third one's
    receive(&f, "+4\r\n", 4000, &seen);
    assert_int_equal(seen.rx[0], BT_NO_STAMP);
    assert_int_equal(seen.rx[1], 1000);
    assert_int_equal(seen.rx[2], 3000);
    assert_int_equal(seen.rx[3], 4000);
    assert_int_equal(f.split_stamps, 2); // L-54: one reply without its stamp, one stamp without a reply
}

// The reply may overtake the stamp of its request; the stamp must not become the next request's.
static void a_stamp_that_comes_after_the_reply_is_nobodys(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 8);
    send_some(&f, 2);
    receive(&f, "+1\r\n", 1000, &seen);
    bt_flight_tx_stamp(&f, 19, 100);
    receive(&f, "+2\r\n", 2000, &seen);
    assert_int_equal(seen.tx[0], BT_NO_STAMP);
    assert_int_equal(seen.tx[1], BT_NO_STAMP);
    // And the next request's own stamp is still taken.
    send_some(&f, 2);
    receive(&f, "+3\r\n", 3000, &seen);
    bt_flight_tx_stamp(&f, 79, 300);
    receive(&f, "+4\r\n", 4000, &seen);
    assert_int_equal(seen.tx[2], BT_NO_STAMP);
    assert_int_equal(seen.tx[3], 300);
}

static void given_up_requests_keep_their_place(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 3); // a limit that is no power of two
    send_some(&f, 3);
    assert_null(bt_flight_send(&f, 20));
    assert_int_equal(bt_flight_oldest(&f)->sent_ns, 1);
    bt_flight_give_up(&f);
    assert_int_equal(bt_flight_oldest(&f)->sent_ns, 2);
    receive(&f, "+1\r\n+2\r\n", BT_NO_STAMP, &seen);
    assert_true(seen.over[0]);
    assert_false(seen.over[1]);
    assert_int_equal(bt_flight_oldest(&f)->sent_ns, 3);
    assert_int_equal(bt_flight_count(&f), 1);
    for (unsigned i = 0; i < 10000; i++) { // the ring turns
        assert_non_null(bt_flight_send(&f, 20));
        receive(&f, "+x\r\n", BT_NO_STAMP, &(struct seen){0});
    }
    assert_int_equal(bt_flight_count(&f), 1);
}

static void bytes_nobody_asked_for(void **state)
{
    (void)state;
    struct bt_flight f;
    struct seen seen = {0};
    bt_flight_init(&f, BT_REPLY_REDIS, slots, 8);
    send_some(&f, 1);
    assert_non_null(bt_flight_receive(&f, (const uint8_t *)"+1\r\n+", 5, 1, on_reply, &seen));
    assert_int_equal(seen.n, 1);
    bt_flight_init(&f, BT_REPLY_HTTP, slots, 8);
    send_some(&f, 2);
    const char *closing = "HTTP/1.1 204 X\r\nConnection: close\r\n\r\nH";
    assert_non_null(bt_flight_receive(&f, (const uint8_t *)closing, strlen(closing), 1, on_reply, &seen));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(l51_id_plus_one_is_the_end_offset),
        cmocka_unit_test(l52_duplicates_are_ignored_and_one_stamp_serves_several),
        cmocka_unit_test(l52_the_byte_counter_wraps),
        cmocka_unit_test(l53_only_the_reply_that_ends_the_read_is_stamped),
        cmocka_unit_test(a_stamp_that_comes_after_the_reply_is_nobodys),
        cmocka_unit_test(given_up_requests_keep_their_place),
        cmocka_unit_test(bytes_nobody_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
