// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel, one end alone: connections that cannot be, as many as there are, its two addresses, and when it
// wants to be asked again.
#include "stack_bed.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/frame.h"

enum { TICK_MS = BT_TCP_TICK_MS };

static struct {
    const struct bt_tcp_stack *stack;
    struct bt_pool_fixed pool;
    void *slab;
    struct bt_txq out;
    unsigned gone;
} alone;

static void is_gone(void *own)
{
    (void)own;
    alone.gone++;
}

static void *is_accepted(void *arg, struct bt_tcp_conn *c, const struct bt_addr *peer)
{
    (void)arg;
    (void)c;
    (void)peer;
    return NULL;
}

static uint8_t key[16];
static uint32_t half_open;

static void open_alone(struct bt_addr local, struct bt_addr extra)
{
    char why[200] = "";
    memset(&alone, 0, sizeof alone);
    alone.slab = malloc(bt_pool_fixed_bytes(BUFFERS));
    bt_txq_init(&alone.out);
    struct bt_tcp_setup setup = {.local = local,
                                 .extra = extra,
                                 .mtu = 1500,
                                 .tx_local = 1,
                                 .half_open = half_open,
                                 .pool = bt_pool_fixed_init(&alone.pool, alone.slab, BUFFERS),
                                 .out = &alone.out,
                                 .owner = {.gone = is_gone, .accepted = is_accepted}};
    memcpy(setup.key, key, sizeof key);
    alone.stack = bt_tcp_stack_take();
    assert_non_null(alone.stack);
    assert_true(alone.stack->open(&setup, 0, why, sizeof why));
}

static void drop_what_leaves(void)
{
    bt_pool_put_chain(&alone.pool.pool, alone.out.head);
    bt_txq_init(&alone.out);
}

static void close_alone(void)
{
    alone.stack->close();
    drop_what_leaves();
    assert_int_equal(alone.stack->open_now(), 0);
    assert_int_equal(alone.pool.left, BUFFERS);
    bt_tcp_stack_give(alone.stack);
    free(alone.slab);
}

static struct bt_addr v6(uint8_t last, uint16_t port)
{
    return (struct bt_addr){.ip = {0xfd, [15] = last}, .port = port};
}

static const struct bt_addr none;

// Each family leaves by the address of its own; of one that there is none of nothing can leave, and nothing stays.
static void a_connection_leaves_by_the_address_of_its_family(void **state)
{
    struct bt_addr four = bt_addr_v4u(0x0a000001, 0), to4 = bt_addr_v4u(0x0a000009, 80), to6 = v6(9, 80);
    (void)state;
    for (unsigned i = 0; i < 3; i++) { // with IPv4 alone, with both, with both the other way round
        int own = 0;
        struct bt_addr six = v6(1, 0);
        open_alone(i < 2 ? four : six, i == 0 ? none : i == 1 ? six : four);
        struct bt_tcp_conn *c4 = alone.stack->connect(&to4, &own, 1);
        assert_non_null(c4);
        struct bt_tcp_conn *c6 = alone.stack->connect(&to6, &own, 1);
        assert_int_equal(c6 != NULL, i > 0);
        assert_int_equal(alone.stack->open_now(), i > 0 ? 2 : 1);
        assert_int_equal(alone.gone, 0); // what never was is not gone
        assert_int_equal(alone.out.n, i > 0 ? 2 : 1);
        const struct bt_pkt *p = alone.out.head;
        assert_memory_equal(p->data + 12, four.ip + 12, 4);
        assert_true(bt_addr_ip_eq(&p->dst, &to4));
        assert_int_equal(p->local, 1);
        if (i > 0) {
            assert_memory_equal(p->next->data + 8, six.ip, 16);
            assert_true(bt_addr_ip_eq(&p->next->dst, &to6));
        }
        close_alone();
        assert_int_equal(alone.gone, 0); // who closes is told nothing
    }
}

// As many as there are; one more is refused, and each that goes makes room for one.
static void there_are_so_many_connections(void **state)
{
    static struct bt_tcp_conn *all[BT_TCP_PCBS + 1];
    int own = 0;
    uint32_t n = 0;
    (void)state;
    open_alone(bt_addr_v4u(0x0a000001, 0), none);
    for (; n <= BT_TCP_PCBS; n++) {
        struct bt_addr to = bt_addr_v4u(0x0a010000 + n, 80);
        all[n] = alone.stack->connect(&to, &own, 1);
        drop_what_leaves();
        if (all[n] == NULL) {
            break;
        }
    }
    assert_in_range(n, BT_TCP_CONNECTIONS, BT_TCP_PCBS);
    assert_int_equal(alone.stack->open_now(), n);
    struct bt_addr more = bt_addr_v4u(0x0a020000, 80);
    assert_null(alone.stack->connect(&more, &own, 1));
    alone.stack->reset(all[7]);
    drop_what_leaves();
    assert_int_equal(alone.stack->open_now(), n - 1);
    all[7] = alone.stack->connect(&more, &own, 1);
    assert_non_null(all[7]);
    assert_null(alone.stack->connect(&more, &own, 1));
    assert_int_equal(alone.gone, 0);
    close_alone();
}

// Without connections it wants nothing; with one its next tick. After a pause it makes up for so much of it.
static void it_wants_to_be_asked_while_there_are_connections(void **state)
{
    int own = 0;
    struct bt_addr to = bt_addr_v4u(0x0a000009, 80);
    (void)state;
    open_alone(bt_addr_v4u(0x0a000001, 0), none);
    assert_int_equal(alone.stack->next(), UINT64_MAX);
    alone.stack->tick(500 * MS); // nothing has to be made up for
    assert_non_null(alone.stack->connect(&to, &own, 500 * MS));
    assert_int_equal(alone.stack->next(), (500 + TICK_MS) * MS);
    alone.stack->tick((500 + TICK_MS) * MS - 1);
    assert_int_equal(alone.stack->next(), (500 + TICK_MS) * MS);
    alone.stack->tick((500 + TICK_MS) * MS);
    assert_int_equal(alone.stack->next(), (500 + 2 * TICK_MS) * MS);
    alone.stack->tick((500 + 20 * TICK_MS) * MS + 1); // nineteen at once
    assert_int_equal(alone.stack->next(), (500 + 21 * TICK_MS) * MS);
    alone.stack->tick(90000 * MS + 1); // more than it makes up for
    assert_int_equal(alone.stack->next(), (90000 + TICK_MS) * MS + 1);
    assert_int_equal(alone.gone, 0);
    close_alone();
}

// Nobody answers: it is told, once.
static void who_is_not_answered_is_told(void **state)
{
    int own = 0;
    uint64_t now = 0;
    struct bt_addr to = bt_addr_v4u(0x0a000009, 80);
    (void)state;
    open_alone(bt_addr_v4u(0x0a000001, 0), none);
    assert_non_null(alone.stack->connect(&to, &own, now));
    unsigned sent = 0;
    for (; alone.stack->next() != UINT64_MAX && now < 3600 * 1000 * MS; sent += alone.out.n, drop_what_leaves()) {
        now = alone.stack->next();
        alone.stack->tick(now);
    }
    assert_int_equal(alone.gone, 1);
    assert_true(sent > 2);
    assert_int_equal(alone.stack->counters()[BT_TCP_RESENT], sent - 1);
    assert_int_equal(alone.stack->open_now(), 0);
    close_alone();
}

// A SYN from there; the number of the answer, which is taken off the queue.
static uint32_t first_number(uint64_t now, uint32_t from, uint16_t port)
{
    enum { HEADS = 40 };
    struct bt_addr src = bt_addr_v4u(from, port), dst = bt_addr_v4u(0x0a000001, PORT);
    struct bt_pkt *pkt = bt_pool_get(&alone.pool.pool);
    uint8_t bytes[HEADS] = {0};
    bt_ip4_write(bytes, &src, &dst, BT_PROTO_TCP, 64, HEADS - BT_IP4_HEAD);
    bt_put16(bytes + 20, port);
    bt_put16(bytes + 22, PORT);
    bt_put32(bytes + 24, 77);
    bytes[32] = 0x50; // no options
    bytes[33] = 2;    // SYN
    bt_put16(bytes + 34, 1000);
    memcpy(bt_pkt_append(pkt, sizeof bytes), bytes, sizeof bytes);
    pkt->offload = BT_PKT_RX_L4_OK;
    alone.stack->rx(pkt, now);
    assert_int_equal(alone.out.n, 1);
    assert_int_equal(alone.out.head->data[33], 0x12); // SYN and ACK
    assert_int_equal(bt_get32(alone.out.head->data + 28), 78);
    uint32_t number = bt_get32(alone.out.head->data + 24);
    drop_what_leaves();
    return number;
}

static uint32_t number_of_one(uint64_t now, uint32_t from, uint16_t port)
{
    open_alone(bt_addr_v4u(0x0a000001, PORT), none);
    uint32_t number = first_number(now, from, port);
    close_alone();
    return number;
}

// RFC 6528: a clock that steps each 4 us, from where nobody knows but who has the key; another place for each peer.
static void first_numbers_follow_a_clock_and_a_key(void **state)
{
    (void)state;
    uint32_t at = number_of_one(4096, 0x0a000009, 5000);
    assert_int_equal(number_of_one(4096, 0x0a000009, 5000), at);
    assert_int_equal(number_of_one(2 * 4096 - 1, 0x0a000009, 5000), at);
    assert_int_equal((uint32_t)(number_of_one(11 * 4096, 0x0a000009, 5000) - at), 10);
    assert_int_not_equal(number_of_one(4096, 0x0a00000a, 5000), at);
    assert_int_not_equal(number_of_one(4096, 0x0a000009, 5001), at);
    key[15] = 1;
    assert_int_not_equal(number_of_one(4096, 0x0a000009, 5000), at);
    memset(key, 0, sizeof key);
}

// So many handshakes at once as is said, and never more than there is room for: the oldest gives way.
static void handshakes_are_bounded_as_is_said(void **state)
{
    static const uint32_t said[][2] = {{3, 3}, {1, 1}, {0, BT_TCP_HALF_OPEN}, {BT_TCP_HALF_OPEN + 1, BT_TCP_HALF_OPEN}};
    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        half_open = said[i][0];
        open_alone(bt_addr_v4u(0x0a000001, PORT), none);
        for (uint32_t k = 0; k < said[i][1] + 2; k++) {
            assert_int_equal(alone.stack->open_now(), k < said[i][1] ? k : said[i][1]);
            (void)first_number(4096, 0x0a000009, (uint16_t)(5000 + k));
        }
        assert_int_equal(alone.stack->counters()[BT_TCP_HALF_OPEN_LOST], 2);
        assert_int_equal(alone.gone, 0); // nobody has them yet
        close_alone();
    }
    half_open = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_leaves_by_the_address_of_its_family),
        cmocka_unit_test(there_are_so_many_connections),
        cmocka_unit_test(it_wants_to_be_asked_while_there_are_connections),
        cmocka_unit_test(who_is_not_answered_is_told),
        cmocka_unit_test(first_numbers_follow_a_clock_and_a_key),
        cmocka_unit_test(handshakes_are_bounded_as_is_said),
    };
    prepare_world();
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
