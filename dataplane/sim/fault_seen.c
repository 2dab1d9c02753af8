// SPDX-License-Identifier: Apache-2.0
// See fault_seen.h.
#include "fault_seen.h"

static const char *const full_names[SIM_FULLS] = {
    "client_calls_full", "client_ids_used_up", "client_replies_full", "client_buffers_out",
    "server_pairs_full", "server_held_full",   "server_buffers_out",  "router_pairs_full",
    "router_queue_full", "router_notes_full",  "router_credits_full", "receive_buffers_out",
};

/* By kind of event, as the report names it. */
static const char *const event_names[SIM_EV_KINDS] = {
    [SIM_EV_CRASH_SERVER] = "crash_server",
    [SIM_EV_CRASH_ROUTER] = "crash_router",
    [SIM_EV_LEAVE_SERVER] = "leave",
    [SIM_EV_SET_DEPTH] = "set_depth",
    [SIM_EV_PARTITION] = "partition",
    [SIM_EV_RECONFIGURE] = "reconfigure",
    [SIM_EV_SET_BACK_SERVER] = "wall_clock_set_back",
    [SIM_EV_PAUSE] = "pause",
    [SIM_EV_SLOW_SERVER] = "slow_server",
    [SIM_EV_STALL_SERVER] = "stalled_worker",
    [SIM_EV_REFUSE_SERVER] = "refusing_server",
    [SIM_EV_CUT] = "cut",
    [SIM_EV_CLOCK_LEAP] = "clock_leap",
    [SIM_EV_CLOCK_STOP] = "clock_stop",
    [SIM_EV_CLOCK_DRIFT] = "clock_drift",
    [SIM_EV_CLOCK_BACK] = "clock_back",
    [SIM_EV_UNREACHABLE] = "forged_unreachable",
    [SIM_EV_STARVE] = "starve",
    [SIM_EV_PAUSE_THREAD] = "pause_thread",
};

void sim_faults_add(struct sim_faults_seen *a, const struct sim_faults_seen *b)
{
    uint64_t *x = (uint64_t *)(void *)a;
    const uint64_t *y = (const uint64_t *)(const void *)b;
    _Static_assert(sizeof *a % sizeof(uint64_t) == 0, "counters only");
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++) {
        x[i] += y[i];
    }
}

uint64_t sim_faults_total(const struct sim_faults_seen *f)
{
    uint64_t sum =
        f->cut_off + f->resent + f->icmp_router + f->icmp_client + f->refused + f->threads_late + f->threads_between;
    for (int k = 0; k < SIM_PKTS; k++) {
        sum += f->lost[k] + f->duplicated[k] + f->reordered[k] + f->delayed[k] + f->corrupted[k];
    }
    for (int k = 0; k < SIM_EV_KINDS; k++) {
        sum += f->happened[k];
    }
    for (int k = 0; k < SIM_FULLS; k++) {
        sum += f->full[k];
    }
    return sum;
}

static uint64_t over_packets(const uint64_t by_packet[SIM_PKTS])
{
    uint64_t sum = 0;
    for (int k = 0; k < SIM_PKTS; k++) {
        sum += by_packet[k];
    }
    return sum;
}

uint32_t sim_faults_by_kind(const struct sim_faults_seen *f, struct sim_fault_count out[SIM_FAULT_COUNTS_MAX])
{
    const struct sim_fault_count fixed[] = {
        {"loss", over_packets(f->lost)},
        {"duplicate", over_packets(f->duplicated)},
        {"reorder", over_packets(f->reordered)},
        {"delay", over_packets(f->delayed)},
        {"corrupt", f->damaged[SIM_FAULT_CORRUPT]},
        {"corrupt_burst", f->damaged[SIM_FAULT_BURST]},
        {"truncate", f->damaged[SIM_FAULT_TRUNCATE]},
        {"checksum_caught", f->caught},
        {"resend_by_peer", f->resent},
        {"drop_lost", f->lost[SIM_PKT_DROP]},
        {"cut_off", f->cut_off},
        {"to_the_dead", f->to_the_dead},
        {"icmp_to_router", f->icmp_router},
        {"icmp_to_client", f->icmp_client},
        {"refused", f->refused},
        {"frozen", f->postponed},
        {"failover", f->failovers},
        {"id_wrap", f->id_wraps},
        {"ejected", f->ejected},
        {"older_incarnation_refused", f->older_refused},
        {"garbage", f->garbage},
        {"half_open", f->half_opened},
        {"hedged", f->copies},
        {"hedged_won", f->copies_won},
        {"hedged_cancelled", f->cancelled},
        {"preempted", f->preempted},
        {"cancel_ignored", f->cancels_ignored},
        {"admission_refused", f->admission_refused},
        {"degraded", f->degraded},
        {"thread_late", f->threads_late},
        {"thread_between", f->threads_between},
    };
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        out[n++] = fixed[i];
    }
    for (int k = 0; k < SIM_EV_KINDS; k++) {
        out[n++] = (struct sim_fault_count){event_names[k], f->happened[k]};
    }
    for (int k = 0; k < SIM_FULLS; k++) {
        out[n++] = (struct sim_fault_count){full_names[k], f->full[k]};
    }
    _Static_assert(sizeof fixed / sizeof fixed[0] + SIM_EV_KINDS + SIM_FULLS <= SIM_FAULT_COUNTS_MAX, "room");
    return n;
}
