// SPDX-License-Identifier: Apache-2.0
// K-16: a client of the published implementation that is restarted counts its requests from 1 again, on the same port.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lab.h"

static struct lab lab;

/* A request of one packet, as the published client sends it: X is not set. */
static void request(uint16_t id, const char *body)
{
    uint8_t p[300] = {0xCC, 8, 0x00, 0xC0};
    size_t n = strlen(body);
    bt_put16(p + 4, id);
    bt_put16(p + 6, 1);
    memcpy(p + 8, body, n);
    lab_inject_server(&lab, p, 8 + n, &lab.caddr);
}

static void start(void)
{
    lab_init(&lab, 16);
    lab.hold = true; /* bodies are not the lab's own pattern where they are short */
    lab_start(&lab);
}

static void answer(void)
{
    struct bt_txq txq;
    bt_txq_init(&txq);
    while (lab.waitings > 0) {
        assert_int_equal(bt_server_reply(lab.server, lab.now, lab.waiting[--lab.waitings], NULL, 0, &txq), 0);
        free(lab.waiting_body[lab.waitings]);
    }
    lab_transmit(&lab, &txq);
    lab_flush(&lab);
}

/* Bodies of up to seven bytes are anybody's to the lab. */
static void k16_other_request_under_a_finished_name_runs(void **state)
{
    (void)state;
    start();
    request(1, "first");
    answer();
    request(1, "other");
    assert_int_equal(lab.executed, 2);
    answer();
    request(1, "longer");
    assert_int_equal(lab.executed, 3);
    answer();
    lab_end(&lab);
}

static void answer_at_once(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct lab *l = arg;
    assert_int_equal(bt_server_reply(l->server, l->now, rq->handle, NULL, 0, txq), 0);
}

/* Whether it is another one is seen of the first 64 bytes, the length, the policy and the number of packets. */
static void k16_a_request_is_told_by_its_beginning(void **state)
{
    (void)state;
    static const struct {
        unsigned at, length;
        bool other;
    } cases[] = {{0, 200, true}, {1, 200, true}, {8, 200, true}, {63, 200, true}, {64, 200, false}, {199, 201, true}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lab_init(&lab, 16);
        lab_start(&lab);
        lab.scfg.ops.on_request = answer_at_once;
        lab.server = bt_server_init(&lab.scfg, lab.server_mem, lab.server_bytes, lab.now);
        for (int again = 0; again < 2; again++) {
            uint8_t p[300] = {0xCC, 8, 0x00, 0xC0, 0, 1, 0, 1};
            unsigned n = again ? cases[i].length : 200;
            p[8 + cases[i].at] = (uint8_t)(again && cases[i].length == 200);
            lab_inject_server(&lab, p, 8 + n, &lab.caddr);
        }
        assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_REQUESTS], cases[i].other ? 2 : 1);
        assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DUPLICATE], cases[i].other ? 0 : 1);
        lab_end(&lab);
    }
}

/* the network's copy does not run again, before the restart or after it. */
static void k16_same_request_under_a_finished_name_is_a_copy(void **state)
{
    (void)state;
    start();
    request(1, "first");
    answer();
    request(1, "first");
    assert_int_equal(lab.executed, 1);
    request(1, "other");
    answer();
    request(1, "other");
    assert_int_equal(lab.executed, 2);
    lab_run(&lab, lab.now + lab.scfg.timers.quarantine_ns + MS);
    request(1, "other"); /* this long, and no longer: docs/concepts/interop.md */
    assert_int_equal(lab.executed, 3);
    answer();
    lab_end(&lab);
}

/* While the request of the former life runs, its reply would be taken for that of the new one. */
static void k16_other_request_under_a_running_name_is_m11(void **state)
{
    (void)state;
    start();
    request(1, "first");
    request(1, "other");
    assert_int_equal(lab.executed, 1);
    assert_int_equal(bt_server_counters(lab.server)[BT_M11], 1);
    answer();
    lab_end(&lab);
}

/* Of a message of several packets the first one tells. */
static void k16_message_of_the_next_life_runs(void **state)
{
    (void)state;
    start();
    request(1, "first");
    answer();
    uint8_t p[22] = {0xCC, 8, 0x00, 0x80, 0, 1, 0, 3};
    lab_inject_server(&lab, p, sizeof p, &lab.caddr);
    assert_int_equal(lab.sent[LAB_REQRDY], 1);
    lab_run(&lab, lab.now + SEC);
    lab_end(&lab);
}

/* A client that sets X begins anywhere: what it sends under a finished name is no request of another life. */
static void k16_clients_with_extensions_are_judged_as_ever(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 2; i++) {
        uint8_t p[12] = {0xCC, 8, 0x00, 0xE0, 0, 1, 0, 1, (uint8_t)i};
        lab_inject_server(&lab, p, sizeof p, &lab.caddr);
        answer();
    }
    assert_int_equal(lab.executed, 1);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k16_other_request_under_a_finished_name_runs),
        cmocka_unit_test(k16_a_request_is_told_by_its_beginning),
        cmocka_unit_test(k16_same_request_under_a_finished_name_is_a_copy),
        cmocka_unit_test(k16_other_request_under_a_running_name_is_m11),
        cmocka_unit_test(k16_message_of_the_next_life_runs),
        cmocka_unit_test(k16_clients_with_extensions_are_judged_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
