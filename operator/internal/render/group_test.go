// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func loadGroup(t *testing.T, file string) Input {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &v1alpha1.ReplicationGroup{}
	if err := yaml.UnmarshalStrict(text, g); err != nil {
		t.Fatal(err)
	}
	return Input{
		Group: g, Registry: "registry.example", Version: "1.2.3", OperatorNamespace: "bobtail-system",
		Replicas: g.Spec.Members, MaxUnavailable: (g.Spec.Members - 1) / 2,
		Restoring: g.Spec.Restore != nil,
	}
}

func groupText(t *testing.T, in Input) []byte {
	t.Helper()
	doc := GroupConfig(in.Group, ClusterID(in.Group))
	for i := range int(in.Group.Spec.Members) {
		name := fmt.Sprintf("%s-%010d", MemberPod(in.Group, i), i)
		doc.InitialMembers = append(doc.InitialMembers, name)
		doc.Members = append(doc.Members, BookEntry(name, i+1, fmt.Sprintf("10.0.0.%d", i+1)))
	}
	if HasBox(in.Group) {
		doc.Boxes = []dataplane.GroupBox{BoxEntry(in.Group.Name+"-box-x", "10.0.1.1")}
	}
	if HasAggregator(in.Group) {
		doc.Aggregator = AggregatorEntry(in.Group.Name+"-aggregator-x", "10.0.2.1")
	}
	doc.KeyIDs = []int{1}
	config, hash, err := dataplane.RenderGroup(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, o := range append(GroupObjects(in), ConfigMap(in, config, hash), Secret(in, KeysName(in.Group), nil, nil)) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(raw)
	}
	return out.Bytes()
}

var groupFiles = []string{"minimal", "volatile", "custom", "restored", "plusplus", "redis"}

// TestGoldenGroups: every testdata/group/x.in.yaml renders to x.out.yaml. Run with
// -update after a wanted change, and review the difference.
func TestGoldenGroups(t *testing.T) {
	files, err := filepath.Glob("testdata/group/*.in.yaml")
	if err != nil || len(files) != len(groupFiles) {
		t.Fatalf("testdata is missing: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			got := groupText(t, loadGroup(t, file))
			golden := strings.Replace(file, ".in.", ".out.", 1)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("differs from %s; run go test ./operator/internal/render -update and review the difference.\n%s", golden, firstDifference(got, want))
			}
		})
	}
}

func memberSetOf(t *testing.T, in Input) *appsv1.StatefulSet {
	t.Helper()
	for _, o := range GroupObjects(in) {
		if set, is := o.(*appsv1.StatefulSet); is {
			return set
		}
	}
	t.Fatal("no StatefulSet")
	return nil
}

// G-7: members keep to the restricted pod security standard, all of them; the API's token
// is for the sidecar alone, the disk is not.
func TestGroupsRestrictedPodSecurity(t *testing.T) {
	for _, file := range groupFiles {
		pod := memberSetOf(t, loadGroup(t, "testdata/group/"+file+".in.yaml")).Spec.Template.Spec
		if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			pod.HostNetwork || pod.HostPID || pod.HostIPC || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: pod security %+v", file, pod.SecurityContext)
		}
		for _, v := range pod.Volumes {
			if v.PersistentVolumeClaim != nil && !v.PersistentVolumeClaim.ReadOnly {
				t.Errorf("%s: volume %s of a backup can be written to", file, v.Name)
			}
			if v.HostPath != nil {
				t.Errorf("%s: volume %s is a folder of the node", file, v.Name)
			}
		}
		containers := append(pod.InitContainers, pod.Containers...)
		want := 3
		if file == "restored" {
			want = 4
		}
		if len(containers) != want {
			t.Errorf("%s: %d containers", file, len(containers))
		}
		for _, c := range containers {
			if checkContainer(t, file, c, nil) != 0 {
				t.Errorf("%s: container %s runs as root", file, c.Name)
			}
			for _, m := range c.VolumeMounts {
				if m.Name == dataVolume && c.Name == sidecarName {
					t.Errorf("%s: the sidecar sees the data", file)
				}
			}
		}
	}
}

// G-2: the disk has its name before the member starts, and the sidecar runs beside it.
func TestMembersStartInOrder(t *testing.T) {
	pod := memberSetOf(t, loadGroup(t, "testdata/group/minimal.in.yaml")).Spec.Template.Spec
	if pod.InitContainers[0].Name != identityName || pod.InitContainers[0].RestartPolicy != nil || pod.InitContainers[1].Name != sidecarName || *pod.InitContainers[1].RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("init containers %s, %s", pod.InitContainers[0].Name, pod.InitContainers[1].Name)
	}
	if c := pod.Containers[0]; c.StartupProbe != nil || c.Args[0] != "--name=@/var/lib/bobtail/name" {
		t.Errorf("member %+v", c)
	}
}

// G-5: nothing restarts a member but the controller, and a volume outlives its group but
// not its member.
func TestMemberSetLeavesRestartsToTheController(t *testing.T) {
	for _, file := range groupFiles {
		in := loadGroup(t, "testdata/group/"+file+".in.yaml")
		set := memberSetOf(t, in)
		if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Errorf("%s: %v, %v", file, set.Spec.UpdateStrategy, set.Spec.PodManagementPolicy)
		}
		volatile := in.Group.Spec.Storage.Policy == v1alpha1.StorageVolatile
		if (len(set.Spec.VolumeClaimTemplates) == 0) != volatile {
			t.Errorf("%s: claims %+v", file, set.Spec.VolumeClaimTemplates)
		}
		if volatile {
			v := set.Spec.Template.Spec.Volumes[len(set.Spec.Template.Spec.Volumes)-1]
			if v.Name != dataVolume || v.EmptyDir.Medium != corev1.StorageMediumMemory || v.EmptyDir.SizeLimit.IsZero() {
				t.Errorf("%s: volume %+v", file, v)
			}
			continue
		}
		if r := set.Spec.PersistentVolumeClaimRetentionPolicy; r.WhenDeleted != "Retain" || r.WhenScaled != "Delete" {
			t.Errorf("%s: claims are kept as %+v", file, r)
		}
	}
}

// G-6: the budget is the one that was computed, and a member that is ill counts.
func TestMemberBudget(t *testing.T) {
	in := loadGroup(t, "testdata/group/volatile.in.yaml")
	for _, n := range []int32{0, 2} {
		in.MaxUnavailable = n
		b := memberBudget(in)
		if b.Spec.MaxUnavailable.IntVal != n || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.IfHealthyBudget {
			t.Errorf("budget %+v", b.Spec)
		}
	}
}

// G-7: who may talk to members, on which port.
func TestTrafficMatrixOfGroups(t *testing.T) {
	orders, cache := loadGroup(t, "testdata/group/minimal.in.yaml"), loadGroup(t, "testdata/group/volatile.in.yaml")
	shop := load(t, "testdata/full.in.yaml")
	stock := loadGroup(t, "testdata/group/plusplus.in.yaml")
	policies := []*networkingv1.NetworkPolicy{memberPolicy(orders), memberPolicy(cache), serverPolicy(shop), memberPolicy(stock), boxPolicy(stock), aggregatorPolicy(stock)}
	pod := func(name, namespace string, l map[string]string) endpoint { return endpoint{name, namespace, l} }
	member := pod("member", "shop", Selector("orders", v1alpha1.ComponentMember))
	parties := []endpoint{
		member,
		pod("member of another group", "shop", Selector("cache", v1alpha1.ComponentMember)),
		pod("member of that name elsewhere", "other", Selector("orders", v1alpha1.ComponentMember)),
		pod("server of that name", "shop", Selector("orders", v1alpha1.ComponentServer)),
		pod("client", "shop", map[string]string{"app": "web"}),
		pod("client elsewhere", "other", map[string]string{"app": "web"}),
		pod("operator", "bobtail-system", OperatorLabels),
		pod("operator's labels elsewhere", "other", OperatorLabels),
	}
	for _, c := range []struct {
		protocol corev1.Protocol
		port     int32
		who      map[string]bool // nil: everybody
	}{
		{corev1.ProtocolUDP, 8000, nil}, {corev1.ProtocolTCP, 9464, nil},
		{corev1.ProtocolUDP, 8100, map[string]bool{"member": true}}, {corev1.ProtocolTCP, 9443, map[string]bool{"operator": true}},
		{corev1.ProtocolTCP, 8100, map[string]bool{}}, {corev1.ProtocolUDP, 8001, map[string]bool{}},
		{corev1.ProtocolUDP, 9000, map[string]bool{}}, {corev1.ProtocolTCP, 22, map[string]bool{}},
	} {
		for _, from := range parties {
			want := c.who == nil || c.who[from.name]
			if got := allows(t, policies, flow{from, member, c.protocol, c.port, want}); got != want {
				t.Errorf("%s to a member, %s %d: let through %v, want %v", from.name, c.protocol, c.port, got, want)
			}
		}
	}
}

// K-21: what is documented to find pods of ours finds members, too.
func TestMembersHaveTheRecommendedLabels(t *testing.T) {
	in := loadGroup(t, "testdata/group/minimal.in.yaml")
	for _, o := range GroupObjects(in) {
		hasAll(t, o.GetName(), o.GetLabels(), map[string]string{"app.kubernetes.io/name": "replicationgroup", "app.kubernetes.io/instance": "orders",
			"app.kubernetes.io/part-of": "bobtail", "app.kubernetes.io/managed-by": "bobtail-operator", "bobtail.dev/service": "orders"})
		if owner := o.GetOwnerReferences()[0]; owner.Kind != "ReplicationGroup" || owner.UID != in.Group.UID || !*owner.Controller {
			t.Errorf("%s is owned by %+v", o.GetName(), owner)
		}
	}
}

// G-1: another object of that name is another group, on disks and on the wire.
func TestClusterIDs(t *testing.T) {
	a, b := loadGroup(t, "testdata/group/minimal.in.yaml").Group, loadGroup(t, "testdata/group/volatile.in.yaml").Group
	if ClusterID(a) != "11111111222243338444555555555555" || ClusterID(a) == ClusterID(b) || groupNumber(ClusterID(a)) == groupNumber(ClusterID(b)) {
		t.Errorf("cluster ids %s and %s", ClusterID(a), ClusterID(b))
	}
	a.UID = "not-a-uuid"
	if len(ClusterID(a)) != 32 {
		t.Errorf("cluster id %q", ClusterID(a))
	}
	for pod, want := range map[string]int{"orders-member-0": 0, "orders-member-12": 12, "orders-member-": -1, "orders-member-x": -1, "order-member-1": -1, "orders-member--1": -1} {
		if n, is := MemberOrdinal(a, pod); is != (want >= 0) || is && n != want {
			t.Errorf("%s: %d %v", pod, n, is)
		}
	}
}
