// SPDX-License-Identifier: Apache-2.0
// Flow control by waiting time, the server's half (F-10 to F-18): what a lane of cores learns of its requests, and what
// it tells each connection on packets that are sent anyway. A lane has one owner; nothing here is shared.
#ifndef BT_SCHED_FC_RECEIVER_H
#define BT_SCHED_FC_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/fc_load.h"

#define BT_FC_TOKENS  16u   // of a connection while nothing is throttled (F-13)
#define BT_FC_SAMPLES 1000u // before anything is throttled (F-12)
#define BT_FC_EPOCHS  16u

// One connection, zeroed when it begins.
struct bt_fc_conn {
    uint32_t weight;  // its share beside the others; 0 counts as 1
    uint32_t pending; // requests that came and were not answered yet
    double level;     // tokens it may still use; below 0: used before they were due
    uint64_t filled_at;
    uint64_t epoch; // until when it counts as active, in epochs + 1; 0: never was
    bool elsewhere; // a router chose this lane: its token may have been another one's, and it is never refused
};

// What went wrong or was held back, since the beginning.
struct bt_fc_counts {
    uint64_t refused;    // requests past every token, to be dropped
    uint64_t throttled;  // signals of silence
    uint64_t clock_back; // services that ended before they began: not learned from
    uint64_t unmeasured; // answered without an end of service: not learned from
    uint64_t dispersed;  // decisions with c² above BT_FC_CV2_MAX (F-8)
};

struct bt_fc_receiver {
    struct bt_fc_objective objective;
    double mean_ns, square_ns2, gap_ns; // moving averages (F-10 to F-12)
    double solved_mean, solved_cv2;     // what `load` was solved for
    double load;                        // rho*
    double rate;                        // requests a nanosecond, of the lane: what may come
    double spread;                      // 1 or more: so many times that is given to the connections together
    double passed;                      // moving average: share of the requests whose senders take no part
    uint64_t samples, arrivals;
    uint64_t pending; // requests that came and were not answered yet, of all connections
    uint32_t turn;    // of silences, which differ in length
    uint64_t arrived_at, decided_at, throttled_at;
    uint64_t epoch;               // the present one
    double active;                // sum of weights
    double weights[BT_FC_EPOCHS]; // of those active until that epoch
    bool throttling;
    struct bt_fc_counts counts;
};

void bt_fc_receiver_init(struct bt_fc_receiver *r, const struct bt_fc_objective *objective, uint64_t now);
// A request of c is here. False: it had no token left and is to be dropped; nothing of it is counted but that.
bool bt_fc_arrived(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now);
// bt_fc_arrived said no, and it is served nevertheless: nothing of a stream can be left out.
void bt_fc_kept(struct bt_fc_receiver *r, struct bt_fc_conn *c);
// A request of somebody who takes no part (F-49): it is load like any, and never refused. c stands for all of them.
void bt_fc_passed(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now);
// It was served from began to ended, and is being answered. ended 0: nobody said so.
void bt_fc_served(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t began, uint64_t ended);
// It is being answered without having been served (cancelled, refused by the service).
void bt_fc_dropped(struct bt_fc_receiver *r, struct bt_fc_conn *c);
// The 16 bits for what is sent to c now (wire/fc_signal.h).
uint16_t bt_fc_advertise(struct bt_fc_receiver *r, struct bt_fc_conn *c, uint64_t now);
// The 16 bits for whom nobody knows yet.
uint16_t bt_fc_advertise_any(struct bt_fc_receiver *r, uint64_t now);
// Squared coefficient of variation of the service time.
double bt_fc_cv2(const struct bt_fc_receiver *r);
// Time goes on: who was active may not be any more.
void bt_fc_look(struct bt_fc_receiver *r, uint64_t now);
// c sent within the last 24 to 32 ms before the last look, or is silent because it was told so.
bool bt_fc_active(const struct bt_fc_receiver *r, const struct bt_fc_conn *c);
// c is no more.
void bt_fc_gone(struct bt_fc_receiver *r, struct bt_fc_conn *c);
// Offered load of a core as it is now (F-11); above 1 where more is offered than served.
double bt_fc_offered(const struct bt_fc_receiver *r, uint64_t now);

#endif
