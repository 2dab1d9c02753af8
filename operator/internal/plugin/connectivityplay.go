// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

// tries is how many requests, or connections, a path gets from each client and for each
// server that could answer.
const tries = 8

// way is a path of a client, and what its verdict is called.
type way struct {
	subject, to string
	servers     int // that could answer
	connectivity.Path
}

// play makes the objects, waits for them and lets the clients try.
func (t *trial) play(ctx context.Context) ([]verdict, error) {
	crab, err := t.make(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := t.serversReady(ctx)
	if err != nil {
		return nil, err
	}
	ways := direct(servers)
	verdicts := families(servers)
	address, v := t.routersReady(ctx)
	if v.Outcome == failed {
		verdicts = append(verdicts, v)
	} else {
		ways = append(ways, way{"r2p2", "the routers", len(t.nodes), connectivity.Path{Kind: connectivity.R2P2, Target: address, Tries: tries * len(t.nodes)}})
	}
	if !crab {
		verdicts = append(verdicts, verdict{"crab", fine, "CRAB is off (crab.enabled of the chart): not tried", ""})
	} else if vips, v := t.balancedReady(ctx); v.Outcome == failed {
		verdicts = append(verdicts, v)
	} else {
		for _, vip := range vips {
			ways = append(ways, way{"crab-" + familyOf(vip), "CRAB's address " + vip, len(t.nodes),
				connectivity.Path{Kind: connectivity.TCP, Target: net.JoinHostPort(vip, strconv.Itoa(crabPort)), Tries: tries * len(t.nodes)}})
		}
	}
	tried, err := t.clients(ctx, ways)
	return append(verdicts, tried...), err
}

// make creates servers, the service with routers, and the one of CRAB where it is on.
func (t *trial) make(ctx context.Context) (crab bool, err error) {
	agents := &appsv1.DaemonSetList{}
	if err := t.List(ctx, agents, installed("agent")); err != nil {
		return false, fmt.Errorf("look for CRAB's agents: %w", err)
	}
	objects := []client.Object{}
	for i := range t.nodes {
		objects = append(objects, t.serverPod(i))
	}
	objects = append(objects, t.routed())
	if crab = len(agents.Items) > 0; crab {
		objects = append(objects, t.balanced())
	}
	for _, o := range objects {
		if err := t.put(ctx, o); err != nil {
			return crab, err
		}
	}
	return crab, nil
}

// pods of a role, in the order of the nodes; nil as long as not all are there.
func (t *trial) podsOf(ctx context.Context, role string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := t.List(ctx, list, client.InNamespace(t.namespace), client.MatchingLabels{labelTrial: t.run, labelRole: role})
	if err != nil {
		return nil, fmt.Errorf("list the %ss: %w", role, err)
	}
	out := make([]corev1.Pod, len(t.nodes))
	for _, p := range list.Items {
		if i, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:]); err == nil && i < len(out) {
			out[i] = p
		}
	}
	return out, nil
}

// until waits until every pod of a role is as asked; the error names the pod that is not.
func (t *trial) until(ctx context.Context, role string, good func(*corev1.Pod) bool) (pods []corev1.Pod, err error) {
	why := "no pod was seen"
	err = wait.PollUntilContextTimeout(ctx, t.every, t.timeout, true, func(ctx context.Context) (bool, error) {
		if pods, err = t.podsOf(ctx, role); err != nil {
			return false, err
		}
		for i := range pods {
			if bad := stuck(&pods[i]); bad != "" {
				return false, fmt.Errorf("pod %s on %s: %s", pods[i].Name, t.nodes[i], bad)
			}
			if !good(&pods[i]) {
				why = fmt.Sprintf("pod %s on %s: %s", pods[i].Name, t.nodes[i], standing(&pods[i]))
				return false, nil
			}
		}
		return true, nil
	})
	if wait.Interrupted(err) {
		err = fmt.Errorf("after %s: %s; --timeout waits longer", t.timeout, why)
	}
	return pods, err
}

func (t *trial) serversReady(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := t.until(ctx, "server", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue && len(p.Status.PodIPs) > 0
			}
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the servers: %w", err)
	}
	return pods, nil
}

// routersReady waits for the service; what it lacks is a verdict, and the rest is tried.
func (t *trial) routersReady(ctx context.Context) (string, verdict) {
	service, ready := &v1alpha1.RpcService{}, "no status yet: does an operator run? kubectl bobtail status"
	err := wait.PollUntilContextTimeout(ctx, t.every, t.timeout, true, func(ctx context.Context) (bool, error) {
		if err := t.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.run}, service); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionReady)
		if c != nil {
			ready = fmt.Sprintf("Ready=%s %s: %s", c.Status, c.Reason, c.Message)
		}
		return c != nil && c.Status == metav1.ConditionTrue && service.Status.Address != "", nil
	})
	if err != nil {
		if !wait.Interrupted(err) {
			ready = err.Error()
		}
		return "", verdict{"r2p2", failed, "the routers: the service did not become ready: " + ready, "kubectl -n " + t.namespace + " get events; --timeout waits longer"}
	}
	return service.Status.Address, verdict{}
}

// balancedReady waits for an address of CRAB's of each family that the Service got.
func (t *trial) balancedReady(ctx context.Context) (vips []string, v verdict) {
	why := "no address yet"
	err := wait.PollUntilContextTimeout(ctx, t.every, t.timeout, true, func(ctx context.Context) (bool, error) {
		service := &corev1.Service{}
		if err := t.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.run + "-crab"}, service); err != nil {
			return false, err
		}
		vips = nil
		for _, in := range service.Status.LoadBalancer.Ingress {
			vips = append(vips, in.IP)
		}
		if len(service.Status.Conditions) > 0 {
			c := service.Status.Conditions[0]
			why = fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		return len(vips) > 0 && len(vips) >= len(service.Spec.IPFamilies), nil
	})
	if len(vips) == 0 && err != nil {
		if !wait.Interrupted(err) {
			why = err.Error()
		}
		return nil, verdict{"crab", failed, "the Service got no address: " + why, "kubectl -n " + t.namespace + " get events; crab.vipPool of the chart"}
	}
	return vips, v
}

// direct are the paths to each server's addresses.
func direct(servers []corev1.Pod) (out []way) {
	for _, p := range servers {
		for _, ip := range p.Status.PodIPs {
			out = append(out, way{"r2p2-" + familyOf(ip.IP), p.Spec.NodeName, 1,
				connectivity.Path{Kind: connectivity.R2P2, Target: net.JoinHostPort(ip.IP, strconv.Itoa(connectivity.R2P2Port)), Tries: tries}})
		}
	}
	return out
}

func familyOf(ip string) string {
	if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
		return "ipv6"
	}
	return "ipv4"
}

// families says which family no pod has.
func families(servers []corev1.Pod) []verdict {
	have := map[string]bool{}
	for _, w := range direct(servers) {
		have[w.subject] = true
	}
	for _, f := range []string{"ipv4", "ipv6"} {
		if !have["r2p2-"+f] {
			return []verdict{{f, fine, "the pods have no such address: not tried", ""}}
		}
	}
	return nil
}

// clients lets one on each node try all ways.
func (t *trial) clients(ctx context.Context, ways []way) (verdicts []verdict, err error) {
	paths := make([]connectivity.Path, len(ways))
	for i, w := range ways {
		paths[i] = w.Path
	}
	for i := range t.nodes {
		pod, err := t.clientPod(i, paths)
		if err != nil {
			return nil, err
		}
		if err := t.put(ctx, pod); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(t.errs, "clients try %d paths each\n", len(ways))
	pods, err := t.until(ctx, "client", func(p *corev1.Pod) bool { return terminated(p) != nil })
	if err != nil {
		return nil, fmt.Errorf("wait for the clients: %w", err)
	}
	var errs []error
	for i := range pods {
		results, err := connectivity.Unmarshal(terminated(&pods[i]).Message, len(paths))
		if err != nil {
			errs = append(errs, fmt.Errorf("client on %s: %w", t.nodes[i], err))
			continue
		}
		for j, r := range results {
			verdicts = append(verdicts, ways[j].verdict(t.nodes[i], r))
		}
	}
	return verdicts, errors.Join(errs...)
}

func terminated(p *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated
		}
	}
	return nil
}

// verdict of one path: all was answered, some, or nothing.
func (w way) verdict(from string, r connectivity.Result) verdict {
	v := verdict{w.subject, fine, fmt.Sprintf("%s to %s: %d of %d answered", from, w.to, r.Answered, w.Tries), ""}
	if w.servers > 1 {
		v.Says += fmt.Sprintf(", by %d of %d servers", len(r.Nodes), w.servers)
	}
	if r.Error != "" {
		v.Says += ": " + r.Error
	}
	next := map[string]string{
		connectivity.R2P2: "let UDP from pod to pod pass, ports 8000 and 9000: firewalls of the nodes, network policies, the MTU",
		connectivity.TCP:  "kubectl get ndp; kubectl bobtail status",
	}[w.Kind]
	switch {
	case r.Answered == 0:
		v.Outcome, v.Next = failed, next
	case r.Answered < w.Tries:
		v.Outcome, v.Next = warning, "packets are lost: "+next
	case len(r.Nodes) < w.servers:
		v.Outcome, v.Next = warning, "the others are never chosen: kubectl bobtail top"
	}
	return v
}
