// SPDX-License-Identifier: Apache-2.0

//go:build replica && bench

package replica

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/redis"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
)

// YCSB-E, as published for figure 12.12: 95 % scans of up to 10 records, 5 % inserts
// of records of 1,000 bytes.
const (
	ycsbRecords = 500
	ycsbOps     = 6000
	ycsbWorkers = 16
	ycsbScan    = 95 // percent
	ycsbLongest = 10
)

// calls of a command at one server, and the time that they took.
type calls struct{ n, usec float64 }

var statLine = regexp.MustCompile(`cmdstat_ycsb\.(insert|scan):calls=(\d+),usec=(\d+)`)

func (p *play) stats(m *Member) map[string]calls {
	p.t.Helper()
	text, err := p.g.AskRedis(m, "INFO", "commandstats")
	p.must(err)
	out := map[string]calls{}
	for _, f := range statLine.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(f[2], 64)
		usec, _ := strconv.ParseFloat(f[3], 64)
		out[f[1]] = calls{n, usec}
	}
	return out
}

// ycsb runs the workload against a group of n servers, and returns what each executed.
func ycsb(t *testing.T, n int) (list []map[string]calls) {
	t.Helper()
	if !t.Run(fmt.Sprint("n", n), func(t *testing.T) { list = workload(t, n) }) {
		t.FailNow()
	}
	return list
}

func workload(t *testing.T, n int) (list []map[string]calls) {
	t.Helper()
	p := begin(t, n, n, Kind{Redis: true, HovercRaft: true, Volatile: true, Repliers: "Random", Patient: true, Here: true})
	c, err := redis.Dial(context.Background(), replica.Config{Members: []string{p.g.Box.Address()}, Timeout: patience})
	p.must(err)
	defer c.Close()
	record := strings.Repeat("f", 1000)
	insert := func(i int) error {
		_, err := c.Write(context.Background(), "YCSB.INSERT", "usertable", fmt.Sprintf("user%08d", i), record)
		return err
	}
	p.must(spread(ycsbRecords, insert))
	p.must(p.g.AwaitSame(p.g.Members...))
	for _, m := range p.g.Members {
		_, err := p.g.AskRedis(m, "CONFIG", "RESETSTAT")
		p.must(err)
	}
	p.must(spread(ycsbOps, func(i int) error {
		if i%100 >= ycsbScan {
			return insert(ycsbRecords + i)
		}
		_, err := c.Read(context.Background(), "YCSB.SCAN", "usertable", fmt.Sprintf("user%08d", rand.IntN(ycsbRecords)), strconv.Itoa(1+i%ycsbLongest))
		return err
	}))
	p.must(p.g.AwaitSame(p.g.Members...))
	for _, m := range p.g.Members {
		list = append(list, p.stats(m))
	}
	return list
}

// spread calls f for 0…n-1, by as many workers as there are.
func spread(n int, f func(i int) error) error {
	var ended sync.WaitGroup
	errs := make(chan error, ycsbWorkers)
	for w := range ycsbWorkers {
		ended.Go(func() {
			for i := w; i < n; i += ycsbWorkers {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	ended.Wait()
	close(errs)
	return <-errs
}

// TestNodeShare: of all that the workload costs one server, the busiest of N executes
// w + r/N, w and r being the shares of inserts and scans. What a command costs is
// measured where one server executes them all, on the quietest of some runs; how
// often each is executed is counted at every server.
func TestNodeShare(t *testing.T) {
	cost := map[string]float64{"insert": math.Inf(1), "scan": math.Inf(1)}
	for range 3 {
		for command, c := range ycsb(t, 1)[0] {
			cost[command] = min(cost[command], c.usec/c.n)
		}
	}
	inserts, scans := cost["insert"]*ycsbOps*(100-ycsbScan)/100, cost["scan"]*ycsbOps*ycsbScan/100
	w := inserts / (inserts + scans)
	t.Logf("an insert takes %.1f us, a scan %.1f us: w = %.3f", cost["insert"], cost["scan"], w)
	worst := 0.0
	for _, n := range []int{3, 5, 7} {
		busiest := 0.0
		for _, node := range ycsb(t, n) {
			busiest = max(busiest, node["insert"].n*cost["insert"]+node["scan"].n*cost["scan"])
		}
		share, want := busiest/(inserts+scans), w+(1-w)/float64(n)
		off := 100 * math.Abs(share/want-1)
		t.Logf("n = %d: the busiest server executes %.3f of it, w + r/N = %.3f: %.1f %% off", n, share, want, off)
		figures.SetFinite(fmt.Sprintf("ycsbe_node_cpu_share_n%d", n), share)
		worst = max(worst, off)
	}
	figures.SetFinite("ycsbe_node_cpu_share_off_percent", worst)
}
