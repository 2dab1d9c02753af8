// SPDX-License-Identifier: Apache-2.0

// Package connectivity is what the pods of `kubectl bobtail connectivity test` do: one
// kind answers over R2P2 and TCP with the name of its node, the other tries paths and
// leaves what it saw in its termination message, which needs no right to read logs.
package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

// Kinds of paths.
const (
	R2P2 = "R2P2"
	TCP  = "TCP"
)

// Ports of a server.
const (
	R2P2Port = 8000
	TCPPort  = 8080
)

// Path is a way to try: so many requests, or connections, to one address.
type Path struct {
	Kind   string `json:"kind"`
	Target string `json:"target"` // host:port
	Tries  int    `json:"tries"`
}

// Result is what became of a path. Short names: a termination message has 4096 bytes.
type Result struct {
	Answered int            `json:"a"`
	Nodes    map[string]int `json:"n,omitempty"` // answers by the node that gave them
	Error    string         `json:"e,omitempty"` // of the first try that failed
}

// longestError leaves room for the others' results.
const longestError = 80

// patience is what one try may take.
const patience = 2 * time.Second

// Try tries each path, several at a time.
func Try(ctx context.Context, paths []Path) []Result {
	out := make([]Result, len(paths))
	var all sync.WaitGroup
	for i, p := range paths {
		all.Add(1)
		go func() {
			defer all.Done()
			out[i] = p.try(ctx)
		}()
	}
	all.Wait()
	return out
}

func (p Path) try(ctx context.Context) Result {
	ask, end, err := p.way(ctx)
	if err != nil {
		return Result{Error: short(err)}
	}
	defer end()
	type answer struct {
		node string
		err  error
	}
	answers := make(chan answer, p.Tries)
	for range p.Tries {
		go func() {
			ctx, done := context.WithTimeout(ctx, patience)
			defer done()
			node, err := ask(ctx)
			answers <- answer{node, err}
		}()
	}
	r := Result{Nodes: map[string]int{}}
	for range p.Tries {
		switch a := <-answers; {
		case a.err == nil:
			r.Answered++
			r.Nodes[a.node]++
		case r.Error == "":
			r.Error = short(a.err)
		}
	}
	return r
}

// way is how one try asks for the name of a node.
func (p Path) way(ctx context.Context) (ask func(context.Context) (string, error), end func(), err error) {
	switch p.Kind {
	case R2P2:
		c, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: []string{p.Target}, Timeout: patience})
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (string, error) {
			reply, err := c.Call(ctx, []byte("node?"))
			return string(reply), err
		}, func() { _ = c.Close() }, nil
	case TCP:
		return func(ctx context.Context) (string, error) { return overTCP(ctx, p.Target) }, func() {}, nil
	}
	return nil, nil, fmt.Errorf("kind must be %s or %s; got %q", R2P2, TCP, p.Kind)
}

func overTCP(ctx context.Context, target string) (string, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	text, err := io.ReadAll(io.LimitReader(c, 300))
	if err == nil && !strings.HasSuffix(string(text), "\n") {
		err = errors.New("closed before the whole answer came")
	}
	return strings.TrimSpace(string(text)), err
}

func short(err error) string {
	text := []rune(err.Error())
	return string(text[:min(len(text), longestError)])
}

// Marshal is a termination message; where it would be too long, errors go first.
func Marshal(results []Result) ([]byte, error) {
	text, err := json.Marshal(results)
	if err == nil && len(text) > longestMessage {
		for i := range results {
			results[i].Error = ""
		}
		text, err = json.Marshal(results)
	}
	if err == nil && len(text) > longestMessage {
		err = fmt.Errorf("%d paths are more than a termination message holds", len(results))
	}
	return text, err
}

// longestMessage is what Kubernetes keeps of a termination message.
const longestMessage = 4096

// Unmarshal reads a termination message for so many paths.
func Unmarshal(text string, paths int) ([]Result, error) {
	var out []Result
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("no results but %q: %w", text[:min(len(text), 200)], err)
	}
	if len(out) != paths {
		return nil, fmt.Errorf("%d results, want %d", len(out), paths)
	}
	return out, nil
}
