// SPDX-License-Identifier: Apache-2.0

// The document that configures the members of a ReplicationGroup, what a member says of
// the group, and the commands by which its membership is changed.
package dataplane

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// KindGroup is the kind of the document; one of a service has none.
const KindGroup = "ReplicationGroup"

// Bounds of the document; the parser in C enforces them.
const (
	// MaxGroupBook is how many members a document names at most.
	MaxGroupBook = 16
	// MaxGroupBoxes is how many boxes a document names at most.
	MaxGroupBoxes = 4
	// MaxMemberNumber is the highest number of a member; the one above is the aggregator's. None is given twice.
	MaxMemberNumber = 65534
)

// GroupConfig is the whole configuration of a group. Members is an address book: who is
// a member stands in the members' own log.
type GroupConfig struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Sources    []Source `json:"sources"`
	Group      Group    `json:"group"`
	// InitialMembers found the group if their disks are empty; with none of them a
	// process never founds one.
	InitialMembers []string      `json:"initialMembers"`
	Members        []GroupMember `json:"members"`
	// Boxes and Aggregator stand beside the members of a HovercRaft group.
	Boxes      []GroupBox       `json:"boxes,omitempty"`
	Aggregator *GroupAggregator `json:"aggregator,omitempty"`
	KeyIDs     []int            `json:"keyIds"`
}

// Group is what all members share. All but snapshotEntries and inFlightLimit stay for
// the life of a group.
type Group struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"` // 32 hexadecimal digits
	Number    uint32 `json:"number"`
	Storage   string `json:"storage"`

	DeviceProfile         string `json:"deviceProfile"`
	ElectionMilliseconds  int    `json:"electionMilliseconds"`
	HeartbeatMilliseconds int    `json:"heartbeatMilliseconds"`
	LogEntries            int    `json:"logEntries"`
	SnapshotEntries       int    `json:"snapshotEntries"`
	MaxSnapshotBytes      int    `json:"maxSnapshotBytes"`
	InFlightLimit         int    `json:"inFlightLimit"`

	// Sessions is how many writers are known whose writes are executed once; 0: 1024.
	Sessions int `json:"sessions,omitempty"`

	// Protocol is Raft when empty. The others say who answers a request.
	Protocol     string `json:"protocol,omitempty"`
	Repliers     string `json:"repliers,omitempty"`
	ReplierBound int    `json:"replierBound,omitempty"`
}

// GroupBox is a flow-control box: where clients send to, and members tell what they
// answered.
type GroupBox struct {
	Name         string `json:"name"`
	Address      string `json:"address"`
	ClientPort   int    `json:"clientPort"`
	FeedbackPort int    `json:"feedbackPort"`
	// Messages is Tagged when empty; BySource of a switch, which checks no tag.
	Messages string `json:"messages,omitempty"`
}

// GroupAggregator is the aggregator of a HovercRaft++ group.
type GroupAggregator struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    int    `json:"port"`
	// Messages is Tagged when empty; BySource of a switch, which checks no tag.
	Messages string `json:"messages,omitempty"`
}

// MessagesBySource: what has no tag is believed by where it comes from.
const MessagesBySource = "BySource"

// GroupMember is where one is found.
type GroupMember struct {
	Name       string `json:"name"`
	ID         int    `json:"id"`
	Address    string `json:"address"`
	MemberPort int    `json:"memberPort"`
	ClientPort int    `json:"clientPort"`
}

// RenderGroup returns the canonical text of a document, and its hash: members by their
// number, boxes by their name, so that equal documents give equal bytes.
func RenderGroup(c *GroupConfig) (text []byte, hash string, err error) {
	out := *c
	out.Members = append([]GroupMember{}, c.Members...)
	slices.SortFunc(out.Members, func(a, b GroupMember) int { return cmp.Compare(a.ID, b.ID) })
	out.Boxes = append([]GroupBox(nil), c.Boxes...)
	slices.SortFunc(out.Boxes, func(a, b GroupBox) int { return cmp.Compare(a.Name, b.Name) })
	out.InitialMembers = append([]string{}, c.InitialMembers...)
	slices.Sort(out.InitialMembers)
	out.Sources, out.KeyIDs = append([]Source{}, c.Sources...), append([]int{}, c.KeyIDs...)
	if len(out.Members) > MaxGroupBook {
		return nil, "", &FieldError{Code: config.CodeInvalid, Field: "members", Message: fmt.Sprintf("must have at most %d entries; got %d", MaxGroupBook, len(out.Members))}
	}
	if len(out.Boxes) > MaxGroupBoxes {
		return nil, "", &FieldError{Code: config.CodeInvalid, Field: "boxes", Message: fmt.Sprintf("must have at most %d entries; got %d", MaxGroupBoxes, len(out.Boxes))}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&out); err != nil {
		return nil, "", fmt.Errorf("render the configuration of a group: %w", err)
	}
	text = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return text, config.Hash(text), nil
}

// ParseGroup reads a document that RenderGroup has written.
func ParseGroup(text []byte) (*GroupConfig, error) {
	out := &GroupConfig{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return nil, fmt.Errorf("read the configuration of a group: %w", err)
	}
	if out.Kind != KindGroup {
		return nil, fmt.Errorf("read the configuration of a group: its kind is %q", out.Kind)
	}
	return out, nil
}

// Head is what documents of every kind have.
type Head struct {
	Sources []Source `json:"sources"`
	KeyIDs  []int    `json:"keyIds"`
}

// ParseHead reads it.
func ParseHead(text []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(text, &h); err != nil {
		return Head{}, fmt.Errorf("read the head of a configuration: %w", err)
	}
	return h, nil
}

// Phases of a member.
const (
	PhaseWaiting = "Waiting"
	PhaseRunning = "Running"
	PhaseRefused = "Refused"
	PhaseFailed  = "Failed"
)

// Roles of a member.
const (
	RoleLeader   = "Leader"
	RoleFollower = "Follower"
	RoleLearner  = "Learner"
	RoleVoter    = "Voter"
)

// GroupState is what a member says of itself and of its group.
type GroupState struct {
	ctl.Reply
	Hash    string `json:"hash"`
	Phase   string `json:"phase"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`

	Name    string     `json:"name"`
	ID      int        `json:"id"`
	Cluster string     `json:"cluster"`
	Disk    MemberDisk `json:"disk"`

	Role   string       `json:"role"`
	Term   uint64       `json:"term"`
	Leader MemberLeader `json:"leader"`
	// Aggregated: it leads, and sends by way of the aggregator.
	Aggregated bool `json:"aggregated"`

	Commit  uint64 `json:"commit"`
	Applied uint64 `json:"applied"`
	Last    uint64 `json:"last"`
	Durable uint64 `json:"durable"`

	ConfigurationIndex uint64 `json:"configurationIndex"`
	ChangePending      bool   `json:"changePending"`
	// StatesUndecided is, of a leader, the entry after which no majority has the same
	// state; 0: it is not so.
	StatesUndecided uint64 `json:"statesUndecided"`
	// Formed: all members that found the group have been up once.
	Formed  bool          `json:"formed"`
	Quorum  GroupQuorum   `json:"quorum"`
	Members []MemberState `json:"members"`
}

// MemberDisk is the disk of the member that answers.
type MemberDisk struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message"`
}

// MemberLeader is the leader as the member that answers knows it; ID 0: it knows none.
type MemberLeader struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// GroupQuorum is how many voters there are, must agree, and were heard.
type GroupQuorum struct {
	Voters int `json:"voters"`
	Needed int `json:"needed"`
	Heard  int `json:"heard"`
}

// MemberState is one member of the configuration in force. Match, Lag and
// HeardMillisecondsAgo are known at the leader alone, -1 elsewhere.
type MemberState struct {
	ID                   int    `json:"id"`
	Name                 string `json:"name"`
	Role                 string `json:"role"`
	Registered           bool   `json:"registered"`
	Match                int64  `json:"match"`
	Lag                  int64  `json:"lag"`
	HeardMillisecondsAgo int64  `json:"heardMillisecondsAgo"`
}

// Operations on a group, which its leader takes.
const (
	OpGroup    = "group"
	OpTransfer = "transfer"
	OpAdd      = "add"
	OpPromote  = "promote"
	OpRemove   = "remove"
)

// GroupChange is a command for the leader of a group: Op is one of the above but OpGroup.
type GroupChange struct {
	V          int    `json:"v"`
	Op         string `json:"op"`
	ID         int    `json:"id"`
	Name       string `json:"name,omitempty"`
	Address    string `json:"address,omitempty"`
	MemberPort int    `json:"memberPort,omitempty"`
	ClientPort int    `json:"clientPort,omitempty"`
}

// Check says what is wrong with a command; nil: it may be handed on.
func (c GroupChange) Check() *CtlError {
	bad := func(field, message string) *CtlError {
		return &CtlError{Code: ctl.CodeInvalidRequest, Field: field, Message: message}
	}
	switch c.Op {
	case OpTransfer, OpAdd, OpPromote, OpRemove:
	default:
		return bad("op", fmt.Sprintf("must be %s, %s, %s or %s; got %q", OpTransfer, OpAdd, OpPromote, OpRemove, c.Op))
	}
	if c.ID < 0 || c.ID > MaxMemberNumber || c.ID == 0 && c.Op != OpTransfer {
		return bad("id", fmt.Sprintf("must be 1…%d; got %d", MaxMemberNumber, c.ID))
	}
	return nil
}

// GroupChanged acknowledges a command: it is done when the leader's commit reaches Index.
type GroupChanged struct {
	ctl.Reply
	Index uint64 `json:"index"`
	To    int    `json:"to"`
}

// GroupPath is where a sidecar answers for the member beside it: GET reads the
// GroupState, POST takes a GroupChange.
const GroupPath = "/v1/group"

// Group reads what the member behind one sidecar says of its group.
func (c *Client) Group(ctx context.Context, t Target) (*GroupState, error) {
	out := &GroupState{}
	if err := c.get(ctx, t, GroupPath, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Change hands a command to the member behind one sidecar. A refusal of the member's is
// a *ReadError with Refusal.
func (c *Client) Change(ctx context.Context, t Target, change GroupChange) (*GroupChanged, error) {
	change.V = ctl.Version
	text, err := json.Marshal(change)
	if err != nil {
		return nil, &ReadError{Kind: Garbled, Target: t, Err: err}
	}
	out := &GroupChanged{}
	if err := c.send(ctx, t, question{method: http.MethodPost, path: GroupPath, content: bytes.NewReader(text)}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// maxChange bounds a command.
const maxChange = 4096

// ReadChange reads a command from the body of a request.
func ReadChange(body io.Reader) (GroupChange, *CtlError) {
	var c GroupChange
	text, err := io.ReadAll(io.LimitReader(body, maxChange+1))
	if err == nil && len(text) <= maxChange {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		err = dec.Decode(&c)
		if err == nil && dec.Decode(new(json.RawMessage)) != io.EOF {
			err = errors.New("more than one object")
		}
	}
	if err != nil || len(text) > maxChange {
		return c, &CtlError{Code: ctl.CodeInvalidRequest, Message: fmt.Sprintf("must be one JSON object of at most %d bytes", maxChange)}
	}
	return c, c.Check()
}
