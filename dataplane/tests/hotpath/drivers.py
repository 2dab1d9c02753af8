# SPDX-License-Identifier: Apache-2.0
"""What the drivers may do on a packet's path that the core may not, each by name and with the reason.

A driver is where the system, or DPDK, is called: what hotpath.py proves of it is that it calls nothing else. Whoever is named
is a function of the machine code, with what the compiler put into it: in libraries, and in the program, which is optimised as
a whole and where more is put into fewer.
"""
# What the programs' loops call for packets; waiting, opening and closing are not the path of one.
UDP = ["bt_udp_rx", "bt_udp_tx", "bt_udp_take_events"]
DPDK = ["bt_dpdk_rx", "bt_dpdk_tx", "events_of", "pool_get", "pool_put"]

# Functions that call through a pointer, by what they call.
POINTERS = {
    "the pool": ["bt_udp_tx", "rx_port", "tx_port_run", "tx_raw_run", "bt_dpdk_dispatch", "give"],
    "the pool, the device's driver, DPDK's pool behind ours, and who owns a foreign buffer": ["from_queue"],
    "DPDK's pool behind ours": ["pool_get", "pool_put"],
    "the device's driver": ["burst", "bt_dpdk_flush"],
}

# The function called: who may call it, and why that is allowed. What it does is not followed.
WAITS_FOR_ROOM = "only when a full queue took nothing, to be given room for a moment, before a packet is lost"
ERRORS = "only after the network refused something: an ICMP error is read and cleared"
CARRIER = "only when the carrier comes or goes, or is looked for while there is none: at most ten times a second"
CALLS = {
    "recvmmsg": (["receive"], "takes a batch from a socket, does not wait"),
    "sendmmsg": (["send_batch"], "hands a batch to a socket, does not wait"),
    "sendmsg": (["send_batch"], "the packets of a message that was refused as a whole, one by one"),
    "poll": (["send_batch"], WAITS_FOR_ROOM),
    "recvmsg": (["bt_udp_read_errors"], ERRORS),
    "getsockopt": (["bt_udp_read_errors"], ERRORS),
    "__errno_location": (["receive", "send_batch"], "where this thread's errno is"),
    "bt_udp_now": (["rx_port"], "the time of a batch's arrival"),
    "clock_gettime": (["rx_port", "bt_dpdk_tx", "take", "bt_dpdk_flush"], "the time of a batch, without a system call"),
    "bt_dpdk_now": (["take", "bt_dpdk_tx", "bt_dpdk_flush"], "the time of a batch; how long a full queue was waited for"),
    "sched_yield": (["bt_dpdk_flush"], WAITS_FOR_ROOM),
    "write": (["bt_dpdk_ring_bell", "from_queue"], "wakes the thread a packet was handed to, if it sleeps"),
    "rte_eth_call_rx_callbacks": (["from_queue"], "DPDK's hook behind a receive; nobody here hangs anything on it"),
    "rte_eth_call_tx_callbacks": (["burst"], "DPDK's hook before a send; nobody here hangs anything on it"),
    "rte_eth_link_get_nowait": (["bt_dpdk_link_up", "bt_dpdk_flush", "bt_dpdk_port_reconnect", "take"],
                                "asks for the carrier: once a second, and when a queue is full"),
    "rte_eth_dev_start": (["bt_dpdk_port_reconnect", "take"], CARRIER),
    "rte_eth_dev_stop": (["bt_dpdk_port_reconnect", "take"], CARRIER),
    "bt_dpdk_say": (["take"], CARRIER),
    "bt_dpdk_lost_look": (["take"], "asks the kernel whether the device is still there: once a second"),
    "__rte_pktmbuf_read": (["from_queue"], "copies a foreign buffer of several pieces"),
    "rte_pktmbuf_free_bulk": (["bt_dpdk_flush"], "gives what the device refused back to its pools"),
    "__rte_panic": (["rte_mempool_get_ops"], "ends the program: a pool was overwritten"),
}

# Functions with locked instructions: what these look like, and why they are allowed.
BYTE, WORD = r"%(\w+l|r\d+b)", r"%(e\w\w|r\d+d)"
REFERENCES = (r"lock (sub|add|xadd)w?\s+(\$0x1|\$0xffff|%\w+),", "the references to a foreign buffer, counted by DPDK")
BELL = (rf"xchg\s+{BYTE},", "the bell of the thread a packet was handed to: a store that has to come before a load")
RUNNING = (rf"xchg\s+{BYTE},", "says that the device runs, or does not; " + CARRIER)
QUEUE_LOCK = (rf"xchg\s+{WORD},\(", "the lock of a queue that two threads send by (tx_shared): a device has fewer queues than threads")
RING = (r"lock cmpxchg\s+%\w+,(0x80)?\(", "a place in the ring of the thread a packet is handed to, which several may write to")
LOCKS = {
    "from_queue": [REFERENCES, BELL],
    "give": [RING],
    "bt_dpdk_ring_bell": [BELL],
    "bt_dpdk_port_reconnect": [RUNNING],
    "take": [RUNNING],
    "burst": [QUEUE_LOCK],
}
