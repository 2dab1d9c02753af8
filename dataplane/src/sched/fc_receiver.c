// SPDX-License-Identifier: Apache-2.0
// See fc_receiver.h.
#include "sched/fc_receiver.h"

#include <math.h>

#include "wire/fc_signal.h"

#define PERIOD_NS   (BT_FC_PERIOD_US * 1000ull)
#define EPOCH_NS    8000000ull // connections are active for 24 to 32 ms after a request (F-17)
#define EPOCHS_KEPT 4u
#define GRACE_NS    32000000ull // by then every connection has heard that it is throttled
#define DEBT        2.0         // tokens used before they were due, at most
#define SAVED       4.0         // tokens kept for who comes later than it might: else the lane falls short of its rate
#define WEIGHT      (1.0 / 256) // of a gap (F-12)
#define STEADY      (1.0 / 4) // times that, of a service: c² of dispersed ones is too noisy otherwise, and rho* too high
#define MOVED       (1.0 / 128) // what has changed by less is not solved for again
#define STEP        (1.0 / 64)  // of the spread, a period
#define SPREAD_MAX  4.0
#define LEFT        (1.0 / 16) // of the rate, for those who obey, at least
#define QUIET       16.0       // gaps without a request: so long a one says that the load has gone

static const double throttle_at = 0.8, release_at = 0.7; // of rho* (F-13, F-14)

void bt_fc_receiver_init(struct bt_fc_receiver *r, const struct bt_fc_objective *objective, uint64_t now)
{
    *r = (struct bt_fc_receiver){
        .objective = *objective, .decided_at = now, .arrived_at = now, .epoch = now / EPOCH_NS, .spread = 1};
}

// The first samples count for more, so that the average is one of what was seen; more cores see more in the same time.
static double weight(uint64_t n, double least)
{
    return fmax(1.0 / (double)(n + 1), least);
}

double bt_fc_cv2(const struct bt_fc_receiver *r)
{
    return r->mean_ns > 0 ? fmax(0, r->square_ns2 / (r->mean_ns * r->mean_ns) - 1) : 0;
}

double bt_fc_offered(const struct bt_fc_receiver *r, uint64_t now)
{
    double quiet = now > r->arrived_at ? (double)(now - r->arrived_at) : 0;
    double gap = fmax(r->gap_ns, quiet / QUIET);
    return gap > 0 ? r->mean_ns / (gap * r->objective.cores) : 0;
}

static bool moved(double now, double before)
{
    return fabs(now - before) > MOVED * before;
}

static void solve(struct bt_fc_receiver *r)
{
    double variation = bt_fc_cv2(r);
    r->counts.dispersed += variation > BT_FC_CV2_MAX;
    if (moved(r->mean_ns, r->solved_mean) || moved(1 + variation, 1 + r->solved_cv2)) {
        r->load = bt_fc_load(&r->objective, r->mean_ns, variation);
        r->solved_mean = r->mean_ns;
        r->solved_cv2 = variation;
        r->rate = r->load * r->objective.cores / r->mean_ns;
    }
}

// A connection that has nothing to send leaves its share unused, while another one that has is silent. So more than the
// lane's rate is given to them, until that is what comes.
static void follow(struct bt_fc_receiver *r, double offered)
{
    r->spread *= 1 + STEP * fmax(-1, 1 - offered / r->load);
    r->spread = fmin(SPREAD_MAX, fmax(1, r->spread));
}

// F-13, F-14: under throttling what is seen is limited already. So it is left at less than where it began, and when all
// that was given besides is not made use of.
static void decide(struct bt_fc_receiver *r, uint64_t now)
{
    if (now < r->decided_at + PERIOD_NS) {
        return;
    }
    r->decided_at = now;
    if (r->samples < BT_FC_SAMPLES || r->mean_ns <= 0) {
        return;
    }
    solve(r);
    double offered = bt_fc_offered(r, now);
    if (!r->throttling && offered >= throttle_at * r->load) {
        r->throttling = true;
        r->throttled_at = now;
    } else if (r->throttling && offered < release_at * r->load && r->spread >= SPREAD_MAX) {
        r->throttling = false;
        r->spread = 1;
    }
    if (r->throttling) {
        follow(r, offered);
    }
}

// --- who is active (F-17) ---

static double share_of(const struct bt_fc_conn *c)
{
    return c->weight > 0 ? c->weight : 1;
}

bool bt_fc_active(const struct bt_fc_receiver *r, const struct bt_fc_conn *c)
{
    return c->epoch > r->epoch;
}

void bt_fc_look(struct bt_fc_receiver *r, uint64_t now)
{
    uint64_t epoch = now / EPOCH_NS;
    for (uint32_t i = 0; r->epoch < epoch && i < BT_FC_EPOCHS; i++, r->epoch++) {
        double *ended = &r->weights[(r->epoch + 1) % BT_FC_EPOCHS];
        r->active -= *ended;
        *ended = 0;
    }
    r->epoch = epoch > r->epoch ? epoch : r->epoch;
}

// c counts until EPOCHS_KEPT after `until`; silence that was asked for is no lack of interest.
static void touch(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t until)
{
    uint64_t last = until / EPOCH_NS;
    uint64_t epoch = (last > r->epoch ? last : r->epoch) + EPOCHS_KEPT; // the present one, if the clock went back
    if (epoch <= c->epoch) {
        return;
    }
    if (bt_fc_active(r, c)) {
        r->weights[c->epoch % BT_FC_EPOCHS] -= share_of(c);
    } else {
        r->active += share_of(c);
    }
    r->weights[epoch % BT_FC_EPOCHS] += share_of(c);
    c->epoch = epoch;
}

// --- tokens (F-15, F-16): each connection's fill up at its share of the lane's rate ---

// The longer what is here already will wait, the less is asked for: near to full load nothing else drains it. What is
// held back so is made up for by the spread.
static double backlog(const struct bt_fc_receiver *r)
{
    double wait_ns = (double)r->pending * r->mean_ns / r->objective.cores;
    return fmin(1, fmax(0.5, 1.5 - wait_ns / r->objective.wait_ns));
}

// What those who take no part leave of the lane's rate; never nothing.
static double rate_left(const struct bt_fc_receiver *r)
{
    double taken = r->gap_ns > 0 ? r->passed / r->gap_ns : 0;
    return fmax(r->rate - taken, r->rate * LEFT);
}

static double rate_of(const struct bt_fc_receiver *r, const struct bt_fc_conn *c)
{
    return backlog(r) * r->spread * rate_left(r) * share_of(c) / fmax(r->active, share_of(c));
}

static void fill(const struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now, bool waking)
{
    double rate = rate_of(r, c), most = fmax(SAVED, rate * (double)PERIOD_NS);
    if (waking || c->filled_at < r->throttled_at) { // what it was told before holds no more
        c->level = fmax(c->level, 1);
        c->filled_at = now;
    }
    double since = now > c->filled_at ? (double)(now - c->filled_at) : 0;
    c->level = fmin(most, c->level + since * rate);
    c->filled_at = now;
}

static void learn_gap(struct bt_fc_receiver *r, uint64_t now, bool passed)
{
    double gap = now > r->arrived_at ? (double)(now - r->arrived_at) : 0;
    double w = weight(r->arrivals, WEIGHT / r->objective.cores);
    r->gap_ns += w * (gap - r->gap_ns);
    r->passed += w * ((passed ? 1 : 0) - r->passed);
    r->arrivals++;
    r->arrived_at = now;
}

static void count_in(struct bt_fc_receiver *r, struct bt_fc_conn *c)
{
    c->pending++;
    r->pending++;
}

bool bt_fc_arrived(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now)
{
    bt_fc_look(r, now);
    learn_gap(r, now, false);
    decide(r, now);
    bool waking = !bt_fc_active(r, c);
    touch(r, c, now);
    if (!r->throttling) {
        count_in(r, c);
        return true;
    }
    fill(r, c, now, waking);
    if (c->level - 1 < -DEBT) {
        if (!c->elsewhere && now > r->throttled_at + GRACE_NS) {
            r->counts.refused++;
            return false;
        }
        c->level = 1 - DEBT;
    }
    c->level -= 1;
    count_in(r, c);
    return true;
}

void bt_fc_kept(struct bt_fc_receiver *r, struct bt_fc_conn *c)
{
    count_in(r, c);
}

void bt_fc_passed(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now)
{
    bt_fc_look(r, now);
    learn_gap(r, now, true);
    decide(r, now);
    count_in(r, c);
}

void bt_fc_dropped(struct bt_fc_receiver *r, struct bt_fc_conn *c)
{
    r->pending -= c->pending > 0 && r->pending > 0;
    c->pending -= c->pending > 0;
}

void bt_fc_served(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t began, uint64_t ended)
{
    bt_fc_dropped(r, c);
    if (ended == 0 || ended < began) {
        r->counts.unmeasured += ended == 0;
        r->counts.clock_back += ended != 0;
        return;
    }
    double took = (double)(ended - began), w = weight(r->samples, STEADY * WEIGHT / r->objective.cores);
    r->mean_ns += w * (took - r->mean_ns);
    r->square_ns2 += w * (took * took - r->square_ns2);
    r->samples++;
}

// From half to one and a half of what is due, differently each time: connections that were all told the same at once
// would all come back at once, for ever.
static uint64_t silence(struct bt_fc_receiver *r, double due_ns)
{
    double part = (double)(++r->turn * 2654435769u) * 0x1p-32; // the golden ratio's multiples are spread evenly
    return (uint64_t)fmin(due_ns * (0.5 + part), BT_FC_VALUE_MAX * 1e3);
}

// Tokens are counted from the requests that were answered: what waits here is among them.
uint16_t bt_fc_advertise(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now)
{
    bt_fc_look(r, now);
    decide(r, now);
    if (!r->throttling) {
        return bt_fc_write_tokens(BT_FC_TOKENS);
    }
    fill(r, c, now, !bt_fc_active(r, c));
    if (c->level >= 1) {
        return bt_fc_write_tokens((uint32_t)c->level + c->pending);
    }
    uint64_t silence_ns = silence(r, (1 - c->level) / rate_of(r, c));
    touch(r, c, now + silence_ns);
    r->counts.throttled++;
    return bt_fc_write_idle((silence_ns + 999) / 1000);
}

uint16_t bt_fc_advertise_any(struct bt_fc_receiver *r, uint64_t now)
{
    bt_fc_look(r, now);
    decide(r, now);
    return bt_fc_write_tokens(r->throttling ? 0 : BT_FC_TOKENS);
}

void bt_fc_gone(struct bt_fc_receiver *r, struct bt_fc_conn *c)
{
    if (bt_fc_active(r, c)) {
        r->weights[c->epoch % BT_FC_EPOCHS] -= share_of(c);
        r->active -= share_of(c);
    }
    r->pending -= c->pending < r->pending ? c->pending : r->pending;
    *c = (struct bt_fc_conn){.weight = c->weight};
}
