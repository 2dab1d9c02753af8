// SPDX-License-Identifier: Apache-2.0

// Which configuration should be running, and how it relates to the one that is.
package rpcservice

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// maxHistory bounds that list. A peer that lags behind further than this is
// rightly called not programmed.
const maxHistory = 16

// desired is the configuration that should be running.
type desired struct {
	// text and hash are the document; hash is empty when there is none.
	text []byte
	hash string
	// sameGeneration are hashes of documents that were made from the same
	// generation and differ only in pods or keys. A peer that still runs one
	// of them runs this specification.
	sameGeneration []string
}

// runs says whether a dataplane runs the specification's generation.
func (d desired) runs(applied string) bool {
	return applied != "" && (applied == d.hash || slices.Contains(d.sameGeneration, applied))
}

// liveConfig is the configuration as it stands in the ConfigMap.
type liveConfig struct {
	exists  bool              // the ConfigMap does, whatever is in it
	doc     *dataplane.Config // nil when there is none that can be read
	hash    string
	history []string
}

func readLive(cm *corev1.ConfigMap) liveConfig {
	if cm == nil {
		return liveConfig{}
	}
	text := []byte(cm.Data[dataplane.ConfigMapKeyConfig])
	doc, err := dataplane.ParseConfig(text)
	if err != nil {
		return liveConfig{exists: true}
	}
	l := liveConfig{exists: true, doc: doc, hash: dataplane.HashConfig(text)}
	if h := cm.Annotations[dataplane.AnnotationSameGeneration]; h != "" {
		l.history = strings.Split(h, ",")
	}
	return l
}

// keyIDs are the keys the configuration names.
func (l liveConfig) keyIDs() []int {
	if l.doc == nil {
		return nil
	}
	return l.doc.KeyIDs
}

// decideConfig makes the document that should be running. When the
// specification was not accepted, the one that is running is brought up to
// date with the pods: what serves must keep up with its members even while its
// owner's latest wish cannot be fulfilled.
func decideConfig(s *snapshot, p *plan, accepted bool) (desired, error) {
	peers := choosePeers(s, p.keys.named())
	peers.Addresses, peers.Device, peers.Hedging = s.addresses(peers), p.device.device.Type, p.hedging
	if st := p.onSwitch.status; st != nil {
		peers.Switch = render.SwitchRouter(st.Name, st.Address)
	}
	var err error
	if peers.Objective, err = chooseObjective(s); err != nil {
		return desired{}, err
	}
	doc := render.Config(s.service, peers)
	was := s.live
	if !accepted {
		if was.doc == nil {
			return desired{}, nil
		}
		last := *was.doc
		last.Members, last.Routers, last.KeyIDs = doc.Members, doc.Routers, doc.KeyIDs
		doc = &last
	}
	text, hash, err := dataplane.RenderConfig(doc)
	if err != nil {
		return desired{}, fmt.Errorf("render the dataplane configuration: %w", err)
	}
	return desired{text: text, hash: hash, sameGeneration: history(was, doc, hash)}, nil
}

// chooseObjective is what the routers enforce; nil: nothing.
func chooseObjective(s *snapshot) (*render.Objective, error) {
	slo := enforce.Choose(s.service, s.objectives)
	if slo == nil {
		return nil, nil
	}
	admission, err := enforce.Admission(slo)
	if err != nil {
		return nil, err
	}
	return &render.Objective{Source: enforce.Source(slo), Admission: admission}, nil
}

// history carries the list of hashes on.
func history(was liveConfig, doc *dataplane.Config, hash string) []string {
	if was.doc == nil || !sameSources(was.doc.Sources, doc.Sources) {
		return nil
	}
	if was.hash == hash {
		return was.history
	}
	kept := slices.DeleteFunc(append([]string{was.hash}, was.history...), func(h string) bool { return h == hash })
	return kept[:min(len(kept), maxHistory)]
}

func sameSources(a, b []dataplane.Source) bool { return slices.Equal(a, b) }

// acknowledgedExactly says that every live peer runs the very document of the
// ConfigMap, and that it names these keys.
func acknowledgedExactly(s *snapshot, keyIDs []int) bool {
	was := s.live
	if was.doc == nil || !slices.Equal(was.doc.KeyIDs, keyIDs) {
		return false
	}
	for _, p := range slices.Concat(s.servers, s.routers) {
		if a := s.states[p.Name]; live(p) && (a.Reply == nil || a.Reply.AppliedHash != was.hash) {
			return false
		}
	}
	return true
}
