# SPDX-License-Identifier: Apache-2.0
"""The stages of `make test`, cheapest and most telling first, the cluster last.

A stage is (name, what it proves, command, needs, cause): `needs` holds "root"
where Linux root is indispensable; `cause` is what usually made it fail.
Commands run from the top of the repository with bash.
"""
import collections
import os

Stage = collections.namedtuple("Stage", "name proves command needs cause cost")

FUZZ_SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
SIM_SEEDS = int(os.environ.get("SIM_SEEDS", "2000"))

STAGES = [
    Stage("verify", "generated files current, format, vet, layering, API lint, docs ids",
          "hack/verify/all", (), "run `make generate` and `make format`, then look at the diff", "1 min"),
    Stage("c-build", "the dataplane builds without warnings",
          "hack/dataplane build release", (), "a compiler error stands at the end of the log", "1 min"),
    Stage("c-unit", "C unit and loopback integration tests, release build",
          "hack/dataplane test release", (), "a cmocka test names the rule it checks; the seed is printed beside it", "1 min"),
    Stage("c-asan", "the same under AddressSanitizer and UBSan",
          "hack/dataplane test asan", (), "the sanitizer report names file and line", "2 min"),
    Stage("c-tsan", "threaded programs under ThreadSanitizer",
          "hack/dataplane test tsan", (), "the sanitizer report names the two accesses", "2 min"),
    Stage("go-unit", "Go unit, race detector, real API server (envtest), C/Go interoperation",
          "hack/go-test", (), "a missing KUBEBUILDER_ASSETS folder means `make deps` did not finish", "4 min"),
    Stage("sim", "queueing figures, fault seeds and planted bugs in the simulator",
          f"make --no-print-directory sim SEEDS={SIM_SEEDS}", (), "the failing seed and its replay command stand in the log", "4 min"),
    Stage("figures", "the published figures at 64 workers, and mistakes planted in them",
          "make --no-print-directory figures-quick", (), "the failed check names figure, panel and series; plots are in build/figures-quick", "1 min"),
    Stage("fuzz", f"every parser fuzzed, {FUZZ_SECONDS} s in all",
          f"hack/dataplane fuzz {FUZZ_SECONDS}", (), "the crashing input was kept in build/fuzz; replay it with the named binary", "1 min"),
    Stage("faults", "the real programs under loss, kills, pauses and cuts in network namespaces, under ASan and TSan",
          "make --no-print-directory test-faults VARIANTS='asan,keys tsan,ipv6,keys' THEMES='loss kill-server failover'",
          ("root",), "the broken promise stands behind FAILED, with the command that plays the round again", "1 min"),
    Stage("lancet-agent", "the measuring agent against Redis, memcached and NGINX from Debian: nothing fails, both sides count alike",
          "make --no-print-directory lancet-agent", (), "a server's log stands in build/lancet-logs; without package lists run apt-get update", "1 min"),
    Stage("crab", "CRAB with curl, wrk, NGINX, Redis and TLS in network namespaces: redirects, attacks, fail-over, agents killed and upgraded",
          "make --no-print-directory e2e-crab", ("root",), "the failed test prints what every host's programs counted and its agent's log", "3 min"),
    Stage("images", "the Dockerfile builds every component",
          "make --no-print-directory images", ("root",), "the failing build step stands at the end of the log", "2 min"),
    Stage("cluster", "the main job on a real two-node cluster: outages, rolling updates, clean removal",
          "make --no-print-directory e2e-main", ("root",), "the failing step names its own log; `bobtail-cluster logs` shows the components", "9 min"),
]
