// SPDX-License-Identifier: Apache-2.0
// The product's own files under the model checker, two cores or three, and what every story asserts: each request is
// executed once, those of a flow in order and by one core at a time, and none is left.
#ifndef BT_TESTS_SCHED_MODEL_WORLD_H
#define BT_TESTS_SCHED_MODEL_WORLD_H

#define BT_SCHED_MODEL
#include "model_atomic.h"

#include "sched/start.c"
#include "sched/flow.c"
#include "sched/deliver.c"
#include "sched/shuffle.c"
#include "sched/token.c"
#include "sched/migrate.c"
#include "sched/next.c"
#include "sched/sleep.c"

enum { MODEL_CORES = 3, MODEL_FLOWS = 2, MODEL_EVENTS = 4 };

struct model_world {
    bt_sched s;
    sched_core core[MODEL_CORES];
    sched_flow flow[MODEL_FLOWS];
    sched_group group[MODEL_FLOWS];
    bt_sched_event event[MODEL_EVENTS];
    bt_rng rng[MODEL_CORES];
    rl::var<int> executing[MODEL_FLOWS]; // by two cores without order between them: a race
    // The checker's own: no thread decides by them.
    unsigned executed[MODEL_EVENTS], replied[MODEL_FLOWS];
    int newest[MODEL_FLOWS];

    // The groups of all flows are at home at core 0.
    void start(uint32_t cores, uint32_t flows, uint32_t groups)
    {
        s.setup.mode = BT_SCHED_WORK_STEALING;
        s.setup.cores = cores;
        s.setup.flows = flows;
        s.setup.groups = groups;
        s.setup.take_max = 0;
        s.setup.keep_stack = false;
        s.core = core;
        s.flow = flow;
        s.group = group;
        sched_start(&s);
        for (uint32_t g = 0; g < groups; g++) {
            sched_store(&group[g].owner, 0u, relaxed);
        }
        for (uint32_t f = 0; f < MODEL_FLOWS; f++) {
            executing[f](RL_INFO) = 0;
            replied[f] = 0;
            newest[f] = -1;
            if (f < flows) {
                bt_sched_open(&s, f, f % groups);
            }
        }
        for (uint32_t e = 0; e < MODEL_EVENTS; e++) {
            executed[e] = 0;
        }
        for (uint32_t c = 0; c < MODEL_CORES; c++) {
            rng[c].s[0] = rng[c].s[1] = rng[c].s[2] = c + 1u;
            rng[c].s[3] = 7;
        }
    }

    void deliver(uint32_t home, uint32_t e, uint32_t f)
    {
        event[e].flow = f;
        RL_ASSERT(bt_sched_deliver(&s, home, &event[e]));
    }

    void replies(uint32_t home)
    {
        for (uint32_t f; (f = bt_sched_finished(&s, home)) != BT_SCHED_NONE;) {
            replied[f]++;
            bt_sched_replied(&s, home, f);
        }
    }

    void finish_network(uint32_t home)
    {
        do {
            replies(home);
        } while (bt_sched_release(&s, home));
    }

    void run_handler(uint32_t self, const bt_sched_work &w)
    {
        executing[w.flow](RL_INFO) = (int)self;
        for (bt_sched_event *e = w.events; e != NULL; e = sched_get(&e->next)) {
            int number = (int)(e - event);
            RL_ASSERT(executed[number] == 0);
            RL_ASSERT(newest[w.flow] < number);
            executed[number]++;
            newest[w.flow] = number;
        }
    }

    // Executes what it got and sends the replies if it may.
    void execute(uint32_t self, const bt_sched_work &w)
    {
        run_handler(self, w);
        if (bt_sched_executed(&s, self, w.flow)) {
            finish_network(w.home);
        }
    }

    // One turn of a core; false: it found nothing.
    bool turn(uint32_t self, bt_sched_work &w)
    {
        bt_sched_next(&s, self, &rng[self], &w);
        if (w.kind == BT_SCHED_NETWORK) {
            finish_network(w.home);
        } else if (w.kind == BT_SCHED_HANDLE) {
            execute(self, w);
        }
        return w.kind != BT_SCHED_NOTHING;
    }

    // What is left when the threads have ended is done by core 0, as it would in its next turns.
    void settle(uint32_t events, uint32_t cores)
    {
        bt_sched_work w;
        for (uint32_t i = 0; i < 4u * cores; i++) {
            while (turn(i % cores, w)) {
            }
        }
        for (uint32_t e = 0; e < events; e++) {
            RL_ASSERT(executed[e] == 1);
        }
        for (uint32_t f = 0; f < s.setup.flows; f++) {
            RL_ASSERT(sched_get(&flow[f].state) == SCHED_FLOW_IDLE);
        }
        for (uint32_t c = 0; c < cores; c++) {
            RL_ASSERT(sched_load(&core[c].token, relaxed) == 0);
            RL_ASSERT(sched_load(&core[c].lock, relaxed) == 0);
            RL_ASSERT(sched_load(&core[c].ready, relaxed) == 0);
        }
    }
};

#endif
