// SPDX-License-Identifier: Apache-2.0
// Connections: from lwIP's control blocks to their owner and back.
#include "tcp/lwip/copy.h"

static void on_destroyed(u8_t id, void *data);
static err_t on_half_open(u8_t id, struct tcp_pcb_listen *listener, struct tcp_pcb *pcb);

static const struct tcp_ext_arg_callbacks of_conn = {.destroy = on_destroyed};
static const struct tcp_ext_arg_callbacks of_listener = {.passive_open = on_half_open};

struct bt_tcp_conn *copy_conn(const struct tcp_pcb *pcb)
{
    return pcb != NULL && pcb->state != LISTEN ? tcp_ext_arg_get(pcb, 0) : NULL;
}

void connection_init(void)
{
    copy.free = NULL;
    for (uint32_t i = BT_TCP_PCBS; i-- > 0;) {
        copy.conn[i] = (struct bt_tcp_conn){.next = copy.free};
        copy.free = &copy.conn[i];
    }
}

static struct bt_tcp_conn *new_conn(struct tcp_pcb *pcb)
{
    struct bt_tcp_conn *c = copy.free;
    if (c == NULL) {
        return NULL;
    }
    bool dirty = c->dirty; // it may still stand in the list of those to be flushed
    struct bt_tcp_conn *next_dirty = c->next_dirty;
    copy.free = c->next;
    *c = (struct bt_tcp_conn){.pcb = pcb, .dirty = dirty, .next_dirty = next_dirty};
    tcp_ext_arg_set_callbacks(pcb, 0, &of_conn);
    tcp_ext_arg_set(pcb, 0, c);
    tcp_nagle_disable(pcb);
    ip_set_option(pcb, SOF_KEEPALIVE);
    return c;
}

void connection_half_done(struct bt_tcp_conn *c)
{
    if (!c->half) {
        return;
    }
    *(c->before != NULL ? &c->before->next : &copy.half_first) = c->next;
    *(c->next != NULL ? &c->next->before : &copy.half_last) = c->before;
    c->half = false;
    c->next = c->before = NULL;
    copy.n_half--;
}

void connection_half_evict(void)
{
    if (copy.half_first != NULL) {
        copy_count(BT_TCP_HALF_OPEN_LOST);
        tcp_abandon(copy.half_first->pcb, 0); // on_destroyed takes it off the list
    }
}

/* The one place where lwIP says that a control block is no more, whatever the reason. */
static void on_destroyed(u8_t id, void *data)
{
    struct bt_tcp_conn *c = data;
    (void)id;
    if (c != NULL) {
        void *own = c->own;
        connection_half_done(c);
        c->pcb = NULL;
        c->own = NULL;
        if (own != NULL) {
            copy.setup.owner.gone(own);
        }
        c->next = copy.free;
        copy.free = c;
    }
}

static err_t on_half_open(u8_t id, struct tcp_pcb_listen *listener, struct tcp_pcb *pcb)
{
    struct bt_tcp_conn *c = new_conn(pcb);
    (void)id;
    (void)listener;
    if (c == NULL) {
        return ERR_MEM;
    }
    c->tokens = copy.syn_asks;
    c->half = true;
    c->before = copy.half_last;
    *(copy.half_last != NULL ? &copy.half_last->next : &copy.half_first) = c;
    copy.half_last = c;
    copy.n_half++;
    return ERR_OK;
}

static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
    struct bt_tcp_conn *c = arg;
    (void)pcb;
    (void)err;
    if (p == NULL) {
        copy.setup.owner.ended(c->own);
        return ERR_OK;
    }
    c->owed += p->tot_len;
    for (const struct pbuf *q = p; q != NULL; q = q->next) {
        copy.setup.owner.received(c->own, q->payload, q->len);
    }
    pbuf_free(p);
    return ERR_OK;
}

static err_t on_room(void *arg, struct tcp_pcb *pcb, u16_t n)
{
    const struct bt_tcp_conn *c = arg;
    (void)pcb;
    (void)n;
    copy.setup.owner.room(c->own);
    return ERR_OK;
}

static void watch(struct bt_tcp_conn *c)
{
    tcp_arg(c->pcb, c);
    tcp_recv(c->pcb, on_received);
    tcp_sent(c->pcb, on_room);
}

static void forget(struct bt_tcp_conn *c)
{
    c->own = NULL;
    tcp_arg(c->pcb, NULL);
    tcp_recv(c->pcb, NULL);
    tcp_sent(c->pcb, NULL);
}

static err_t on_accepted(void *arg, struct tcp_pcb *pcb, err_t err)
{
    struct bt_tcp_conn *c = err == ERR_OK ? copy_conn(pcb) : NULL;
    (void)arg;
    if (c == NULL) {
        copy_count(BT_TCP_DROP_MEMORY);
        return ERR_VAL;
    }
    connection_half_done(c);
    copy_count(BT_TCP_ACCEPTED);
    copy.counters[BT_TCP_FLOW_CONNS] += c->tokens;
    struct bt_addr peer = copy_addr(&pcb->remote_ip, pcb->remote_port);
    c->own = copy.setup.owner.accepted(copy.setup.owner.arg, c, &peer);
    if (c->own == NULL) {
        return ERR_VAL; // lwIP resets it
    }
    watch(c);
    return ERR_OK;
}

bool connection_listen(char *err, size_t errlen)
{
    ip_addr_t ip = copy_ip(&copy.setup.local);
    struct tcp_pcb *pcb = tcp_new_ip_type(IP_GET_TYPE(&ip));
    struct tcp_pcb *listener = NULL;
    if (pcb != NULL && tcp_bind(pcb, &ip, copy.setup.local.port) == ERR_OK) {
        listener = tcp_listen_with_backlog(pcb, 255);
    }
    if (listener == NULL) {
        copy_says(err, errlen, "TCP cannot listen on its port");
        return false;
    }
    tcp_accept(listener, on_accepted);
    tcp_ext_arg_set_callbacks(listener, 0, &of_listener);
    copy.listener = listener;
    return true;
}

void connection_end_listening(void)
{
    if (copy.listener != NULL) {
        tcp_close(copy.listener);
        copy.listener = NULL;
    }
}

static err_t on_opened(void *arg, struct tcp_pcb *pcb, err_t err)
{
    struct bt_tcp_conn *c = arg;
    (void)pcb;
    (void)err;
    copy.counters[BT_TCP_FLOW_CONNS] += c->tokens;
    copy.setup.owner.opened(c->own);
    return ERR_OK;
}

struct bt_tcp_conn *connection_connect(const struct bt_addr *to, void *own, uint64_t now)
{
    ip_addr_t ip = copy_ip(to);
    struct tcp_pcb *pcb = tcp_new_ip_type(IP_GET_TYPE(&ip));
    struct bt_tcp_conn *c = pcb != NULL ? new_conn(pcb) : NULL;
    copy.now = now;
    if (c == NULL) {
        if (pcb != NULL) {
            tcp_abort(pcb);
        }
        return NULL;
    }
    c->own = own;
    c->asks = copy.setup.asks;
    watch(c);
    if (tcp_connect(pcb, &ip, to->port, on_opened) != ERR_OK) {
        forget(c);
        tcp_abort(pcb);
        return NULL;
    }
    return c;
}

static void soil(struct bt_tcp_conn *c)
{
    if (!c->dirty) {
        c->dirty = true;
        c->next_dirty = copy.dirty;
        copy.dirty = c;
    }
}

uint32_t connection_write(struct bt_tcp_conn *c, const uint8_t *bytes, uint32_t n)
{
    uint32_t done = 0;
    while (done < n && tcp_sndbuf(c->pcb) != 0) {
        uint32_t take = n - done < tcp_sndbuf(c->pcb) ? n - done : tcp_sndbuf(c->pcb);
        take = take < 4 * BT_TCP_MSS ? take : 4 * BT_TCP_MSS; // so that little is taken back when memory ends
        if (tcp_write(c->pcb, bytes + done, (u16_t)take, TCP_WRITE_FLAG_COPY) != ERR_OK) {
            break;
        }
        done += take;
    }
    soil(c);
    return done;
}

void connection_flush(void)
{
    while (copy.dirty != NULL) {
        struct bt_tcp_conn *c = copy.dirty;
        copy.dirty = c->next_dirty;
        c->dirty = false;
        if (c->pcb != NULL) {
            (void)tcp_output(c->pcb);
        }
    }
}

void connection_taken(struct bt_tcp_conn *c, uint32_t n)
{
    n = n < c->owed ? n : c->owed;
    c->owed -= n;
    while (n != 0) {
        u16_t part = (u16_t)(n < UINT16_MAX ? n : UINT16_MAX);
        tcp_recved(c->pcb, part);
        n -= part;
    }
}

void connection_end(struct bt_tcp_conn *c)
{
    struct tcp_pcb *pcb = c->pcb;
    connection_taken(c, c->owed); // bytes unread would make it a reset, which takes back what is under way
    forget(c);
    if (tcp_close(pcb) != ERR_OK) {
        tcp_abort(pcb);
    }
}

void connection_reset(struct bt_tcp_conn *c)
{
    struct tcp_pcb *pcb = c->pcb;
    forget(c);
    tcp_abort(pcb);
}

bool connection_tokens(const struct bt_tcp_conn *c)
{
    return c->tokens;
}

uint32_t connection_count(void)
{
    uint32_t n = 0;
    for (const struct tcp_pcb *p = tcp_active_pcbs; p != NULL; p = p->next) {
        n++;
    }
    return n;
}
