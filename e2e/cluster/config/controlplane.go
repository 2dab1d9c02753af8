// SPDX-License-Identifier: Apache-2.0

// Package config renders the command lines and configuration files of the
// cluster's components. It is pure: what the cluster runs with can be tested
// without starting it.
package config

import (
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

const (
	etcdClient = "http://127.0.0.1:23790"
	etcdPeer   = "http://127.0.0.1:23800"
)

// Etcd returns etcd's arguments. The data is as mortal as the cluster, so it
// does not wait for the disk.
func Etcd(dataDir string) []string {
	return []string{
		"--name=bobtail", "--data-dir=" + dataDir, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + etcdClient, "--advertise-client-urls=" + etcdClient,
		"--listen-peer-urls=" + etcdPeer, "--initial-advertise-peer-urls=" + etcdPeer,
		"--initial-cluster=bobtail=" + etcdPeer,
	}
}

// APIServer returns kube-apiserver's arguments. pki maps a file name to its
// path. Aggregator routing makes webhooks work from outside the node network,
// where no kube-proxy translates Service addresses.
func APIServer(pki func(string) string, dual bool) []string {
	return []string{
		"--etcd-servers=" + etcdClient, "--secure-port=6443", "--bind-address=0.0.0.0",
		"--advertise-address=" + netns.ControlPlaneIP,
		"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("sa.crt"), "--service-account-signing-key-file=" + pki("sa.key"),
		"--service-cluster-ip-range=" + both(dual, netns.ServiceCIDR, netns.ServiceCIDR6),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--enable-aggregator-routing=true", "--enable-priority-and-fairness=false", "--profiling=false",
		"--cert-dir=" + pki(""), "--v=1",
	}
}

// ControllerManager returns kube-controller-manager's arguments. Pod ranges
// are fixed by the network plan, not handed out.
func ControllerManager(pki func(string) string, dual bool) []string {
	k := pki("controller-manager.kubeconfig")
	return []string{
		"--kubeconfig=" + k, "--authentication-kubeconfig=" + k, "--authorization-kubeconfig=" + k,
		"--root-ca-file=" + pki("ca.crt"), "--service-account-private-key-file=" + pki("sa.key"),
		"--use-service-account-credentials", "--cluster-cidr=" + both(dual, netns.ClusterCIDR, netns.ClusterCIDR6),
		"--cluster-signing-cert-file=" + pki("ca.crt"), "--cluster-signing-key-file=" + pki("ca.key"),
		"--leader-elect=false", "--cert-dir=" + pki(""), "--v=1",
	}
}

// both families of a dual-stack cluster, IPv4 first; IPv4 alone of others.
func both(dual bool, four, six string) string {
	if dual {
		return four + "," + six
	}
	return four
}

// Scheduler returns kube-scheduler's arguments.
func Scheduler(pki func(string) string) []string {
	k := pki("scheduler.kubeconfig")
	return []string{"--kubeconfig=" + k, "--authentication-kubeconfig=" + k, "--authorization-kubeconfig=" + k,
		"--leader-elect=false", "--cert-dir=" + pki(""), "--v=1"}
}
