// SPDX-License-Identifier: Apache-2.0

// ReplicationGroup is the kind that makes a deterministic server survive the loss of
// pods, nodes and disks: its members execute the same writes in the same order.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplicationGroup is a server whose state is held by several members. A write is
// answered once a majority of them holds it durably. Members are pods of a
// StatefulSet, each with a disk of its own.
//
// Clients find them under its own name: `<name>.<namespace>.svc`, port 8000.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.members,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=replicationgroups,singular=replicationgroup,shortName=rg,categories=bobtail
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.voters`,description="Healthy voters, of those asked for"
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Term",type=integer,JSONPath=`.status.term`
// +kubebuilder:printcolumn:name="Lag",type=integer,JSONPath=`.status.lagEntries`,description="Entries that the member furthest behind has yet to get"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Protocol",type=string,priority=1,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Aggregator",type=string,priority=1,JSONPath=`.status.aggregator`
// +kubebuilder:printcolumn:name="Address",type=string,priority=1,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Backup",type=date,priority=1,JSONPath=`.status.lastBackupTime`,description="Since the last backup was complete"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="`metadata.name` must be no longer than 40 characters: the names of the objects made for it are longer"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="`metadata.name` must be a DNS label that starts with a letter: a Service of that name is made"
type ReplicationGroup struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to run.
	// +required
	Spec ReplicationGroupSpec `json:"spec,omitzero"`

	// status says what is running. The operator writes it.
	// +optional
	Status ReplicationGroupStatus `json:"status,omitempty,omitzero"`
}

// ReplicationGroupList is a list of ReplicationGroup.
//
// +kubebuilder:object:root=true
type ReplicationGroupList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the groups.
	Items []ReplicationGroup `json:"items"`
}

// ReplicationGroupSpec says what to run.
//
// +kubebuilder:validation:XValidation:rule="self.members % 2 == 1",message="`members` must be odd: an even count survives no more failures than the odd one below it"
// +kubebuilder:validation:XValidation:rule="self.protocol == oldSelf.protocol",message="`protocol` cannot be changed: members of two protocols do not understand each other; create another ReplicationGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.repliers) || self.protocol != 'Raft'",message="`repliers` may not be specified with `protocol` Raft: its leader answers every request; leave it out, or choose HovercRaft"
// +kubebuilder:validation:XValidation:rule="has(self.repliers) == has(oldSelf.repliers) && (!has(self.repliers) || self.repliers == oldSelf.repliers)",message="`repliers` cannot be changed: all members must choose alike; create another ReplicationGroup"
// +kubebuilder:validation:XValidation:rule="has(self.sessions) == has(oldSelf.sessions) && (!has(self.sessions) || self.sessions == oldSelf.sessions)",message="`sessions` cannot be changed: all members must forget the same writer at the same entry; create another ReplicationGroup"
// +kubebuilder:validation:XValidation:rule="self.storage == oldSelf.storage",message="`storage` cannot be changed: the disks exist; create another ReplicationGroup"
// +kubebuilder:validation:XValidation:rule="has(self.restore) == has(oldSelf.restore) && (!has(self.restore) || self.restore == oldSelf.restore)",message="`restore` cannot be changed: a group begins once; create another ReplicationGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.restore) || self.storage.policy == 'Always'",message="`restore` may not be specified with `storage.policy` Volatile: its members keep no disk that could be filled"
// +kubebuilder:validation:XValidation:rule="has(self.box) == has(oldSelf.box) && (!has(self.box) || self.box == oldSelf.box)",message="`box` cannot be changed: clients are given its address; create another ReplicationGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.box) || self.protocol != 'Raft'",message="`box` may not be specified with `protocol` Raft: its clients ask the leader; leave it out, or choose HovercRaft"
// +kubebuilder:validation:XValidation:rule="!has(self.box) || !has(self.box.switch) || !has(self.aggregator) || !has(self.aggregator.switch) || self.box.switch.name != self.aggregator.switch.name",message="`box.switch.name` must differ from `aggregator.switch.name`: a switch runs one program"
// +kubebuilder:validation:XValidation:rule="!has(self.aggregator) || self.protocol == 'HovercRaftPlusPlus'",message="`aggregator` needs `protocol` HovercRaftPlusPlus: the others have none; leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.server.podTemplate)",message="`server.podTemplate` may not be specified: members are not made from one yet; use the short fields of `server`"
type ReplicationGroupSpec struct {
	// members is how many there are. 3 survive the loss of one, 5 of two, 7 of three,
	// 9 of four. A change is made one member at a time.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=9
	Members int32 `json:"members,omitempty"`

	// protocol is how members agree. With HovercRaft clients talk to a flow-control
	// box, and every member answers its share. HovercRaftPlusPlus adds an aggregator
	// between the leader and its followers. Both are pods of the operator's unless `box`
	// or `aggregator` says otherwise.
	// +optional
	// +kubebuilder:default=Raft
	Protocol ReplicationProtocol `json:"protocol,omitempty"`

	// server says what runs in the members.
	// +required
	Server RpcServiceServer `json:"server,omitzero"`

	// storage says what a member keeps its vote and its log on.
	// +required
	Storage ReplicationStorage `json:"storage,omitzero"`

	// repliers says who answers a request of a HovercRaft group.
	// +optional
	Repliers *GroupRepliers `json:"repliers,omitempty"`

	// box says where the flow-control box of a HovercRaft group is: in pods when absent,
	// or in a switch.
	// +optional
	Box *GroupBox `json:"box,omitempty"`

	// aggregator says where the aggregator of a HovercRaft++ group is: in a pod when
	// absent, or in a switch.
	// +optional
	Aggregator *GroupAggregator `json:"aggregator,omitempty"`

	// inFlightLimit is how many requests the leader, or the flow-control box, has let in
	// that are not answered yet. It answers DROP to more, which always means that nothing
	// was executed.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	InFlightLimit int32 `json:"inFlightLimit,omitempty"`

	// sessions says of how many writers members know what they asked last. Their writes
	// are executed once, however often they are asked for. 1024 when absent.
	// +optional
	Sessions *GroupSessions `json:"sessions,omitempty"`

	// imagePullSecrets name Secrets of this namespace for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`

	// restore begins the group with a backup, or with the disk of another group's
	// member. The first member is made of it alone, then the others are taken in.
	// +optional
	Restore *GroupRestore `json:"restore,omitempty"`
}

// GroupRestore names what a group begins with.
type GroupRestore struct {
	// claimName is a PersistentVolumeClaim of this namespace. It is read, and not
	// changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`

	// path of the copy in that volume. On a member's own disk it is `data`.
	// +optional
	// +kubebuilder:default=data
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$')",message="`path` must be a path below the top of the volume, of letters, digits, `-`, `_` and `.`: give one such as orders/2026-11-26"
	Path string `json:"path,omitempty"`
}

// GroupSessions bounds the table of writers whose writes are executed once.
type GroupSessions struct {
	// limit of writers. With more, the one that was silent for longest is forgotten, and
	// told so when it comes back. Each takes up to 1 KiB of memory and of a snapshot.
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Limit int32 `json:"limit,omitempty"`
}

// GroupRepliers says who answers a request.
type GroupRepliers struct {
	// policy JBSQ names the member that has least to execute; Random anyone below the
	// bound.
	// +optional
	// +kubebuilder:default=JBSQ
	Policy ReplierPolicy `json:"policy,omitempty"`

	// bound is how many requests a member may have to execute that it is to answer. So
	// many answers are lost with it at most.
	// +optional
	// +kubebuilder:default=128
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Bound int32 `json:"bound,omitempty"`
}

// ReplierPolicy is how the member is chosen that answers.
// +kubebuilder:validation:Enum=JBSQ;Random
type ReplierPolicy string

const (
	// RepliersJBSQ: whoever has least to execute.
	RepliersJBSQ ReplierPolicy = "JBSQ"
	// RepliersRandom: anyone below the bound.
	RepliersRandom ReplierPolicy = "Random"
)

// AggregatorUse says whether a leader sends by way of the aggregator.
// +kubebuilder:validation:Enum=InUse;Bypassed
type AggregatorUse string

const (
	// AggregatorInUse: entries go by way of it.
	AggregatorInUse AggregatorUse = "InUse"
	// AggregatorBypassed: the leader sends to each member itself, as without one.
	AggregatorBypassed AggregatorUse = "Bypassed"
)

// ReplicationProtocol is how members agree.
// +kubebuilder:validation:Enum=Raft;HovercRaft;HovercRaftPlusPlus
type ReplicationProtocol string

const (
	// ReplicationRaft: the leader sends every request to every member.
	ReplicationRaft ReplicationProtocol = "Raft"
	// ReplicationHovercRaft: clients' requests go to all members, the leader sends
	// their order.
	ReplicationHovercRaft ReplicationProtocol = "HovercRaft"
	// ReplicationHovercRaftPlusPlus: an aggregator does the leader's counting.
	ReplicationHovercRaftPlusPlus ReplicationProtocol = "HovercRaftPlusPlus"
)

// ReplicationStorage says what a member keeps its vote and its log on.
//
// +kubebuilder:validation:XValidation:rule="(self.policy == 'Always') == has(self.sizeMebibytes)",message="`sizeMebibytes` must be given with `policy` Always, and only with it: Volatile members keep nothing on a disk"
// +kubebuilder:validation:XValidation:rule="self.policy == 'Always' || !has(self.storageClassName)",message="`storageClassName` may not be specified with `policy` Volatile: there is no claim of a volume"
type ReplicationStorage struct {
	// policy Always makes every write durable on a majority of disks before it is
	// answered. Volatile keeps all of it in memory: a member that restarts has
	// forgotten everything and is taken in as a new one, and when a majority restarts
	// at the same time the data is gone.
	// +optional
	// +kubebuilder:default=Always
	Policy StoragePolicy `json:"policy,omitempty"`

	// sizeMebibytes is the size of the volume of each member.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=67108864
	SizeMebibytes *int32 `json:"sizeMebibytes,omitempty"`

	// storageClassName is the class of the volumes; the cluster's default when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// StoragePolicy says when a write is durable.
// +kubebuilder:validation:Enum=Always;Volatile
type StoragePolicy string

const (
	// StorageAlways: on disk before it is answered.
	StorageAlways StoragePolicy = "Always"
	// StorageVolatile: in memory.
	StorageVolatile StoragePolicy = "Volatile"
)

// MaxGroupMembers bounds status.members, for who fills it in: during a change there are
// more than the specification asks for.
const MaxGroupMembers = 16

// ReplicationGroupStatus says what is running.
type ReplicationGroupStatus struct {
	// observedGeneration is the generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// clusterID is what the disks of the group carry. Once it stands here the group has
	// begun, and never begins again.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ClusterID string `json:"clusterID,omitempty"`

	// formedTime is when all members that found the group had been up once. From then on
	// clients are served, and a member without a disk never founds it again.
	// +optional
	FormedTime *metav1.Time `json:"formedTime,omitempty"`

	// nextNumber is the number of the next new member. None is given twice.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NextNumber int32 `json:"nextNumber,omitempty"`

	// replicas is the number of member pods that exist.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`

	// selector selects the member pods.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// address is what clients are given as the target.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Address string `json:"address,omitempty"`

	// voters is "healthy/asked for", for people.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Voters string `json:"voters,omitempty"`

	// votersInForce is how many the members themselves count; quorum is how many of
	// them must agree, healthyVoters how many are well.
	// +optional
	// +kubebuilder:validation:Minimum=0
	VotersInForce int32 `json:"votersInForce,omitempty"`

	// quorum is how many voters must agree.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quorum int32 `json:"quorum,omitempty"`

	// healthyVoters answer, and follow the leader.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HealthyVoters int32 `json:"healthyVoters"`

	// leader is the pod that leads; empty while none is known.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Leader string `json:"leader,omitempty"`

	// term is the newest that a member speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Term int64 `json:"term,omitempty"`

	// lagEntries is how many entries the member furthest behind has yet to get.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LagEntries *int64 `json:"lagEntries,omitempty"`

	// statesUndecidedEntry is the entry after which the members' states differ and no
	// majority has the same one; absent while it is not so. Nobody is fenced then.
	// +optional
	// +kubebuilder:validation:Minimum=1
	StatesUndecidedEntry *int64 `json:"statesUndecidedEntry,omitempty"`

	// lastBackupTime is when the last backup by `kubectl bobtail backup` was complete.
	// +optional
	LastBackupTime *metav1.Time `json:"lastBackupTime,omitempty"`

	// configHash is that of the configuration that members should run.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// boxes are the pods that take clients' requests; of HovercRaft groups.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=253
	Boxes []string `json:"boxes,omitempty"`

	// aggregator says whether the leader sends by way of it; of HovercRaft++ groups. The
	// group serves either way.
	// +optional
	Aggregator AggregatorUse `json:"aggregator,omitempty"`

	// members are those that the configuration names, and those that are leaving.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=16
	Members []GroupMemberStatus `json:"members,omitempty"`
}

// GroupMemberStatus is one member.
type GroupMemberStatus struct {
	// number by which members know it. A pod whose disk was lost gets a new one.
	// +required
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number"`

	// name by which it finds itself in the configuration. It lies on its disk, so a
	// disk that was lost has another one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// pod it runs in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// role that the members' own configuration gives it.
	// +optional
	Role GroupMemberRole `json:"role,omitempty"`

	// state it is in.
	// +optional
	State GroupMemberState `json:"state,omitempty"`

	// lagEntries is how many entries it has yet to get, as the leader knows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LagEntries *int64 `json:"lagEntries,omitempty"`
}

// GroupMemberRole is what the members' own configuration makes of a member.
// +kubebuilder:validation:Enum=Joining;Learner;Voter;Leaving
type GroupMemberRole string

const (
	// MemberJoining: it is to be taken in.
	MemberJoining GroupMemberRole = "Joining"
	// MemberLearner: it gets all entries and counts for nothing.
	MemberLearner GroupMemberRole = "Learner"
	// MemberVoter: it counts.
	MemberVoter GroupMemberRole = "Voter"
	// MemberLeaving: it is to be removed, and counts until it is.
	MemberLeaving GroupMemberRole = "Leaving"
)

// GroupMemberState says how a member is.
// +kubebuilder:validation:Enum=Leading;Following;Behind;Starting;Unreachable;Failed;Foreign
type GroupMemberState string

const (
	// MemberLeading: it leads.
	MemberLeading GroupMemberState = "Leading"
	// MemberFollowing: it follows the leader.
	MemberFollowing GroupMemberState = "Following"
	// MemberBehind: it answers, and does not follow the leader.
	MemberBehind GroupMemberState = "Behind"
	// MemberStarting: it has no configuration yet.
	MemberStarting GroupMemberState = "Starting"
	// MemberUnreachable: its pod does not run, or its sidecar does not answer.
	MemberUnreachable GroupMemberState = "Unreachable"
	// MemberFailed: its disk failed or is damaged, or its state is another one than a majority's; it answers nobody.
	MemberFailed GroupMemberState = "Failed"
	// MemberForeign: its disk belongs to another group, or to a member that was removed.
	MemberForeign GroupMemberState = "Foreign"
)
