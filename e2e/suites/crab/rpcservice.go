// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	httpPort = 7090
	curled   = 20 // connections from every node, in so many rounds
	rounds   = 5
)

// tcpService is an RpcService whose servers are an ordinary HTTP server.
func tcpService() string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: shop, namespace: %s}
spec:
  replicas: %d
  protocol: TCP
  server: {image: %q, args: [http, ":%d"], resources: {requests: {cpu: 10m, memory: 16Mi}}}
  tcp: {port: %d, policy: RoundRobin, readiness: {httpPath: /ready, periodSeconds: 1}, drainSeconds: 1}
  router: {placement: None}
`, Namespace, servers, image, httpPort, httpPort)
}

// rpcService: curl on every node fetches from an RpcService of protocol TCP by the
// address in its status, a connection each time, and its objective tells how long
// that took.
func (s *Suite) rpcService(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("RpcService of protocol TCP with an objective: %d times curl from each node", curled), Cost: "60 s",
		Cause: "the operator or an agent did not follow: kubectl -n " + Namespace + " describe rpcsvc shop"},
		func(ctx context.Context) error {
			if err := s.Env.Apply(ctx, tcpService()); err != nil {
				return err
			}
			if err := s.Env.WaitCondition(ctx, time.Minute, Namespace, "rpcservices.bobtail.dev", "shop", "Ready=True"); err != nil {
				return err
			}
			out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc", "shop", "-o", "wide")
			s.Steps.Say("\n$ kubectl get rpcsvc shop -o wide\n%s", out)
			if err != nil {
				return err
			}
			if want := regexp.MustCompile(`(?m)^shop\s+True\s+True\s+3/3\s+RoundRobin\s+Kernel\s`); !want.MatchString(out) {
				return fmt.Errorf("columns: want %s", want)
			}
			address, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc", "shop", "-o", "jsonpath={.status.address}")
			if err != nil {
				return err
			}
			return errors.Join(s.observe(ctx), s.curl(ctx, address))
		})
}

// inPod runs a program of the machine in the network namespace of the pod with the
// address $1: the images have no curl.
const inPod = `a=$1; shift
for n in /run/netns/*; do
  if nsenter --net="$n" ip -4 -o addr show | grep -qF "inet $a/"; then exec nsenter --net="$n" "$@"; fi
done
echo "no network namespace has the address $a" >&2
exit 1`

// curl counts who answers, what the balancers see of it, and what the agents measure.
func (s *Suite) curl(ctx context.Context, address string) error {
	before, err := s.counters(ctx)
	if err != nil {
		return err
	}
	by, answers := map[string]int{}, 0
	for i := range rounds * len(nodes) {
		node := nodes[i%len(nodes)]
		if i > 0 && i%len(nodes) == 0 {
			time.Sleep(apart)
		}
		ip, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", s.clients[node], "-o", "jsonpath={.status.podIP}")
		if err != nil {
			return err
		}
		out, err := s.onNode(ctx, node, "sh", "-c", inPod, "sh", ip, "curl", "-sS", "--fail", "--fail-early", "--max-time", "5",
			"-H", "Connection: close", fmt.Sprintf("http://%s/[1-%d]", address, curled/rounds))
		if err != nil {
			return fmt.Errorf("curl on %s: %w", node, err)
		}
		for _, server := range strings.Fields(out) {
			by[server]++
			answers++
		}
	}
	s.Steps.Say("     http://%s: %d answers, by %v", address, answers, by)
	if answers != curled*len(nodes) || len(by) != servers {
		return fmt.Errorf("%d answers by %d servers, want %d by %d", answers, len(by), curled*len(nodes), servers)
	}
	return errors.Join(s.measured(ctx, answers), s.observed(ctx, answers), s.packets(ctx, before, answers, "crab_cluster_rpcservice_packets_per_connection"))
}

func (s *Suite) onNode(ctx context.Context, node string, args ...string) (string, error) {
	return s.Env.Cluster(ctx, append([]string{"exec-node", strings.TrimPrefix(node, "node-"), "--"}, args...)...)
}

// measured: the agents of the clients' nodes have measured each connection once.
func (s *Suite) measured(ctx context.Context, made int) error {
	of := regexp.MustCompile(`(?m)^bobtail_crab_connect_seconds_(count|sum)\{.*service="shop".*\} (\S+)$`)
	sums := map[string]float64{}
	for _, node := range nodes {
		page, err := s.onNode(ctx, node, "curl", "-sS", "--fail", "http://127.0.0.1:9441/metrics")
		if err != nil {
			return fmt.Errorf("metrics of the agent on %s: %w", node, err)
		}
		for _, m := range of.FindAllStringSubmatch(page, -1) {
			v, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return err
			}
			sums[m[1]] += v
		}
	}
	s.Steps.Say("     the agents measured %.0f connections, %.0f us in the mean", sums["count"], 1e6*sums["sum"]/max(1, sums["count"]))
	s.Got.Set("crab_cluster_rpcservice_connects_measured", int(sums["count"]))
	if int(sums["count"]) != made {
		return fmt.Errorf("the agents measured %.0f connections of %d", sums["count"], made)
	}
	return nil
}
