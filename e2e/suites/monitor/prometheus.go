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

// Prometheus is one that runs, with what finds its targets.
type Prometheus struct {
	env *harness.Env
	all []*process
}

// process is a program in the background; its end comes by the channel.
type process struct {
	*exec.Cmd
	log *os.File
	end chan error
}

// Start starts Debian's Prometheus with a configuration, and the discovery of its
// targets; data and configurations go into dir.
func Start(ctx context.Context, env *harness.Env, dir string, scrape, discovery []byte) (*Prometheus, error) {
	file, pods := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "discovery.yml")
	if err := errors.Join(os.WriteFile(file, scrape, 0o600), os.WriteFile(pods, discovery, 0o600)); err != nil {
		return nil, err
	}
	if _, err := env.Run(ctx, "", "promtool", "check", "config", file); err != nil {
		return nil, fmt.Errorf("the documented configuration: %w", err)
	}
	p, bin := &Prometheus{env: env}, filepath.Join(env.Root, "build", "bin")
	err := p.run("discover", filepath.Join(bin, "discover"), pods, filepath.Join(dir, targetsFile))
	if err == nil {
		// exec-node replaces itself by what it runs, so the process is Prometheus' own.
		err = p.run("prometheus", filepath.Join(bin, "bobtail-cluster"), "exec-node", "control-plane", "--",
			"prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	}
	if err == nil {
		err = p.ready(ctx)
	}
	return p, err
}

// targetsFile is in the folder of the data.
const targetsFile = "targets.json"

// run starts a program whose output goes into build/log.
func (p *Prometheus) run(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(p.env.Root, "build", "log", name+".log"))
	if err != nil {
		return err
	}
	one := &process{exec.Command(program, args...), log, make(chan error, 1)}
	one.Stdout, one.Stderr = log, log
	if err := one.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	go func() { one.end <- one.Wait() }()
	p.all = append(p.all, one)
	return nil
}

// ready waits until it answers, or has ended.
func (p *Prometheus) ready(ctx context.Context) error {
	return harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		for _, one := range p.all {
			select {
			case err := <-one.end:
				one.end <- err
				return false, "", fmt.Errorf("%s ended: %w; see %s", filepath.Base(one.Path), err, one.log.Name())
			default:
			}
		}
		_, err := p.Query(ctx, "vector(1)")
		return err == nil, "", err
	})
}

// Stop ends both.
func (p *Prometheus) Stop() (err error) {
	for _, one := range p.all {
		_ = one.Process.Signal(syscall.SIGTERM)
		select {
		case <-one.end:
		case <-time.After(20 * time.Second):
			_ = one.Process.Kill()
			<-one.end
		}
		err = errors.Join(err, one.log.Close())
	}
	return err
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
