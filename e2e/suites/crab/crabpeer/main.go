// SPDX-License-Identifier: Apache-2.0

// Command crabpeer is both ends of the connections of the CRAB suite: servers that
// say who they are, and clients that count who answered.
//
//	crabpeer serve :PORT                   answers every line, and every datagram, with its host name
//	crabpeer http :PORT                    answers every GET with it
//	crabpeer tell well|unready|deaf        what the server of this container shall be
//	crabpeer ready                         ends with 0 when it listens and calls itself ready
//	crabpeer ask ADDR COUNT [PATIENCE]     COUNT connections with one line each, one after the other
//	crabpeer send ADDR COUNT               COUNT datagrams, one after the other
//	crabpeer await ADDR PATIENCE           connections begun every 50 ms until one is answered
//	crabpeer hold ADDR COUNT DURATION      COUNT connections at once, 1,000 lines a second on all of them together
//
// Clients print one JSON object.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is longer than the two SYNs a stripped option may cost (C-105), and
// shorter than a third repetition. Who asks may have more.
const patience = 5 * time.Second

// report is what a client found.
type report struct {
	Connected int            `json:"connected"`
	Failed    int            `json:"failed"`
	Servers   map[string]int `json:"servers"` // connections by who answered the first line
	Broken    map[string]int `json:"broken"`  // of those, the ones that stopped answering
	// Remote is who the client's socket says it talks to.
	Remote string `json:"remote"`
	Error  string `json:"error,omitempty"`
	// SlowestMilliseconds is the longest time a connection took to its first answer.
	SlowestMilliseconds int64 `json:"slowestMilliseconds"`
	// AnsweredUnixMilliseconds is when that was which was awaited.
	AnsweredUnixMilliseconds int64 `json:"answeredUnixMilliseconds,omitempty"`
	// OpenedMilliseconds is how long it took until all that are held were there.
	OpenedMilliseconds int64 `json:"openedMilliseconds,omitempty"`

	mu       sync.Mutex
	patience time.Duration // until a connection must stand
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crabpeer:", err)
		os.Exit(1)
	}
}

// command is one word of the command line: what follows it, and what it does with that.
type command struct {
	word, takes string
	least, most int // how many words follow
	run         func(args []string) error
}

var commands = []command{
	{"serve", ":PORT", 1, 1, func(a []string) error { return serve(a[0]) }},
	{"http", ":PORT", 1, 1, func(a []string) error { return serveHTTP(a[0]) }},
	{"tell", "well|unready|deaf", 1, 1, func(a []string) error { return tell(a[0]) }},
	{"ready", "", 0, 0, func([]string) error { return ready() }},
	{"ask", "ADDR COUNT [PATIENCE]", 2, 3, ask},
	{"send", "ADDR COUNT", 2, 2, func(a []string) error { return client(a[0], a[1], (*report).send) }},
	{"await", "ADDR PATIENCE", 2, 2, func(a []string) error {
		return timed(a[0], "1", a[1], func(r *report, addr string, _ int, d time.Duration) { r.await(addr, d) })
	}},
	{"hold", "ADDR COUNT DURATION", 3, 3, func(a []string) error { return timed(a[0], a[1], a[2], (*report).hold) }},
}

func ask(a []string) error {
	if len(a) == 2 {
		a = append(a, patience.String())
	}
	return timed(a[0], a[1], a[2], (*report).ask)
}

// timed is client for what takes a duration as well.
func timed(addr, count, duration string, do func(r *report, addr string, n int, d time.Duration)) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	return client(addr, count, func(r *report, addr string, n int) { do(r, addr, n, d) })
}

func run(args []string) error {
	usage := make([]string, 0, len(commands))
	for _, c := range commands {
		if len(args) > 0 && args[0] == c.word && len(args)-1 >= c.least && len(args)-1 <= c.most {
			return c.run(args[1:])
		}
		usage = append(usage, strings.TrimSpace(c.word+" "+c.takes))
	}
	return errors.New("usage: crabpeer " + strings.Join(usage, " | "))
}

func serve(addr string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	if err := serveDatagrams(addr, name); err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if err := os.WriteFile(stateFile, []byte(well), 0o600); err != nil {
		return err
	}
	d := &door{TCPListener: l.(*net.TCPListener)}
	go d.obey(func(err error) { fmt.Fprintln(os.Stderr, "crabpeer:", err) })
	for {
		c, err := d.accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if _, err := fmt.Fprintf(c, "%s\n", name); err != nil {
					return
				}
			}
		}()
	}
}

func serveHTTP(addr string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	return (&http.Server{Addr: addr, Handler: answer, ReadHeaderTimeout: patience}).ListenAndServe()
}

func client(addr, count string, do func(r *report, addr string, n int)) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	r := &report{Servers: map[string]int{}, Broken: map[string]int{}, patience: patience}
	do(r, addr, n)
	return json.NewEncoder(os.Stdout).Encode(r)
}

// open makes one connection and learns who is at its other end; nil if that fails.
func (r *report) open(addr string) *connection {
	start := time.Now()
	c, err := net.DialTimeout("tcp", addr, r.patience)
	if err != nil {
		r.fail(err)
		return nil
	}
	conn := newConnection(c)
	conn.server, err = conn.ask()
	if err != nil {
		c.Close()
		r.fail(err)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Connected++
	r.Servers[conn.server]++
	r.Remote = c.RemoteAddr().String()
	r.SlowestMilliseconds = max(r.SlowestMilliseconds, time.Since(start).Milliseconds())
	return conn
}

func (r *report) ask(addr string, n int, patience time.Duration) {
	r.patience = patience
	for i := 0; i < n && r.Failed < 3; i++ { // each failure takes seconds
		if c := r.open(addr); c != nil {
			c.Close()
		}
	}
}

func (r *report) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Failed++
	r.Error = err.Error()
}

type connection struct {
	net.Conn
	lines  *bufio.Reader
	server string
}

func newConnection(c net.Conn) *connection { return &connection{Conn: c, lines: bufio.NewReader(c)} }

func (c *connection) ask() (string, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(c, "who"); err != nil {
		return "", err
	}
	answer, err := c.lines.ReadString('\n')
	return strings.TrimSpace(answer), err
}

// hold keeps connections busy and counts those that end before their time.
func (r *report) hold(addr string, n int, d time.Duration) {
	var all sync.WaitGroup
	begun := time.Now()
	end, pause := begun.Add(d), time.Duration(n)*time.Millisecond
	for range n {
		c := r.open(addr)
		if c == nil {
			continue
		}
		all.Go(func() {
			defer c.Close()
			for time.Now().Before(end) {
				time.Sleep(pause)
				answer, err := c.ask()
				if err == nil && answer == c.server {
					continue
				}
				r.mu.Lock()
				r.Broken[c.server]++
				r.Error = fmt.Sprint(c.server, " answered ", answer, err)
				r.mu.Unlock()
				return
			}
		})
	}
	r.mu.Lock()
	r.OpenedMilliseconds = time.Since(begun).Milliseconds()
	r.mu.Unlock()
	all.Wait()
}
