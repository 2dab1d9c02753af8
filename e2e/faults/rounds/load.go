// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// shape is one load.
type shape struct {
	name    string
	rate    float64
	seconds float64
	bytes   int
	sockets int
	timeout time.Duration
	fixed   bool // gaps of equal length
	goPeer  bool // by the Go client
}

// outcome is one line of --outcome-log.
type outcome struct {
	serial, result string
	port           int
	router         string
	sentMS, endMS  int64
}

// tally is what a load reports at its end.
type tally struct {
	Offered, Sent, Completed, Dropped, Timeouts, Errors, Corrupt uint64
	EndedTwice, Unended, RouterMoves                             uint64
	ErrorCodes                                                   map[string]uint64
}

// load is one run of a load generator.
type load struct {
	shape
	tally
	p        *bed.Process
	file     string
	outcomes []outcome
}

var portBase = map[bool]int{false: 20000, true: 26000}

func (w *world) startLoad(s shape, seed uint64) (*load, error) {
	w.mu.Lock()
	w.started++
	name := fmt.Sprintf("load-%03d-%s", w.started, s.name)
	w.mu.Unlock()
	l := &load{shape: s, file: w.path(name + ".outcomes")}
	any := "0.0.0.0"
	if w.v.V6 {
		any = "::"
	}
	argv := []string{
		w.program("bobtail-load"), "--output=json", "--warmup=0", "--verify", "--address=" + any,
		// Two loads at a time; each takes a random block of its 4096 ports.
		"--port-base=" + strconv.Itoa(portBase[s.bytes > onePacket]),
	}
	if s.goPeer {
		argv = []string{w.root + "/build/bin/faultpeer", "load"}
	}
	argv = append(argv, "--target="+w.targets(), fmt.Sprintf("--rate=%g", s.rate), fmt.Sprintf("--duration=%gs", s.seconds),
		fmt.Sprintf("--request-bytes=%d", s.bytes), fmt.Sprintf("--connections=%d", s.sockets), fmt.Sprintf("--timeout=%dms", s.timeout.Milliseconds()),
		"--outcome-log="+l.file, fmt.Sprintf("--seed=%d", seed|1))
	if s.fixed {
		argv = append(argv, "--arrivals=fixed")
	}
	if w.v.Legacy {
		argv = append(argv, "--legacy")
	}
	var err error
	l.p, err = w.start(name, clientHost, false, argv...)
	return l, err
}

// finish waits for the end and reads report and log.
func (l *load) finish() error {
	most := time.Duration(l.seconds*float64(time.Second)) + l.timeout + patience
	if err := l.p.Wait(most); err != nil && l.p.Running() {
		return err
	} else if err != nil {
		return fmt.Errorf("%w:\n%s", err, bed.Tail(l.p.Log, 20))
	}
	text, err := os.ReadFile(l.p.Log)
	if err != nil {
		return err
	}
	at := strings.LastIndex("\n"+string(text), "\n{")
	if at < 0 {
		return fmt.Errorf("%s printed no report:\n%s", l.p.Name, text)
	}
	if err := json.NewDecoder(strings.NewReader(string(text)[at:])).Decode(&l.tally); err != nil {
		return fmt.Errorf("%s: %w", l.p.Name, err)
	}
	return l.readOutcomes()
}

func (l *load) readOutcomes() error {
	f, err := os.Open(l.file)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var o outcome
		if _, err := fmt.Sscan(lines.Text(), &o.serial, &o.result, &o.port, &o.router, &o.sentMS, &o.endMS); err != nil {
			return fmt.Errorf("%s: line %q: %w", l.file, lines.Text(), err)
		}
		l.outcomes = append(l.outcomes, o)
	}
	return nil
}

// runLoad is a load from start to end.
func (w *world) runLoad(s shape, seed uint64) (*load, error) {
	l, err := w.startLoad(s, seed)
	if err != nil {
		return nil, err
	}
	return l, l.finish()
}

// span is the time from the first request sent to the last one ended.
func (l *load) span() time.Duration {
	first, last := int64(1<<62), int64(0)
	for _, o := range l.outcomes {
		first, last = min(first, o.sentMS), max(last, o.endMS)
	}
	return time.Duration(max(1, last-first)) * time.Millisecond
}
