// SPDX-License-Identifier: Apache-2.0
// Which copies have a number by which they can be taken back: all but those that it would make too long, and
// those of workers that read no options. And a CANCEL that there is no packet for.
#include <string.h>

#include "router/hedging_bed.h"
#include "router/hedging_slots.h"

static struct hedging_bed h;

#define MORE (8u + BT_R2P2_RESERVE) /* the option, and what R-60 leaves free for others */

static int open_bed(void **state)
{
    (void)state;
    hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
    h.b.config.hedging.cancellation = BT_HEDGING_CANCEL_ANSWERED;
    bed_apply(&h.b);
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&h.b);
    return 0;
}

/* The number of the request's next copy that leaves; 0: it has none. Fails where it does not leave. */
static uint32_t next_number(int *worker)
{
    struct bt_r2p2_hdr hdr;
    struct bt_pkt *pkt = bed_packet(&h.b);
    assert_non_null(pkt);
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
    assert_int_equal(hdr.type, BT_REQUEST);
    *worker = bt_addr_eq(&pkt->dst, &h.b.members[1]);
    h.received[*worker]++;
    uint32_t number = (hdr.opt.present & BT_HAS_COPY) != 0 ? hdr.opt.copy : 0;
    assert_true((hdr.opt.present & BT_HAS_COPY) == 0 || number != 0);
    bt_pool_put(h.b.pool, pkt);
    return number;
}

/* Both copies of the request that was sent last are served. True: they had numbers, and the first answer took the other
 * one back; false: they had none, and nobody asked. */
static bool are_numbered(uint16_t id)
{
    int w[2];
    uint32_t first = next_number(&w[0]), second = next_number(&w[1]);
    assert_int_equal(first != 0, second != 0);
    assert_true(first == 0 || first != second);
    uint64_t sent = bed_counter(&h.b, BT_RC_CANCELS_SENT);
    hedging_finish(&h, w[0], id, false);
    assert_int_equal(h.b.out.n, first != 0);
    assert_int_equal(bed_counter(&h.b, BT_RC_CANCELS_SENT), sent + (first != 0));
    bed_discard(&h.b);
    hedging_finish(&h, w[1], id, false);
    assert_int_equal(h.b.out.n, 0);
    assert_int_equal(hedging_stats(&h).hedging_kept, 0);
    return first != 0;
}

/* In a datagram of at most so many bytes, and of 1,500 B less the headers where nobody says. */
static void r270_the_number_fits_the_datagram(void **state)
{
    (void)state;
    const uint32_t limits[] = {0, 600};
    for (unsigned i = 0; i < 2; i++) {
        h.b.config.max_payload = limits[i];
        bed_apply(&h.b);
        uint32_t most = limits[i] != 0 ? limits[i] : bt_r2p2_datagram_max(1500, false);
        bed_request(&h.b, 1, BT_POLICY_UNRESTRICTED, most - BT_R2P2_HEADER - MORE);
        assert_true(are_numbered(1));
        bed_request(&h.b, 2, BT_POLICY_UNRESTRICTED, most - BT_R2P2_HEADER - MORE + 1u);
        assert_false(are_numbered(2));
    }
}

/* And the header: 64 bytes with all that routers may add. */
static void r270_the_number_fits_the_header(void **state)
{
    (void)state;
    const struct {
        uint32_t present, options;
    } rows[] = {
        {0, 0},
        {BT_HAS_TRACE | BT_HAS_CLASS, 16}, /* just fits */
        {BT_HAS_SESSION, 20},
        {BT_HAS_SESSION | BT_HAS_TRACE, 28},
    };
    for (uint16_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bed_request_as(&h.b, (struct bt_r2p2_hdr){.req_id = i, .opt = {.present = rows[i].present, .trace = 7}}, 8);
        assert_int_equal(are_numbered(i), rows[i].options <= 16);
    }
}

/* And the packet, in front of its bytes: the second copy is in a packet of its own, with all its room. */
static void r270_the_number_fits_the_packet(void **state)
{
    (void)state;
    for (uint32_t less = 0; less < 2; less++) {
        uint8_t bytes[64];
        struct bt_r2p2_hdr hdr = {.type = BT_REQUEST,
                                  .first = true,
                                  .last = true,
                                  .ext = true,
                                  .count_or_index = 1,
                                  .req_id = (uint16_t)less};
        size_t head = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
        memset(bytes + head, 0x5a, 8);
        struct bt_pkt *pkt = bt_pool_get(h.b.pool);
        memcpy(bt_pkt_append(pkt, (uint32_t)head + 8u), bytes, head + 8u);
        pkt->room_before = MORE - less;
        pkt->src = h.b.client;
        pkt->dst = h.b.requests;
        pkt->t_rx_ns = h.b.now;
        bt_router_request(h.b.r, h.b.now, pkt, &h.b.out);
        int w[2];
        assert_int_equal(next_number(&w[0]) != 0, less == 0);
        assert_true(next_number(&w[1]) != 0);
        hedging_finish(&h, w[0], (uint16_t)less, false);
        bed_discard(&h.b);
        hedging_finish(&h, w[1], (uint16_t)less, false);
        assert_int_equal(bed_counter(&h.b, BT_RC_CANCELS_SENT), less + 1u);
    }
}

/* Numbers go round; none is 0, which would be no number. */
static void r270_numbers_go_round(void **state)
{
    (void)state;
    int w[2];
    h.b.r->hedging->copy_number = UINT32_MAX - 2u;
    bed_send(&h.b, 1);
    assert_int_equal(next_number(&w[0]), UINT32_MAX - 1u);
    assert_int_equal(next_number(&w[1]), UINT32_MAX);
    hedging_finish(&h, w[0], 1, false);
    bed_discard(&h.b);
    hedging_finish(&h, w[1], 1, false);
    bed_send(&h.b, 2);
    assert_int_equal(next_number(&w[0]), 1);
    assert_int_equal(next_number(&w[1]), 2);
}

/* without a packet for the CANCEL nobody makes room. The newcomer waits, until there is one. */
static void r246_no_packet_for_the_cancel(void **state)
{
    (void)state;
    struct bt_txq taken;
    struct bt_pkt *pkt;
    int w[2];
    h.b.config.hedging.cancellation = BT_HEDGING_CANCEL_PREEMPTIVE;
    bed_apply(&h.b);
    bed_send(&h.b, 1);
    next_number(&w[0]);
    next_number(&w[1]);
    bt_txq_init(&taken);
    while ((pkt = bt_pool_get(h.b.pool)) != NULL) {
        bt_txq_push(&taken, pkt);
    }
    bt_pool_put(h.b.pool, bt_txq_pop(&taken)); /* the newcomer's own */
    bed_send(&h.b, 2);
    assert_int_equal(h.b.out.n, 0);
    assert_int_equal(bed_held(&h.b), 1);
    uint64_t without = bed_counter(&h.b, BT_RC_CANCELS_NO_BUFFER);
    assert_int_equal(without, 2); /* as it came, and once it was held */
    assert_int_equal(bed_counter(&h.b, BT_RC_CANCELS_SENT), 0);
    assert_int_equal(bed_counter(&h.b, BT_RC_PREEMPTIONS), 0);
    assert_int_equal(hedging_stats(&h).hedging_pairs, 1);
    while ((pkt = bt_txq_pop(&taken)) != NULL) {
        bt_pool_put(h.b.pool, pkt);
    }
    bed_tick(&h.b, MS);
    assert_int_equal(h.b.out.n, 2);
    assert_int_equal(bed_held(&h.b), 0);
    assert_int_equal(bed_counter(&h.b, BT_RC_CANCELS_NO_BUFFER), without);
    assert_int_equal(bed_counter(&h.b, BT_RC_CANCELS_SENT), 1);
    assert_int_equal(bed_counter(&h.b, BT_RC_PREEMPTIONS), 1);
    assert_int_equal(hedging_stats(&h).hedging_pairs, 0);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, open_bed, close_bed)
    const struct CMUnitTest tests[] = {
        EACH(r270_the_number_fits_the_datagram), EACH(r270_the_number_fits_the_header),
        EACH(r270_the_number_fits_the_packet),   EACH(r270_numbers_go_round),
        EACH(r246_no_packet_for_the_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
