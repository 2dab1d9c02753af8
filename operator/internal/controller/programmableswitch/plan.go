// SPDX-License-Identifier: Apache-2.0

// What a ProgrammableSwitch means: whether it can be acted on, and what the switch is to
// hold. Pure.
package programmableswitch

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// plan is what is to be done.
type plan struct {
	accepted verdict.Verdict
	// desired is nil unless the specification is accepted.
	desired *keeper.Desired
	info    *switches.Info
	// guests are the services that ask for this switch.
	guests []guest
	// waits: what the switch holds stays until it is known who asks.
	waits bool
}

func planFor(s *snapshot) plan {
	var wrong []verdict.Verdict
	refuse := func(reason, format string, args ...any) {
		wrong = append(wrong, verdict.No(reason, fmt.Sprintf(format, args...)))
	}
	spec := s.psw.Spec
	if twin := olderTwin(s); twin != "" {
		refuse(v1alpha1.ReasonDuplicateSwitch, "`spec.endpoint`: ProgrammableSwitch %s is device %d at %s already; delete one of the two", twin, spec.DeviceID, spec.Endpoint)
	}
	target := link.Target{Endpoint: spec.Endpoint, DeviceID: uint64(spec.DeviceID)}
	var v verdict.Verdict
	if target.TLS, v = credentials(s); v.Reason != "" {
		wrong = append(wrong, v)
	}
	fabric, v := fabricOf(spec)
	if v.Reason != "" {
		wrong = append(wrong, v)
	}
	pipeline, refusals := pipelineOf(s)
	wrong = append(wrong, refusals...)
	var wanted []switches.Entry
	var served served
	if len(wrong) == 0 {
		wanted, wrong = entriesOf(pipeline.Info, fabric)
		if why := wrongPort(spec.Ports, pipeline.Info); why != "" {
			refuse(v1alpha1.ReasonInvalidConfiguration, "%s", why)
		}
		var why string
		if served, why = serve(s, fabric, pipeline.Info); why != "" {
			refuse(v1alpha1.ReasonInvalidConfiguration, "%s", why)
		}
	}
	if refused, none := verdict.Refusals(wrong...); !none {
		return plan{accepted: refused, info: pipeline.Info}
	}
	return plan{
		accepted: verdict.Yes(v1alpha1.ReasonAccepted, "the specification can be acted on"),
		info:     pipeline.Info,
		guests:   served.guests,
		waits:    served.waits,
		desired: &keeper.Desired{
			Services: served.services, VIPs: served.vips, Runs: served.runs, Groups: served.groups, Boxes: served.boxes,
			Revision:   revision(served.services) + revision(served.vips) + revision(served.runs) + revision(served.groups) + revision(served.boxes),
			Generation: s.psw.Generation, Target: target, Identity: identity(s), Pipeline: pipeline, Wanted: wanted,
			Ranks: switches.Ranks, Tag: []byte("bobtail/" + s.psw.UID), Clear: s.psw.DeletionTimestamp != nil,
		},
	}
}

// served are those that ask for the switch, and what it is to hold for them.
type served struct {
	guests   []guest
	services []switches.Service
	vips     []switches.VIP
	runs     []switches.Run
	groups   []switches.Group
	boxes    []switches.Box
	// waits: it is not known yet who asks, and what the switch holds must stay.
	waits bool
}

// serve is about what the program of the pipeline is there for; others are told so.
func serve(s *snapshot, f switches.Fabric, info *switches.Info) (out served, wrong string) {
	routes, wrong := ways(s.psw.Spec, f)
	if wrong != "" {
		return out, wrong
	}
	switch info.Program() {
	case switches.ProgramRouter:
		out.guests, out.services, wrong = servicesOf(s.services, s.psw.Spec, f, info.P4.GetPkgInfo().GetArch())
	case switches.ProgramCRAB:
		out.guests, out.vips = vipsOf(s.vips, f, routes)
		out.waits = !s.toldOf
	case switches.ProgramSLOG:
		out.guests, out.runs = runsOf(s.runs, f, routes)
	case switches.ProgramAggregator:
		out.guests, out.groups = groupsOf(s.groups, f, routes)
		out.waits = !s.toldGroups
	case switches.ProgramBox:
		out.guests, out.boxes = boxesOf(s.groups, f, routes)
		out.waits = !s.toldGroups
	}
	out.guests = append(out.guests, strangers(s, info.Program())...)
	out.guests = out.guests[:min(len(out.guests), v1alpha1.MaxSwitchServices)]
	return out, wrong
}

// revision changes with everything that is asked.
func revision[T any](all []T) string {
	h := sha256.New()
	for _, s := range all {
		fmt.Fprintf(h, "%+v\n", s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// olderTwin is a switch that is the same one, and was there before.
func olderTwin(s *snapshot) string {
	for i := range s.others {
		o := &s.others[i]
		if o.Spec.Endpoint != s.psw.Spec.Endpoint || o.Spec.DeviceID != s.psw.Spec.DeviceID {
			continue
		}
		a, b := o.CreationTimestamp, s.psw.CreationTimestamp
		if a.Before(&b) || a.Equal(&b) && o.Name < s.psw.Name {
			return o.Name
		}
	}
	return ""
}

// identity changes with everything that a connection is made from.
func identity(s *snapshot) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %s", s.psw.Spec.Endpoint, s.psw.Spec.DeviceID, s.psw.Spec.Transport)
	if t := s.psw.Spec.TLS; t != nil {
		fmt.Fprintf(h, " %s", t.ServerName)
		for _, key := range []string{keyAuthority, keyCertificate, keyPrivate} {
			fmt.Fprintf(h, " %d %s", len(s.secret[key]), s.secret[key])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// The keys of a Secret for TLS.
const (
	keyAuthority   = "ca.crt"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

func credentials(s *snapshot) (*tls.Config, verdict.Verdict) {
	t := s.psw.Spec.TLS
	if t == nil {
		return nil, verdict.Verdict{}
	}
	invalid := func(format string, args ...any) verdict.Verdict {
		return verdict.No(v1alpha1.ReasonInvalidCredentials, fmt.Sprintf("`spec.tls.secretName`: Secret %s/%s: ", s.namespace, t.SecretName)+fmt.Sprintf(format, args...))
	}
	if s.secret == nil {
		return nil, verdict.No(v1alpha1.ReasonPartNotFound, fmt.Sprintf("`spec.tls.secretName`: there is no Secret %q in namespace %q; create it", t.SecretName, s.namespace))
	}
	host, _, err := net.SplitHostPort(s.psw.Spec.Endpoint)
	if err != nil {
		return nil, verdict.No(v1alpha1.ReasonInvalidConfiguration, "`spec.endpoint` is not host:port")
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: host}
	if t.ServerName != "" {
		out.ServerName = t.ServerName
	}
	if !out.RootCAs.AppendCertsFromPEM(s.secret[keyAuthority]) {
		return nil, invalid("%s holds no certificate", keyAuthority)
	}
	if len(s.secret[keyCertificate]) == 0 && len(s.secret[keyPrivate]) == 0 {
		return out, verdict.Verdict{}
	}
	pair, err := tls.X509KeyPair(s.secret[keyCertificate], s.secret[keyPrivate])
	if err != nil {
		return nil, invalid("%s and %s: %v", keyCertificate, keyPrivate, err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, verdict.Verdict{}
}

// allParts are the P4Info and what is behind it.
func allParts(p v1alpha1.SwitchPipeline) []v1alpha1.SwitchPipelinePart {
	return append([]v1alpha1.SwitchPipelinePart{p.P4Info}, p.DeviceConfig...)
}

func digest(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// verified are the parts with the right digest.
func verified(all map[v1alpha1.SwitchPipelinePart][]byte) map[v1alpha1.SwitchPipelinePart][]byte {
	out := map[v1alpha1.SwitchPipelinePart][]byte{}
	for part, value := range all {
		if digest(value) == part.SHA256 {
			out[part] = value
		}
	}
	return out
}

func pipelineOf(s *snapshot) (keeper.Pipeline, []verdict.Verdict) {
	spec := s.psw.Spec.Pipeline
	var wrong []verdict.Verdict
	for n, part := range allParts(spec) {
		field := "spec.pipeline.p4Info"
		if n > 0 {
			field = fmt.Sprintf("spec.pipeline.deviceConfig[%d]", n-1)
		}
		value, there := s.parts[part]
		if !there {
			wrong = append(wrong, verdict.No(v1alpha1.ReasonPartNotFound, fmt.Sprintf("`%s`: there is no ConfigMap %q with a key %q in namespace %q; create it",
				field, part.ConfigMapName, part.Key, s.namespace)))
		} else if is := digest(value); is != part.SHA256 {
			wrong = append(wrong, verdict.No(v1alpha1.ReasonDigestMismatch, fmt.Sprintf("`%s.sha256`: key %q of ConfigMap %q has the digest %s, not %s",
				field, part.Key, part.ConfigMapName, is, part.SHA256)))
		}
	}
	if len(wrong) > 0 {
		return keeper.Pipeline{}, wrong
	}
	info, err := switches.ParseInfo(s.parts[spec.P4Info])
	if err != nil {
		return keeper.Pipeline{}, []verdict.Verdict{verdict.No(v1alpha1.ReasonInvalidPipeline, fmt.Sprintf("`spec.pipeline.p4Info`: %v", err))}
	}
	out := keeper.Pipeline{Info: info, Push: spec.Mode == v1alpha1.PipelinePush, Cookie: cookie(spec)}
	for _, part := range spec.DeviceConfig {
		out.Device = append(out.Device, s.parts[part]...)
	}
	return out, nil
}

// cookie tells pipelines apart by the digests of their parts. It is never 0, which is
// what some switches say of a pipeline without one.
func cookie(p v1alpha1.SwitchPipeline) uint64 {
	h := sha256.New()
	for _, part := range allParts(p) {
		h.Write([]byte(part.SHA256))
	}
	return max(binary.BigEndian.Uint64(h.Sum(nil)), 1)
}

func fabricOf(spec v1alpha1.ProgrammableSwitchSpec) (switches.Fabric, verdict.Verdict) {
	invalid := func(format string, args ...any) verdict.Verdict {
		return verdict.No(v1alpha1.ReasonInvalidConfiguration, fmt.Sprintf(format, args...))
	}
	var out switches.Fabric
	for _, p := range spec.Ports {
		out.Ports = append(out.Ports, uint32(p))
	}
	var err error
	if out.MAC, err = parseMAC(spec.MACAddress); err != nil && spec.MACAddress != "" {
		return out, invalid("`spec.macAddress` %q is no MAC address", spec.MACAddress)
	}
	for n, h := range spec.NextHops {
		mac, err := parseMAC(h.MACAddress)
		if err != nil {
			return out, invalid("`spec.nextHops[%d].macAddress` %q is no MAC address", n, h.MACAddress)
		}
		out.NextHops = append(out.NextHops, switches.NextHop{MAC: mac, Port: uint32(h.Port)})
	}
	for n, text := range spec.AddressPool {
		p, err := netip.ParsePrefix(text)
		if err != nil || !p.Addr().Is4() || p != p.Masked() {
			return out, invalid("`spec.addressPool[%d]` %q is no IPv4 network such as 192.0.2.0/28", n, text)
		}
		for _, other := range out.Pool {
			if p.Overlaps(other) {
				return out, invalid("`spec.addressPool[%d]` %q overlaps with %s: name each address once", n, text, other)
			}
		}
		out.Pool = append(out.Pool, p)
	}
	return out, verdict.Verdict{}
}

func parseMAC(text string) (uint64, error) {
	return strconv.ParseUint(strings.ReplaceAll(text, ":", ""), 16, 48)
}

func entriesOf(info *switches.Info, f switches.Fabric) ([]switches.Entry, []verdict.Verdict) {
	if short := info.Fit(f); len(short) > 0 {
		return nil, []verdict.Verdict{verdict.No(v1alpha1.ReasonCapacityExceeded, strings.Join(short, "; "))}
	}
	wanted, err := info.Entries(f)
	if err != nil {
		return nil, []verdict.Verdict{verdict.No(v1alpha1.ReasonInvalidPipeline, fmt.Sprintf("`spec.pipeline.p4Info` is not of Bobtail's router: %s", strings.ReplaceAll(err.Error(), "\n", "; ")))}
	}
	return wanted, nil
}
