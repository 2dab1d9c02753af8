// SPDX-License-Identifier: Apache-2.0

// Command spansink is the lab's receiver of OpenTelemetry spans:
//
//	spansink :PORT        takes POST /v1/traces, gives GET /spans
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/suites/lab/spantree"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: spansink :PORT")
		os.Exit(2)
	}
	s := http.Server{Addr: os.Args[1], Handler: &spantree.Receiver{}, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "spansink:", s.ListenAndServe())
	os.Exit(1)
}
