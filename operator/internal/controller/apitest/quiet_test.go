// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

// writes is how many requests that write the API server has served, by verb, kind
// and subresource.
func writes(t *testing.T) map[string]int {
	t.Helper()
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := set.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
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
				all[verb+" "+label(line, "resource")+"/"+label(line, "subresource")] += int(n)
			}
		}
	}
	return all
}

func label(line, name string) string {
	_, rest, _ := strings.Cut(line, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// newWrites lists those that are more than before.
func newWrites(t *testing.T, before map[string]int) (out []string) {
	t.Helper()
	for what, n := range writes(t) {
		if n > before[what] {
			out = append(out, fmt.Sprintf("%d %s", n-before[what], what))
		}
	}
	return out
}

// A service on which nothing happens causes no write at all: neither a loop of
// the operator with itself, nor one with the API server's own defaults. Not
// parallel, so that no other test writes meanwhile.
func TestSettledServiceIsLeftAlone(t *testing.T) {
	serving(t, "still", `{}`)
	servingTCP(t, "still-tcp")
	settledSwitch(t, "still-switch")
	settledGroup(t, "still-group")
	if len(writes(t)) == 0 {
		t.Fatal("no write was ever counted: the metric has another name")
	}
	// On a slow machine the last conditions may fall into a window; a loop
	// writes in every one.
	var more []string
	for range 6 {
		before := writes(t)
		time.Sleep(7 * time.Second)
		if more = newWrites(t, before); len(more) == 0 {
			return
		}
	}
	t.Errorf("in 7 s in which nothing happened: %s", strings.Join(more, ", "))
}
