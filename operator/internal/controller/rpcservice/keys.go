// SPDX-License-Identifier: Apache-2.0

// The packet keys of a service and their rotation. A key is 16 random bytes;
// it is made once and never changed, only replaced. Peers accept every key that
// their configuration names and sign with the first of them. Peers apply a
// configuration at different moments, so from one stage to the next whatever a
// peer of either stage signs must be accepted by peers of both:
//
//	stage        Secret   named in the configuration   signed with
//	(none)       1        1                            1
//	Distributing 1 2      1                            1
//	Overlapping  1 2      1 2                          1
//	Switching    1 2      2 1                          2
//	Retiring     1 2      2                            2
//	(none)       2        2                            2
//
// A Secret that somebody has deleted cannot be made again: its keys are known
// to the running pods alone. They go on with them until a new key, under a new
// number, has had the time to reach every pod:
//
//	Replacing    2        1                            1
//	(none)       2        2                            2
package rpcservice

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Annotations of the Secret of keys.
const (
	annotationStage = "bobtail.dev/key-stage"
	// annotationSince is when the stage began, or when the key was made.
	annotationSince = "bobtail.dev/key-stage-since"
)

// Stages of a rotation.
const (
	stageNone         = ""
	stageDistributing = "Distributing"
	stageOverlapping  = "Overlapping"
	stageSwitching    = "Switching"
	stageRetiring     = "Retiring"
	stageReplacing    = "Replacing"
)

const (
	// keyLife is the age at which a key is replaced without being asked.
	keyLife = 90 * 24 * time.Hour
	// distribution is how long a kubelet may take to bring a changed Secret
	// into a running pod: its sync period plus its cache's life, doubled.
	distribution = 4 * time.Minute
	// settle is the least time between two changes of the key set.
	settle = 10 * time.Second
	// maxKeyID is the highest number a key may have.
	maxKeyID = 255
)

// keyring is the Secret of keys, understood.
type keyring struct {
	keys  map[int][]byte // by number; 32 hex digits
	stage string
	since time.Time
	token string // last seen value of AnnotationRotateKeys
}

// keyringOf is the keyring of a Secret, which may be missing.
func keyringOf(s *corev1.Secret) keyring {
	if s == nil {
		return parseKeyring(nil, nil)
	}
	return parseKeyring(s.Data, s.Annotations)
}

// parseKeyring reads the Secret's content. What cannot be read is not there.
func parseKeyring(data map[string][]byte, annotations map[string]string) keyring {
	k := keyring{keys: map[int][]byte{}, stage: annotations[annotationStage], token: annotations[v1alpha1.AnnotationRotateKeys]}
	k.since, _ = time.Parse(time.RFC3339, annotations[annotationSince])
	for name, value := range data {
		if id, err := strconv.Atoi(name); err == nil && id >= 1 && id <= maxKeyID && len(value) == 32 {
			k.keys[id] = value
		}
	}
	return k
}

func (k keyring) secret() (data map[string][]byte, annotations map[string]string) {
	data = map[string][]byte{}
	for id, value := range k.keys {
		data[strconv.Itoa(id)] = value
	}
	annotations = map[string]string{annotationSince: k.since.UTC().Format(time.RFC3339)}
	if k.stage != stageNone {
		annotations[annotationStage] = k.stage
	}
	if k.token != "" {
		annotations[v1alpha1.AnnotationRotateKeys] = k.token
	}
	return data, annotations
}

func (k keyring) ids() []int {
	ids := make([]int, 0, len(k.keys))
	for id := range k.keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// pair is the older and the newer of two keys.
func (k keyring) pair() (older, newer int) {
	ids := k.ids()
	if successor(ids[1]) == ids[0] {
		return ids[1], ids[0]
	}
	return ids[0], ids[1]
}

// named are the keys the configuration should name at this stage, the one that
// signs first.
func (k keyring) named() []int {
	ids := k.ids()
	switch {
	case len(ids) == 1 && k.stage == stageReplacing:
		return []int{predecessor(ids[0])}
	case len(ids) < 2:
		return ids
	}
	older, newer := k.pair()
	switch k.stage {
	case stageOverlapping:
		return []int{older, newer}
	case stageSwitching:
		return []int{newer, older}
	case stageRetiring:
		return []int{newer}
	}
	return []int{older}
}

// advance returns the keyring to have now. acknowledged says that every live
// peer runs a configuration that names k.named(). newKey makes a key's value.
func (k keyring) advance(now time.Time, token string, acknowledged bool, newKey func() []byte) keyring {
	next := keyring{keys: map[int][]byte{}, stage: k.stage, since: k.since, token: k.token}
	for id, value := range k.keys {
		next.keys[id] = value
	}
	waited := func(d time.Duration) bool { return !now.Before(k.since.Add(d)) }
	ids := k.ids()
	switch {
	case len(ids) == 0:
		next.keys[1] = newKey()
		next.stage, next.since, next.token = stageNone, now, token
	case len(ids) == 1 && k.stage == stageReplacing:
		if waited(distribution) {
			next.stage, next.since = stageNone, now
		}
	case len(ids) == 1 && (token != k.token || waited(keyLife)):
		next.keys[successor(ids[0])] = newKey()
		next.stage, next.since, next.token = stageDistributing, now, token
	case len(ids) == 1:
		next.stage = stageNone
	case k.stage == stageRetiring && acknowledged && waited(settle):
		older, _ := k.pair()
		delete(next.keys, older)
		next.stage, next.since = stageNone, now
	case k.mayMove(acknowledged, waited):
		next.stage, next.since = following[k.stage], now
	}
	return next
}

// replaceLost makes a keyring for peers that run with keys of these numbers,
// whose values are lost.
func replaceLost(running []int, now time.Time, token string, newKey func() []byte) keyring {
	newest := running[0]
	for range running {
		if slices.Contains(running, successor(newest)) {
			newest = successor(newest)
		}
	}
	return keyring{keys: map[int][]byte{successor(newest): newKey()}, stage: stageReplacing, since: now, token: token}
}

// following are the stages of a rotation in their order. Two keys without a
// stage are a rotation that has just begun.
var following = map[string]string{
	stageNone: stageDistributing, stageDistributing: stageOverlapping,
	stageOverlapping: stageSwitching, stageSwitching: stageRetiring,
}

// mayMove says whether the next stage may begin: files need time to reach every
// pod, configurations need to be acknowledged.
func (k keyring) mayMove(acknowledged bool, waited func(time.Duration) bool) bool {
	switch k.stage {
	case stageNone:
		return true
	case stageDistributing:
		return waited(distribution)
	case stageOverlapping, stageSwitching:
		return acknowledged && waited(settle)
	}
	return false
}

// successor is the number of the next key.
func successor(id int) int {
	if id == maxKeyID {
		return 1
	}
	return id + 1
}

// predecessor is the number of the key before.
func predecessor(id int) int {
	if id == 1 {
		return maxKeyID
	}
	return id - 1
}

func (k keyring) equal(o keyring) bool {
	if k.stage != o.stage || !k.since.Equal(o.since) || k.token != o.token || len(k.keys) != len(o.keys) {
		return false
	}
	for id, value := range k.keys {
		if string(o.keys[id]) != string(value) {
			return false
		}
	}
	return true
}
