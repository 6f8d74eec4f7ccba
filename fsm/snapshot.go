package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"iter"

	"berth/fleet"
)

// snapshotFormat is the version of the snapshot's form: lines of JSON, of which the first is a header, the last a trailer with the number and
// the SHA-256 of what is before it, and the others records in order of table and key. Equal states give equal bytes.
const snapshotFormat = 1

// header is the first line of a snapshot.
type header struct {
	Format  int         `json:"berth_snapshot"`
	Level   int         `json:"level"`
	Index   fleet.Index `json:"index"`
	Cluster string      `json:"cluster"`
}

// record is one row. Tables have their number in front, so that the order of records is the order of their lines' beginnings.
type record struct {
	Table string          `json:"t"`
	Key   string          `json:"k"`
	Row   json.RawMessage `json:"v"`
}

// trailer is the last line: without it, a file that was cut at the end of a line would look whole.
type trailer struct {
	Records int    `json:"records"`
	SHA256  string `json:"sha256"`
}

// Names of the tables in a snapshot, in the order in which they are written.
const (
	tableCore     = "0core"
	tableServers  = "1server"
	tableModels   = "2model"
	tableSpecs    = "3spec"
	tableNodes    = "4node"
	tableReplicas = "5replica"
	tableRequests = "6request"
	tableFeeds    = "7feed"
)

// WriteSnapshot writes the state. It reads nothing but this state, so it may run for minutes while the machine applies on. The file holds the
// keys of doors: keep it as a secret.
func (s *State) WriteSnapshot(w io.Writer) error {
	_, err := s.writeSnapshot(w)
	return err
}

// Fingerprint returns the hash of the state's snapshot, hexadecimal: equal on two peers at equal index, or one of them is wrong. It is computed
// once a state, on the first call, and takes as long as a snapshot does.
func (s *State) Fingerprint() string {
	s.fingerprint.Do(func() {
		s.hash, _ = s.writeSnapshot(io.Discard) // nothing can fail there
	})
	return s.hash
}

func (s *State) writeSnapshot(w io.Writer) (sum string, err error) {
	out := snapshotWriter{w: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	out.line(header{Format: snapshotFormat, Level: max(s.core.Cluster.Level, 1), Index: s.index, Cluster: s.core.Cluster.ID})
	out.row(tableCore, "", s.core)
	writeTable(&out, tableServers, s.servers.all())
	writeTable(&out, tableModels, s.models.all())
	writeTable(&out, tableSpecs, s.specs.all())
	writeTable(&out, tableNodes, s.nodes.all())
	writeTable(&out, tableReplicas, s.replicas.all())
	writeTable(&out, tableRequests, s.requests.all())
	writeTable(&out, tableFeeds, s.feeds.all())
	t := out.trailer()
	out.line(t)
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return "", fmt.Errorf("snapshot at %s: %w", s.index, out.err)
	}
	return t.SHA256, nil
}

func writeTable[T any](out *snapshotWriter, name string, rows iter.Seq2[string, *T]) {
	for k, row := range rows {
		if out.err != nil {
			return
		}
		out.row(name, k, row)
	}
}

// snapshotWriter keeps the first error, so that the tables can be written as a list.
type snapshotWriter struct {
	w       *bufio.Writer
	sum     hash.Hash
	records int
	err     error
}

func (out *snapshotWriter) trailer() trailer {
	return trailer{Records: out.records, SHA256: hex.EncodeToString(out.sum.Sum(nil))}
}

func (out *snapshotWriter) row(table, key string, row any) {
	out.records++
	out.line(record{Table: table, Key: key, Row: lineOf(row)})
}

func (out *snapshotWriter) line(v any) {
	data := lineOf(v)
	out.sum.Write(data)
	if out.err == nil {
		_, out.err = out.w.Write(data)
	}
}

// lineOf writes a value as one line, with the characters of names as they are: the default escapes <, > and & for web pages.
func lineOf(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("fsm: a record that does not marshal: " + err.Error()) // strings, numbers and JSON that was just made
	}
	return b.Bytes()
}
