// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of ReplicationGroup, besides those of RpcService.
const (
	// ReasonNoBox: no flow-control box takes requests; members are well, and idle.
	ReasonNoBox = "NoBox"

	// ReasonWaitingForMembers: a group begins when all members are there; who is not?
	ReasonWaitingForMembers = "WaitingForMembers"

	// ReasonForeignDisk: a disk belongs to another group; the message names the claim.
	ReasonForeignDisk = "ForeignDisk"

	// ReasonNoQuorum: fewer voters answer than must agree; the group answers nothing.
	ReasonNoQuorum = "NoQuorum"

	// ReasonNoLeader: enough voters are there, and none of them leads yet.
	ReasonNoLeader = "NoLeader"

	// ReasonChangingMembers: members are to come or to go; the message says which.
	ReasonChangingMembers = "ChangingMembers"

	// ReasonMembersNotReady: a quorum serves; the message says who is not well, and why.
	ReasonMembersNotReady = "MembersNotReady"
)
