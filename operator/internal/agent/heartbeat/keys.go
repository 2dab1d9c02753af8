// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"bytes"
	"crypto/hmac"
	"slices"
	"time"
)

// KeyLinger is how long a key that was taken away is still accepted. Agents learn
// of a new key at different times, as their nodes' kubelets bring the Secret up
// to date: within two minutes.
const KeyLinger = 5 * time.Minute

// keyring is what an agent holds, newest first. A key is exchanged without a
// datagram being refused: who has the new key accepts it at once and signs with
// it only for those that have shown that they have it, too. An agent shows that
// by signing with it, or by a flag on what it signs with an older one.
type keyring struct {
	keys  []heldKey
	peers map[string][]byte // by name: the newest of our keys that a peer has shown to hold
}

type heldKey struct {
	key  []byte
	gone time.Duration // when it was taken away; 0: it was not
}

func newKeyring(keys [][]byte) *keyring {
	r := &keyring{peers: map[string][]byte{}}
	r.set(0, keys)
	return r
}

// set replaces the keys; those that are not among them any more linger.
func (r *keyring) set(now time.Duration, keys [][]byte) {
	var next []heldKey
	for _, k := range keys {
		next = append(next, heldKey{key: bytes.Clone(k)})
	}
	for _, old := range r.keys {
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old.key) }) {
			continue
		}
		if old.gone == 0 {
			old.gone = max(now, 1)
		}
		next = append(next, old)
	}
	r.keys = next
	r.forget(now)
}

func (r *keyring) forget(now time.Duration) {
	r.keys = slices.DeleteFunc(r.keys, func(k heldKey) bool { return k.gone != 0 && now-k.gone >= KeyLinger })
}

// sign chooses the key for a datagram to a peer, and tells whether there is a newer one.
func (r *keyring) sign(peer string) (key []byte, newer bool) {
	known, shown := r.peers[peer]
	at := r.find(known)
	if !shown || at < 0 { // it may be late: what both surely have is the oldest one that is still in force
		at = 0
		for i, k := range r.keys {
			if k.gone == 0 {
				at = i
			}
		}
	}
	return r.keys[at].key, at > 0
}

func (r *keyring) find(key []byte) int {
	return slices.IndexFunc(r.keys, func(k heldKey) bool { return bytes.Equal(k.key, key) })
}

// opens finds the key that made the tag; -1 for none.
func (r *keyring) opens(now time.Duration, body, sum []byte) int {
	r.forget(now)
	return slices.IndexFunc(r.keys, func(k heldKey) bool { return hmac.Equal(tag(k.key, body), sum) })
}

// learn that a peer signed with one of our keys, and whether it has a newer one.
func (r *keyring) learn(peer string, at int, newer bool) {
	if newer && at > 0 {
		at--
	}
	r.peers[peer] = r.keys[at].key
}

// keep forgets peers that are no longer there.
func (r *keyring) keep(names map[string]bool) {
	for name := range r.peers {
		if !names[name] {
			delete(r.peers, name)
		}
	}
}
