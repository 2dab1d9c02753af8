// SPDX-License-Identifier: Apache-2.0

package cores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// TCP past the kernel, as examples/tcp-afxdp.yaml has it; with TCP's own client programs.
const (
	answers    = "answers"
	lines      = "10.75.0."
	client     = "client"
	wrkSeconds = 3
	replyBytes = 3000 // more than two segments
	// asked of redis-cli and of curl, of each server; wrk sends what it can.
	asked = 2000
	// enough requests in all for the figure.
	enough = 10000
)

// tally is what the clients asked, and what of it was not answered as it should be.
type tally struct{ asked, failed int }

func (t *tally) add(s *Suite, what string, asked, failed int) {
	t.asked, t.failed = t.asked+asked, t.failed+failed
	s.Steps.Say("     %-34s %6d requests, %d failed", what, asked, failed)
}

// tcp: the example on one node, since its bridge ends there.
func (s *Suite) tcp(ctx context.Context) error {
	if _, err := s.Env.Kubectl(ctx, "cordon", "node-b"); err != nil {
		return err
	}
	var t tally
	err := s.tcpApplied(ctx)
	if err == nil {
		err = s.tcpAsked(ctx, &t)
	}
	s.Got.Set("tcp_dpdk_requests", t.asked)
	s.Got.Set("tcp_dpdk_failed", t.failed)
	ok := 0
	if err == nil && t.failed == 0 && t.asked >= enough {
		ok = 1
	}
	s.Got.Set("tcp_dpdk_clients_ok", ok)
	if err == nil && ok == 0 {
		err = fmt.Errorf("%d of %d requests failed, want none of at least %d", t.failed, t.asked, enough)
	}
	if err != nil {
		out, _ := s.Env.Kubectl(ctx, "-n", Namespace, "describe", "rpcsvc,pods")
		err = fmt.Errorf("%w\n%s", err, out)
	} else {
		err = s.Env.RemoveService(ctx, Namespace, answers)
	}
	_, uncordoned := s.Env.Kubectl(ctx, "uncordon", "node-b")
	return errors.Join(err, uncordoned)
}

func (s *Suite) tcpApplied(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl apply -f examples/tcp-afxdp.yaml, and a pod for its clients", Cost: "30 s",
		Cause: "pods do not start on net1, or the operator does not believe their addresses: kubectl -n " + Namespace + " describe rpcsvc " + answers},
		func(ctx context.Context) error {
			if err := s.Env.Apply(ctx, s.clientPod()); err != nil {
				return err
			}
			if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "apply", "-f", filepath.Join(s.Env.Root, "examples", "tcp-afxdp.yaml")); err != nil {
				return err
			}
			return s.tcpReady(ctx)
		})
}

// clientPod is a pod on the pod network: the clients are Debian's programs, in its network.
func (s *Suite) clientPod() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  nodeName: node-a
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers: [{name: stays, image: "localhost/bobtail/serve:%s", args: ["--address=127.0.0.1", "--ctl="]}]
`, client, Namespace, s.Env.Version)
}

// tcpReady waits for the servers, and says whether they are where the manifest wants them.
func (s *Suite) tcpReady(ctx context.Context) error {
	if err := s.Env.WaitCondition(ctx, patience, Namespace, kind, answers, "Ready=True"); err != nil {
		return err
	}
	device, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc", answers, "-o", "jsonpath={.status.device}")
	if err == nil && device != "AFXDP" {
		err = fmt.Errorf("status.device is %s, want AFXDP", device)
	}
	o, failed := s.Env.Object(ctx, Namespace, "rpcsvc", answers)
	c := o.Condition("Programmed")
	if failed == nil && (c.Status != "True" || !strings.Contains(c.Message, "CRAB does not balance")) {
		failed = fmt.Errorf("condition Programmed=%s says %q, and not that CRAB does not balance these connections", c.Status, c.Message)
	}
	return errors.Join(err, failed)
}

// tcpAsked: Redis' protocol, then HTTP by other arguments for the servers.
func (s *Suite) tcpAsked(ctx context.Context, t *tally) error {
	programs, err := s.peers(ctx)
	if err != nil {
		return err
	}
	err = s.Steps.Do(ctx, harness.Step{Name: "redis-cli against both servers", Cost: "10 s",
		Cause: "the node does not forward to its bridge, or checksums are left to nobody: kubectl -n " + Namespace + " logs deploy/" + answers + "-server -c server"},
		func(ctx context.Context) error {
			return s.eachServer(ctx, func(host, port string) error { return s.redisCLI(ctx, programs, t, host, port) })
		})
	if err != nil {
		return err
	}
	return s.Steps.Do(ctx, harness.Step{Name: "other arguments for the servers: HTTP; curl and wrk", Cost: "60 s",
		Cause: "the rollout does not end: kubectl -n " + Namespace + " get pods,events"}, func(ctx context.Context) error {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", answers, "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"server":{"args":["--protocol=http","--reply-bytes=%d"]}}}`, replyBytes)); err != nil {
			return err
		}
		if err := s.tcpReady(ctx); err != nil {
			return err
		}
		return s.eachServer(ctx, func(host, port string) error {
			return errors.Join(s.curl(ctx, programs, t, host, port), s.wrk(ctx, programs, t, host, port))
		})
	})
}

// eachServer asks at the addresses that clients are given; all of them are of the network.
func (s *Suite) eachServer(ctx context.Context, ask func(host, port string) error) error {
	var slices struct {
		Items []struct {
			Ports     []struct{ Port int }
			Endpoints []struct {
				Addresses  []string
				Conditions struct{ Ready *bool }
			}
		}
	}
	if err := s.Env.Get(ctx, &slices, "-n", Namespace, "endpointslices", "-l", "kubernetes.io/service-name="+answers); err != nil {
		return err
	}
	servers := 0
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if len(slice.Ports) != 1 || e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			if !strings.HasPrefix(e.Addresses[0], lines) {
				return fmt.Errorf("clients are sent to %s, which is not of the network %s0/24", e.Addresses[0], lines)
			}
			if err := ask(e.Addresses[0], strconv.Itoa(slice.Ports[0].Port)); err != nil {
				return err
			}
			servers++
		}
	}
	if servers != 2 {
		return fmt.Errorf("clients are given %d servers, want 2", servers)
	}
	return nil
}

// programs is what runs a client program in the pod's network.
type programs struct{ root, libraries, pid string }

// peers unpacks Debian's client programs, and finds the pod they are to be in.
func (s *Suite) peers(ctx context.Context) (programs, error) {
	out, err := s.Env.Run(ctx, "", "python3", filepath.Join(s.Env.Root, "e2e", "crab", "peers.py"))
	if err != nil {
		return programs{}, err
	}
	var p programs
	for word := range strings.FieldsSeq(out) {
		if v, ok := strings.CutPrefix(word, "CRAB_PEERS="); ok {
			p.root = v
		}
		if v, ok := strings.CutPrefix(word, "CRAB_PEERS_LIB="); ok {
			p.libraries = v
		}
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/"+client, "--timeout=60s"); err != nil {
		return p, err
	}
	uid, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", client, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return p, err
	}
	pids := harness.PodProcesses(uid, "bobtail-serve")
	if len(pids) != 1 {
		return p, fmt.Errorf("%d processes bobtail-serve in pod %s, want one", len(pids), client)
	}
	p.pid = strconv.Itoa(pids[0])
	return p, nil
}

// run runs a client program in the pod's network and gives what it printed.
func (p programs) run(ctx context.Context, s *Suite, stdin, name string, args ...string) (string, error) {
	full := filepath.Join(p.root, "usr", "bin", name)
	if _, err := os.Stat(full); err != nil {
		full = name // of the machine itself
	}
	return s.Env.Run(ctx, stdin, "nsenter", append([]string{"-t", p.pid, "-n", "env", "LD_LIBRARY_PATH=" + p.libraries, full}, args...)...)
}

func (s *Suite) redisCLI(ctx context.Context, p programs, t *tally, host, port string) error {
	out, err := p.run(ctx, s, "", "redis-cli", "-h", host, "-p", port, "-r", strconv.Itoa(asked), "ECHO", "word")
	t.add(s, "redis-cli, "+host, asked, asked-strings.Count(out, "ECHO\nword\n"))
	return err
}

// curl asks over one connection, and over one for each request.
func (s *Suite) curl(ctx context.Context, p programs, t *tally, host, port string) error {
	const each = 100
	url := "http://" + host + ":" + port + "/"
	want := fmt.Sprintf("200 %d\n", replyBytes)
	var failed error
	ask := func(n int) int {
		list := strings.Repeat("url = \""+url+"\"\noutput = \"/dev/null\"\n", n)
		out, err := p.run(ctx, s, list, "curl", "-s", "--max-time", "60", "-w", "%{http_code} %{size_download}\\n", "-K", "-")
		failed = errors.Join(failed, err)
		return strings.Count(out, want)
	}
	t.add(s, "curl, one connection, "+host, asked, asked-ask(asked))
	good := 0
	for range each {
		good += ask(1)
	}
	t.add(s, "curl, one connection each, "+host, each, each-good)
	return failed
}

var (
	wrkAsked = regexp.MustCompile(`(\d+) requests in`)
	wrkBad   = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)|Non-2xx or 3xx responses: (\d+)`)
)

func (s *Suite) wrk(ctx context.Context, p programs, t *tally, host, port string) error {
	out, err := p.run(ctx, s, "", "wrk", "-t1", "-c32", fmt.Sprintf("-d%ds", wrkSeconds), "--timeout", "30s", "http://"+host+":"+port+"/")
	if err != nil {
		return err
	}
	n, bad, err := readWrk(out)
	t.add(s, "wrk, 32 connections, "+host, n, bad)
	return err
}

// readWrk is how many requests a run of wrk had answered, and how many were not, or wrongly.
func readWrk(out string) (n, bad int, err error) {
	total := wrkAsked.FindStringSubmatch(out)
	if total == nil {
		return 0, 0, fmt.Errorf("wrk does not say how many requests it made: %s", out)
	}
	n, err = strconv.Atoi(total[1])
	for _, row := range wrkBad.FindAllStringSubmatch(out, -1) {
		for _, field := range row[1:] {
			one, _ := strconv.Atoi(field) // an empty one belongs to the other form
			bad += one
		}
	}
	if n == 0 && err == nil {
		err = errors.New("wrk got no answer")
	}
	return n, bad, err
}
