// SPDX-License-Identifier: Apache-2.0

// Command cilium-datapath puts Cilium's own datapath programs on a host: compiled from Cilium's Go module, loaded by
// Cilium's library, attached where Cilium's agent attaches them. It stands in for that agent, and for nothing else of Cilium.
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
)

// commands by name; each prints what it did as JSON.
var commands = map[string]struct {
	args string
	run  func(args []string) (any, error)
}{
	"compile": {"SOURCES OUT", func(a []string) (any, error) { return compileAll(a[0], a[1]) }},
	"attach":  {"HOST.json", withHost(attach)},
	"detach":  {"HOST.json", withHost(detach)},
	"show":    {"HOST.json", withHost(show)},
}

func withHost(run func(*host) (any, error)) func([]string) (any, error) {
	return func(args []string) (any, error) {
		h, err := readHost(args[0])
		if err != nil {
			return nil, err
		}
		return run(h)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: cilium-datapath compile SOURCES OUT | attach HOST.json | detach HOST.json | show HOST.json")
	os.Exit(2)
}

func main() {
	slog.SetLogLoggerLevel(slog.LevelError)
	if len(os.Args) < 2 {
		usage()
	}
	c, known := commands[os.Args[1]]
	args := os.Args[2:]
	if !known || len(args) != wordsOf(c.args) {
		usage()
	}
	result, err := c.run(args)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cilium-datapath:", err)
		os.Exit(1)
	}
}
