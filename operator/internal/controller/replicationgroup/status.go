// SPDX-License-Identifier: Apache-2.0

// What the conditions of a group and of its pods say, once the plan has been carried out
// as far as it could, and the status, computed in one place. Pure but for announce.
package replicationgroup

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/remedy"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// verdicts are the answers about a group, and about its pods.
type verdicts struct {
	accepted, programmed, ready verdict.Verdict
	joined                      map[string]verdict.Verdict // by pod
	members                     []v1alpha1.GroupMemberStatus
}

// conclude judges what came of a plan.
func conclude(s *snapshot, p *plan, done *outcome) verdicts {
	v := verdicts{accepted: done.accepted, members: membersOf(s, p.record, p.view)}
	v.programmed = decideProgrammed(s, p, v.accepted)
	v.ready = decideReady(s, p, v, unobserved(s, done.set))
	if v.programmed = decideOnSwitch(s, p.onSwitch, v.programmed); v.ready.OK() && !v.programmed.OK() {
		v.ready.Message += "; without its aggregator: " + v.programmed.Message
	}
	v.programmed = decideBoxProgrammed(s, p.box, v.programmed)
	if done.refused != "" && !v.ready.OK() {
		v.ready.Message += "; " + done.refused
	}
	v.joined = decideJoined(s, p.record, v.members)
	return v
}

// membersOf is what is known of every member that was written down.
func membersOf(s *snapshot, r record, v view) []v1alpha1.GroupMemberStatus {
	leader := s.leading()
	var out []v1alpha1.GroupMemberStatus
	for _, m := range r.members {
		one := v1alpha1.GroupMemberStatus{Number: m.Number, Name: m.Name, Pod: m.Pod}
		one.Role, one.State = roleOf(s, v, m, leader), stateOf(s, r, m, v)
		if p := v.inForce(int(m.Number)); p != nil && p.lag >= 0 {
			lag := shownLag(p.lag)
			one.LagEntries = &lag
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b v1alpha1.GroupMemberStatus) int { return int(a.Number) - int(b.Number) })
	return out
}

// lagShown is below what a lag counts as none: entries under way.
const lagShown = 128

// shownLag has two digits that count, so that a status is not written for every entry.
func shownLag(lag int64) int64 {
	if lag < lagShown {
		return 0
	}
	unit := int64(1)
	for lag/unit >= 100 {
		unit *= 10
	}
	return lag / unit * unit
}

func roleOf(s *snapshot, v view, m v1alpha1.GroupMemberStatus, leader *dataplane.GroupState) v1alpha1.GroupMemberRole {
	if leader == nil { // what was known last, or what it was told to be
		for _, o := range s.group.Status.Members {
			if o.Number == m.Number && o.Role != "" {
				return o.Role
			}
		}
		if s.group.Status.FormedTime == nil {
			return v1alpha1.MemberVoter
		}
		return v1alpha1.MemberJoining
	}
	p := v.inForce(int(m.Number))
	switch {
	case p == nil:
		return v1alpha1.MemberJoining
	case !v.wants(p.number):
		return v1alpha1.MemberLeaving
	case p.voter:
		return v1alpha1.MemberVoter
	}
	return v1alpha1.MemberLearner
}

func stateOf(s *snapshot, r record, m v1alpha1.GroupMemberStatus, v view) v1alpha1.GroupMemberState {
	place, is := render.MemberOrdinal(s.group, m.Pod)
	g := s.said(place)
	if !is || g == nil || s.seated(r, place) != int(m.Number) {
		return v1alpha1.MemberUnreachable
	}
	switch g.Phase {
	case dataplane.PhaseWaiting:
		return v1alpha1.MemberStarting
	case dataplane.PhaseRefused:
		return v1alpha1.MemberForeign
	case dataplane.PhaseFailed:
		if g.Reason == reasonDiskForeign {
			return v1alpha1.MemberForeign
		}
		return v1alpha1.MemberFailed
	}
	if g.Reason == reasonDiverged {
		return v1alpha1.MemberFailed
	}
	if v.leader == int(m.Number) {
		return v1alpha1.MemberLeading
	}
	if p := v.inForce(int(m.Number)); p != nil && p.healthy {
		return v1alpha1.MemberFollowing
	}
	return v1alpha1.MemberBehind
}

// reasonDiskForeign: the disk carries another group's id, or another member's number.
const reasonDiskForeign = "DiskForeign"

// reasonDiverged: its state is another one than a majority's.
const reasonDiverged = "Diverged"

// decideProgrammed says whether every live member has acknowledged the document.
func decideProgrammed(s *snapshot, p *plan, accepted verdict.Verdict) verdict.Verdict {
	if !accepted.OK() {
		return verdict.No(v1alpha1.ReasonNotAccepted, stillServing(s))
	}
	if s.keys == nil && s.live != nil {
		return verdict.No(v1alpha1.ReasonKeysLost, fmt.Sprintf("Secret %s with the packet keys is gone: members that run go on with the ones they hold, a pod that starts waits; put the Secret back from a backup", render.KeysName(s.group)))
	}
	if p.hash == "" {
		return verdict.No(v1alpha1.ReasonReconciling, "the group has not begun, so there is no configuration yet")
	}
	by := map[string][]string{} // pods, by what they make of the document
	pods := 0
	for _, pod := range s.configured(p.doc) {
		pods++
		what, more := acknowledgement(s.states[pod.Name], p.hash)
		if what == v1alpha1.ReasonRejected {
			return verdict.No(what, pod.Name+" refused the configuration: "+more+"; the previous one keeps serving")
		}
		by[what] = append(by[what], pod.Name+more)
	}
	tally := fmt.Sprintf("%d of %d pods acknowledged generation %d", len(by[v1alpha1.ReasonProgrammed]), pods, s.group.Generation)
	for _, stands := range []struct{ reason, says string }{
		{v1alpha1.ReasonConfigUnreadable, "the sidecar cannot read its configuration, of "},
		{v1alpha1.ReasonReconciling, "waiting for "},
		{v1alpha1.ReasonUnreachable, "no answer from the sidecar of "},
	} {
		if names := by[stands.reason]; len(names) > 0 {
			return verdict.No(stands.reason, tally+"; "+stands.says+strings.Join(names, ", "))
		}
	}
	if pods == 0 {
		return verdict.No(v1alpha1.ReasonNoPods, "no member pod is running")
	}
	return verdict.Yes(v1alpha1.ReasonProgrammed, tally)
}

// configured are the live pods that are to acknowledge the document: all members, and the
// boxes and the aggregator that it names.
func (s *snapshot) configured(doc *dataplane.GroupConfig) (pods []*corev1.Pod) {
	for _, place := range s.places {
		if live(s.pods[place]) {
			pods = append(pods, s.pods[place])
		}
	}
	for _, p := range s.besides() {
		if live(p) && namesBeside(doc, p.Name) {
			pods = append(pods, p)
		}
	}
	return pods
}

// acknowledgement is what a sidecar says of a document: Programmed, or the reason why not.
func acknowledgement(state *dataplane.SidecarState, hash string) (reason, more string) {
	switch {
	case state == nil:
		return v1alpha1.ReasonUnreachable, ""
	case state.AppliedHash == hash:
		return v1alpha1.ReasonProgrammed, ""
	case state.LastError != nil && state.LastError.Hash == hash:
		return v1alpha1.ReasonRejected, state.LastError.Field + ": " + state.LastError.Message
	case state.Watch.Failing():
		return v1alpha1.ReasonConfigUnreadable, " (" + state.Watch.Error + ")"
	}
	return v1alpha1.ReasonReconciling, ""
}

func stillServing(s *snapshot) string {
	if s.live == nil {
		return "no specification has been accepted yet, so nothing serves"
	}
	return "the last accepted configuration keeps serving"
}

// decideReady is the summary.
func decideReady(s *snapshot, p *plan, v verdicts, unobserved bool) verdict.Verdict {
	unwell := troubles(s, p.record, v.members)
	switch {
	case !v.accepted.OK():
		return verdict.No(v1alpha1.ReasonNotAccepted, stillServing(s))
	case p.record.cluster == "":
		return verdict.No(v1alpha1.ReasonWaitingForMembers, waitingToBegin(s))
	case !p.view.formed:
		return verdict.No(v1alpha1.ReasonWaitingForMembers, "the group begins when all of its members have been up once"+waitingBeside(s)+unwell)
	case p.view.leader == 0:
		return withoutLeader(s, unwell)
	}
	if box := decideBox(s, p.box); !box.OK() {
		return box
	}
	voters, healthy := p.view.voters()
	serving := fmt.Sprintf("%d of %d voters are healthy, %d must agree", healthy, voters, quorum(voters))
	if foreign := foreignDisks(s, v.members); foreign != "" {
		return verdict.No(v1alpha1.ReasonForeignDisk, serving+"; "+foreign)
	}
	switch {
	case !p.view.settled():
		return verdict.No(v1alpha1.ReasonChangingMembers, serving+"; "+changing(v.members, p.view.wanted)+unwell)
	case healthy < voters:
		return verdict.No(v1alpha1.ReasonMembersNotReady, serving+unwell)
	case unobserved:
		return verdict.No(v1alpha1.ReasonRollingOut, serving+"; the StatefulSet has just been changed")
	case slices.ContainsFunc(p.view.seats, func(s seat) bool { return s.outdated }):
		return verdict.No(v1alpha1.ReasonRollingOut, serving+"; pods of an earlier specification are restarted one at a time, the leader's last")
	case s.set == nil || len(s.places) != p.view.wanted:
		return verdict.No(v1alpha1.ReasonRollingOut, serving+fmt.Sprintf("; %d of %d pods are there", len(s.places), p.view.wanted))
	case !v.programmed.OK():
		return verdict.No(v1alpha1.ReasonNotProgrammed, serving+"; "+v.programmed.Message)
	}
	return verdict.Yes(v1alpha1.ReasonReady, serving)
}

// unobserved says that nobody can know yet which pods are of the present specification:
// the StatefulSet that was read is older than what was written, or its controller has yet
// to look at it.
func unobserved(s *snapshot, written string) bool {
	return s.set == nil || written != "" && apply.Version(s.set) != written || s.set.Status.ObservedGeneration != s.set.Generation
}

// waitingToBegin says who is missing before a group can begin.
func waitingToBegin(s *snapshot) string {
	var missing []string
	for place := range s.founders() {
		pod, g := render.MemberPod(s.group, place), s.said(place)
		switch {
		case s.pods[place] == nil || !running(s.pods[place]):
			missing = append(missing, pod+" does not run"+whyPending(s.pods[place]))
		case g == nil:
			missing = append(missing, pod+" does not answer"+whyPending(s.pods[place]))
		case g.Phase != dataplane.PhaseWaiting:
			missing = append(missing, fmt.Sprintf("%s runs a group already (%s)", pod, g.Phase))
		}
	}
	if s.group.Spec.Restore != nil {
		return fmt.Sprintf("the group begins with its first member, whose disk is made of PersistentVolumeClaim %s: %s", s.group.Spec.Restore.ClaimName, strings.Join(missing, ", "))
	}
	return fmt.Sprintf("the group begins when all %d members are there: %s", s.group.Spec.Members, strings.Join(missing, ", "))
}

func whyPending(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return " (" + c.Message + ")"
		}
	}
	if stuck := remedy.OfPod(p); stuck != nil {
		return " (" + stuck.Short() + ")"
	}
	return ""
}

// withoutLeader tells a group that cannot agree from one that is about to.
func withoutLeader(s *snapshot, unwell string) verdict.Verdict {
	best := s.best()
	if best == nil {
		return verdict.No(v1alpha1.ReasonNoQuorum, fmt.Sprintf("no member answers; nothing is lost while their disks are there: %s%s", recovery(s), unwell))
	}
	voters, answer := 0, 0
	for _, m := range best.Members {
		if m.Role != dataplane.RoleVoter {
			continue
		}
		voters++
		for _, place := range s.places {
			if g := s.said(place); g != nil && g.ID == m.ID && g.Phase == dataplane.PhaseRunning {
				answer++
			}
		}
	}
	tally := fmt.Sprintf("%d of %d voters answer, %d must agree", answer, voters, quorum(voters))
	if answer < quorum(voters) {
		return verdict.No(v1alpha1.ReasonNoQuorum, fmt.Sprintf("%s: no request is answered, and nothing is lost while the disks are there; %s%s", tally, recovery(s), unwell))
	}
	return verdict.No(v1alpha1.ReasonNoLeader, tally+"; none of them leads yet"+unwell)
}

// recovery is what brings members back, and what can be done when they are lost.
func recovery(s *snapshot) string {
	return fmt.Sprintf("bring pods back: kubectl -n %s describe pods -l %s", s.group.Namespace, labels.SelectorFromSet(render.Selector(s.group.Name, v1alpha1.ComponentMember))) + s.lastResort()
}

// lastResort is what is left when a majority of disks is lost; nothing where there are none.
func (s *snapshot) lastResort() string {
	if s.group.Spec.Storage.Policy == v1alpha1.StorageVolatile {
		return ""
	}
	return fmt.Sprintf("; only if a majority of disks is lost for good: kubectl bobtail -n %s recover %s --force-new-quorum --from-member=POD --into=NEWNAME", s.group.Namespace, s.group.Name)
}

// troubles are what members say of themselves that are not well, each once.
func troubles(s *snapshot, r record, members []v1alpha1.GroupMemberStatus) string {
	var out []string
	for _, m := range members {
		place, _ := render.MemberOrdinal(s.group, m.Pod)
		g := s.said(place)
		switch {
		case m.State == v1alpha1.MemberLeading, m.State == v1alpha1.MemberFollowing:
		case r.on(m.Pod) != nil && r.on(m.Pod).Number != m.Number: // its successor is spoken of
		case g != nil && g.Reason != "":
			out = append(out, fmt.Sprintf("%s: %s %s%s", m.Pod, g.Reason, g.Message, s.helps(m.Pod, g.Reason)))
		default:
			out = append(out, fmt.Sprintf("%s: %s", m.Pod, m.State))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, "; ")
}

// helps is what to do about a member, behind what it says; nothing where time helps.
func (s *snapshot) helps(pod, reason string) string {
	says := remedy.Member{Reason: reason, Namespace: s.group.Namespace, Pod: pod, Quorum: s.leading() != nil}.Says()
	if says == "" {
		return ""
	}
	return " (" + says + ")"
}

func foreignDisks(s *snapshot, members []v1alpha1.GroupMemberStatus) string {
	var out []string
	for _, m := range members {
		if m.State != v1alpha1.MemberForeign || s.group.Spec.Storage.Policy == v1alpha1.StorageVolatile {
			continue
		}
		out = append(out, fmt.Sprintf("the disk of %s belongs to another group or to a member that was removed, and is left alone: delete PersistentVolumeClaim data-%s and its pod to give it a new one", m.Pod, m.Pod))
	}
	return strings.Join(out, "; ")
}

// changing says who is to come and to go.
func changing(members []v1alpha1.GroupMemberStatus, wanted int) string {
	var come, leave []string
	for _, m := range members {
		switch m.Role {
		case v1alpha1.MemberJoining, v1alpha1.MemberLearner:
			come = append(come, fmt.Sprintf("%s (%s)", m.Pod, m.Role))
		case v1alpha1.MemberLeaving:
			leave = append(leave, fmt.Sprintf("%s (%d)", m.Pod, m.Number))
		}
	}
	return fmt.Sprintf("on the way to %d members: to come [%s], to go [%s]", wanted, strings.Join(come, ", "), strings.Join(leave, ", "))
}

// decideJoined says of every live pod whether its member is a voter that leads or
// follows. Where nobody leads, what was said last stays: a group in an election has not
// lost its members.
func decideJoined(s *snapshot, r record, members []v1alpha1.GroupMemberStatus) map[string]verdict.Verdict {
	out := map[string]verdict.Verdict{}
	for _, place := range s.places {
		p := s.pods[place]
		if !live(p) {
			continue
		}
		out[p.Name] = verdict.No(v1alpha1.ReasonWaitingForJoin, "the pod's member is not known yet")
		for _, m := range members {
			if int(m.Number) != s.seated(r, place) {
				continue
			}
			well := m.State == v1alpha1.MemberLeading || m.State == v1alpha1.MemberFollowing
			counts := m.Role == v1alpha1.MemberVoter || m.Role == v1alpha1.MemberLeaving
			if s.leading() == nil && was(p) && m.State == v1alpha1.MemberBehind {
				well = true
			}
			out[p.Name] = joinedAs(well && counts, m)
		}
	}
	return out
}

func joinedAs(ok bool, m v1alpha1.GroupMemberStatus) verdict.Verdict {
	if ok {
		return verdict.Yes(v1alpha1.ReasonJoined, fmt.Sprintf("member %d is a voter that follows or leads", m.Number))
	}
	return verdict.No(v1alpha1.ReasonWaitingForJoin, fmt.Sprintf("member %d is no voter that follows or leads: %s, %s", m.Number, m.Role, m.State))
}

func was(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionJoined {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// withStatus is the group with the status it should have.
func withStatus(s *snapshot, p *plan, done *outcome, v verdicts) *v1alpha1.ReplicationGroup {
	group := done.before.DeepCopy()
	st := &group.Status
	st.ObservedGeneration = group.Generation
	verdict.SetAll(&st.Conditions, map[string]verdict.Verdict{
		v1alpha1.ConditionAccepted: v.accepted, v1alpha1.ConditionProgrammed: v.programmed, v1alpha1.ConditionReady: v.ready,
	}, group.Generation, s.now)
	st.Replicas, st.Selector = int32(len(s.places)), labels.SelectorFromSet(render.Selector(group.Name, v1alpha1.ComponentMember)).String()
	st.Address, st.ConfigHash = render.GroupAddress(group), p.hash
	st.Members, st.LastBackupTime = v.members, newerBackup(st.LastBackupTime, s.lastBackup)
	st.Boxes, st.Aggregator = boxNames(p.doc), aggregatorUse(s)
	if st.FormedTime == nil && s.formed() && p.record.cluster != "" {
		now := metav1.NewTime(s.now.Truncate(1e9))
		st.FormedTime = &now
	}
	voters, healthy := p.view.voters()
	st.HealthyVoters, st.Leader, st.LagEntries = int32(healthy), "", nil
	st.StatesUndecidedEntry = undecidedEntry(s.leading(), st.StatesUndecidedEntry)
	if p.view.leader != 0 { // else what was known last stays
		st.VotersInForce, st.Quorum = int32(voters), int32(quorum(voters))
		lag := int64(0)
		for _, m := range v.members {
			if m.State == v1alpha1.MemberLeading {
				st.Leader = m.Pod
			}
			if m.LagEntries != nil {
				lag = max(lag, *m.LagEntries)
			}
		}
		st.LagEntries = &lag
	}
	st.Voters = fmt.Sprintf("%d/%d", healthy, group.Spec.Members)
	for _, place := range s.places {
		if g := s.said(place); g != nil && g.Phase == dataplane.PhaseRunning && g.Cluster == p.record.cluster {
			st.Term = max(st.Term, int64(min(g.Term, 1<<62)))
		}
	}
	return group
}

// undecidedEntry is what the leader says; without one, what was known before.
func undecidedEntry(leader *dataplane.GroupState, before *int64) *int64 {
	if leader == nil {
		return before
	}
	if leader.StatesUndecided == 0 {
		return nil
	}
	entry := int64(min(leader.StatesUndecided, 1<<62))
	return &entry
}

// sameStatus says that nothing would be new to a reader.
func sameStatus(before, after *v1alpha1.ReplicationGroup) bool {
	return equality.Semantic.DeepEqual(before.Status, after.Status)
}

// announce makes events of conditions that changed their reason, of elections, and of
// changes of the membership.
func (r *Reconciler) announce(before, after *v1alpha1.ReplicationGroup) {
	for _, c := range after.Status.Conditions {
		old := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if old != nil && old.Reason == c.Reason && old.Status == c.Status {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Status == metav1.ConditionFalse && warns[c.Reason] {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, kind, c.Reason, c.Type, "%s is %s: %s", c.Type, c.Status, c.Message)
	}
	r.announceMembers(before, after)
}

func (r *Reconciler) announceMembers(before, after *v1alpha1.ReplicationGroup) {
	b, a := before.Status, after.Status
	if a.Leader != "" && (a.Leader != b.Leader || a.Term != b.Term) {
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.EventLeaderElected, "Elect", "%s leads in term %d", a.Leader, a.Term)
	}
	if was, is := roster(b.Members), roster(a.Members); b.FormedTime != nil && was != is && is != "" {
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.EventMembershipChanged, "ChangeMembers", "members: %s; before: %s", is, was)
	}
	if e := a.StatesUndecidedEntry; e != nil && (b.StatesUndecidedEntry == nil || *e != *b.StatesUndecidedEntry) {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, v1alpha1.EventStatesUndecided, "Compare", "the members' states after entry %d differ, and no majority has the same: nobody is fenced, and answers may differ by who gives them", *e)
	}
	for _, m := range a.Members {
		if old := replaced(b.Members, m); old != 0 {
			r.Events.Eventf(after, nil, corev1.EventTypeWarning, v1alpha1.EventMemberReplaced, "Replace", "%s came with an empty disk: it is taken in as member %d in place of %d", m.Pod, m.Number, old)
		}
	}
}

// replaced is the member in whose pod a new one came just now; 0: none.
func replaced(before []v1alpha1.GroupMemberStatus, m v1alpha1.GroupMemberStatus) int32 {
	old := int32(0)
	for _, o := range before {
		switch {
		case o.Number == m.Number && o.Role != "": // it was told already
			return 0
		case o.Pod == m.Pod && o.Number < m.Number:
			old = o.Number
		}
	}
	return old
}

// warns are reasons for which somebody may have to act.
var warns = map[string]bool{
	v1alpha1.ReasonNameConflict: true, v1alpha1.ReasonInvalidConfiguration: true,
	v1alpha1.ReasonApplyFailed: true, v1alpha1.ReasonRejected: true, v1alpha1.ReasonConfigUnreadable: true, v1alpha1.ReasonKeysLost: true,
	v1alpha1.ReasonForeignDisk: true, v1alpha1.ReasonNoQuorum: true, v1alpha1.ReasonMembersNotReady: true, v1alpha1.ReasonNoBox: true,
}

// roster lists voters and learners, for people.
func roster(members []v1alpha1.GroupMemberStatus) string {
	var out []string
	for _, m := range members {
		if m.Role == v1alpha1.MemberVoter || m.Role == v1alpha1.MemberLearner || m.Role == v1alpha1.MemberLeaving {
			out = append(out, fmt.Sprintf("%s (%d, %s)", m.Pod, m.Number, m.Role))
		}
	}
	return strings.Join(out, ", ")
}
