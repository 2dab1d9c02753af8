// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/bobtail-dev/bobtail/e2e/cluster/leftovers"
)

func printJSON(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func down(c call) error {
	items, err := c.m.Down()
	if err != nil {
		return err
	}
	for _, i := range items {
		fmt.Println(i)
	}
	if len(items) > 0 {
		return fmt.Errorf("%d leftovers after down (list above and in %s); another program on this machine may have made them meanwhile", len(items), c.m.State.Leftovers())
	}
	return nil
}

func printLeftovers(c call) error {
	items, err := currentLeftovers(c)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(items)
	}
	for _, i := range items {
		fmt.Println(i)
	}
	fmt.Println("leftovers:", len(items))
	return nil
}

// currentLeftovers compares with the machine as it is now while a cluster is
// up; afterwards it repeats what the last down found.
func currentLeftovers(c call) ([]leftovers.Item, error) {
	before, err := leftovers.Read(c.m.State.Before())
	if err == nil {
		after, err := leftovers.Take(c.m.State)
		if err != nil {
			return nil, err
		}
		return leftovers.Diff(before, after), nil
	}
	items, err := leftovers.ReadItems(c.m.State.Leftovers())
	if errors.Is(err, os.ErrNotExist) {
		return []leftovers.Item{}, nil // nothing was ever started here
	}
	return items, err
}

func status(c call) error {
	s, err := c.m.Status()
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(s)
	}
	fmt.Printf("%-22s %8s  %s\n", "PROCESS", "PID", "STATE")
	for _, p := range s.Processes {
		state := "running"
		if !p.Alive {
			state = "NOT RUNNING, see " + p.Log
		}
		fmt.Printf("%-22s %8d  %s\n", p.Name, p.Pid, state)
	}
	fmt.Printf("\n%-10s %-6s %-14s %s\n", "NODE", "READY", "POD RANGE", "CGROUP2 FOLDER")
	for _, n := range s.Nodes {
		fmt.Printf("%-10s %-6v %-14s %s\n", n.Name, n.Ready, n.PodCIDR, n.Cgroup2)
	}
	fmt.Printf("\nAPI server  %s\nkubeconfig  %s\nhealth      %s\n", s.Server, s.Kubeconfig, s.Health)
	return nil
}
