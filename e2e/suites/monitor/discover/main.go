// SPDX-License-Identifier: Apache-2.0

// Command discover does for a Prometheus without Kubernetes discovery (Debian's) what
// the kubernetes_sd_configs of a scrape configuration ask for: Prometheus' own code
// finds the pods, and their targets with every __meta_kubernetes_ label go into a file
// that the other reads by file_sd_configs. It runs until it is told to end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // registers it
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"go.yaml.in/yaml/v2"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: discover CONFIG TARGETS\n\n  CONFIG   a file with kubernetes_sd_configs\n  TARGETS  the file to write, for file_sd_configs")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "discover:", err)
		os.Exit(1)
	}
}

// set is a part of a scrape configuration.
type set struct {
	Configs discovery.Configs `yaml:"-"`
}

// UnmarshalYAML reads it as Prometheus does.
func (s *set) UnmarshalYAML(unmarshal func(any) error) error {
	return discovery.UnmarshalYAMLWithInlineConfigs(s, unmarshal)
}

func run(ctx context.Context, config, targets string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var s set
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return fmt.Errorf("%s: %w", config, err)
	}
	registry := prometheus.NewRegistry()
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return err
	}
	m := discovery.NewManager(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), registry, metrics)
	if m == nil {
		return errors.New("the discovery manager does not start")
	}
	if err := m.ApplyConfig(map[string]discovery.Configs{"targets": s.Configs}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Run() }()
	for {
		select {
		case err := <-ended:
			return err
		case found := <-m.SyncCh():
			if err := write(targets, found["targets"]); err != nil {
				return err
			}
		}
	}
}

// group is an entry of a file for file_sd_configs.
type group struct {
	Targets []string       `json:"targets"`
	Labels  model.LabelSet `json:"labels"`
}

// write puts the targets in place at once: half a file would be half of the targets.
func write(file string, found []*targetgroup.Group) error {
	all := []group{}
	for _, g := range found {
		for _, t := range g.Targets {
			labels := g.Labels.Merge(t)
			address := string(labels[model.AddressLabel])
			delete(labels, model.AddressLabel)
			all = append(all, group{[]string{address}, labels})
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(file), ".next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}
