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


FUZZ_SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
SIM_SEEDS = int(os.environ.get("SIM_SEEDS", "2000"))

STAGES = [
    Stage("c-build", "the dataplane builds without warnings",
          both("hack/dataplane build release", 10, 60), "a compiler error stands at the end of the log"),
    Stage("c-unit", "C unit and loopback integration tests, release build",
          both("hack/dataplane test release", 130, 160), "a cmocka test names the rule it checks; the seed is printed beside it"),
    Stage("verify", "generated files current, format, vet, layering, API lint, docs ids, sizes and circles no worse",
          both("hack/verify/all", 40, 90), "run `make generate` and `make format`, then look at the diff", beside=("c-unit",)),
    Stage("c-asan", "the same under AddressSanitizer and UBSan",
          both("hack/dataplane test asan", 125, 150), "the sanitizer report names file and line"),
    Stage("c-tsan", "threaded programs under ThreadSanitizer",
          both("hack/dataplane test tsan", 25, 60), "the sanitizer report names the two accesses"),
    Stage("go-unit", "Go unit, race detector, real API server (envtest), C/Go interoperation",
          both("hack/go-test", 250, 280), "a missing KUBEBUILDER_ASSETS folder means `make deps` did not finish"),
    Stage("crab", "CRAB with curl, wrk, NGINX, Redis and TLS in network namespaces: redirects, attacks, fail-over, agents killed and upgraded",
          {ALL: Form(make("e2e-crab"), 240, 400)},
          "the failed test prints what every host's programs counted and its agent's log", ("root",)),
    Stage("images", "the Dockerfile builds every component",
          both(make("images"), 5, 180), "the failing build step stands at the end of the log", ("root",)),
    Stage("cluster", "the main job on a real two-node cluster: outages, rolling updates, clean removal",
          both(make("e2e-main"), 530, 800),
          "the failing step names its own log; `bobtail-cluster logs` shows the components", ("root",)),
    Stage("sim", "queueing figures, fault seeds and planted bugs in the simulator",
          both(make("sim", f"SEEDS={SIM_SEEDS}"), 240, 400), "the failing seed and its replay command stand in the log", beside=("cluster",)),
    Stage("figures", "the published figures at 64 workers, and mistakes planted in them",
          {ALL: Form(make("figures-quick"), 160, 300)}, "the failed check names figure, panel and series; plots are in build/figures-quick"),
    Stage("fuzz", f"every parser fuzzed, {FUZZ_SECONDS} s in all",
          {ALL: Form(f"hack/dataplane fuzz {FUZZ_SECONDS}", FUZZ_SECONDS + 20, 2 * FUZZ_SECONDS + 120)},
          "the crashing input was kept in build/fuzz; replay it with the named binary"),
    Stage("faults", "the real programs under loss, kills, pauses and cuts in network namespaces, under ASan and TSan",
          {ALL: Form(make("test-faults", "VARIANTS='asan,keys tsan,ipv6,keys'", "THEMES='loss kill-server failover'"), 60, 150)},
          "the broken promise stands behind FAILED, with the command that plays the round again", ("root",)),
    Stage("lancet-agent", "the measuring agent against Redis, memcached and NGINX from Debian: nothing fails, both sides count alike",
          {ALL: Form(make("lancet-agent"), 30, 90)}, "a server's log stands in build/lancet-logs; without package lists run apt-get update"),
]
