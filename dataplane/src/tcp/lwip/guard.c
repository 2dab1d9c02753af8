// SPDX-License-Identifier: Apache-2.0
// lwIP's hooks: first sequence numbers nobody can guess, what is wrong with a segment counted before lwIP drops it, a
// bound on handshakes, and the window that says tokens (F-30 to F-34).
#include "tcp/lwip/copy.h"

#include <sodium.h>
#include <string.h>

#include "base/bytes.h"
#include "tcp/lwip/hooks.h"
#include "wire/fc_signal.h"
#include "wire/tcp_flow.h"

enum {
    ISN_SHIFT = 12,          // one step each 4 µs (RFC 6528)
    BYTES_IN_FLIGHT = 65535, // with a window of tokens still so many bytes at most (F-45)
};

u32_t bt_lwip_isn(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port)
{
    struct bt_addr ends[2] = {copy_addr(local, local_port), copy_addr(remote, remote_port)};
    uint8_t hash[crypto_shorthash_BYTES];
    crypto_shorthash(hash, (const uint8_t *)ends, sizeof ends, copy.setup.key);
    return bt_get32(hash) + (u32_t)(copy.now >> ISN_SHIFT);
}

/* A SYN at the listener: room for its handshake, and what its options ask for. */
static void look_at_syn(const struct tcp_hdr *hdr, u16_t optlen)
{
    const uint8_t *options = (const uint8_t *)(hdr + 1);
    copy.syn_asks = false;
    if ((TCPH_FLAGS(hdr) & (TCP_SYN | TCP_ACK | TCP_RST)) != TCP_SYN) {
        copy_count(BT_TCP_DROP_UNKNOWN);
        return;
    }
    while (copy.n_half >= copy.setup.half_open) {
        connection_half_evict();
    }
    enum bt_tcp_flow said = bt_tcp_flow_read(options, optlen);
    bool scaled = said == BT_TCP_FLOW_ASKED && bt_tcp_flow_scaled(options, optlen);
    copy.counters[BT_TCP_BAD_OPTIONS] += said == BT_TCP_FLOW_MALFORMED;
    copy.counters[BT_TCP_FLOW_REFUSED] += said == BT_TCP_FLOW_UNKNOWN || scaled;
    copy.syn_asks = said == BT_TCP_FLOW_ASKED && !scaled && copy.setup.owner.signal != NULL;
}

/* What lwIP will drop without a word, or take nothing of. */
static void count_outside(const struct tcp_pcb *pcb, const struct tcp_hdr *hdr, const struct pbuf *p)
{
    if (pcb->state < ESTABLISHED || pcb->state == TIME_WAIT) {
        return;
    }
    u32_t seq = hdr->seqno, len = (u32_t)p->tot_len + ((TCPH_FLAGS(hdr) & TCP_FIN) != 0 ? 1u : 0u);
    if (TCP_SEQ_GT(seq, pcb->rcv_nxt + pcb->rcv_wnd)) {
        copy_count(BT_TCP_DROP_WINDOW);
    } else if (len != 0 && TCP_SEQ_LEQ(seq + len, pcb->rcv_nxt)) {
        copy_count(BT_TCP_DROP_OLD);
    } else if (len != 0 && pcb->rcv_wnd == 0) {
        copy_count(BT_TCP_PROBES);
    }
}

/* The window becomes that of a peer that counts bytes; what it said goes to the owner. */
static void take_signal(const struct bt_tcp_conn *c, struct tcp_hdr *hdr)
{
    if (c->own != NULL && copy.setup.owner.signalled != NULL) {
        copy.setup.owner.signalled(c->own, hdr->wnd);
    }
    hdr->wnd = BYTES_IN_FLIGHT;
}

err_t bt_lwip_came(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t optlen, u16_t opt1len, u8_t *opt2, struct pbuf *p)
{
    (void)opt2; // a packet is one piece
    if (pcb->state == LISTEN) {
        look_at_syn(hdr, opt1len);
        return ERR_OK;
    }
    struct bt_tcp_conn *c = copy_conn(pcb);
    count_outside(pcb, hdr, p);
    if (c == NULL) {
        return ERR_OK;
    }
    bool syn = (TCPH_FLAGS(hdr) & TCP_SYN) != 0;
    if (syn && c->asks && pcb->state == SYN_SENT) {
        const uint8_t *options = (const uint8_t *)(hdr + 1);
        c->tokens = bt_tcp_flow_read(options, optlen) == BT_TCP_FLOW_ASKED && !bt_tcp_flow_scaled(options, optlen);
    }
    if (c->tokens && (TCPH_FLAGS(hdr) & TCP_RST) == 0 && (!syn || c->asks)) {
        take_signal(c, hdr);
    }
    return ERR_OK;
}

/* A SYN of ours, or the answer to one, is all that lwIP writes options of its own into. */
static bool carries(const struct tcp_pcb *pcb, u8_t len)
{
    const struct bt_tcp_conn *c = len != 0 ? copy_conn(pcb) : NULL;
    return c != NULL && (c->asks || c->tokens);
}

u8_t bt_lwip_options_len(const struct tcp_pcb *pcb, u8_t len)
{
    return (u8_t)(carries(pcb, len) ? len + BT_TCP_FLOW_PADDED : len);
}

static void give_signal(const struct bt_tcp_conn *c, struct tcp_hdr *hdr)
{
    // A peer that only asks takes whatever comes (F-33).
    uint16_t bits = BT_FC_VALUE_MAX;
    if (!c->asks && copy.setup.owner.signal != NULL) {
        bits = copy.setup.owner.signal(copy.setup.owner.arg, c->own);
    }
    hdr->wnd = lwip_htons(bits != 0 ? bits : bt_fc_write_tokens(0)); // F-31
}

u32_t *bt_lwip_leaves(struct pbuf *p, struct tcp_hdr *hdr, const struct tcp_pcb *pcb, u32_t *opts)
{
    struct bt_tcp_conn *c = copy_conn(pcb);
    bool syn = (TCPH_FLAGS(hdr) & TCP_SYN) != 0;
    (void)p;
    if (c == NULL) {
        return opts;
    }
    bool first = syn && pcb->nrtx == 0; // a first SYN of ours lies before snd_nxt
    copy.counters[BT_TCP_RESENT] += !first && TCP_SEQ_LT(lwip_ntohl(hdr->seqno), pcb->snd_nxt);
    if (syn && (c->asks || c->tokens)) {
        bt_tcp_flow_write((uint8_t *)opts);
        opts += BT_TCP_FLOW_PADDED / sizeof *opts;
    }
    if (c->tokens) { // not yet in the SYN of who asks
        give_signal(c, hdr);
    }
    return opts;
}
