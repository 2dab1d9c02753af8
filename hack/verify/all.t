#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make verify` runs: everything that can be judged by reading the tree.
# All checks run; the exit code says whether any failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. hack/deps/versions.env
cache=${BOBTAIL_CACHE:-$HOME/.cache/bobtail}
passed=0 failed=0

check() { # NAME COMMAND...
  local name=$1 out; shift
  local t0=$(date +%s.%N); exec 9>&2; TIMEFORMAT="%U+%S"; { time out=$("$@" 2>&1); } 2>/tmp/vt.one; r=$?; echo "$(cat /tmp/vt.one|tail -1) wall $(echo "$(date +%s.%N)-$t0"|bc) $name" >>/tmp/vt.times; if [ $r = 0 ]; then
    passed=$((passed + 1)); echo "ok      $name"
  else
    failed=$((failed + 1)); echo "FAILED  $name"; sed 's/^/        /' <<<"$out"
  fi
}

formatted() { local bad; bad=$(gofmt -l operator clients e2e hack/p4); [ -z "$bad" ] || { echo "not gofmt'ed (make format): $bad"; return 1; }; }
c_formatted() { git ls-files 'dataplane/*.c' 'dataplane/*.h' | xargs clang-format-19 --dry-run --Werror; }
licensed() {
  local f bad=0
  while IFS= read -r f; do
    head -3 "$f" | grep -q 'SPDX-License-Identifier' || { echo "$f: first lines lack SPDX-License-Identifier"; bad=1; }
  done < <(git ls-files '*.go' '*.c' '*.h' '*.py' '*.sh' | grep -v zz_generated)
  return $bad
}
staticcheck_binary() { # built once into the cache, pinned by hack/lint/go.mod
  local version dir; version=$(sed -n 's/^\thonnef.co\/go\/tools \(v[^ ]*\).*/\1/p' hack/lint/go.mod); dir=$cache/staticcheck-$version
  [ -x "$dir/staticcheck" ] || { mkdir -p "$dir"; (cd hack/lint && CGO_ENABLED=0 go build -trimpath -o "$dir/staticcheck" honnef.co/go/tools/cmd/staticcheck); }
  echo "$dir/staticcheck"
}
bpf_current() { # clang writes the same bytes for the same source
  local out; out=$(mktemp -d); hack/generate-bpf "$out" || { rm -r "$out"; return 1; }
  local f at code=0
  for f in "$out"/*; do
    at=operator/internal/redirect/programs/${f##*/}; [ -e "$at" ] || at=dataplane/bpf/${f##*/}
    cmp -s "$f" "$at" || { echo "$at is out of date: run hack/generate-bpf and commit the result"; code=1; }
    ! git check-ignore -q "$at" || { echo "$at is left out by .gitignore: a clone would not build"; code=1; }
  done
  rm -r "$out"; return $code
}
# Test suites behind tags are read too; without them their helpers would count as unused.
tags=cluster,crab,replica
staticcheck_clean() { local bin; bin=$(staticcheck_binary) || return 1; "$bin" -tags "$tags" ./...; }

check "layering (C includes, Go imports)" hack/verify/layering.py
check "sizes (function and file length)" hack/verify/sizes.py
check "circles, parameters and branches no worse" hack/house/static.py --check
check "figures of the house" python3 hack/house/house_test.py
check "test stages (lists, resuming, budgets)" python3 hack/test/run_test.py
check "report tool" python3 measure/report/report_test.py
check "every figure is explained" measure/report/explained.py
check "benchmark statistics" python3 measure/bench/bench_test.py
check "count of cases" python3 measure/cases/cases_test.py
check "fuzzing corpora" dataplane/fuzz/corpus_test.py
check "packet tests (exit code)" python3 hack/test/packet_tests_test.py
check "waiting for apt" python3 hack/deps/install_test.py
check "licence headers" licensed
check "gofmt" formatted
check "clang-format" c_formatted
check "go vet" go vet -tags "$tags" ./...
check "staticcheck" staticcheck_clean
check "shellcheck" bash -c 'git ls-files | xargs grep -lE "^#!/(usr/bin/env bash|bin/(ba)?sh)" | xargs shellcheck -S warning'
check "generated files are current" hack/generate --check
check "eBPF programs are current" bpf_current
check "figures (judge, table)" measure/figures/figures_test.py
check "figures page is current" measure/figures/page.py --check
check "second copies (tables, digest, goals)" measure/figures/hedging.py check
check "Lancet's coverage (digest, table)" measure/lancet/coverage_test.py
check "Lancet against real servers (report)" measure/lancet/real_test.py
check "Lancet's coverage is of this code" measure/lancet/coverage.py check
check "alert rules and dashboard (PromQL)" bash -c 'cd hack/alerts && go test -count=1 ./...'
# A row that finds its text no longer tests nothing, which only its run would tell.
check "edits of the contributing page apply" hack/house/places --edits
check "planted bugs apply" bash -c 'measure/sim/mutate --check && measure/sim/mutate --of=store --check && measure/sim/mutate --of=replica --check && measure/sim/mutate --of=hovercraft --check && measure/sched/mutate --check && measure/sched/mutate-run --check && e2e/faults/mutate --check && measure/replica/mutate --check'
check "P4: test files are current, planted bugs apply" bash -c 'dataplane/p4/router/stf/frames.py --check && go run ./hack/p4/cmd/p4check mutate --check'
check "mutants (draw, list)" bash -c 'measure/mutate/mutate_test.py && measure/mutate/mutate --check'
check "table of costs (made, current)" bash -c 'measure/bench/summary_test.py && measure/bench/summary.py check'
check "docs tool (links, rule ids)" hack/verify/docs_test.py
check "docs (tags, links, rule ids)" hack/verify/docs.py check
check "docs (what is a sentence, what a broken link)" bash -c 'hack/verify/prose_test.py && hack/docs/site_test.py && hack/docs/tutorial_test.py'
check "docs (anchors, length of sentences)" hack/verify/prose.py check
check "docs blocks tagged ci" hack/verify/docs.py run ci
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
