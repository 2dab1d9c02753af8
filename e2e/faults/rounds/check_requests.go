// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// execution is one line of --execution-log.
type execution struct {
	serial, worker, client string
	life                   string // the log: one server process
}

// executionsSince reads lines that were added to the logs since the last call.
func (r *runner) executionsSince() ([]execution, error) {
	var list []execution
	files, err := filepath.Glob(r.w.path("executions-*.log"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		_, err = f.Seek(r.offset[name], 0)
		for lines := bufio.NewScanner(f); err == nil && lines.Scan(); {
			words := strings.Fields(lines.Text())
			if len(words) != 4 {
				err = fmt.Errorf("%s: line %q", name, lines.Text())
				break
			}
			r.offset[name] += int64(len(lines.Bytes())) + 1
			list = append(list, execution{serial: words[0], worker: words[1], client: words[2], life: filepath.Base(name)})
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// checkLoad holds what a load reports about its own requests: each ended, once,
// with its own bytes, and report and log agree.
func (r *runner) checkLoad(v *verdict, l *load, a allowance) {
	name := l.name
	v.equal("exactly once", name+": requests that ended twice", int64(l.EndedTwice), 0)
	v.equal("exactly once", name+": requests that never ended", int64(l.Unended), 0)
	v.equal("exactly once", name+": answered, dropped, timed out or failed, of those offered",
		int64(l.Completed+l.Dropped+l.Timeouts+l.Errors), int64(l.Offered))
	v.equal("own payload", name+": replies with another request's bytes", int64(l.Corrupt), 0)
	results, serials := map[string]int64{}, map[string]bool{}
	for _, o := range l.outcomes {
		results[o.result]++
		serials[o.serial] = true
	}
	v.equal("exactly once", name+": requests in the log, of those sent", int64(len(l.outcomes)), int64(l.Sent))
	v.equal("exactly once", name+": different serials in the log", int64(len(serials)), int64(len(l.outcomes)))
	v.equal("exactly once", name+": answered in the log", results["answered"], int64(l.Completed))
	v.equal("exactly once", name+": dropped in the log", results["dropped"], int64(l.Dropped))
	v.equal("exactly once", name+": timeouts in the log", results["timeout"], int64(l.Timeouts))
	r.total.requests += int64(l.Offered)
	r.total.endedTwice += int64(l.EndedTwice)
	r.total.lostSight += max(int64(l.Offered)-int64(l.Completed+l.Dropped+l.Timeouts+l.Errors), int64(l.Unended))
	if !a.timeouts {
		v.equal("explained", name+": timeouts without a fault that explains them", int64(l.Timeouts), 0)
	}
	incomplete := int64(l.ErrorCodes["replyIncomplete"])
	v.hold(int64(l.Errors) == incomplete && (a.timeouts || incomplete == 0), "explained", "%s: errors %v", name, l.ErrorCodes)
	if !a.queue && !a.full {
		v.equal("explained", name+": DROPs without a fault that explains them", int64(l.Dropped), 0)
	}
}

// checkExecutions matches what clients got with what servers did.
func (r *runner) checkExecutions(v *verdict, loads []*load, done []execution, a allowance) {
	times, atWorker := map[string]int{}, map[string]int{}
	for _, e := range done {
		times[e.serial]++
		key := e.life + " " + e.worker + " " + e.serial
		if atWorker[key]++; atWorker[key] == 2 {
			v.hold(false, "at most once", "worker %s of %s executed request %s of %s twice (R-26)", e.worker, e.life, e.serial, e.client)
		}
	}
	sent := map[string]bool{}
	for _, l := range loads {
		for _, o := range l.outcomes {
			sent[o.serial] = true
			n := times[o.serial]
			v.hold(n <= 1 || a.doubled, "at most once", "%s: request %s was executed %d times, no copy was injected", l.name, o.serial, n)
			switch o.result {
			case "answered":
				v.hold(n >= 1, "executed", "%s: request %s was answered, no server executed it", l.name, o.serial)
			case "dropped":
				v.hold(n == 0 || a.doubled, "not executed", "%s: request %s got DROP, yet was executed (R-30)", l.name, o.serial)
			}
		}
	}
	for _, e := range done {
		v.hold(sent[e.serial], "executed", "%s executed request %s of %s, which no load sent", e.life, e.serial, e.client)
	}
}

// failoverTimeouts is the longest row of timeouts in a row that one socket had at one router; what was under way when
// the third was noticed is not of the row.
func failoverTimeouts(l *load) (most int, at string) {
	type where struct {
		port   int
		router string
	}
	row, third := map[where]int{}, map[where]int64{}
	for _, o := range l.outcomes {
		w := where{o.port, o.router}
		if o.result != "timeout" {
			row[w] = 0
			continue
		}
		if row[w] >= 3 && o.sentMS <= third[w] {
			continue
		}
		row[w]++
		if row[w] == 3 {
			third[w] = o.endMS
		}
		if row[w] > most {
			most, at = row[w], fmt.Sprintf("port %d at %s", o.port, o.router)
		}
	}
	return most, at
}
