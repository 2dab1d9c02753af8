// SPDX-License-Identifier: Apache-2.0

//go:build replica

// Package replica plays a replication group of real processes: every member in
// a network namespace of its own, with its log on a disk of this machine, and
// clients in another one. Members are killed, stopped, cut off and filled up,
// while what the clients saw is recorded and judged.
package replica

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

const (
	memberPort = 8100
	clientPort = 8000
	feedback   = 9000
	aggregator = 8300
	multicast  = "239.119.7.1"
	groupPort  = 8200
	keyHex     = "00112233445566778899aabbccddeeff"
	cluster    = "b0b7a11000000000000000000000c1d0"
	groupNo    = 7
	patience   = 60 * time.Second // for an event on a busy machine
)

// Member is one process, or the place of one.
type Member struct {
	ID   int
	Host int
	IP   string
	Name string
	Dir  string // its disk
	As   string // under which name it is started, at its own address; "": its own
	// Program runs in place of bobtail-replica; "": that.
	Program string
	proc    *bed.Process
	runs    int
}

// Kind says how a group is to be made.
type Kind struct {
	Volatile   bool
	HovercRaft bool
	Multicast  bool   // of a HovercRaft group: the box sends one packet to all
	PlusPlus   bool   // of a HovercRaft group: HovercRaft++, with an aggregator
	Registers  string // of the aggregator: "switch", "": whole
	Repliers   string // "JBSQ", "Random"; "": not said
	Patient    bool   // nobody stands for election because the machine is busy
	Redis      bool   // members are Redis servers
	Here       bool   // on this machine's loopback, without a network in between: what is measured is the group
}

// Group is a group and where it lives.
type Group struct {
	Kind
	Net        *bed.Network
	Clients    int // host of the clients
	Dir        string
	Members    []*Member // by id - 1
	Box        *Member   // of a HovercRaft group
	Aggregator *Member   // of a HovercRaft++ group
	founders   []string
	extra      []string // options of every member
	wanted     []int    // ids that are to have a vote; none: nobody walks
	avoided    []int    // ids that are not to lead
}

// Sample is a counter or a gauge.
type Sample struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  uint64            `json:"value"`
}

// Status is what a member says of itself.
type Status struct {
	OK      bool   `json:"ok"`
	Phase   string `json:"phase"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	ID      int    `json:"id"`
	Role    string `json:"role"`
	Term    uint64 `json:"term"`
	Leader  struct {
		ID int `json:"id"`
	} `json:"leader"`
	Disk struct {
		ID    string `json:"id"`
		State string `json:"state"`
	} `json:"disk"`
	Commit  uint64 `json:"commit"`
	Applied uint64 `json:"applied"`
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Formed  bool   `json:"formed"`
	Pending bool   `json:"changePending"`
	// Undecided is the entry after which no majority has the same state.
	Undecided uint64 `json:"statesUndecided"`
	Removed   []int  `json:"removed"`
	Quorum    struct {
		Voters int `json:"voters"`
		Heard  int `json:"heard"`
	} `json:"quorum"`
	Snapshot struct {
		Index uint64 `json:"index"`
	} `json:"snapshot"`
	Members []struct {
		ID         int    `json:"id"`
		Role       string `json:"role"`
		Registered bool   `json:"registered"`
		Lag        int64  `json:"lag"`
	} `json:"members"`
	Counters []Sample                               `json:"counters"`
	Gauges   []Sample                               `json:"gauges"`
	Error    *struct{ Code, Field, Message string } `json:"error"`
	Index    uint64                                 `json:"index"`
}

func program(name, variable string) string {
	if p := os.Getenv(variable); p != "" {
		return p
	}
	wd, _ := os.Getwd()
	return filepath.Join(wd, "..", "..", "build", "dataplane", "apps", name, name)
}

// NewGroup makes the network, the documents and the disks for up to `places`
// members, the first `voters` of which found the group, and starts those.
func NewGroup(dir string, voters, places int, kind Kind) (*Group, error) {
	g := &Group{Clients: places, Dir: dir, Kind: kind}
	if !kind.Here {
		var err error
		if g.Net, err = bed.NewNetwork(places + 3); err != nil {
			return nil, err
		}
	}
	if kind.HovercRaft {
		g.Box = &Member{Host: places + 1, IP: g.ip(places + 1), Name: "box"}
	}
	if kind.PlusPlus {
		g.Aggregator = &Member{Host: places + 2, IP: g.ip(places + 2), Name: "aggregator"}
	}
	for i := range places {
		g.Members = append(g.Members, &Member{ID: i + 1, Host: i, IP: g.ip(i), Name: fmt.Sprintf("m%d", i+1), Dir: filepath.Join(dir, fmt.Sprintf("disk%d", i+1))})
	}
	for _, m := range g.Members[:voters] {
		g.founders = append(g.founders, m.Name)
	}
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o755); err != nil {
		return g, err
	}
	if err := os.WriteFile(filepath.Join(dir, "keys", "1"), []byte(keyHex+"\n"), 0o600); err != nil {
		return g, err
	}
	for _, m := range g.Members[:voters] {
		if err := g.Start(m); err != nil {
			return g, err
		}
	}
	for _, m := range g.beside() {
		if err := g.Start(m); err != nil {
			return g, err
		}
	}
	return g, nil
}

// beside are the processes that stand beside the members.
func (g *Group) beside() (list []*Member) {
	for _, m := range []*Member{g.Box, g.Aggregator} {
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

// stands says whether it stands beside the members.
func (g *Group) stands(m *Member) bool { return slices.Contains(g.beside(), m) }

// ip of a host.
func (g *Group) ip(host int) string {
	if g.Here {
		return fmt.Sprintf("127.119.7.%d", host+1)
	}
	return bed.V4(host)
}

// inside runs f where the clients are.
func (g *Group) inside(f func() error) error {
	if g.Here {
		return f()
	}
	return bed.Inside(g.Net.Namespace(g.Clients), f)
}

// document of the group as it is now; changed by edit.
func (g *Group) document(edit func(doc map[string]any)) []byte {
	storage := "Always"
	if g.Volatile {
		storage = "Volatile"
	}
	var members []map[string]any
	for _, m := range g.Members {
		members = append(members, map[string]any{"name": m.Name, "id": m.ID, "address": m.IP, "memberPort": memberPort, "clientPort": clientPort})
	}
	doc := map[string]any{
		"apiVersion": "dataplane.bobtail.dev/v1", "kind": "ReplicationGroup", "sources": []any{},
		"group": map[string]any{
			"name": "orders", "namespace": "shop", "cluster": cluster, "number": groupNo, "storage": storage, "deviceProfile": "Kernel",
			"electionMilliseconds": 150, "heartbeatMilliseconds": 30, "logEntries": 4096, "snapshotEntries": 512,
			"maxSnapshotBytes": 4194304, "inFlightLimit": 1000,
		},
		"initialMembers": g.founders, "members": members, "keyIds": []int{1},
	}
	if g.Patient {
		doc["group"].(map[string]any)["electionMilliseconds"] = 1000
		doc["group"].(map[string]any)["heartbeatMilliseconds"] = 100
	}
	if g.HovercRaft {
		doc["group"].(map[string]any)["protocol"] = "HovercRaft"
		doc["boxes"] = []map[string]any{{"name": g.Box.Name, "address": g.Box.IP, "clientPort": clientPort, "feedbackPort": feedback}}
	}
	if g.PlusPlus {
		doc["group"].(map[string]any)["protocol"] = "HovercRaftPlusPlus"
		doc["aggregator"] = map[string]any{"name": g.Aggregator.Name, "address": g.Aggregator.IP, "port": aggregator}
	}
	if g.Repliers != "" {
		doc["group"].(map[string]any)["repliers"] = g.Repliers
	}
	if g.Multicast {
		doc["multicast"] = map[string]any{"address": multicast, "port": groupPort}
	}
	if len(g.wanted) > 0 {
		doc["wantedVoters"] = g.wanted
	}
	if len(g.avoided) > 0 {
		doc["avoidLeaders"] = g.avoided
	}
	if edit != nil {
		edit(doc)
	}
	raw, _ := json.Marshal(doc)
	return raw
}

// argv of a process, without what all of them have.
func (g *Group) argv(m *Member) []string {
	switch m {
	case g.Box:
		return []string{program("bobtail-box", "BOX_PROGRAM")}
	case g.Aggregator:
		argv := []string{program("bobtail-aggregator", "AGGREGATOR_PROGRAM")}
		if g.Registers != "" {
			argv = append(argv, "--registers="+g.Registers)
		}
		return argv
	}
	runs := m.Program
	if runs == "" {
		runs = program("bobtail-replica", "REPLICA_PROGRAM")
	}
	return []string{runs, "--data=" + m.Dir, "--drain-seconds=2"}
}

// Start runs a member on the disk it has, or what stands beside the members.
func (g *Group) Start(m *Member) error {
	m.runs++
	doc := filepath.Join(g.Dir, m.Name+".json")
	if err := os.WriteFile(doc, g.document(nil), 0o644); err != nil {
		return err
	}
	ctl := filepath.Join(g.Dir, m.Name+".ctl")
	_ = os.Remove(ctl)
	name := m.Name
	if m.As != "" {
		name = m.As
	}
	argv := append(g.argv(m), "--name="+name, "--config="+doc, "--key-dir="+filepath.Join(g.Dir, "keys"), "--ctl="+ctl)
	if m.As != "" {
		argv = append(argv, "--address="+m.IP)
	}
	if !g.stands(m) {
		argv = append(argv, g.extra...) // the last word
	}
	if g.Redis && !g.stands(m) {
		var err error
		if argv, err = g.redis(m, argv[1:]); err != nil {
			return err
		}
	}
	p, err := g.run(m, ctl, argv)
	if err != nil {
		return err
	}
	m.proc = p
	return until("the control socket of "+m.Name, func() bool {
		_, err := os.Stat(ctl)
		return err == nil || !p.Running()
	})
}

func (g *Group) run(m *Member, ctl string, argv []string) (*bed.Process, error) {
	if g.Here {
		return bed.StartHere(m.Name, g.Dir, ctl, argv...)
	}
	return g.Net.Start(m.Name, m.Host, g.Dir, ctl, argv...)
}

// All are the members, and what stands beside them.
func (g *Group) All() []*Member { return append(slices.Clone(g.Members), g.beside()...) }

// Running says whether the member's process lives.
func (m *Member) Running() bool { return m.proc != nil && m.proc.Running() }

// Kill ends a member as a crash would.
func (m *Member) Kill() { m.proc.Kill() }

// Signal sends one to the member's process.
func (m *Member) Signal(s syscall.Signal) { m.proc.Signal(s) }

// Address where it takes clients' requests.
func (m *Member) Address() string { return fmt.Sprintf("%s:%d", m.IP, clientPort) }

// ask sends one message to the member's control socket.
func (g *Group) ask(m *Member, message any) (*Status, error) {
	raw, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(g.Dir, m.Name+".ctl"), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(raw); err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<20)
	n, err := c.Read(buf)
	if err != nil {
		return nil, err
	}
	var s Status
	return &s, json.Unmarshal(buf[:n], &s)
}

// Apply hands every member that runs the document as it is now.
func (g *Group) Apply() error {
	raw := g.document(nil)
	for _, m := range g.All() {
		if !m.Running() {
			continue
		}
		s, err := g.ask(m, map[string]any{"v": 1, "op": "apply", "hash": fmt.Sprintf("%x", sha256.Sum256(raw)), "config": json.RawMessage(raw)})
		if err == nil && s.Error != nil {
			err = fmt.Errorf("%s: %s: %s", s.Error.Code, s.Error.Field, s.Error.Message)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// Status of a member; nil when it does not answer.
func (g *Group) Status(m *Member) *Status {
	if !m.Running() {
		return nil
	}
	s, err := g.ask(m, map[string]any{"v": 1, "op": "group"})
	if err != nil {
		return nil
	}
	return s
}

// Value of a counter or a gauge of a process that runs. label is that of its one
// label, "" where there is none.
func (g *Group) Value(m *Member, name, label string) (uint64, error) {
	s, err := g.ask(m, map[string]any{"v": 1, "op": "counters"})
	if err != nil {
		return 0, err
	}
	for _, c := range append(s.Counters, s.Gauges...) {
		one := label == "" && len(c.Labels) == 0
		for _, v := range c.Labels {
			one = one || v == label
		}
		if c.Name == name && one {
			return c.Value, nil
		}
	}
	return 0, fmt.Errorf("%s has no %s of %q", m.Name, name, label)
}

// Order asks a member for a change of the group.
func (g *Group) Order(m *Member, op string, fields map[string]any) error {
	message := map[string]any{"v": 1, "op": op}
	for k, v := range fields {
		message[k] = v
	}
	s, err := g.ask(m, message)
	if err != nil {
		return err
	}
	if s.Error != nil {
		return fmt.Errorf("%s: %s", s.Error.Code, s.Error.Message)
	}
	return nil
}

// Leader is the member that leads in the highest term and is ready, or nil.
// Members that are stopped are left out by the caller.
func (g *Group) Leader(without ...*Member) *Member {
	var best *Member
	var term uint64
	for _, m := range g.Members {
		if contains(without, m) {
			continue
		}
		if s := g.Status(m); s != nil && s.Role == "Leader" && s.Phase == "Running" && s.Term > term && s.Quorum.Heard > s.Quorum.Voters/2 {
			best, term = m, s.Term
		}
	}
	return best
}

// AwaitLeader waits for one.
func (g *Group) AwaitLeader(without ...*Member) (*Member, error) {
	var l *Member
	err := until("a leader", func() bool { l = g.Leader(without...); return l != nil })
	return l, err
}

// AwaitReady waits until these members are ready.
func (g *Group) AwaitReady(members ...*Member) error {
	for _, m := range members {
		if err := until(m.Name+" ready", func() bool { s := g.Status(m); return s != nil && s.Ready }); err != nil {
			return err
		}
	}
	return nil
}

// AwaitSame waits until these members have applied the same, and no less than
// the leader has committed, and the leader says so.
func (g *Group) AwaitSame(members ...*Member) error {
	return until("equal members", func() bool {
		l := g.Leader()
		if l == nil {
			return false
		}
		top := g.Status(l)
		for _, m := range members {
			if s := g.Status(m); s == nil || top == nil || s.Applied < top.Commit || top.lag(m) > fewEntries {
				return false
			}
		}
		return true
	})
}

// fewEntries may be under way when a leader is asked how far the others are.
const fewEntries = 64

// lag of a member as its leader sees it.
func (s *Status) lag(m *Member) int64 {
	for _, g := range s.Members {
		if g.ID == m.ID {
			return g.Lag
		}
	}
	return 0
}

// Close ends everything. It says what it found wrong about how members ended.
func (g *Group) Close() error {
	var errs []error
	for _, m := range g.All() {
		if m.Running() {
			m.Signal(syscall.SIGCONT)
			errs = append(errs, m.proc.Stop(patience))
		}
		_ = syscall.Unmount(m.Dir, syscall.MNT_DETACH)
		if m.proc == nil {
			continue
		}
		reports, err := bed.SanitizerReports(m.proc.Log)
		errs = append(errs, err)
		if len(reports) > 0 {
			errs = append(errs, fmt.Errorf("%s: %s", m.Name, strings.Join(reports, "\n")))
		}
	}
	if g.Net != nil {
		g.Net.Close()
	}
	return errors.Join(errs...)
}

func contains(list []*Member, m *Member) bool {
	for _, x := range list {
		if x == m {
			return true
		}
	}
	return false
}

// until waits for an event.
func until(what string, there func() bool) error {
	end := time.Now().Add(patience)
	for !there() {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}
