// SPDX-License-Identifier: Apache-2.0

// The objects of a ReplicationGroup: members with the bones of server pods, in a
// StatefulSet, each with a disk of its own.
package render

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

const (
	// MemberPort is where members talk to one another.
	MemberPort = 8100

	memberDir  = "/var/lib/bobtail"
	memberData = memberDir + "/data"
	memberName = memberDir + "/name"

	dataVolume   = "data"
	identityName = "identity"

	backupVolume = "backup"
	backupDir    = "/backup"
	restoreName  = "restore"
)

// Times of a group, and bounds of its log. A disk's sync of 20 ms does not stop a
// heartbeat, which another thread sends.
const (
	electionMilliseconds  = 300
	heartbeatMilliseconds = 60
	logEntries            = 16384
	snapshotEntries       = 4096
	maxSnapshotBytes      = 16 << 20
)

// volatileBytes bounds what a Volatile member keeps in memory: segments and two
// snapshots.
const volatileBytes = 512 << 20

// GroupObjects returns everything made for in.Group but its configuration and its
// Secrets, in the order in which it should be applied.
func GroupObjects(in Input) []Object {
	objects := []Object{
		serviceAccount(in), role(in), roleBinding(in),
		memberPolicy(in), memberService(in), memberBudget(in), memberSet(in),
	}
	if BoxInPod(in.Group) {
		objects = append(objects, boxPolicy(in), boxService(in), boxDeployment(in))
	}
	if aggregatesInPod(in.Group) || HasAggregator(in.Group) && in.HadAggregator {
		objects = append(objects, aggregatorPolicy(in), aggregatorDeployment(in))
	}
	return objects
}

// MemberSetName is the name of the StatefulSet, of its budget and of its policy.
func MemberSetName(of Named) string { return of.GetName() + "-member" }

// MemberPod is the name of a member's pod.
func MemberPod(of Named, ordinal int) string { return MemberSetName(of) + "-" + strconv.Itoa(ordinal) }

// MemberOrdinal is the place of a pod in its StatefulSet; ok: it is one of the group.
func MemberOrdinal(of Named, pod string) (ordinal int, ok bool) {
	text, is := strings.CutPrefix(pod, MemberSetName(of)+"-")
	n, err := strconv.Atoi(text)
	return n, is && err == nil && n >= 0
}

// GroupAddress is what clients are given as the target: a name, or a switch's address.
func GroupAddress(g *v1alpha1.ReplicationGroup) string {
	if BoxOnSwitch(g) {
		return fmt.Sprintf("%s:%d", g.Spec.Box.Switch.Address, RequestPort)
	}
	return fmt.Sprintf("%s.%s.svc:%d", g.Name, g.Namespace, RequestPort)
}

// ClusterID is what the disks of a group carry: another object of that name is another
// group.
func ClusterID(g *v1alpha1.ReplicationGroup) string {
	id := strings.ReplaceAll(string(g.UID), "-", "")
	if raw, err := hex.DecodeString(id); err == nil && len(raw) == 16 {
		return strings.ToLower(id)
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(g.UID))
	return hex.EncodeToString(h.Sum(nil))
}

// groupNumber tells groups apart on the wire, never 0.
func groupNumber(cluster string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cluster))
	return max(h.Sum32(), 1)
}

// GroupConfig is the document of a group, but for its members and keys.
func GroupConfig(g *v1alpha1.ReplicationGroup, cluster string) *dataplane.GroupConfig {
	c := &dataplane.GroupConfig{
		APIVersion: dataplane.ConfigAPIVersion, Kind: dataplane.KindGroup,
		Sources: []dataplane.Source{{
			Kind: "ReplicationGroup", Namespace: g.Namespace, Name: g.Name, UID: string(g.UID), Generation: g.Generation,
		}},
		Group: dataplane.Group{
			Name: g.Name, Namespace: g.Namespace, Cluster: cluster, Number: groupNumber(cluster),
			Storage: string(g.Spec.Storage.Policy), DeviceProfile: string(v1alpha1.DeviceKernel),
			ElectionMilliseconds: electionMilliseconds, HeartbeatMilliseconds: heartbeatMilliseconds,
			LogEntries: logEntries, SnapshotEntries: snapshotEntries, MaxSnapshotBytes: maxSnapshotBytes,
			InFlightLimit: int(g.Spec.InFlightLimit),
		},
	}
	if s := g.Spec.Sessions; s != nil {
		c.Group.Sessions = int(s.Limit)
	}
	if HasBox(g) {
		c.Group.Protocol = string(g.Spec.Protocol)
	}
	if r := g.Spec.Repliers; r != nil {
		c.Group.Repliers, c.Group.ReplierBound = string(r.Policy), int(r.Bound)
	}
	return c
}

// BookEntry is a member in the document.
func BookEntry(name string, number int, address string) dataplane.GroupMember {
	return dataplane.GroupMember{Name: name, ID: number, Address: address, MemberPort: MemberPort, ClientPort: RequestPort}
}

// membersService is the name under which members are found: that of the group, unless
// clients find a box there.
func membersService(g *v1alpha1.ReplicationGroup) string {
	if HasBox(g) {
		return g.Name + "-members"
	}
	return g.Name
}

// memberService is the name clients are given of a Raft group. A member is found while it
// is not ready: that is when the others and clients ask it who leads.
func memberService(in Input) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   serviceType(),
		ObjectMeta: meta(in, membersService(in.Group), v1alpha1.ComponentMember),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: Selector(in.Group.Name, v1alpha1.ComponentMember),
			Ports: []corev1.ServicePort{{
				Name: "requests", Port: RequestPort, TargetPort: intstr.FromInt32(RequestPort), Protocol: corev1.ProtocolUDP,
			}},
		},
	}
}

// memberPolicy lets requests in from anywhere, and members' messages from members of
// this group alone, and from its aggregator.
func memberPolicy(in Input) *networkingv1.NetworkPolicy {
	from := podsOf(in, v1alpha1.ComponentMember)
	if HasAggregator(in.Group) {
		from = append(from, aggregatorPeers(in)...)
	}
	return policy(in, MemberSetName(in.Group), v1alpha1.ComponentMember,
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, RequestPort)}},
		networkingv1.NetworkPolicyIngressRule{
			From:  from,
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, MemberPort)},
		})
}

// memberBudget keeps evictions from taking more voters than the group can miss. A member
// that is not well counts as taken, so it may go only while the others can spare it.
func memberBudget(in Input) *policyv1.PodDisruptionBudget {
	b := budget(in, MemberSetName(in.Group), v1alpha1.ComponentMember)
	b.Spec.MaxUnavailable = ptr(intstr.FromInt32(in.MaxUnavailable))
	b.Spec.UnhealthyPodEvictionPolicy = ptr(policyv1.IfHealthyBudget)
	return b
}

// memberSet makes all members at once, and never restarts one by itself: the controller
// does, in the order that the group can bear.
func memberSet(in Input) *appsv1.StatefulSet {
	g := in.Group
	pod := podSpec(in, memberContainer(in))
	pod.NodeSelector = v1alpha1.Plain(g.Spec.Server.NodeSelector)
	pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: v1alpha1.PodConditionJoined}}
	pod.TopologySpreadConstraints = memberSpread(g)
	pod.InitContainers = append([]corev1.Container{identityContainer(in)}, pod.InitContainers...)
	if in.Restoring {
		pod.InitContainers = append([]corev1.Container{restoreContainer(in)}, pod.InitContainers...)
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: backupVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: g.Spec.Restore.ClaimName, ReadOnly: true},
		}})
	}
	m := meta(in, MemberSetName(g), v1alpha1.ComponentMember)
	versioned(m.Labels, in.Version)
	set := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: m,
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr(in.Replicas), ServiceName: membersService(g),
			Selector:             &metav1.LabelSelector{MatchLabels: Selector(g.Name, v1alpha1.ComponentMember)},
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			RevisionHistoryLimit: ptr[int32](3),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: m.Labels, Annotations: podAnnotations(in, v1alpha1.ComponentMember)},
				Spec:       pod,
			},
		},
	}
	if g.Spec.Storage.Policy == v1alpha1.StorageVolatile {
		set.Spec.Template.Spec.Volumes = append(set.Spec.Template.Spec.Volumes, corev1.Volume{
			Name: dataVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(volatileBytes, resource.BinarySI),
			}},
		})
		return set
	}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{memberClaim(in)}
	// The disk of a member that was removed is worth nothing: it is never taken in
	// again. Those of a deleted group are all that is left of its data.
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	return set
}

func memberClaim(in Input) corev1.PersistentVolumeClaim {
	s := in.Group.Spec.Storage
	size := int64(0)
	if s.SizeMebibytes != nil {
		size = int64(*s.SizeMebibytes) << 20
	}
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: dataVolume, Labels: Selector(in.Group.Name, v1alpha1.ComponentMember)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: s.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI),
			}},
		},
	}
}

// memberSpread puts members into different zones, and on different nodes, where it can.
func memberSpread(g *v1alpha1.ReplicationGroup) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		out = append(out, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(g.Name, v1alpha1.ComponentMember)},
		})
	}
	return out
}

func memberContainer(in Input) corev1.Container {
	spec := in.Group.Spec.Server
	c := dataplaneContainer(v1alpha1.ComponentMember, spec.Image)
	c.ImagePullPolicy, c.Command, c.Resources = spec.ImagePullPolicy, spec.Command, requirements(spec.Resources)
	// A member waits for its configuration as long as it takes: a group begins when all
	// of its members are there.
	c.StartupProbe = nil
	for _, e := range spec.Env {
		c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "BOBTAIL_DATA", Value: memberData}, corev1.EnvVar{Name: "BOBTAIL_NAME_FILE", Value: memberName})
	if len(spec.Command) == 0 {
		c.Args = []string{
			"--name=@" + memberName, ownAddress, "--data=" + memberData,
			"--ctl=" + ctlPath, "--key-dir=" + keyDir, "--config-cache=" + cacheFn,
		}
	}
	c.Args = append(c.Args, spec.Args...)
	c.Ports = []corev1.ContainerPort{
		{Name: "requests", ContainerPort: RequestPort, Protocol: corev1.ProtocolUDP},
		{Name: "members", ContainerPort: MemberPort, Protocol: corev1.ProtocolUDP},
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: dataVolume, MountPath: memberDir})
	c.SecurityContext.ReadOnlyRootFilesystem = nil // the image is the user's
	return c
}

// restoreContainer makes the first member's disk of a backup, by the program that runs
// in the members. A disk that is there stays as it is.
func restoreContainer(in Input) corev1.Container {
	spec := in.Group.Spec
	return corev1.Container{
		Name: restoreName, Image: spec.Server.Image, ImagePullPolicy: spec.Server.ImagePullPolicy, Command: spec.Server.Command,
		Args: []string{
			"--name=" + restoreName, "--data=" + memberData, "--cluster=" + ClusterID(in.Group),
			"--restore-from=" + backupDir + "/" + spec.Restore.Path,
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: dataVolume, MountPath: memberDir}, {Name: backupVolume, MountPath: backupDir, ReadOnly: true},
		},
		Resources:       requirements(spec.Server.Resources),
		SecurityContext: restricted(),
	}
}

// identityContainer gives a new disk its name, before the member is started.
func identityContainer(in Input) corev1.Container {
	return corev1.Container{
		Name: identityName, Image: in.image("sidecar"), ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{"--name-file=" + memberName, "--member=$(POD_NAME)"},
		Env:             []corev1.EnvVar{podName()},
		VolumeMounts:    []corev1.VolumeMount{{Name: dataVolume, MountPath: memberDir}},
		Resources:       resources("10m", "32Mi", "128Mi"),
		SecurityContext: restricted(),
	}
}
