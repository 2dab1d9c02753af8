// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// listen is where Prometheus answers, on the loopback of the control plane's network
// namespace, from which it reaches pods as one in the cluster would.
const listen = "127.0.0.1:19090"

// Prometheus is one that runs.
type Prometheus struct {
	env *harness.Env
	cmd *exec.Cmd
	log *os.File
	end chan error
}

// Start starts Debian's Prometheus with a configuration; its data goes into dir.
func Start(ctx context.Context, env *harness.Env, dir string, config []byte) (*Prometheus, error) {
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	if _, err := env.Run(ctx, "", "promtool", "check", "config", file); err != nil {
		return nil, fmt.Errorf("the documented configuration: %w", err)
	}
	log, err := os.Create(filepath.Join(env.Root, "build", "log", "prometheus.log"))
	if err != nil {
		return nil, err
	}
	// exec-node replaces itself by what it runs, so the process is Prometheus' own.
	cmd := exec.Command(filepath.Join(env.Root, "build", "bin", "bobtail-cluster"), "exec-node", "control-plane", "--",
		"prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start prometheus: %w", err), log.Close())
	}
	p := &Prometheus{env: env, cmd: cmd, log: log, end: make(chan error, 1)}
	go func() { p.end <- cmd.Wait() }()
	return p, p.ready(ctx)
}

// ready waits until it answers, or has ended.
func (p *Prometheus) ready(ctx context.Context) error {
	return harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		select {
		case err := <-p.end:
			p.end <- err
			return false, "", fmt.Errorf("prometheus ended: %w; see %s", err, p.log.Name())
		default:
		}
		_, err := p.Query(ctx, "vector(1)")
		return err == nil, "", err
	})
}

// Stop ends it.
func (p *Prometheus) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.end:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.end
	}
	return p.log.Close()
}

// Sample is one series of an instant query's answer.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query asks for the present value of an expression.
func (p *Prometheus) Query(ctx context.Context, expr string) ([]Sample, error) {
	out, err := p.env.Cluster(ctx, "exec-node", "control-plane", "--", "promtool", "query", "instant", "--format=json", "http://"+listen, expr)
	if err != nil {
		return nil, err
	}
	return decode(expr, out)
}

func decode(expr, out string) ([]Sample, error) {
	var answer []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		// A scalar comes as a pair alone: no query of ours is one.
		return nil, fmt.Errorf("answer to %s: %w", expr, err)
	}
	samples := make([]Sample, 0, len(answer))
	for _, a := range answer {
		text, _ := a.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("answer to %s: %w", expr, err)
		}
		samples = append(samples, Sample{a.Metric, v})
	}
	return samples, nil
}
