# SPDX-License-Identifier: Apache-2.0
# Bobtail. `make help` lists the targets; `make demo` and `make test` are the two that matter.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# One way to compile Go, so that what one target built another finds, in every checkout: no paths, and no C but for races.
export GOFLAGS := $(filter-out -trimpath -buildvcs=false,$(GOFLAGS)) -trimpath -buildvcs=false
export CGO_ENABLED := 0
SEEDS ?= 2000
SHORT_SEEDS ?= 600
REPORT := measure/report/report.py
MEASURED := build/measurements
FAULT_MATRIX := release,keys asan,keys,go tsan,ipv6,keys,split asan,ipv6,transparent tsan,transparent,keys release,legacy release,keys,split release,keys,fastpath

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Everyday
.PHONY: deps build test test-all test-steady house verify docs generate format clean
deps: ## Install and build everything a fresh machine lacks (idempotent; root for the Debian packages)
	@hack/deps/install

build: deps-dev ## Build the dataplane (C) and the Go programs into build/
	@hack/dataplane build release
	@mkdir -p build/bin
	go build -ldflags="-X main.version=$(file <VERSION)" -o build/bin/ ./operator/cmd/... ./e2e/cluster/cmd/... ./e2e/cmd/... ./clients/go/r2p2/example/...

.PHONY: deps-dev
deps-dev:
	@hack/deps/install --only=dev

# The wall time of a run begins with the installation of what the machine lacks.
test test-all test-steady: BEGAN := $(shell date +%s)
test: deps ## Prove each system once: unit, sanitizers, simulator, API server, CRAB, the main job on a cluster (12 to 15 min)
	@hack/test/run.py --began=$(BEGAN) $(TEST_FLAGS)

test-all: deps ## Everything: all seeds, all planted bugs, faults, outages, fuzzing, emulated cards; goes on where it was: make test-all TEST_FLAGS=--list
	@hack/test/run.py --of=test-all --began=$(BEGAN) $(TEST_FLAGS)

test-steady: deps ## Every stage of make test three times beside one busy process per processor; goes on where it was (1 h)
	@hack/test/run.py --steady --began=$(BEGAN) $(TEST_FLAGS)

house: ## Judge the structure: circles, parameters, branches, what additions touch (3 min), and the last whole runs of make test and make test-steady on this commit
	@hack/house/judge.py

verify: ## Check generated files, format, lint, layering, API conventions, docs
	@hack/verify/all

docs: ## Build the site of the pages into build/site and judge them: links, length of sentences (loads 10 MB once)
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/docs.json
	@hack/docs/site --measurements=$(MEASURED)/docs.json; code=$$?; \
	  $(REPORT) docs --measurements $(MEASURED)/docs.json && exit $$code

generate: ## Regenerate deepcopy, CRDs, RBAC, chart copies and compiled eBPF programs
	@hack/generate
	@hack/generate-bpf

format: ## Format Go and C sources
	@gofmt -w operator clients e2e hack/p4
	@git ls-files 'dataplane/*.c' 'dataplane/*.h' | xargs clang-format-19 -i

clean: ## Remove build/ (the tool cache outside the tree stays)
	rm -rf build

##@ The product on a real cluster
.PHONY: images push dist demo demo-down cluster-up cluster-down e2e-main e2e-main-short e2e-lab e2e-slo e2e-crab-cluster e2e-monitor e2e-devices e2e-sched e2e-switch e2e-first-hour e2e-replica-cluster e2e-sriov-pod e2e-sriov-pod-short
images: ## Build every component's image from the one Dockerfile
	@images/build

push: images ## Push the images: make push REGISTRY=registry.example.com
	@images/push $(if $(REGISTRY),$(REGISTRY),$(error set REGISTRY=host[:port][/path]))

dist: ## What a release is made of, into build/dist: chart, OCI layout, install.yaml, plugin for krew, digests: make dist REGISTRY=registry.example.com
	@. hack/deps/versions.env && go run ./hack/dist --out=build/dist --helm="$${BOBTAIL_CACHE:-$$HOME/.cache/bobtail}/helm-$$HELM_VERSION/bin/helm" $(if $(REGISTRY),--registry=$(REGISTRY)) $(if $(URL),--url=$(URL)) $(DIST)

demo: ## The main job: real cluster, RpcService, load, overload, recovery, measured SLO
	@e2e/run demo

demo-down: ## Remove the demo and the embedded cluster, and prove that nothing is left
	@e2e/run demo-down

cluster-up: ## Start only the embedded cluster
	@e2e/run cluster-up

cluster-down: ## Stop the embedded cluster
	@e2e/run demo-down

e2e-main: ## The main job with outages, rolling updates and clean removal, on the embedded cluster: make e2e-main MAIN="--only=nodes-drained"
	@e2e/run e2e-main $(MAIN)

e2e-main-short: ## The main job alone: install, load, overload, recovery, rolling update, removal (3 min)
	@e2e/run e2e-main-short

e2e-lab: ## LatencyExperiment with every pattern, spans, kubectl bobtail, hedging Auto, cancellation, classes and Degrade on the embedded cluster (11 min, beside busy neighbours up to 20)
	@e2e/run e2e-lab

e2e-monitor: ## A real Prometheus scrapes the embedded cluster by the documented configuration; every documented query and every panel finds something (4 min)
	@e2e/run e2e-monitor

e2e-first-hour: ## The tutorials from their pages: a service of one's own in Go and in C to its objective, connectivity, what it bears, when it is slow; then Prometheus: make e2e-first-hour FIRST_HOUR="--only=own,slow" (18 min)
	@e2e/run e2e-first-hour $(FIRST_HOUR)

e2e-sched: ## On an embedded cluster: mode, cores and cpuset change under load, flow control, curl, redis-cli and wrk past the kernel (10 min)
	@e2e/run e2e-sched

e2e-devices: ## A service on AF_XDP from its manifest to traffic, an edited annotation, no API server, an interface taken away, a rollout, the fall-back to Kernel, a kubelet restarted, claims and removal, on an embedded cluster of one node: make e2e-devices OUTAGE=10m DEVICES="--only=claims" (9 min)
	@BOBTAIL_API_OUTAGE=$(OUTAGE) e2e/run e2e-devices $(DEVICES)

e2e-sriov-pod: ## A service on virtual functions of an emulated card from its manifest to traffic: the control plane here, the kubelet in the emulated machine; a rollout with no function to spare, a function taken from a running server, copies without their privileges, removal (root, 15 min)
	@e2e/run e2e-sriov-pod

e2e-sriov-pod-short: ## The same without rollout, loss and copies (root, 4 min)
	@e2e/run e2e-sriov-pod-short

e2e-switch: ## A service placed by a switch on the embedded cluster: over, without an operator, entries lost, an old leader, eight services, the switch off and on, back; the checker is the switch: make e2e-switch SWITCH="--only=kill" (8 min)
	@e2e/run e2e-switch $(SWITCH)

e2e-replica-cluster: ## A ReplicationGroup on an embedded cluster of three nodes under load: pods deleted, a node drained, a disk lost, a rolling update, scale 3 to 5 to 3, no operator, removal; a HovercRaft and a HovercRaft++ group without leader, box and aggregator; Redis as its guide has it; histories judged by Porcupine (15 min)
	@e2e/run e2e-replica-cluster $(GROUPS)

e2e-slo: ## Overload with and without spec.enforcement on the embedded cluster: make e2e-slo SLO="--service=20ms" (8 min, 25 where the machine cannot carry 5 ms)
	@e2e/run e2e-slo $(SLO)

e2e-crab-cluster: ## CRAB for Services on an embedded cluster of three nodes: address, node ports, both families, RpcService over TCP, agents replaced, servers that are unready, silent or gone (15 min)
	@e2e/run e2e-crab-cluster

# What the suite proves of the core, without what measures times or takes long.
CRAB_CORE := ^Test(RoundRobinOverThreeServers|BalancerSeesOnlySYNs|NGINX|Redis|TLS|ClientsAndForgeries|AgentKillAndUpgradeUnderConnections|Pods|NodePort|Six|UserspaceBalancer|Rights)$$
.PHONY: e2e-crab e2e-crab-short
e2e-crab: ## CRAB with curl, wrk, NGINX, Redis and TLS in network namespaces: packets the balancer sees, kills, attacks (root, 3 min)
e2e-crab-short: ## The core of it: clients, forgeries, pods, both balancers, agents exchanged under fewer connections (root, 1 min)
e2e-crab-short: CRAB_RUN := -short -run='$(CRAB_CORE)'
e2e-crab e2e-crab-short: deps-dev
	@mkdir -p build/bin $(MEASURED) && rm -f $(MEASURED)/$@.json
	@go build -o build/bin/ ./operator/cmd/bobtail-redirect
	@hack/dataplane build release apps/bobtail-crab-lb/bobtail-crab-lb
	@eval "$$(e2e/crab/peers.py)" && go test -tags=crab -count=1 -v -timeout=30m -parallel=3 $(CRAB_RUN) ./e2e/crab; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

# Cilium's module comes from the Go module proxy, and what is compiled of it lies in build/cilium: neither is in this repository.
CILIUM := build/cilium
.PHONY: e2e-crab-cilium
e2e-crab-cilium: deps-dev ## Cilium's own datapath programs beside CRAB's on every host: by VIP and node port, either first, either exchanged, either gone (root, 3 min; the first time 5: its library is compiled)
	@mkdir -p build/bin $(MEASURED) && rm -f $(MEASURED)/$@.json
	@go build -o build/bin/ ./operator/cmd/bobtail-redirect
	@cd e2e/cilium && go build -o $(CURDIR)/build/bin/cilium-datapath .
	@build/bin/cilium-datapath compile "$$(cd e2e/cilium && go list -m -f '{{.Dir}}' github.com/cilium/cilium)/bpf" $(CILIUM) >/dev/null
	@CRAB_REPORT=$@ CILIUM_OBJECTS=$(CURDIR)/$(CILIUM) go test -tags=crab,cilium -count=1 -v -timeout=20m -parallel=2 -run='^TestCilium$$' ./e2e/crab; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

.PHONY: e2e-replica e2e-replica-short
e2e-replica: ## A replication group of real processes in network namespaces, Raft, HovercRaft and HovercRaft++: 400 leaders killed, pauses, cuts, full and lost disks, changes of membership, boxes and aggregators killed and cut off; histories judged by Porcupine; planted bugs (root, 15 min)
e2e-replica-short: ## The same with few kills and half of the faults, without planted bugs (root, 35 s)
e2e-replica-short: REPLICA_RUN := -short
e2e-replica e2e-replica-short: deps-dev
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json $(MEASURED)/$@-mutations.json
	@hack/dataplane build release apps/bobtail-replica/bobtail-replica apps/bobtail-box/bobtail-box apps/bobtail-aggregator/bobtail-aggregator tests/run/replica_astray
	@REPLICA_TARGET=$@ go test -tags=replica -count=1 -v -timeout=40m -skip='^TestRedis' $(REPLICA_RUN) ./e2e/replica; code=$$?; \
	  $(if $(REPLICA_RUN),,measure/replica/mutate --measurements=$(MEASURED)/$@-mutations.json || code=1;) \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json $(if $(REPLICA_RUN),,$(MEASURED)/$@-mutations.json) && exit $$code

.PHONY: soak-replica
soak-replica: deps-dev ## Faults of real processes, one after the other, drawn at random, for long, at a low priority: make soak-replica MINUTES=30 (root, 30 min)
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json
	@hack/dataplane build release apps/bobtail-replica/bobtail-replica apps/bobtail-box/bobtail-box apps/bobtail-aggregator/bobtail-aggregator
	@REPLICA_TARGET=$@ SOAK_MINUTES=$(or $(MINUTES),30) nice -n 10 go test -tags=replica,soak -count=1 -v -timeout=$$(($(or $(MINUTES),30) * 2 + 20))m -run='^TestSoak$$' ./e2e/replica; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

.PHONY: e2e-redis e2e-redis-short
e2e-redis: ## A replication group of Redis servers, as Debian has them, in network namespaces: leaders killed, faults, snapshots by BGSAVE, every command of Redis held to the module's table, settings refused; histories judged by Porcupine; planted bugs (root, 5 min)
e2e-redis-short: ## The same with few kills and faults, without planted bugs (root, 25 s)
e2e-redis-short: REDIS_RUN := -short
e2e-redis e2e-redis-short: deps-dev
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json $(MEASURED)/$@-mutations.json
	@hack/dataplane build release apps/bobtail-box/bobtail-box modules/redis/bobtail-redis.so modules/redis/bobtail-ycsb.so
	@eval "$$(e2e/replica/peers.py)" && REPLICA_TARGET=$@ go test -tags=replica -count=1 -v -timeout=20m -run='^TestRedis' $(REDIS_RUN) ./e2e/replica; code=$$?; \
	  $(if $(REDIS_RUN),,measure/replica/mutate --of=redis --measurements=$(MEASURED)/$@-mutations.json || code=1;) \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json $(if $(REDIS_RUN),,$(MEASURED)/$@-mutations.json) && exit $$code

.PHONY: bench-replica
bench-replica: deps-dev ## What a group costs: the leader's messages for one request (table 12.1), counted on its link; puts a second against etcd and Redis, side by side; the share of YCSB-E that a node executes (root, 6 min)
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json
	@hack/dataplane build release apps/bobtail-replica/bobtail-replica apps/bobtail-box/bobtail-box apps/bobtail-aggregator/bobtail-aggregator modules/redis/bobtail-redis.so modules/redis/bobtail-ycsb.so
	@eval "$$(e2e/replica/peers.py)" && REPLICA_TARGET=$@ go test -tags=replica,bench -count=1 -v -timeout=30m -run='^(TestLeaderMessages|TestSpeed|TestNodeShare)$$' ./e2e/replica; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

##@ The dataplane
.PHONY: sim sim-short sim-soak sim-store sim-replica sim-replica-short sim-replica-soak model-replica p4 p4-short figures figures-quick packet-tests switch-packets fuzz fuzz-crab fuzz-long
sim: ## Queueing figures, fault seeds and planted bugs in the simulator
	@hack/dataplane build release
	@mkdir -p $(MEASURED)
	measure/sim/run-all --seeds=$(SEEDS) --measurements=$(MEASURED)/sim.json; code=$$?; \
	  $(REPORT) sim --measurements $(MEASURED)/sim.json && exit $$code

sim-short: ## Some of the figures, fewer seeds and a third of the planted bugs, another one after each commit (1 min)
	@hack/dataplane build release
	@mkdir -p $(MEASURED)
	measure/sim/run-all --short --seeds=$(SHORT_SEEDS) --measurements=$(MEASURED)/sim-short.json; code=$$?; \
	  $(REPORT) sim-short --measurements $(MEASURED)/sim-short.json && exit $$code

P4_CHECK := build/bin/p4check suite
p4: ## The P4 programs of a switch (router, crab, slog, aggregator, box) in a checker of our own, not in a compiler: vectors, STF files, both architectures, a million events beside the simulator, Tofino's discipline, planted bugs (5 min)
p4: P4_RUN := --events=1000000 --frames=400000 --segments=200000 --messages=1000000 --requests=1000000 --beside=500000 --template-ns=20
p4: P4_FUZZ := hack/p4/model:FuzzSource hack/p4/stf:FuzzReplay operator/internal/switches/link:FuzzHostileServer
p4-short: ## The same with 100,000 events (45 s of CPU)
p4-short: P4_RUN := --events=100000 --frames=12000
p4 p4-short: deps-dev
	@hack/dataplane build release apps/bobtail-sim/bobtail-sim
	@mkdir -p $(MEASURED) build/bin && rm -f $(MEASURED)/$@.json
	@go build -o build/bin/ ./hack/p4/cmd/p4check
	@for f in $(P4_FUZZ); do go test -run='^$$' -fuzz="^$${f#*:}$$" -fuzztime=20s -fuzzminimizetime=10x "./$${f%:*}" || exit 1; done
	$(P4_CHECK) $(P4_RUN) --measurements=$(MEASURED)/$@.json; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

SWITCH_MEASURED := $(CURDIR)/$(MEASURED)/switch-packets
switch-packets: deps-dev ## What the operator writes into a switch, on packets: the checker as its data plane, real servers, a router, a client, in network namespaces (root, 1 min)
	@hack/dataplane build release apps/bobtail-serve/bobtail-serve apps/bobtail-router/bobtail-router apps/bobtail-replica/bobtail-replica apps/bobtail-box/bobtail-box
	@mkdir -p $(MEASURED) && rm -f $(SWITCH_MEASURED).lines $(SWITCH_MEASURED).json
	@BOBTAIL_SWITCH_REQUESTS=10000 BOBTAIL_SWITCH_MEASUREMENTS=$(SWITCH_MEASURED).lines BOBTAIL_BUILD=$(CURDIR)/build/dataplane \
	  go test -count=1 -timeout=10m ./operator/internal/switches/packets; code=$$?; \
	  sed -e '1s/^/[/' -e '$$!s/$$/,/' -e '$$s/$$/]/' $(SWITCH_MEASURED).lines >$(SWITCH_MEASURED).json; \
	  $(REPORT) switch-packets --measurements $(MEASURED)/switch-packets.json && exit $$code

sim-soak: ## A long seed sweep: make sim-soak SOAK_SEEDS=100000
	@hack/dataplane build release
	@mkdir -p $(MEASURED)
	build/dataplane/apps/bobtail-sim/bobtail-sim sweep --every-kind --seeds=$(or $(SOAK_SEEDS),100000) --measurements=$(MEASURED)/sim-soak.json; code=$$?; \
	  $(REPORT) sim-soak --measurements $(MEASURED)/sim-soak.json && exit $$code

sim-store: ## A member's log on disks that lose, tear, rot, fill and fail: 100,000 seeds, planted bugs, a writer killed 200 times (4 min)
	@hack/dataplane build release apps/bobtail-sim/bobtail-sim tests/store/test_store_kill
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/sim-store.json
	measure/store/run-all --seeds=$(or $(STORE_SEEDS),100000) --measurements=$(MEASURED)/sim-store.json; code=$$?; \
	  $(REPORT) sim-store --measurements $(MEASURED)/sim-store.json && exit $$code

sim-replica: ## A replication group in virtual time, Raft, HovercRaft and HovercRaft++: 49,500 seeds of faults, 14,000 leaders killed, clients that ask again, table 12.1, planted bugs (11 min)
sim-replica-short: ## The same with 3,580 seeds and 1,000 leaders (1 min)
sim-replica-short: REPLICA := --short
sim-replica-soak: ## The same faults for long: make sim-replica-soak REPLICA_SOAK_SEEDS=100000, a third of them for each protocol (15 min)
	@hack/dataplane build release apps/bobtail-sim/bobtail-sim
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json
	measure/replica/run-all --soak=$(or $(REPLICA_SOAK_SEEDS),100000) --measurements=$(MEASURED)/$@.json; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

sim-replica sim-replica-short:
	@hack/dataplane build release apps/bobtail-sim/bobtail-sim
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json
	measure/replica/run-all $(REPLICA) --measurements=$(MEASURED)/$@.json; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

.PHONY: crds
crds: ## How large the largest CRD is: client-side kubectl apply keeps all of it in an annotation
	@mkdir -p $(MEASURED)
	@measure/crds/size.py --measurements $(MEASURED)/crds.json
	@$(REPORT) crds --measurements $(MEASURED)/crds.json

model-replica: ## Every state of three members with an aggregator (R-335 to R-338), by Spin, and eleven wrong rules that it must find
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/$@.json
	measure/replica/model/check --measurements=$(MEASURED)/$@.json; code=$$?; \
	  $(REPORT) $@ --measurements $(MEASURED)/$@.json && exit $$code

.PHONY: cases
cases: ## Cases from the field that lack a test which cites them and was seen to fail without its mend
	@mkdir -p $(MEASURED)
	@measure/cases/cases.py --measurements $(MEASURED)/cases.json
	@$(REPORT) cases --measurements $(MEASURED)/cases.json

# What the sanitizers see is worth a full pass; VARIANTS, THEMES, FAULT_SEED and REPEAT narrow or widen it.
.PHONY: test-faults
test-faults: ## Kill, pause, cut off and garble the real programs in network namespaces (root)
	@for b in release asan tsan; do hack/dataplane build $$b >/dev/null || exit 1; done
	@mkdir -p $(MEASURED) build/bin
	@go build -o build/bin/ ./e2e/cmd/bobtail-faults && CGO_ENABLED=1 go build -race -o build/bin/faultpeer ./e2e/faults/peer
	build/bin/bobtail-faults --variants="$(or $(VARIANTS),$(FAULT_MATRIX))" --themes="$(THEMES)" --seed=$(or $(FAULT_SEED),1) \
	  --repeat=$(or $(REPEAT),1) --measurements=$(MEASURED)/faults.json; code=$$?; \
	  $(REPORT) $(if $(VARIANTS)$(THEMES),faults,faults-matrix) --measurements $(MEASURED)/faults.json && exit $$code

.PHONY: faults-mutations
faults-mutations: ## Plant bugs in the programs one at a time; a round of make test-faults must catch each (root, 6 min)
	@mkdir -p $(MEASURED) build/bin
	@go build -o build/bin/ ./e2e/cmd/bobtail-faults
	e2e/faults/mutate --measurements=$(MEASURED)/faults-mutations.json; code=$$?; \
	  $(REPORT) faults-mutations --measurements $(MEASURED)/faults-mutations.json && exit $$code

.PHONY: mutate
mutate: deps ## Are the tests tested? 60 mutants of Go and 60 of C, drawn by the commit: make mutate MUTATE="--seed=HEAD~1 --only=clients/go" (root, 60 min; continues where it was stopped)
	@hack/dataplane build release >/dev/null
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/mutate.json
	measure/mutate/mutate --measurements=$(MEASURED)/mutate.json $(MUTATE); code=$$?; \
	  $(REPORT) mutate --measurements $(MEASURED)/mutate.json && exit $$code

# The table of Lancet's coverage is measured again only when its code changed (measure/lancet/coverage.py); a line with the
# variable MAKE would be run by make -n, all of it.
P4_FOUND := $(MEASURED)/p4.json $(MEASURED)/p4-short.json
figures: ## The published figures, ours beside them: plots, CSV, docs/lab/figures.md, hedging, Lancet's coverage (30 min; 50 when Lancet changed)
	@hack/dataplane build release
	@mkdir -p $(MEASURED) && { [ -n "$$(ls $(P4_FOUND) 2>/dev/null)" ] || make p4-short; }
	measure/figures/figures --measurements=$(MEASURED)/figures.json; code=$$?; \
	  sim=build/dataplane/apps/bobtail-sim/bobtail-sim; \
	  of=$$(measure/figures/hedging.py digest); \
	  $$sim hedge --measurements=$(MEASURED)/hedge.json --json=build/figures/hedge.json || code=1; \
	  $$sim hedge --cleanup=None --json=build/figures/hedge-none.json || code=1; \
	  $$sim hedge --cells --measurements=$(MEASURED)/hedge-cells.json --json=build/figures/hedge-cells.json || code=1; \
	  measure/figures/hedging.py write build/figures/hedge.json build/figures/hedge-none.json build/figures/hedge-cells.json $$of $(MEASURED)/hedge-judged.json || code=1; \
	  $$sim crab --measurements=$(MEASURED)/crab.json || code=1; \
	  $$sim sched figures --planted --requests=3000000 --measurements=$(MEASURED)/sched-figures.json || code=1; \
	  $$sim replica figures --planted --measurements=$(MEASURED)/replica-figures.json || code=1; \
	  HEDGE_MEASUREMENTS=$(abspath $(MEASURED))/hedge-router.json go test ./operator/internal/hedgemodel -run TestR254NoHarmWhereItPays -count=1 || code=1; \
	  if measure/lancet/coverage.py kept $(MEASURED)/lancet-coverage.json; \
	    then $(REPORT) lancet-coverage --measurements $(MEASURED)/lancet-coverage.json; else make lancet-coverage; fi || code=1; \
	  $(REPORT) figures --measurements $(MEASURED)/figures.json $(MEASURED)/hedge.json $(MEASURED)/hedge-cells.json $(MEASURED)/hedge-judged.json $(MEASURED)/hedge-router.json $(MEASURED)/crab.json $(MEASURED)/sched-figures.json $(MEASURED)/replica-figures.json && exit $$code

figures-quick: ## The same with fewer points and wider bounds, and planted mistakes
	@hack/dataplane build release
	@mkdir -p $(MEASURED) && { [ -n "$$(ls $(P4_FOUND) 2>/dev/null)" ] || make p4-short; }
	measure/figures/figures --quick --planted --measurements=$(MEASURED)/figures-quick.json; code=$$?; \
	  build/dataplane/apps/bobtail-sim/bobtail-sim sched figures --planted --measurements=$(MEASURED)/sched-figures-quick.json || code=1; \
	  build/dataplane/apps/bobtail-sim/bobtail-sim replica figures --planted --requests=20000 --measurements=$(MEASURED)/replica-figures-quick.json || code=1; \
	  $(REPORT) figures-quick --measurements $(MEASURED)/figures-quick.json $(MEASURED)/sched-figures-quick.json $(MEASURED)/replica-figures-quick.json && exit $$code

.PHONY: lancet-coverage
lancet-coverage: ## Do Lancet's intervals hold the truth? 500 simulated experiments on each of three queues; writes the table of docs/lab/lancet.md (20 min)
	@mkdir -p $(MEASURED)
	@rm -f $(MEASURED)/lancet-coverage.json
	of=$$(measure/lancet/coverage.py digest); \
	  LANCET_EXPERIMENTS=$(or $(EXPERIMENTS),500) LANCET_MEASUREMENTS=$(abspath $(MEASURED))/lancet-coverage.json \
	  go test ./operator/internal/lancet -run TestCoverage -count=1 -timeout=6h -v; code=$$?; \
	  measure/lancet/coverage.py keep $(MEASURED)/lancet-coverage.json $$of || code=1; \
	  $(REPORT) lancet-coverage --measurements $(MEASURED)/lancet-coverage.json && exit $$code

.PHONY: test-sched test-sched-short
test-sched: ## The scheduler of a server's cores: model checking, 10,000 seeds, real threads (release, TSan), planted bugs (10 min)
	@hack/dataplane build release && hack/dataplane build tsan tests/sched/sched_stress tests/run/serve_stress
	@mkdir -p $(MEASURED)
	measure/sched/run-all --measurements=$(MEASURED)/test-sched.json; code=$$?; \
	  $(REPORT) test-sched --measurements $(MEASURED)/test-sched.json && exit $$code

test-sched-short: ## The same with fewer switches, seeds and requests, and a third of the planted bugs, another one after each commit (1 min)
	@hack/dataplane build release && hack/dataplane build tsan tests/sched/sched_stress tests/run/serve_stress
	@mkdir -p $(MEASURED)
	measure/sched/run-all --short --measurements=$(MEASURED)/test-sched-short.json; code=$$?; \
	  $(REPORT) test-sched-short --measurements $(MEASURED)/test-sched-short.json && exit $$code

packet-tests: ## One packet suite over every driver: sim, udp, ring, memif, af_packet, af_xdp
	@hack/dataplane build release
	@mkdir -p $(MEASURED)
	hack/test/packet_tests.py --measurements $(MEASURED)/packet-tests.json; code=$$?; \
	  $(REPORT) packet-tests --measurements $(MEASURED)/packet-tests.json && exit $$code

.PHONY: tcp-dpdk tcp-dpdk-short
tcp-dpdk: ## TCP past the kernel against curl, redis-cli, redis-benchmark and wrk, over af_packet and af_xdp; a bad wire, a flood, planted bugs (2 min)
	@hack/dataplane build release >/dev/null
	@mkdir -p $(MEASURED)
	measure/tcp/mutate; code=$$?; \
	  hack/test/tcp_dpdk.py --measurements=$(MEASURED)/tcp-dpdk.json || code=1; \
	  $(REPORT) tcp-dpdk --measurements $(MEASURED)/tcp-dpdk.json && exit $$code

tcp-dpdk-short: ## The same with some hundred requests of each client, over af_packet (15 s)
	@hack/dataplane build release >/dev/null
	@mkdir -p $(MEASURED)
	hack/test/tcp_dpdk.py --requests=400 --drivers=af_packet --measurements=$(MEASURED)/tcp-dpdk-short.json; code=$$?; \
	  $(REPORT) tcp-dpdk-short --measurements $(MEASURED)/tcp-dpdk-short.json && exit $$code

.PHONY: fc-drops
fc-drops: ## DROPs at 1.5 times what servers can do, with flow control over without (1 min)
	@hack/dataplane build release >/dev/null
	@mkdir -p $(MEASURED)
	hack/test/fc_drops.py --measurements=$(MEASURED)/fc-drops.json; code=$$?; \
	  $(REPORT) fc-drops --measurements $(MEASURED)/fc-drops.json && exit $$code

.PHONY: lancet-agent
lancet-agent: ## The Lancet agent against Redis, memcached and NGINX from Debian (30 s)
	@hack/dataplane build release >/dev/null
	@mkdir -p $(MEASURED)
	measure/lancet/servers.py --measurements=$(MEASURED)/lancet-agent.json; code=$$?; \
	  $(REPORT) lancet-agent --measurements $(MEASURED)/lancet-agent.json && exit $$code

.PHONY: lancet-real
lancet-real: ## The program lancet against Redis and NGINX from Debian: six loads, each conclusive or with the reason why not (4 to 38 min)
	@hack/dataplane build release >/dev/null
	@mkdir -p $(MEASURED) build/bin && rm -f $(MEASURED)/lancet-real.json
	@go build -o build/bin/ ./operator/cmd/lancet
	measure/lancet/real.py --out=build/lancet-real --measurements=$(MEASURED)/lancet-real.json; code=$$?; \
	  $(REPORT) lancet-real --measurements $(MEASURED)/lancet-real.json && exit $$code

fuzz: ## Fuzz every parser: make fuzz FUZZ_SECONDS=600
	@hack/dataplane fuzz $(or $(FUZZ_SECONDS),60)

fuzz-crab: ## Damaged packets through CRAB's eBPF programs (root): make fuzz-crab CRAB_FUZZ_PACKETS=1000000 CRAB_FUZZ_SEED=7
	@CRAB_FUZZ_PACKETS=$(or $(CRAB_FUZZ_PACKETS),1000000) CRAB_FUZZ_SEED=$(or $(CRAB_FUZZ_SEED),$(shell date +%s)) \
	  go test -count=1 -v -timeout=2h -run='^TestDamaged(Packets|Tunnels)$$' ./operator/internal/redirect

fuzz-long: ## Fuzz client, server, router and all of them together: make fuzz-long FUZZ_SECONDS=3600
	@mkdir -p $(MEASURED)
	@MEASURED=$(MEASURED)/fuzz-long.json hack/dataplane fuzz-long $(or $(FUZZ_SECONDS),3600); code=$$?; \
	  $(REPORT) fuzz-long --measurements $(MEASURED)/fuzz-long.json && exit $$code

.PHONY: test-sriov
test-sriov: ## SR-IOV, receive interrupts, native XDP and CRAB on emulated cards (igb under QEMU, VT-d, vfio-pci, Linux 6.12); loads 130 MB once
	@hack/dataplane build release >/dev/null
	@mkdir -p build/bin
	@go build -ldflags=-s -o build/bin/ ./operator/cmd/bobtail-redirect
	@go test -c -o build/bin/redirect.test ./operator/internal/redirect
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/sriov.json
	@e2e/sriov/run.py --measurements=$(MEASURED)/sriov.json $(SRIOV); code=$$?; \
	  $(REPORT) sriov --measurements $(MEASURED)/sriov.json && exit $$code

.PHONY: bench
bench: deps-dev ## Every benchmark, judged: make bench BENCH="--quick --only=proxy"
	@hack/dataplane build release
	@measure/bench/run.py $(BENCH)

.PHONY: bench-sched
bench-sched: ## Threads that run to completion or steal work beside the single loop: make bench-sched BENCH="--quick --only=idle" (4 min)
	@hack/dataplane build release bench/bench_serve bench/bench_echo bench/bench_tcp apps/bobtail-serve/bobtail-serve apps/bobtail-load/bobtail-load
	@mkdir -p $(MEASURED) && rm -f $(MEASURED)/bench-sched.json
	@measure/bench/sched.py --measurements=$(MEASURED)/bench-sched.json $(BENCH); code=$$?; \
	  $(REPORT) bench-sched --measurements $(MEASURED)/bench-sched.json && exit $$code

.PHONY: bench-crab
bench-crab: deps ## CRAB beside direct, kube-proxy's DNAT, HAProxy and NGINX: make bench-crab BENCH="--quick --only=crab_rr" (root, 25 min)
	@hack/dataplane build release
	@mkdir -p build/bin
	@go build -o build/bin/ ./operator/cmd/bobtail-redirect
	@measure/bench/run.py --suite=bench-crab $(BENCH)
