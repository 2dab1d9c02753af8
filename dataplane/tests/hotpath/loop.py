# SPDX-License-Identifier: Apache-2.0
"""What the router's loops may do beside handling packets, each by name and with the reason.

A turn of a loop takes packets, handles them, looks at the clock and at who else wants something of it. What only runs when
somebody does, when a timer is due or when there is nothing to do is not the path of a packet; it is named here, and what
hotpath.py proves is that the loops do nothing else. The drivers' functions are called through a table; drivers.py is about them.
"""
ENTRIES = ["router_loop", "feedback_loop",
           "judge_and_steer", "next_period", "next_due"]  # of watchers, when a timer is due

# Functions that call through a pointer, by what they call.
POINTERS = {
    "the driver, by its table (io.h)": ["router_loop", "feedback_loop", "take_feedback", "take_requests", "take_events",
                                        "fast_path_take_back", "fast_path_packets", "router_threads_wait", "router_threads_requests"],
    "the pool and the policies, when a timer is due": ["bt_router_tick", "router_core_tick", "router_tell_tick", "router_watchers_next"],
}

# The function called: who may call it, and why that is allowed. What it does is not followed.
CONTROL = "only when the control thread has posted a letter; else it is one load"
LOAN = "only when the program in the kernel is given the load index or it is taken back (decision 0011), never for each packet"
TIMER = "admission control's arithmetic, when its period is over: a millisecond at the least"
CALLS = {
    "bt_mailbox_poll": (["router_loop"], CONTROL),
    "router_threads_pause": (["router_loop"], CONTROL),
    "router_threads_resume": (["router_loop"], CONTROL),
    "rest": (["feedback_loop"], "only while the control thread asks for it: the thread stands still"),
    "wind_up": (["router_loop"], "only after a signal asked for the end"),
    "say_why": (["fast_path_turn"], "the log, once in ten seconds at the most, when the reason is another"),
    "bpf_map_lookup_elem_flags": (["bt_fast_turn", "bt_fast_take_back"], LOAN),
    "bpf_map_update_elem": (["lend"], LOAN),
    **{name: (["bt_control_track", "judge_and_steer"], TIMER) for name in ("fmin", "fmax", "log", "sqrt")},
}

# Functions with locked instructions: what these look like, and why they are allowed.
FENCE = (r"lock or[lq]\s+\$0x0,\(%rsp\)", "a store that has to come before a load, so that a thread that falls asleep is woken")
ASLEEP = (r"xchg\s+%\w+l?,\(%r\w+\)", "says that the thread is about to sleep, with requests held")
LENT = (r"xchg\s+%e\w\w,\(%r\w+\)", LOAN)
LOCKS = {
    "take_feedback": [FENCE],  # of the FEEDBACK thread, once a burst
    "feedback_loop": [FENCE],  # once a turn
    "router_threads_requests": [FENCE],  # when notes pile up
    "router_threads_wait": [FENCE, ASLEEP],
    "bt_fast_turn": [LENT],
    "bt_fast_take_back": [LENT],
    "lend": [LENT],
}

# Divisions, when a timer is due: health and admission control, in libraries and, put into the tick, in the program.
MAY_DIVIDE = {"bt_router_tick", "router_core_tick", "judge_and_steer", "router_health", "median_share", "bt_admission_tick", "bt_control_track", "bt_control_aiad",
              "bt_admission_level_for"}
