// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the platform asks for. The chart refuses an older Kubernetes (kubeVersion).
const (
	leastKubernetes = "1.29.0"
	leastKernel     = "6.6.0" // of what runs in the kernel: the fast path, CRAB
)

func checkCommand(s streams, connect connector) *cobra.Command {
	var f format
	var host string
	cmd := &cobra.Command{
		Use: "check", Short: "Before and after an installation: Kubernetes, kernels, network, rights, admission", Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if host != "" {
				return checkThisHost(s, f, host)
			}
			c, err := connect()
			if err != nil {
				return err
			}
			return answer(s, f, c.check(cmd.Context()))
		},
	}
	f.flag(cmd)
	cmd.Flags().StringVar(&host, "host", "", "on a node: check this machine alone, by the sys and proc below this folder, such as /; no cluster is asked")
	return cmd
}

func (c *cluster) check(ctx context.Context) []verdict {
	out := []verdict{c.kubernetes()}
	out = append(out, c.nodes(ctx)...)
	out = append(out, c.devices(ctx))
	out = append(out, c.hosts(ctx)...)
	return append(out, c.network(ctx), c.admission(ctx), c.rights(ctx))
}

func (c *cluster) kubernetes() verdict {
	const subject = "kubernetes"
	info, err := c.set.Discovery().ServerVersion()
	if err != nil {
		return unseen(subject, err)
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return unseen(subject, err)
	}
	if v.LessThan(version.MustParseGeneric(leastKubernetes)) {
		return verdict{subject, failed, fmt.Sprintf("%s; %s is the least: older ones have no sidecar containers", info.GitVersion, leastKubernetes), "upgrade the cluster"}
	}
	return verdict{subject, fine, info.GitVersion, ""}
}

// nodes: those with a kernel that lacks what the fast path and CRAB need.
func (c *cluster) nodes(ctx context.Context) []verdict {
	const subject = "kernels"
	list := &corev1.NodeList{}
	if err := c.List(ctx, list); err != nil {
		return []verdict{unseen(subject, err)}
	}
	var old, other, broken []string
	for _, n := range list.Items {
		kernel, err := version.ParseGeneric(leading(n.Status.NodeInfo.KernelVersion))
		switch {
		case n.Status.NodeInfo.OperatingSystem != "linux":
			other = append(other, n.Name)
		case err != nil:
			broken = append(broken, fmt.Sprintf("%s %q", n.Name, n.Status.NodeInfo.KernelVersion))
		case kernel.LessThan(version.MustParseGeneric(leastKernel)):
			old = append(old, n.Name+" "+n.Status.NodeInfo.KernelVersion)
		}
	}
	var out []verdict
	if len(old) > 0 {
		out = append(out, verdict{subject, warning, "below 6.6: " + strings.Join(old, ", "),
			"routers there use sockets, and CRAB does not run: newer kernels, or keep the services' pods off (spec.server.nodeSelector)"})
	}
	if len(broken) > 0 {
		out = append(out, verdict{subject, unknown, "versions that cannot be read: " + strings.Join(broken, ", "), "compare them with 6.6 by hand"})
	}
	if len(other) > 0 {
		out = append(out, verdict{subject, warning, "not Linux: " + strings.Join(other, ", "), "keep the services' pods off: spec.server.nodeSelector {kubernetes.io/os: linux}"})
	}
	if len(out) == 0 {
		out = append(out, verdict{subject, fine, fmt.Sprintf("%d nodes with Linux 6.6 or newer", len(list.Items)), ""})
	}
	return out
}

// leading is the part of a version before what a distribution adds to it.
func leading(v string) string {
	return v[:len(v)-len(strings.TrimLeft(v, "0123456789."))]
}

// plugins are network plugins by a word in the name of their DaemonSet. All carry
// R2P2, encapsulated; what differs is who balances connections besides CRAB.
var plugins = []string{"cilium", "calico", "flannel", "kindnet", "aws-node", "antrea", "weave", "kube-router", "ovn"}

func (c *cluster) network(ctx context.Context) verdict {
	const subject = "network"
	list := &appsv1.DaemonSetList{}
	if err := c.List(ctx, list); err != nil {
		return unseen(subject, err)
	}
	for _, d := range list.Items {
		for _, word := range plugins {
			if strings.Contains(d.Name, word) {
				return verdict{subject, fine, fmt.Sprintf("%s (DaemonSet %s/%s)", word, d.Namespace, d.Name), ""}
			}
		}
	}
	return verdict{subject, unknown, "no network plugin that is known by name", "UDP from pod to pod has to pass, ports 8000 and up, 9000: once Bobtail is installed, kubectl bobtail connectivity test tries it"}
}

// admission: whether the namespace admits what the fast path's routers ask for.
func (c *cluster) admission(ctx context.Context) verdict {
	const subject, label = "admission", "pod-security.kubernetes.io/enforce"
	ns := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: c.namespace}, ns)
	if apierrors.IsNotFound(err) {
		return verdict{subject, failed, "there is no namespace " + c.namespace, "kubectl create namespace " + c.namespace + ", or -n ANOTHER"}
	}
	if err != nil {
		return unseen(subject, err)
	}
	if level := ns.Labels[label]; level != "" && level != "privileged" {
		return verdict{subject, warning, fmt.Sprintf("namespace %s enforces %s: routers use sockets", c.namespace, level),
			"kubectl label namespace " + c.namespace + " " + label + "=privileged, where the fast path is worth two capabilities"}
	}
	return verdict{subject, fine, "namespace " + c.namespace + " admits the fast path's routers, as far as its labels tell", ""}
}

// asked are the rights without which `helm install` of the chart fails.
var asked = []authorizationv1.ResourceAttributes{
	{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
	{Verb: "create", Group: "apps", Resource: "deployments", Namespace: "bobtail-system"},
	{Verb: "create", Resource: "secrets", Namespace: "bobtail-system"},
}

func (c *cluster) rights(ctx context.Context) verdict {
	const subject = "rights"
	var missing []string
	for _, a := range asked {
		review, err := c.set.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err != nil {
			return unseen(subject, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, a.Verb+" "+a.Resource)
		}
	}
	if len(missing) > 0 {
		return verdict{subject, warning, "you may not " + strings.Join(missing, ", "), "an installation needs these; using what is installed does not"}
	}
	return verdict{subject, fine, "enough to install the chart", ""}
}
