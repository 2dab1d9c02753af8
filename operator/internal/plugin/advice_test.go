// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// An error that ends a command says what to do next, whoever it came from.
func TestErrorsSayWhatToDo(t *testing.T) {
	c, _ := aCluster(t, false)
	_, _, absent := execute(t, c, "explain", "slo/nosuch")
	_, _, group := execute(t, c, "backup", "nosuch", "--to-claim=b")
	objectives := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "servicelevelobjectives"}
	for name, one := range map[string]struct {
		err  error
		want string
	}{
		"no such objective": {absent, "next: kubectl get servicelevelobjectives.bobtail.dev -A lists those there are; -n names the namespace"},
		"no such group":     {group, "next: kubectl get replicationgroups.bobtail.dev -A"},
		"no such namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), "next: kubectl get namespaces lists those there are"},
		"no rights":         {fmt.Errorf("read: %w", apierrors.NewForbidden(objectives, "x", errors.New(`User "eve" cannot get resource "servicelevelobjectives"`))), "next: ask an administrator of the cluster for that right"},
		"no login":          {apierrors.NewUnauthorized("expired"), "next: log in to the cluster again"},
		"no kinds":          {fmt.Errorf("list: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "bobtail.dev", Kind: "RpcService"}}), "next: Bobtail is not installed here: kubectl bobtail check"},
		"nobody there":      {fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED}), "next: kubectl cluster-info asks the same server"},
	} {
		var said bytes.Buffer
		Say(&said, one.err)
		if !strings.Contains(said.String(), one.want) || !strings.HasPrefix(said.String(), "kubectl bobtail: "+one.err.Error()+"\n") {
			t.Errorf("%s: %s", name, said.String())
		}
	}
	// What its own words say, or a quota, or a policy forbids, asks for no right.
	for _, err := range []error{errors.New("--rate: must be above 0"), apierrors.NewForbidden(objectives, "x", errors.New("exceeded quota: small")),
		fmt.Errorf("--simulator=nosuch: %w", os.ErrNotExist)} {
		var said bytes.Buffer
		if Say(&said, err); said.String() != "kubectl bobtail: "+err.Error()+"\n" {
			t.Errorf("%q", said.String())
		}
	}
}

// The same of what is wrong before a cluster is asked.
func TestUsageSaysWhatToDo(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", empty)
	for args, want := range map[string]string{
		"status --outptu=json":    "unknown flag: --outptu; kubectl bobtail status --help lists the options",
		"explain":                 "explain takes slo/NAME or rg/NAME",
		"explain a b":             "explain takes slo/NAME or rg/NAME",
		"bench":                   "bench takes rpcsvc/NAME",
		"backup":                  "backup takes the NAME of a ReplicationGroup",
		"recover a b":             "recover takes the NAME of a ReplicationGroup",
		"plan a b":                "plan takes slo/NAME, or nothing",
		"nosuch":                  "next: kubectl bobtail --help lists the commands",
		"check --host=" + empty:   "--host: must be a folder with proc and sys, such as /",
		"status now":              "status takes no argument",
		"status":                  "next: kubectl config get-contexts lists the clusters you have",
		"status --context=nosuch": "next: kubectl config get-contexts lists the clusters you have",
		"status --kubeconfig=" + empty + "-nosuch": "next: --kubeconfig, or the variable KUBECONFIG, names the file",
	} {
		var out, said bytes.Buffer
		root := Command("test", &out, &out)
		root.SetArgs(strings.Fields(args))
		err := root.ExecuteContext(t.Context())
		if err == nil {
			t.Errorf("%s: no error: %s", args, out.String())
			continue
		}
		if Say(&said, err); !strings.Contains(said.String(), want) {
			t.Errorf("%s: %s", args, said.String())
		}
	}
}
