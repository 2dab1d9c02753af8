// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

// writes is how many requests of that verb the API server has served for the
// kinds that the operator makes or reports on.
func writes(t *testing.T) int {
	t.Helper()
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := set.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_request_total{") || strings.Contains(line, `resource="leases"`) || strings.Contains(line, `resource="events"`) {
			continue
		}
		for _, verb := range []string{"APPLY", "PATCH", "UPDATE", "PUT", "POST"} {
			if strings.Contains(line, `verb="`+verb+`"`) {
				n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
				if err != nil {
					t.Fatal(err)
				}
				total += n
			}
		}
	}
	return int(total)
}

// A service on which nothing happens causes no write at all: neither a loop of
// the operator with itself, nor one with the API server's own defaults. Not
// parallel, so that no other test writes meanwhile.
func TestSettledServiceIsLeftAlone(t *testing.T) {
	serving(t, "still", `{}`)
	servingTCP(t, "still-tcp")
	if writes(t) == 0 {
		t.Fatal("no write was ever counted: the metric has another name")
	}
	// On a slow machine the last conditions may fall into a window; a loop
	// writes in every one.
	n := 0
	for range 3 {
		before := writes(t)
		time.Sleep(7 * time.Second)
		if n = writes(t) - before; n == 0 {
			return
		}
	}
	t.Errorf("%d writes in 7 s in which nothing happened", n)
}
