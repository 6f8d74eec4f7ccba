package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Role is what a member does.
type Role string

// Roles of members.
const (
	Peer   Role = "peer"
	Agent  Role = "agent"
	Router Role = "router"
)

// Meta is what a member says of itself to all others; it must fit into [MetaBudget] bytes.
type Meta struct {
	Role      Role
	Name      string
	Cluster   string            // id; empty: it has not joined one yet
	MaxLevel  int               // newest level of the command set that it understands; a peer's
	Digest    uint64            // of a node's inventory; what it means is up to the members
	Addresses map[string]string // by purpose ("http", "raft"): host:port; an empty host is the member's gossip host

	leaving bool // goodbye: what comes next is no crash
}

// MetaBudget is the largest encoded Meta, in bytes. memberlist ends the process beyond 512; and every byte travels with every member in
// every full exchange.
const MetaBudget = 256

// metaVersion is the first byte. A later version may append fields to the same one: what follows the known fields is skipped.
const metaVersion = 1

var errMeta = errors.New("metadata that this release cannot read")

// flagLeaving is Meta.leaving on the wire.
const flagLeaving = 1

// encode writes version, flags, level, digest, then strings, each by its length. The integers but the digest are varints.
func (m Meta) encode() ([]byte, error) {
	b := []byte{metaVersion, 0}
	if m.leaving {
		b[1] = flagLeaving
	}
	b = binary.AppendUvarint(b, uint64(max(0, m.MaxLevel)))
	b = binary.LittleEndian.AppendUint64(b, m.Digest)
	b = binary.AppendUvarint(b, uint64(len(m.Addresses)))
	for _, s := range []string{string(m.Role), m.Name, m.Cluster} {
		b = appendString(b, s)
	}
	for _, purpose := range slices.Sorted(maps.Keys(m.Addresses)) {
		b = appendString(appendString(b, purpose), m.Addresses[purpose])
	}
	if len(b) > MetaBudget {
		return nil, fmt.Errorf("gossip metadata of %s %q has %d bytes, at most %d fit: shorten its name, or advertise addresses instead of long host names",
			m.Role, m.Name, len(b), MetaBudget)
	}
	return b, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func decodeMeta(b []byte) (Meta, error) {
	r := metaReader{rest: b}
	if version := r.bytes(1); len(version) != 1 || version[0] != metaVersion {
		return Meta{}, errMeta
	}
	flags := r.uint()
	m := Meta{leaving: flags&flagLeaving != 0, MaxLevel: int(r.uint() & 0xffff)}
	if digest := r.bytes(8); len(digest) == 8 {
		m.Digest = binary.LittleEndian.Uint64(digest)
	}
	addresses := r.uint()
	m.Role, m.Name, m.Cluster = Role(r.text()), r.text(), r.text()
	for range addresses {
		purpose, addr := r.text(), r.text()
		if r.bad {
			break
		}
		if m.Addresses == nil {
			m.Addresses = make(map[string]string)
		}
		m.Addresses[purpose] = addr
	}
	if r.bad {
		return Meta{}, errMeta
	}
	return m, nil
}

// metaReader reads what came from the network; after the first thing that is not there it gives nothing more.
type metaReader struct {
	rest []byte
	bad  bool
}

func (r *metaReader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *metaReader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *metaReader) text() string { return string(r.bytes(r.uint())) }

// label joins identity and start into the name that memberlist knows a member by.
func label(id string, instance uint64) string { return id + "#" + strconv.FormatUint(instance, 10) }

func parseLabel(s string) (id string, instance uint64, ok bool) {
	i := strings.LastIndexByte(s, '#')
	if i <= 0 {
		return "", 0, false
	}
	instance, err := strconv.ParseUint(s[i+1:], 10, 64)
	return s[:i], instance, err == nil
}
