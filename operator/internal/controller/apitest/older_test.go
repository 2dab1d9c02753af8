// SPDX-License-Identifier: Apache-2.0

// An operator of this release in a cluster of an older one: it serves what the older one
// could, says what it lacks, and begins with the rest once that is there.
package apitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/hack/test/controlplane"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/manager"
)

// operatorOf is the variable that makes this test's program an operator: names of
// controllers are one process' own, so a second operator needs a process.
const operatorOf = "BOBTAIL_APITEST_OPERATOR"

// reach is how an operator reaches its API server.
type reach struct {
	Host          string
	CA, Cert, Key []byte
}

// runOperator is that process.
func runOperator(text string) int {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	var at reach
	err := json.Unmarshal([]byte(text), &at)
	if err == nil {
		var options manager.Options
		options, err = manager.ParseOptions([]string{"--namespace=" + operatorNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"}, "9.9.9")
		if err == nil {
			err = manager.Run(ctrl.SetupSignalHandler(), &rest.Config{
				Host: at.Host, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA, CertData: at.Cert, KeyData: at.Key},
				Impersonate: rest.ImpersonationConfig{UserName: "bobtail-operator", Groups: []string{"system:authenticated"}},
			}, options)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// chart010 is the chart of the oldest release, by file.
func chart010(t *testing.T) map[string][]byte {
	t.Helper()
	raw, err := os.ReadFile("../../../../charts/baseline/bobtail-0.1.0.tgz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[strings.TrimPrefix(h.Name, "bobtail/")], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// inBraces are the lines of a chart's CRD that Helm fills in.
var inBraces = regexp.MustCompile(`(?m)^\s*\{\{.*\}\}\n|^  labels:\n`)

// older is a cluster as the chart of 0.1.0 leaves it, with an operator of this release.
type older struct {
	t      *testing.T
	config *rest.Config
	api    client.Client
	ended  <-chan error // of the operator that runs
	stop   func()
}

func olderCluster(t *testing.T) *older {
	t.Helper()
	needs.APIServer(t)
	var crds []*apiextensionsv1.CustomResourceDefinition
	chart := chart010(t)
	for name, text := range chart {
		if !strings.HasPrefix(name, "templates/crds/") {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(inBraces.ReplaceAll(text, nil), crd); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		crds = append(crds, crd)
	}
	if len(crds) != 2 {
		t.Fatalf("%d CRDs in the chart of 0.1.0", len(crds))
	}
	assets, err := needs.APIServerFolder()
	if err != nil {
		t.Fatal(err)
	}
	env := controlplane.At(assets) // it starts beside the other one
	env.CRDs = crds
	config, err := env.Start()
	t.Cleanup(func() { // after the operator's
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o := &older{t: t, config: config}
	if o.api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	installed(t, o.api, chart["files/clusterrole-rules.yaml"], chart["files/role-rules.yaml"])
	o.operator()
	return o
}

// installed makes what a chart makes for its operator.
func installed(t *testing.T, api client.Client, clusterRules, localRules []byte) {
	t.Helper()
	rules := func(text []byte) (rules []rbacv1.PolicyRule) {
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		return rules
	}
	named := metav1.ObjectMeta{Name: "bobtail-operator"}
	local := metav1.ObjectMeta{Name: "bobtail-operator", Namespace: operatorNamespace}
	user := []rbacv1.Subject{{Kind: "User", Name: "bobtail-operator", APIGroup: rbacv1.GroupName}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}},
		&rbacv1.ClusterRole{ObjectMeta: named, Rules: rules(clusterRules)},
		&rbacv1.ClusterRoleBinding{ObjectMeta: named, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: named.Name}},
		&rbacv1.Role{ObjectMeta: local, Rules: rules(localRules)},
		&rbacv1.RoleBinding{ObjectMeta: local, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: local.Name}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bobtail-ca", Namespace: operatorNamespace}},
	} {
		if err := api.Create(context.Background(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// operator starts one, as the user that the older chart's rules allow and nobody more.
func (o *older) operator() {
	o.t.Helper()
	c := o.config
	text, err := json.Marshal(reach{Host: c.Host, CA: c.CAData, Cert: c.CertData, Key: c.KeyData})
	if err != nil {
		o.t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), operatorOf+"="+string(text))
	said, err := os.Create(filepath.Join(o.t.TempDir(), "operator.log"))
	if err != nil {
		o.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	o.ended = ended
	o.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if text, _ := os.ReadFile(said.Name()); o.t.Failed() {
			o.t.Logf("the operator said:\n%s", text)
		}
	})
	o.t.Cleanup(o.stop)
}

// runs fails the test when the operator has ended.
func (o *older) runs() {
	o.t.Helper()
	select {
	case err := <-o.ended:
		o.t.Fatalf("the operator ended: %v", err)
	default:
	}
}

// upgrade brings one CRD of this release.
func (o *older) upgrade(plural string) {
	o.t.Helper()
	text, err := os.ReadFile("../../../../crds/bobtail.dev_" + plural + ".yaml")
	if err != nil {
		o.t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		o.t.Fatal(err)
	}
	there := &apiextensionsv1.CustomResourceDefinition{}
	if err := o.api.Get(context.Background(), client.ObjectKey{Name: crd.Name}, there); err == nil {
		crd.ResourceVersion = there.ResourceVersion
		if err := o.api.Update(context.Background(), crd); err != nil {
			o.t.Fatal(err)
		}
		return
	}
	if err := o.api.Create(context.Background(), crd); err != nil {
		o.t.Fatal(err)
	}
}

// grant gives the operator the Role of this release.
func (o *older) grant() {
	o.t.Helper()
	text, err := os.ReadFile("../../../../charts/bobtail/files/clusterrole-rules.yaml")
	if err != nil {
		o.t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bobtail-operator"}}
	if err := yaml.Unmarshal(text, &role.Rules); err != nil {
		o.t.Fatal(err)
	}
	there := &rbacv1.ClusterRole{}
	if err := o.api.Get(context.Background(), client.ObjectKeyFromObject(role), there); err != nil {
		o.t.Fatal(err)
	}
	role.ResourceVersion = there.ResourceVersion
	if err := o.api.Update(context.Background(), role); err != nil {
		o.t.Fatal(err)
	}
}

// Decision 0024: with the Role and the CRDs of 0.1.0 RpcServices are served. A service
// that wants a device says which right is missing. With this release's CRDs and Role both
// begin by themselves.
func TestOperatorInAnOlderInstallation(t *testing.T) {
	t.Parallel()
	o := olderCluster(t)
	go completeRollouts(t.Context(), o.api)
	first := worldOf(t, o.api, "first")
	if _, _, routers := bringUp(first, `{spec: {workersPerReplica: 2}}`); len(routers) != 2 {
		t.Errorf("%d routers", len(routers))
	}
	o.runs()

	// A watch that began before a CRD changed goes on with the old one for a while, which
	// is the API server's affair: the next operator begins after it.
	o.stop()
	o.upgrade("rpcservices")
	lacking := worldOf(t, o.api, "lacking")
	eventually(t, "the API server has the field", func() (bool, string) { // a CRD that changed is served a little later
		service := lacking.onDevice()
		if err := o.api.Create(context.Background(), service); err != nil {
			return false, err.Error()
		}
		if got, _, _ := unstructured.NestedString(service.Object, "spec", "device", "networkAttachment"); got != "" {
			return true, ""
		}
		return false, fmt.Sprintf("it left the field out; %v", o.api.Delete(context.Background(), service))
	})
	o.operator()
	s := lacking.waitCondition(v1alpha1.ConditionDeviceUsable, metav1.ConditionFalse, v1alpha1.ReasonFellBack)
	if d := s.Status.Devices; len(d) != 2 || d[0].Reason != v1alpha1.ReasonNotPermitted || !strings.Contains(d[0].Message, "endpointslices.discovery.k8s.io") || s.Status.Device != "Kernel" {
		t.Errorf("devices %+v, %s in use", d, s.Status.Device)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("Accepted is %+v", c)
	}
	o.runs()

	o.whenUpgraded(lacking)
}

// whenUpgraded brings the rest of this release, under the operator that runs.
func (o *older) whenUpgraded(lacking *world) {
	o.t.Helper()
	for _, plural := range []string{"latencyexperiments", "programmableswitches", "nodedataplanes", "servicelevelobjectives"} {
		o.upgrade(plural)
	}
	experiment := parse(o.t, baseExperiment)
	merge(experiment.Object, parse(o.t, `{spec: {workload: {protocol: R2P2}, target: {addresses: null, targetRef: {name: nobody}}}}`).Object)
	experiment.SetNamespace(lacking.ns)
	eventually(o.t, "the API server has the kind", func() (bool, string) {
		err := o.api.Create(context.Background(), experiment)
		return err == nil, fmt.Sprint(err)
	})
	o.runs() // kinds without rights are waited for, too
	o.grant()
	eventually(o.t, "an experiment is looked at", func() (bool, string) {
		o.runs()
		e := &v1alpha1.LatencyExperiment{}
		if err := o.api.Get(context.Background(), client.ObjectKeyFromObject(experiment), e); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionAccepted)
		return c != nil && c.Reason == v1alpha1.ReasonTargetNotFound, fmt.Sprintf("%+v", c)
	})
	lacking.patch(&v1alpha1.RpcService{}, "lacking", `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRetryDevice+`":"now"}}}`)
	eventually(o.t, "the device is asked for again", func() (bool, string) {
		d := lacking.service().Status.Devices
		return len(d) == 2 && d[0].Reason == v1alpha1.ReasonDefinitionMissing, fmt.Sprintf("%+v", d)
	})
	o.runs()
}

// onDevice is the service on a device, with Kernel to fall back on.
func (w *world) onDevice() *unstructured.Unstructured {
	o := parse(w.t, baseService)
	merge(o.Object, parse(w.t, `{spec: {device: {type: AFXDP, networkAttachment: data, fallback: [{type: Kernel}]}}}`).Object)
	o.SetNamespace(w.ns)
	o.SetName(w.name)
	return o
}
