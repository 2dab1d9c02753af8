// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/manager"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
)

const operatorNamespace = "bobtail-system"

var (
	operatorOnce                 sync.Once
	operatorContext, endOperator = context.WithCancel(context.Background())
	operatorEnded                = make(chan struct{})
	operatorStarted              bool
)

// stopOperator ends it before its API server goes away.
func stopOperator() {
	endOperator()
	if operatorStarted {
		<-operatorEnded
	}
}

// operator starts the whole operator, once, as the user that the chart's rules
// allow and nobody more: a right that is missing fails these tests.
func operator(t *testing.T) {
	t.Helper()
	needs.APIServer(t)
	operatorOnce.Do(func() {
		restricted := rest.CopyConfig(config)
		restricted.Impersonate = rest.ImpersonationConfig{UserName: "bobtail-operator", Groups: []string{"system:authenticated"}}
		install(t)
		options, err := manager.ParseOptions([]string{
			"--namespace=" + operatorNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0",
			"--router-fast-path=Auto", "--crab", "--crab-vip-pool=" + vipPool + "," + vipPool6,
		}, "9.9.9")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(operatorEnded)
			if err := manager.Run(operatorContext, restricted, options); err != nil {
				fmt.Fprintln(os.Stderr, "apitest: the operator:", err)
			}
		}()
		operatorStarted = true
		go completeRollouts()
	})
}

// stuckImage is an image whose pods never start.
const stuckImage = "stuck"

// completeRollouts does what the Deployment controller does once pods are ready.
func completeRollouts() {
	for operatorContext.Err() == nil {
		list := &appsv1.DeploymentList{}
		_ = direct.List(operatorContext, list)
		for i := range list.Items {
			d := &list.Items[i]
			if d.Status.ObservedGeneration == d.Generation {
				continue
			}
			before := d.DeepCopy()
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas}
			if d.Spec.Template.Spec.Containers[0].Image == stuckImage {
				d.Status.Replicas, d.Status.UpdatedReplicas = *d.Spec.Replicas+1, 1
			}
			_ = direct.Status().Patch(operatorContext, d, client.MergeFrom(before))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// install makes what the chart makes for the operator.
func install(t *testing.T) {
	t.Helper()
	rules := func(file string) (rules []rbacv1.PolicyRule) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		return rules
	}
	named := metav1.ObjectMeta{Name: "bobtail-operator"}
	crab := metav1.ObjectMeta{Name: "bobtail-operator-crab"}
	local := metav1.ObjectMeta{Name: "bobtail-operator", Namespace: operatorNamespace}
	user := []rbacv1.Subject{{Kind: "User", Name: "bobtail-operator", APIGroup: rbacv1.GroupName}}
	ctx := context.Background()
	for _, err := range []error{
		direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}),
		direct.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: named, Rules: rules("../../../../charts/bobtail/files/clusterrole-rules.yaml")}),
		direct.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: named, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: named.Name}}),
		direct.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: crab, Rules: rules("../../../../charts/bobtail/files/crab-operator-rules.yaml")}),
		direct.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: crab, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: crab.Name}}),
		direct.Create(ctx, &rbacv1.Role{ObjectMeta: local, Rules: rules("../../../../charts/bobtail/files/role-rules.yaml")}),
		direct.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: local, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: local.Name}}),
		direct.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bobtail-ca", Namespace: operatorNamespace}}),
		direct.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: pki.AgentSecretName, Namespace: operatorNamespace}}),
		direct.Create(ctx, &coordinationv1.Lease{ObjectMeta: local}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// `helm test` runs this against the cluster.
func TestCheckSeesTheOperatorAct(t *testing.T) {
	operator(t)
	err := manager.Check(context.Background(), config, []string{"--namespace=" + operatorNamespace, "--timeout=20s"})
	if err != nil {
		t.Error(err)
	}
	start := time.Now()
	err = manager.Check(context.Background(), config, []string{"--namespace=default", "--timeout=1s"})
	if err == nil || time.Since(start) > time.Minute {
		t.Errorf("a namespace without a lease passed the check: %v", err)
	}
}
