package fsm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"berth/fleet"
)

// formatV1 is the first byte of an entry: {version byte, CRC-32C of the rest (4 bytes, big endian), JSON}. The byte buys the right to change
// everything after it.
const formatV1 = 1

// headerSize is the number of bytes before the JSON.
const headerSize = 1 + crc32.Size

// MaxCommand is the largest encoded command in bytes. Raft's log holds entries whole in memory, on every peer, several times over.
const MaxCommand = 8 << 20

// castagnoli is the polynomial of CRC-32C (RFC 3720, B.4): most CPUs have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type envelope struct {
	Kind string          `json:"kind"`
	Meta Meta            `json:"meta"`
	Body json.RawMessage `json:"body"`
}

// Entry is a command in the form of the log, together with what is read back from that form. Only the goroutine that applies may have it applied,
// and only once: the state keeps parts of the command.
type Entry struct {
	data    []byte
	head    envelope
	kind    kind
	command Command
}

// NewEntry makes the log entry of a command. It reads back what it has written before it returns it: what this release cannot read must not reach
// the log, where every peer would have to stop at it. Errors are fleet.Error values: bad_request, too_large.
func NewEntry(m Meta, c Command) (*Entry, error) {
	k, ok := kindOf(c.Kind())
	if !ok {
		return nil, fleet.Errorf(fleet.BadRequest, "the command %q is not one that this release knows", c.Kind())
	}
	m.Level = max(m.Level, k.level)
	data, err := encode(m, c)
	if err != nil {
		return nil, fleet.Errorf(fleet.BadRequest, "the command %s cannot be written: %s", c.Kind(), err)
	}
	if len(data) > MaxCommand {
		return nil, fleet.Errorf(fleet.TooLarge, "the command %s has %d bytes; at most %d are allowed", c.Kind(), len(data), MaxCommand)
	}
	e, err := readEntry(data)
	if err != nil {
		return nil, fleet.Errorf(fleet.BadRequest, "the command %s would not be readable from the log: %s", c.Kind(), err)
	}
	return e, nil
}

// Data is the entry as the log holds it. It must not be written to.
func (e *Entry) Data() []byte { return e.data }

// Encode is NewEntry for who wants the bytes alone.
func Encode(m Meta, c Command) ([]byte, error) {
	e, err := NewEntry(m, c)
	if err != nil {
		return nil, err
	}
	return e.data, nil
}

// encode writes the envelope around the body by hand, which encoding/json would read once more to write it; TestEnvelope holds the form.
func encode(m Meta, c Command) ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	data := make([]byte, headerSize, headerSize+len(`{"kind":"","meta":,"body":}`)+len(c.Kind())+len(meta)+len(body))
	data = append(append(append(data, `{"kind":"`...), c.Kind()...), `","meta":`...) // a kind has nothing to escape
	data = append(append(append(append(data, meta...), `,"body":`...), body...), '}')
	data[0] = formatV1
	binary.BigEndian.PutUint32(data[1:], crc32.Checksum(data[headerSize:], castagnoli))
	return data, nil
}

// Decode reads a log entry. Any error means that this peer cannot know what the entry says.
func Decode(data []byte) (Meta, Command, error) {
	e, err := readEntry(data)
	if err != nil {
		return Meta{}, nil, err
	}
	return e.head.Meta, e.command, nil
}

func readEntry(data []byte) (*Entry, error) {
	head, k, err := open(data)
	if err != nil {
		return nil, err
	}
	c, err := k.decode(head.Body)
	if err != nil {
		return nil, fmt.Errorf("entry of kind %s: %w", head.Kind, err)
	}
	return &Entry{data: data, head: head, kind: k, command: c}, nil
}

// open checks an entry and reads its envelope, but not its body.
func open(data []byte) (envelope, kind, error) {
	if err := Verify(data); err != nil {
		return envelope{}, kind{}, err
	}
	e, err := strict[envelope](data[headerSize:])
	if err != nil {
		return envelope{}, kind{}, fmt.Errorf("entry: %w", err)
	}
	k, ok := kindOf(e.Kind)
	if !ok {
		return envelope{}, kind{}, fmt.Errorf("entry of kind %q, which this release (level %d) does not know", e.Kind, Level)
	}
	if e.Meta.Level > Level {
		return envelope{}, kind{}, fmt.Errorf("entry of kind %s needs level %d; this release understands level %d", e.Kind, e.Meta.Level, Level)
	}
	return e, k, nil
}

// Verify checks the version and the checksum of an entry without reading its content, so that rotten data is neither sent nor applied.
func Verify(data []byte) error {
	if len(data) < headerSize {
		return fmt.Errorf("entry of %d bytes; at least %d are needed", len(data), headerSize)
	}
	if data[0] != formatV1 {
		return fmt.Errorf("entry of format %d; this release reads format %d", data[0], formatV1)
	}
	want, got := binary.BigEndian.Uint32(data[1:]), crc32.Checksum(data[headerSize:], castagnoli)
	if want != got {
		return fmt.Errorf("entry with checksum %08x, but its content gives %08x: the log is damaged", want, got)
	}
	return nil
}
