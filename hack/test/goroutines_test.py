#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No package loses its tests, and none that starts a goroutine the race detector."""
import unittest

import goroutines


class Starts(unittest.TestCase):
    def test_what_starts_a_goroutine_is_seen(self):
        for text in ("package a\nfunc f() {\n\tgo func() {}()\n}\n", "\tgo s.serve(conn)\n", "\tgo run(1)\n", "if ok { go f[int](x) }\n",
                     "\tgroup.Go(func() {})\n", "\ttime.AfterFunc(d, f)\n", "\tt.Parallel()\n", "\tb.RunParallel(f)\n",
                     '\ts := &http.Server{Handler: mux}\n', '\tclient http.Client\n', '\ts := httptest.NewTLSServer(h)\n', 'import (\n\tgrpc "google.golang.org/grpc"\n)\n', 'import "k8s.io/client-go/tools/cache"\n',
                     '\tmgr, err := ctrl.NewManager(config, options)\n', '\tenv := &envtest.Environment{}\n'):
            self.assertTrue(goroutines.STARTS.search(text), text)

    def test_what_starts_none_is_not(self):
        for text in ("package a\n\nfunc f() { cargo := 1; use(cargo) }\n", 'import (\n\t"sync"\n\t"net/netip"\n)\n', "// go away\n", "\treturn http.StatusNotFound\n", "\tw := httptest.NewRecorder()\n",
                     'import (\n\tctrl "sigs.k8s.io/controller-runtime"\n\t"sigs.k8s.io/controller-runtime/pkg/client"\n)\n', 'ok := strings.Contains(s, "net/http")\n'):
            self.assertFalse(goroutines.STARTS.search(text), text)

    def test_a_test_of_a_package_counts_and_one_that_only_computes_is_run_both_ways(self):
        self.assertEqual(goroutines.ways({"a.go": "package a\n", "a_test.go": "\tgo f()\n"}), (True, False))
        self.assertEqual(goroutines.ways({"a.go": "\tgo f()\n", "a_test.go": "\tneeds.Unraced(t)\n"}), (True, True))
        self.assertEqual(goroutines.ways({"a.go": "package a\n"}), (False, True))


class Tree(unittest.TestCase):
    def setUp(self):
        self.found = {path: goroutines.sources(package) for path, package in goroutines.packages(["./..."]).items()}

    def test_every_package_is_tested_one_way_at_least(self):
        self.assertGreater(len(self.found), 90)
        race = [p for p, texts in self.found.items() if goroutines.ways(texts)[0]]
        self.assertEqual([p for p, texts in self.found.items() if not any(goroutines.ways(texts))], [])
        # Those of which it is known, whatever the words that tell it.
        for name in ("clients/go/r2p2", "operator/internal/sidecar", "operator/internal/dataplane", "operator/internal/controller/apitest",
                     "operator/internal/controller/manager", "operator/internal/agent/keeper", "operator/internal/lancet", "e2e/switchpeer/pipe"):
            self.assertTrue(any(p.endswith("/" + name) for p in race), name)

    def test_the_long_ones_are_there(self):
        self.assertEqual([n for n in goroutines.LONGEST if not any(p.endswith("/" + n) for p in self.found)], [])


if __name__ == "__main__":
    unittest.main()
