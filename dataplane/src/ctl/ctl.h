// SPDX-License-Identifier: Apache-2.0
// The control protocol's server: SOCK_SEQPACKET, one JSON object per packet each way, version 1.
// It owns one thread; whatever concerns the dataplane itself is done by the packet loop, to which
// requests cross in a mailbox. A program fills in struct bt_ctl_app and polls the mailbox.
#ifndef BT_CTL_CTL_H
#define BT_CTL_CTL_H

#include "base/addr.h"
#include "base/counters.h"
#include "base/histogram.h"
#include "base/trace.h"
#include "ctl/config.h"
#include "ctl/json_out.h"
#include "ctl/keys.h"
#include "ctl/mailbox.h"

#define BT_CTL_VERSION        1
#define BT_CTL_INLINE_MAX     (60u * 1024u) // longer configurations come by memfd
#define BT_CTL_DEFAULT_SOCKET "/run/bobtail/ctl.sock"
#define BT_CTL_SAMPLES_MAX    512u
#define BT_CTL_SERVED_MAX     1024u

// One worker as a router sees it.
struct bt_ctl_member {
    struct bt_addr addr;
    bool joined, eligible, suspect, ejected;
    uint32_t n;
    int64_t outstanding;
    uint64_t sent, done, lost;
    uint32_t incarnation;
    int64_t feedback_age_ms; // -1: never heard
};

struct bt_ctl_router {
    struct bt_addr addr;
    int64_t heard_ms_ago; // -1: never
};

struct bt_ctl_worker {
    uint16_t port;
    uint32_t backlog;
};

// What a router that sends hedged requests knows of them, and of how executions differ.
struct bt_ctl_hedging {
    const char *mode; // NULL: nothing to say
    uint64_t copies, won, cancelled, preempted, delay_ns, busy_ppm, compared, hiccup_ppm, hiccup_ns, service_ns;
};

// What a router that was asked for a program in the kernel says of it (docs/decisions/0011).
struct bt_ctl_fast_path {
    bool active;                  // it decides requests, or will as soon as none waits
    const char *reason, *message; // NULL: nobody asked for one
};

// What a server's flow control decided last, of the port closest to its limit (F-10 to F-18).
struct bt_ctl_flow {
    bool on, throttling, alarm; // alarm: c² is above 20 (F-8)
    uint64_t load_ppm, admitted_ppm, service_ns, cv2_milli, refused, silences, clients;
};

// The threads of a server that was asked to schedule requests itself (D-3, D-6).
struct bt_ctl_scheduling {
    const char *mode;                                // NULL: it was not
    uint32_t lanes, active, least, most, processors; // threads that run, and that may; of all lanes
    uint64_t stolen, parks, slow, longest_ns;
};

// The device that a program got, as it found it (docs/guides/devices.md). NUMA nodes are -1 where nobody knows.
struct bt_ctl_device {
    char driver[32]; // of DPDK; empty: Linux sockets, and the rest means nothing
    char pci[16];    // empty: no PCI device
    char mac[18];
    const char *link; // Up, Down, or Lost: it was taken away, and the program is about to end
    uint16_t mtu;
    int device_node, memory_node, cpu_node;
    uint32_t hugepages_mib; // 0: ordinary memory
    char cpus[128];         // that the process may run on: "2-3,6"
};

// Answer of "state". Arrays have room for BT_CONFIG_WORKERS_MAX members, 2 * BT_CONFIG_ROUTERS_MAX
// routers and BT_CTL_SERVED_MAX workers.
struct bt_ctl_state {
    bool draining;
    uint64_t uptime_ns;
    struct bt_ctl_device device;
    bool is_router; // members and queue are meaningful, else routers, workers and backlog
    struct bt_ctl_member *members;
    size_t n_members;
    uint64_t held, held_limit;
    struct bt_ctl_hedging hedging;
    struct bt_ctl_fast_path fast_path;
    struct bt_ctl_router *routers;
    size_t n_routers;
    struct bt_ctl_worker *workers;
    size_t n_workers;
    uint64_t backlog;
    struct bt_ctl_flow flow;
    struct bt_ctl_scheduling scheduling;
};

// Adds a router that one of a server's workers knows, heard last at heard_ns (0: never) of a clock that shows now_ns.
// One that several workers know was heard when any of them heard it.
void bt_ctl_add_router(struct bt_ctl_state *s, const struct bt_addr *router, uint64_t heard_ns, uint64_t now_ns);

struct bt_ctl_sample {
    struct bt_counter_desc desc;
    uint64_t value;
};

struct bt_ctl_samples {
    struct bt_ctl_sample counters[BT_CTL_SAMPLES_MAX];
    struct bt_ctl_sample gauges[BT_CTL_SAMPLES_MAX];
    size_t n_counters, n_gauges;
};

// Appends; entries without a name and those past the end are left out.
void bt_ctl_add_counters(struct bt_ctl_samples *s, const struct bt_counter_desc *descs, const uint64_t *values,
                         size_t n);
void bt_ctl_add_gauge(struct bt_ctl_samples *s, const char *name, uint64_t value);
void bt_ctl_add_labelled_gauge(struct bt_ctl_samples *s, const struct bt_counter_desc *desc, uint64_t value);

// What an operation of a program's own may be given; what it takes no interest in is ignored.
struct bt_ctl_ask {
    int64_t id;                       // 0 when none was given
    int64_t member_port, client_port; // likewise
    const char *name, *address;       // "" likewise
};

// An operation beside those that every program answers. Runs in the packet loop, and writes the fields of its answer.
struct bt_ctl_operation {
    const char *name;
    bool (*answer)(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e);
};

// What a program answers with. All but `slices` run in the packet loop. Every answer, histograms
// included, knows the packets that had arrived when it was asked for.
struct bt_ctl_app {
    const char *role;             // "router", "server", "load", "member"
    const char *histogram_source; // "Router", "Server", "Client"
    uint32_t incarnation;
    void *arg;
    // Puts a configuration in force, whole or not at all; on refusal fills *e. NULL: the program
    // takes none.
    bool (*apply)(void *arg, const struct bt_config *c, const struct bt_keyring *keys, struct bt_ctl_error *e);
    // The same for a program whose document is of another kind: it reads the text, and the keys from key_dir (NULL:
    // there are none). In place of apply.
    bool (*apply_text)(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e);
    const struct bt_ctl_operation *operations; // a NULL name at the end; NULL: none
    void (*state)(void *arg, struct bt_ctl_state *out);
    // Writes more fields into the answer of "state". NULL: there are none.
    void (*describe)(void *arg, struct bt_json_out *o);
    void (*counters)(void *arg, struct bt_ctl_samples *out);
    void (*leave)(void *arg); // starts draining and returns
    // The histogram called `name`, or NULL. Runs in the control thread.
    const struct bt_hist_slices *(*slices)(void *arg, const char *name);
    const char *histogram_names; // "latency, hold", for the error message
    // The histogram called `name` that covers the program's whole life, or NULL; NULL: it keeps none.
    const struct bt_hist *(*totals)(void *arg, const char *name);
    // Where traced pairs are, written in the packet loop; NULL, or NULL from it: nowhere.
    const struct bt_trace_ring *(*traces)(void *arg);
    uint64_t (*now)(void *arg); // the clock the slices were recorded with; any thread
};

struct bt_ctl_options {
    const char *socket;             // NULL: no control socket
    const char *key_dir;            // NULL: no keys
    const char *config_cache;       // NULL: the last good configuration is not kept on disk
    void (*warn)(const char *text); // may be NULL; any thread
};

struct bt_ctl;

// Prepares; nothing listens yet. NULL when out of memory. `app` is copied.
struct bt_ctl *bt_ctl_new(const struct bt_ctl_app *app, const struct bt_ctl_options *options,
                          struct bt_mailbox *mailbox);

// Before bt_ctl_start, from the thread that will run the loop: applies the file at `path`.
bool bt_ctl_load(struct bt_ctl *c, const char *path, struct bt_ctl_error *e);

// Binds the socket (mode 0660) and starts the thread. False with *e filled in.
bool bt_ctl_start(struct bt_ctl *c, struct bt_ctl_error *e);

// Ends the thread, removes the socket, frees everything. Call after bt_mailbox_close. NULL is fine.
void bt_ctl_stop(struct bt_ctl *c);

#define BT_CTL_FDS_MAX 4u // descriptors received with one request

// Answers one request, for tests and the fuzzer: `fds` are the descriptors that came with it, n_fds their number;
// above BT_CTL_FDS_MAX: there were more than that.
// The text is malloc'd and terminated.
char *bt_ctl_answer(struct bt_ctl *c, const char *request, size_t len, const int *fds, size_t n_fds);

#endif
