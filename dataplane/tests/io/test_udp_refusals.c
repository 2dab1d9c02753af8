// SPDX-License-Identifier: Apache-2.0
// What the UDP driver makes of a kernel that takes a part, has no room, is interrupted or refuses. The linker puts
// these in front of its calls (--wrap); each does what the next step says.
#include "udp_bed.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

// What a call does: so many messages are taken (ALL: as many as there are), or an errno.
struct step {
    int taken, error;
};

enum { ALL = 1000, CALLS = 40 };

static struct {
    bool on;
    struct step steps[CALLS]; // of sendmmsg; then all is taken
    struct step apart[CALLS]; // of sendmsg
    struct step reads[CALLS]; // of recvmmsg; then nothing is there
    unsigned sends, singles, receives, polls;
    unsigned offered[CALLS];   // messages of a send
    unsigned pieces[64];       // of each message of the last send
    uint16_t cut[64];          // and what they are cut into; 0: nothing is said
    uint8_t first[64], single; // first byte of each message
    int refuse_poll;
} kernel;

int __real_sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags);
int __real_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t);
ssize_t __real_sendmsg(int fd, const struct msghdr *h, int flags);
int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags);
int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *h, int flags);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

static void note(unsigned i, const struct mmsghdr *m)
{
    const struct msghdr *h = &m->msg_hdr;
    const struct cmsghdr *c = CMSG_FIRSTHDR(h);
    kernel.pieces[i] = (unsigned)h->msg_iovlen;
    kernel.first[i] = *(const uint8_t *)h->msg_iov[0].iov_base;
    kernel.cut[i] = 0;
    if (c != NULL) {
        assert_true(c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT && c->cmsg_len == CMSG_LEN(2));
        assert_int_equal(h->msg_controllen, CMSG_SPACE(2));
        memcpy(&kernel.cut[i], CMSG_DATA(c), sizeof kernel.cut[i]);
    }
}

int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
    if (!kernel.on) {
        return __real_sendmmsg(fd, m, n, flags);
    }
    assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
    assert_true(kernel.sends < CALLS && n <= BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        note(i, &m[i]);
    }
    struct step s = kernel.steps[kernel.sends];
    kernel.offered[kernel.sends++] = n;
    errno = s.error;
    return s.error != 0 ? -1 : s.taken != 0 && s.taken < (int)n ? s.taken : (int)n;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *h, int flags)
{
    if (!kernel.on) {
        return __real_sendmsg(fd, h, flags);
    }
    assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
    assert_int_equal(h->msg_iovlen, 1);
    assert_null(h->msg_control);
    assert_true(kernel.singles < CALLS);
    kernel.single = *(const uint8_t *)h->msg_iov[0].iov_base;
    errno = kernel.apart[kernel.singles++].error;
    return errno != 0 ? -1 : (ssize_t)h->msg_iov[0].iov_len;
}

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
    if (!kernel.on) {
        return __real_poll(p, n, ms);
    }
    assert_true(n == 1 && p->events == POLLOUT && ms == 2);
    kernel.polls++;
    errno = kernel.refuse_poll != 0 ? kernel.refuse_poll : EINVAL; // which is not what the send said
    return kernel.refuse_poll != 0 ? -1 : 0;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t)
{
    if (!kernel.on) {
        return __real_recvmmsg(fd, m, n, flags, t);
    }
    assert_int_equal(flags, MSG_DONTWAIT);
    struct step s = kernel.reads[kernel.receives++];
    errno = s.error != 0 ? s.error : EAGAIN;
    for (int i = 0; i < s.taken; i++) {
        m[i].msg_len = 1;
        m[i].msg_hdr.msg_controllen = 0;
    }
    return s.taken != 0 ? s.taken : -1;
}

// Queues n packets of so many bytes, each with its number at its front, for a's first port or ports in turn.
static void send_n(struct rig *r, unsigned n, uint32_t len, bool in_turn)
{
    static uint8_t bytes[BT_PKT_BUFFER];
    struct bt_txq q;
    bt_txq_init(&q);
    for (unsigned i = 0; i < n; i++) {
        bytes[0] = (uint8_t)(i + 1);
        udp_queue(r, &q, 0, udp_local(r->a, in_turn && i % 2 != 0), bytes, len);
    }
    bt_io_tx(r->b, &q);
    assert_int_equal(q.n, 0);
}

static struct rig rig;

static int open_rig(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    rig_open(&rig, 256, "127.0.0.1", BT_IDLE_BLOCK);
    kernel.on = true;
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    kernel.on = false;
    rig_close(&rig);
    return 0;
}

// Every reason has its counter. A hard error may be an earlier datagram's, so that it gets one more try; room is waited
// for three times.
static void a_refusal_is_counted_under_its_reason(void **state)
{
    static const struct {
        int error;
        enum bt_udp_counter counter;
        unsigned sends, polls;
    } rows[] = {
        {EMSGSIZE, BT_UDP_TX_TOO_LONG, 2, 0},        {ECONNREFUSED, BT_UDP_TX_UNREACHABLE, 2, 0},
        {EHOSTUNREACH, BT_UDP_TX_UNREACHABLE, 2, 0}, {ENETUNREACH, BT_UDP_TX_UNREACHABLE, 2, 0},
        {EPERM, BT_UDP_TX_UNREACHABLE, 2, 0},        {EACCES, BT_UDP_TX_UNREACHABLE, 2, 0},
        {EAGAIN, BT_UDP_TX_NO_SPACE, 4, 3},          {ENOBUFS, BT_UDP_TX_NO_SPACE, 4, 3},
        {ENOMEM, BT_UDP_TX_NO_SPACE, 2, 0},          {EINVAL, BT_UDP_TX_BAD_ADDRESS, 2, 0},
        {EAFNOSUPPORT, BT_UDP_TX_BAD_ADDRESS, 2, 0}, {EIO, BT_UDP_TX_ERRORS, 2, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&kernel, 0, sizeof kernel);
        kernel.on = true;
        for (unsigned k = 0; k < 4; k++) {
            kernel.steps[k].error = rows[i].error;
        }
        uint64_t before = udp_counter(rig.b, rows[i].counter), sent = udp_counter(rig.b, BT_UDP_TX_PACKETS);
        send_n(&rig, 1, 1, false);
        assert_int_equal(udp_counter(rig.b, rows[i].counter), before + 1);
        assert_int_equal(udp_counter(rig.b, BT_UDP_TX_PACKETS), sent);
        assert_int_equal(kernel.sends, rows[i].sends);
        assert_int_equal(kernel.polls, rows[i].polls);
    }
}

// What is only held up goes out: after a signal however often, after an error once, when there is room.
static void what_is_held_up_is_sent_again(void **state)
{
    (void)state;
    const struct step steps[] = {{0, EINTR}, {0, EINTR}, {0, EINTR}, {0, EINTR},  {0, EINTR},  {2, 0},       {0, EIO},
                                 {1, 0},     {0, EIO},   {1, 0},     {0, EAGAIN}, {0, EAGAIN}, {0, ENOBUFS}, {1, 0}};
    static const unsigned offered[] = {7, 7, 7, 7, 7, 7, 5, 5, 4, 4, 3, 3, 3, 3, 2};
    memcpy(kernel.steps, steps, sizeof steps);
    send_n(&rig, 7, 1, true); // a message each
    assert_int_equal(udp_counter(rig.b, BT_UDP_TX_PACKETS), 7);
    assert_int_equal(kernel.sends, sizeof offered / sizeof offered[0]);
    assert_memory_equal(kernel.offered, offered, sizeof offered);
    assert_int_equal(kernel.polls, 3);
    assert_int_equal(kernel.first[0], 6);
}

// Who cannot wait for room does not try again; and one that is refused is skipped, not those behind it.
static void what_is_refused_is_skipped(void **state)
{
    (void)state;
    const struct step steps[] = {{1, 0}, {0, EPERM}, {0, EPERM}, {ALL, 0}};
    memcpy(kernel.steps, steps, sizeof steps);
    send_n(&rig, 4, 1, true);
    assert_int_equal(udp_counter(rig.b, BT_UDP_TX_PACKETS), 3);
    assert_int_equal(udp_counter(rig.b, BT_UDP_TX_UNREACHABLE), 1);
    assert_int_equal(kernel.offered[3], 2);
    assert_int_equal(kernel.first[0], 3);
    memset(&kernel, 0, sizeof kernel);
    kernel.on = true;
    kernel.steps[0].error = EAGAIN;
    kernel.refuse_poll = ENOMEM;
    send_n(&rig, 1, 1, false);
    assert_int_equal(udp_counter(rig.b, BT_UDP_TX_NO_SPACE), 1);
    assert_int_equal(kernel.sends, 1);
}

// Packets to one place are one message as long as they are equal, and as an IP packet holds them.
static void a_message_holds_what_an_ip_packet_holds(void **state)
{
    static const struct {
        unsigned n;
        uint32_t len;
        unsigned messages, first, second;
    } rows[] = {{50, 1300, 1, 50, 0},  {51, 1300, 2, 50, 1}, {64, 1000, 1, 64, 0},
                {60, 1301, 2, 49, 11}, {1, 1300, 1, 1, 0},   {3, 0, 3, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kernel.sends = 0;
        kernel.pieces[1] = 0;
        send_n(&rig, rows[i].n, rows[i].len, false);
        assert_int_equal(kernel.sends, 1);
        assert_int_equal(kernel.offered[0], rows[i].messages);
        assert_int_equal(kernel.pieces[0], rows[i].first);
        assert_int_equal(kernel.pieces[1], rows[i].second);
        assert_int_equal(kernel.cut[0], rows[i].first > 1 ? rows[i].len : 0);
    }
    kernel.sends = 0;
    send_n(&rig, 4, 9, true); // two places in turn
    assert_int_equal(kernel.offered[0], 4);
}

// A message that is refused as a whole goes apart. That is so for ever if all of its packets are taken then, unless the
// reason was one of theirs.
static void what_is_refused_as_a_whole_is_sent_apart(void **state)
{
    static const struct {
        int whole, second; // why the message, and then its second packet, is refused
        bool for_ever;
        unsigned sent;
        enum bt_udp_counter counter;
    } rows[] = {
        {EMSGSIZE, 0, false, 3, BT_UDP_TX_TOO_LONG},      {EPERM, 0, false, 3, BT_UDP_TX_UNREACHABLE},
        {EINVAL, EPERM, false, 2, BT_UDP_TX_UNREACHABLE}, {EAFNOSUPPORT, 0, false, 3, BT_UDP_TX_BAD_ADDRESS},
        {EINVAL, 0, true, 3, BT_UDP_TX_BAD_ADDRESS},      {EIO, 0, true, 3, BT_UDP_TX_ERRORS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_udp *u = (struct bt_udp *)rig.b;
        memset(&kernel, 0, sizeof kernel);
        kernel.on = true;
        u->no_segments = false;
        memset(u->counters, 0, sizeof u->counters);
        kernel.steps[0].error = kernel.steps[1].error = rows[i].whole;
        kernel.apart[1].error = kernel.apart[2].error = rows[i].second;
        send_n(&rig, 3, 5, false);
        assert_int_equal(kernel.sends, 2);
        assert_int_equal(kernel.singles, rows[i].second != 0 ? 4 : 3); // it had one more try
        assert_int_equal(kernel.single, 3);
        assert_int_equal(udp_counter(rig.b, BT_UDP_TX_PACKETS), rows[i].sent);
        assert_int_equal(udp_counter(rig.b, rows[i].counter), 3 - rows[i].sent);
        assert_int_equal(u->no_segments, rows[i].for_ever);
        kernel.sends = 0;
        kernel.steps[0].error = kernel.steps[1].error = 0;
        send_n(&rig, 3, 5, false);
        assert_int_equal(kernel.offered[0], rows[i].for_ever ? 3 : 1);
    }
}

// For want of room nothing is sent apart: all of it is dropped.
static void without_room_a_message_is_dropped_whole(void **state)
{
    static const int errors[] = {EAGAIN, ENOBUFS};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        memset(&kernel, 0, sizeof kernel);
        kernel.on = true;
        for (unsigned k = 0; k < 4; k++) {
            kernel.steps[k].error = errors[i];
        }
        send_n(&rig, 3, 5, false);
        assert_int_equal(kernel.singles, 0);
        assert_int_equal(udp_counter(rig.b, BT_UDP_TX_NO_SPACE), 3 * (i + 1));
    }
}

// A read is tried four times: a signal and an earlier send's error are no news about what is there.
static void a_read_is_tried_again(void **state)
{
    static const struct {
        int error;
        unsigned counted;
    } rows[] = {{EINTR, 0}, {ECONNREFUSED, 0}, {EHOSTUNREACH, 0}, {ENETUNREACH, 0}, {EIO, 1}};
    struct bt_pkt *pkts[4];
    struct bt_udp *u = (struct bt_udp *)rig.a;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned failures = 3; failures <= 4; failures++) {
            uint64_t errors = udp_counter(rig.a, BT_UDP_RX_ERRORS);
            memset(&kernel, 0, sizeof kernel);
            kernel.on = true;
            for (unsigned k = 0; k < failures; k++) {
                kernel.reads[k].error = rows[i].error;
            }
            kernel.reads[failures].taken = 1;
            u->ports[0].readable = true;
            unsigned got = bt_io_rx(rig.a, 0, pkts, 4);
            assert_int_equal(got, failures == 3);
            assert_int_equal(kernel.receives, 4);
            assert_int_equal(udp_counter(rig.a, BT_UDP_RX_ERRORS), errors + failures * rows[i].counted);
            assert_false(u->ports[0].readable);
            if (got != 0) {
                bt_pool_put(rig.pool, pkts[0]);
            }
        }
    }
}

// A read that fills its batch is followed by another; one that does not waits to be told.
static void a_full_batch_may_have_more_behind_it(void **state)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_udp *u = (struct bt_udp *)rig.a;
    (void)state;
    for (int taken = 2; taken <= 3; taken++) {
        for (unsigned watched = 0; watched < 2; watched++) {
            kernel.receives = 0;
            kernel.reads[0].taken = taken;
            u->ports[0].readable = true;
            u->ports[0].watched = watched;
            assert_int_equal(bt_io_rx(rig.a, 0, pkts, 3), taken);
            assert_int_equal(u->ports[0].readable, taken == 3 || watched);
            for (int i = 0; i < taken; i++) {
                bt_pool_put(rig.pool, pkts[i]);
            }
        }
    }
    assert_int_equal(bt_io_rx(rig.a, 0, pkts, 0), 0);
    assert_int_equal(bt_io_rx(rig.a, 2, pkts, 1), 0); // there is no such port
    assert_int_equal(kernel.receives, 1);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(a_refusal_is_counted_under_its_reason),
        WITH_RIG(what_is_held_up_is_sent_again),
        WITH_RIG(what_is_refused_is_skipped),
        WITH_RIG(a_message_holds_what_an_ip_packet_holds),
        WITH_RIG(what_is_refused_as_a_whole_is_sent_apart),
        WITH_RIG(without_room_a_message_is_dropped_whole),
        WITH_RIG(a_read_is_tried_again),
        WITH_RIG(a_full_batch_may_have_more_behind_it),
    };
    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
