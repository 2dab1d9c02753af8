// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dchest/siphash"
)

// Key is one shared key of a service, 128 bits.
type Key struct {
	ID    uint8 // 1…255
	Bytes [16]byte
}

// Keyring holds the keys in force: the first signs, all verify. Two are live
// during a rotation.
type Keyring []Key

// TagResult is the outcome of a tag check.
type TagResult uint8

// Outcomes.
const (
	TagValid TagResult = iota
	TagAbsent
	TagUnknownKey
	TagWrong
)

// tag is SipHash-2-4 over the header with its options (tag bytes zero), the
// control payload (none for REQUEST and REPLY), and both endpoints.
func (h *Header) tag(p []byte, key *Key, src, dst netip.AddrPort) [8]byte {
	signed := p
	if h.Type == Request || h.Type == Reply {
		signed = p[:h.Size]
	}
	buf := make([]byte, 0, 256)
	buf = append(buf, signed...)
	clear(buf[h.Options.tagOffset : h.Options.tagOffset+8])
	buf = endpoint(endpoint(buf, src), dst)
	k0, k1 := binary.LittleEndian.Uint64(key.Bytes[:]), binary.LittleEndian.Uint64(key.Bytes[8:])
	var out [8]byte
	binary.LittleEndian.PutUint64(out[:], siphash.Hash(k0, k1, buf))
	return out
}

// Sign fills the tag of the encoded packet p, whose header h was written with
// HasTag and the key's ID.
func (h *Header) Sign(p []byte, key *Key, src, dst netip.AddrPort) {
	h.Options.Tag = h.tag(p, key, src, dst)
	copy(p[h.Options.tagOffset:], h.Options.Tag[:])
}

// Verify checks the tag of p, decoded as h, against the key it names.
func (h *Header) Verify(p []byte, keys Keyring, src, dst netip.AddrPort) TagResult {
	if h.Options.Present&HasTag == 0 {
		return TagAbsent
	}
	for i := range keys {
		if keys[i].ID != h.Options.KeyID {
			continue
		}
		want := h.tag(p, &keys[i], src, dst)
		if subtle.ConstantTimeCompare(want[:], h.Options.Tag[:]) == 1 {
			return TagValid
		}
		return TagWrong
	}
	return TagUnknownKey
}

// ReadKey reads the key with an id from a key directory: a file named by the
// decimal id that holds 32 hex digits.
func ReadKey(dir string, id int) (Key, error) {
	if id < 1 || id > 255 {
		return Key{}, fmt.Errorf("key id must be 1..255; got %d", id)
	}
	path := filepath.Join(dir, strconv.Itoa(id))
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Key{}, fmt.Errorf("key %d: %s does not exist; mount the service's key Secret there", id, path)
	}
	if err != nil {
		return Key{}, fmt.Errorf("key %d: %w", id, err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != 16 {
		return Key{}, fmt.Errorf("key %d: %s must hold 32 hex digits", id, path)
	}
	return Key{ID: uint8(id), Bytes: [16]byte(raw)}, nil
}

// ReadKeyring reads several keys; the first id signs.
func ReadKeyring(dir string, ids []int) (Keyring, error) {
	var ring Keyring
	for _, id := range ids {
		k, err := ReadKey(dir, id)
		if err != nil {
			return nil, err
		}
		ring = append(ring, k)
	}
	return ring, nil
}
