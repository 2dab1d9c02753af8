# SPDX-License-Identifier: Apache-2.0
"""The stages of the tests: what each proves, how, and what it may take.

A stage has a form for `make test` (TEST: prove the system once, shortly), for
`make test-all` (ALL: everything), or the same for both; `forms` is the one
field that says so. A new system brings a short and a long form. Cheapest and
most telling first, the cluster last. Commands run from the top of the
repository with bash.
"""
import os
from typing import NamedTuple

TEST, ALL = "test", "test-all"


class Form(NamedTuple):
    """One way to play a stage; cost and budget are seconds on two quiet processors with warm caches."""
    command: str
    cost: int  # what it takes
    budget: int  # what it may take; judged where the machine was quiet
    proves: str = ""  # where a form proves less or more than the stage's line says
    beside: tuple | None = None  # where a form may run beside others than the stage's line says


class Stage(NamedTuple):
    name: str
    proves: str
    forms: dict  # list -> Form
    cause: str  # what usually made it fail
    needs: tuple = ()  # "root" where Linux root is indispensable
    beside: tuple = ()  # stages that leave the machine idle enough for this one to run beside them


def both(*form):
    return {TEST: Form(*form), ALL: Form(*form)}


def make(target, *variables):
    return " ".join(["make --no-print-directory", target, *variables])


def on_cluster(target, *variables):
    """A target that leaves its cluster to look at; here it is taken down, and has to be gone without a trace."""
    return f"code=0; {make(target, *variables)} || code=$?; {make('demo-down')} || code=1; exit $code"


FUZZ_SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
SIM_SEEDS = int(os.environ.get("SIM_SEEDS", "2000"))

STAGES = [
    Stage("build", "every program and every test compiles without warnings",
          both("hack/test/build", 20, 45), "a compiler error stands at the end of the log"),
    Stage("c-unit", "C unit and loopback integration tests, release build",
          {TEST: Form("hack/dataplane test release short", 150, 260, "C unit and loopback integration tests, release build, without the stories told again on two threads and the seeds of sim and sim-replica"),
           ALL: Form("hack/dataplane test release", 130, 240)}, "a cmocka test names the rule it checks; the seed is printed beside it"),
    Stage("verify", "generated files current, format, vet, layering, API lint, docs ids, circles and sizes no worse",
          both("hack/verify/all", 110, 260), "run `make generate` and `make format`, then look at the diff", beside=("c-unit",)),
    Stage("crds", "the largest CRD fits the annotation in which kubectl apply keeps it", both(make("crds"), 1, 10),
          "a template's schema has grown: generate it without descriptions", beside=("c-unit", "verify")),
    Stage("c-asan", "C tests under AddressSanitizer and UBSan",
          {TEST: Form("hack/dataplane test asan short", 220, 330, "C tests under AddressSanitizer and UBSan, without the stories told again on two threads and the simulator's long runs"),
           ALL: Form("hack/dataplane test asan", 125, 200)}, "the sanitizer report names file and line", beside=("c-unit", "verify")),
    Stage("c-tsan", "threaded programs under ThreadSanitizer",
          {TEST: Form("hack/dataplane test tsan short", 75, 200, "threaded programs under ThreadSanitizer, the router's stories on two threads only"),
           ALL: Form("hack/dataplane test tsan", 110, 200)}, "the sanitizer report names the two accesses", beside=("c-asan", "verify")),
    Stage("go-unit", "Go unit, race detector, real API server (envtest), C/Go interoperation",
          {TEST: Form("hack/go-test -short ./...", 220, 340, "Go unit, race detector where goroutines are started, real API server (envtest), C/Go interoperation; without what only more time proves"), ALL: Form("hack/go-test", 560, 900)},
          "a missing KUBEBUILDER_ASSETS folder means `make deps` did not finish"),
    Stage("crab", "CRAB with curl, wrk, NGINX, Redis and TLS in network namespaces: redirects, attacks, fail-over, agents killed and upgraded",
          {TEST: Form(make("e2e-crab-short"), 85, 180, "CRAB's core in network namespaces: redirects, clients, forgeries, fail-over, what the balancer sees"),
           ALL: Form(make("e2e-crab"), 240, 400)},
          "the failed test prints what every host's programs counted and its agent's log", ("root",)),
    Stage("images", "the Dockerfile builds every component",
          both(make("images"), 36, 200),
          "the failing build step stands at the end of the log", ("root",), beside=("crab",)),
    Stage("replica", "a replication group of real processes: kills, pauses, cuts, full and lost disks, changes of membership; what clients saw is judged by Porcupine",
          {TEST: Form(make("e2e-replica-short"), 55, 180, "a replication group of real processes, Raft and HovercRaft: six leaders killed, nine of the faults, every story of disks and membership"),
           ALL: Form(make("e2e-replica"), 700, 2000)},
          "the failed test names the history or the event that was waited for, and ends with the members' logs", ("root",)),
    Stage("redis", "a replication group of Debian's Redis servers: kills, faults, snapshots, every command held to the table of the module; what clients saw is judged by Porcupine; planted bugs",
          {TEST: Form(make("e2e-redis-short"), 18, 120, "a replication group of Debian's Redis servers: a leader killed, four faults, snapshots, every command held to the table of the module"),
           ALL: Form(make("e2e-redis"), 300, 1200)},
          "the failed test names the history or the event that was waited for, and ends with the servers' logs", ("root",)),
    Stage("tcp-dpdk", "TCP past the kernel against the kernel's: curl, redis-cli, redis-benchmark, wrk; loss, repetition, reordering, a flood of SYNs",
          {TEST: Form(make("tcp-dpdk-short"), 20, 90, "TCP past the kernel against the kernel's: some hundred requests of each client, a bad wire, a flood"),
           ALL: Form(make("tcp-dpdk"), 90, 400)}, "a client's line says how many failed; the server's log follows an error", ("root",), beside=("redis",)),
    Stage("sched", "the scheduler of a server's cores: model checking, seeds, real threads, planted bugs",
          {TEST: Form(make("test-sched-short"), 50, 120, "the scheduler of a server's cores: model checking, seeds, real threads, a third of the planted bugs"),
           ALL: Form(make("test-sched"), 400, 900)},
          "the story that broke prints its history; a seed is played again with bobtail-sim sched sweep --first=SEED --seeds=1",
          beside=("replica",)),
    Stage("cluster", "the main job on a real two-node cluster: outages, rolling updates, clean removal",
          {TEST: Form(make("e2e-main-short"), 185, 280, "the main job on a real two-node cluster: install, load, overload, recovery, rolling update, clean removal"),
           ALL: Form(make("e2e-main"), 1100, 1500)},
          "the failing step names its own log; `bobtail-cluster logs` shows the components", ("root",)),
    Stage("sim", "queueing figures, fault seeds and planted bugs in the simulator",
          {TEST: Form(make("sim-short"), 35, 200, "a figure of each policy, fault seeds and a third of the planted bugs in the simulator"),
           ALL: Form(make("sim", f"SEEDS={SIM_SEEDS}"), 240, 400)},
          "the failing seed and its replay command stand in the log", beside=("cluster",)),
    Stage("p4", "the switch's P4 programs in a checker of our own: vectors, STF files, both architectures, lockstep with the simulator, discipline, planted bugs",
          {TEST: Form(make("p4-short"), 45, 120, "the same with 100,000 events of lockstep"), ALL: Form(make("p4"), 340, 720)},
          "the event, vector or case that differs stands in the log; `p4check trace` shows what a packet met", beside=("cluster",)),
    Stage("sim-replica", "a replication group in virtual time: crashes, cuts, torn disks, transfers, changes of membership; 14,000 leaders killed; the leader's messages; planted bugs of the Raft core, of HovercRaft and of its aggregator",
          {TEST: Form(make("sim-replica-short"), 57, 150, "a replication group in virtual time, Raft, HovercRaft and HovercRaft++: 3,580 seeds, 1,300 leaders killed, clients that ask again, table 12.1, planted bugs"),
           ALL: Form(make("sim-replica"), 540, 1000)},
          "the failing seed and its replay command stand in the log", beside=("cluster",)),
    Stage("model-replica", "every state of three members with an aggregator, by Spin; eleven wrong rules that it must find",
          {ALL: Form(make("model-replica"), 120, 900)},
          "a broken rule's shortest story: ./pan -r of build/model-replica; MISSED names a wrong rule that nothing noticed"),
    Stage("bench-replica", "messages of the leader of real members for one request, counted on its link: Raft and HovercRaft, 3 to 9 members; puts against etcd and Redis; a node's share of YCSB-E",
          {ALL: Form(make("bench-replica"), 300, 900)}, "the counts stand beside table 12.1; a group whose leader changed is measured again; ratios are medians of rounds in the log", ("root",)),
    Stage("sim-store", "a member's log on disks that lose, tear, reorder, rot, fill and fail; planted bugs; a writer that is killed",
          {ALL: Form(make("sim-store"), 240, 500)}, "the failing seed and its command stand in the log"),
    Stage("figures", "the published figures at 64 workers, and mistakes planted in them",
          {ALL: Form(make("figures-quick"), 190, 360)}, "the failed check names figure, panel and series; plots are in build/figures-quick"),
    Stage("fuzz", f"every parser fuzzed, {FUZZ_SECONDS} s in all",
          {ALL: Form(f"hack/dataplane fuzz {FUZZ_SECONDS}", FUZZ_SECONDS + 20, 2 * FUZZ_SECONDS + 120)},
          "the crashing input was kept in build/fuzz; replay it with the named binary"),
    Stage("packets", "one packet suite over every driver: sim, udp, ring, memif, af_packet, af_xdp",
          {ALL: Form(make("packet-tests"), 30, 120)}, "the failed case and its driver stand in the table", ("root",)),
    Stage("flow-control", "flow control spares DROPs: real clients, a router and a server at 1.5 times what it can do",
          {ALL: Form(make("fc-drops"), 35, 150)}, "each round's counts stand in the log; without overload nothing can be spared"),
    Stage("switch", "what the operator writes into a switch, on packets: a checker as its data plane, real servers, a router and a client; 10,000 requests a step",
          {ALL: Form(make("switch-packets"), 60, 240)}, "the step that lost a request is named, with what the switch counted", ("root",)),
    Stage("machine", "what programs take of the whole machine: hugepages that are free, granted, reserved by others",
          {ALL: Form("hack/dataplane test release machine", 10, 60)}, "the failed case names what the machine had", ("root",)),
    Stage("faults", "the real programs under loss, kills, pauses and cuts in network namespaces: every theme in every variant",
          {ALL: Form(make("test-faults"), 780, 1500)},
          "the broken promise stands behind FAILED, with the command that plays the round again", ("root",)),
    Stage("faults-planted", "a round of faults notices each of the bugs planted in the programs",
          {ALL: Form(make("faults-mutations"), 360, 900)}, "NOT CAUGHT names the bug", ("root",)),
    Stage("lancet-agent", "the measuring agent against Redis, memcached and NGINX from Debian: nothing fails, both sides count alike",
          {ALL: Form(make("lancet-agent"), 30, 90)}, "a server's log stands in build/lancet-logs; without package lists run apt-get update", ("root",)),
    Stage("lab", "LatencyExperiment, spans, kubectl bobtail, hedging, cancellation, classes and Degrade on the embedded cluster",
          {ALL: Form(on_cluster("e2e-lab"), 660, 1500)}, "the failing step names its own log", ("root",)),
    Stage("monitor", "a real Prometheus scrapes the embedded cluster by the documented configuration; every query finds something, no alert on a fresh installation",
          {ALL: Form(on_cluster("e2e-monitor"), 180, 420)}, "the failing step names its own log", ("root",)),
    Stage("first-hour", "the tutorials from their pages: a service of one's own in twelve commands, each path between nodes, what it bears, when it is slow; then Prometheus",
          {ALL: Form(on_cluster("e2e-first-hour"), 1080, 1800)}, "the step that failed names the page and the line", ("root",)),
    Stage("devices", "a service on AF_XDP on an embedded cluster of one node: manifest, traffic, an edited annotation, no API server for ten minutes, rollout, fall-back to Kernel, claims, the kubelet restarted, removal",
          {ALL: Form(on_cluster("e2e-devices", "OUTAGE=10m"), 1140, 1800)}, "the failing step names its own log", ("root",)),
    Stage("sched-cluster", "spec.scheduling on an embedded cluster: mode, cores and cpuset change under load, a processor of its own, a server that ignores the field",
          {ALL: Form(on_cluster("e2e-sched"), 660, 1500)}, "the failing step names its own log", ("root",)),
    Stage("sriov-pod", "a service on virtual functions from its manifest to traffic: the control plane here, the kubelet in an emulated machine with an igb card",
          {ALL: Form(on_cluster("e2e-sriov-pod-short"), 240, 600)}, "the failing step names its own log; bobtail-cluster logs machine-b has the machine's console", ("root",)),
    Stage("switch-cluster", "a service of pods placed by a switch on an embedded cluster: over and back, without an operator, entries lost, an old leader, eight services, the switch off and on",
          {ALL: Form(on_cluster("e2e-switch"), 540, 1200)}, "the failing step names its own log, with what the switch counted", ("root",)),
    Stage("replica-cluster", "a ReplicationGroup on an embedded cluster of three nodes under load: pods deleted, a node drained, a disk lost, a rolling update, scale 3 to 5 to 3, no operator, removal; HovercRaft and HovercRaft++ without leader, box and aggregator",
          {ALL: Form(on_cluster("e2e-replica-cluster"), 720, 1500)}, "the failing step names its own log; build/log/e2e-replica-cluster.log has the members' logs", ("root",)),
    Stage("crab-cluster", "CRAB for Services on an embedded cluster of three nodes",
          {ALL: Form(on_cluster("e2e-crab-cluster"), 900, 1500)}, "the failing step names its own log", ("root",)),
    Stage("crab-cilium", "CRAB beside Cilium's own datapath programs in network namespaces: by VIP and node port, either first, either exchanged, either gone",
          {ALL: Form(make("e2e-crab-cilium"), 180, 600)}, "the failed test says what Cilium dropped, by its own reasons, and what every host's programs of ours counted", ("root",)),
    Stage("sriov", "SR-IOV, receive interrupts, native XDP and CRAB on emulated cards (igb under QEMU, Linux 6.12)",
          {ALL: Form(make("test-sriov"), 600, 1500)}, "the guest's console stands in the log; the kernel and QEMU are loaded once, 130 MB", ("root",)),
    Stage("mutants", "the tests of each room notice most of what is changed in it: 60 mutants of Go and 60 of C, drawn by the commit",
          {ALL: Form(make("mutate"), 3600, 5400)}, "each mutant that nobody noticed stands in the log with its place", ("root",)),
    Stage("house", "circles of files, branches, parameters, complexity; what a policy, field, reason, protocol and driver touch; "
          "make test within its time and steady on this commit",
          {ALL: Form(make("house"), 150, 600)}, "missing figures: run make test and make test-steady on this commit, with nothing changed"),
]
