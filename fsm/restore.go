package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"berth/fleet"
	"berth/fleet/wire"
)

// maxLine is the longest record that a snapshot may have, in bytes. It bounds what a file that is not a snapshot can make us hold, and is far
// above what the rows of a state can grow to (see bounds.go).
const maxLine = 64 << 20

// Restore replaces the whole state by a snapshot's. The new state is built aside and checked to the last byte before anything changes; then
// it takes the place of the old one at once, and every watcher wakes. After an error the state is as before.
func (m *Machine) Restore(r io.Reader) error {
	s, _, err := Load(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.state.Swap(s)
	old.abandon()
	return nil
}

// abandon wakes everyone who watches a state that Restore has replaced.
func (s *State) abandon() {
	s.hub.end()
	s.signals.fire(everything)
}

// Inspect reads a whole snapshot into a scratch machine, and says what it holds. It is the dry run without which no file may reach raft, which
// ends its process when a restore fails.
func Inspect(r io.Reader) (wire.SnapshotInfo, error) {
	_, info, err := Load(r)
	return info, err
}

// Load reads a snapshot into a state of its own. Errors are fleet.Error values: bad_request for a file that is no snapshot, cut or altered;
// level_too_old for one that a newer release has written.
func Load(r io.Reader) (*State, wire.SnapshotInfo, error) {
	in := newSnapshotReader(r)
	s, info, err := in.load()
	if err != nil {
		code := fleet.CodeOf(err)
		if code == fleet.Internal {
			code = fleet.BadRequest
		}
		return nil, wire.SnapshotInfo{}, fleet.Errorf(code, "snapshot, line %d: %s", in.lines, err)
	}
	return s, info, nil
}

// WithIdentity returns the state as a restore is to have it: in a new, higher epoch, so that every order of the time before is older than it, and
// with the id of the cluster that goes on. It is meant to be written to a file; no machine takes it over.
func (s *State) WithIdentity(cluster string, epoch uint64) (*State, error) {
	if epoch <= s.core.Cluster.Epoch {
		return nil, fleet.Errorf(fleet.StaleEpoch, "the snapshot is of epoch %d; it cannot be restored into epoch %d", s.core.Cluster.Epoch, epoch)
	}
	t := &State{tables: s.tables, index: fleet.Index{Epoch: epoch, N: s.index.N}, signals: newSignals()}
	t.hub = newHub(t)
	t.core.Cluster.ID, t.core.Cluster.Epoch = cluster, epoch
	return t, nil
}

// snapshotReader reads lines and sums them up.
type snapshotReader struct {
	r     *bufio.Reader
	sum   hash.Hash
	lines int
	bytes int64
}

func newSnapshotReader(r io.Reader) *snapshotReader {
	return &snapshotReader{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
}

func (in *snapshotReader) load() (*State, wire.SnapshotInfo, error) {
	h, err := in.header()
	if err != nil {
		return nil, wire.SnapshotInfo{}, err
	}
	tx := newState().begin(h.Index, Meta{})
	t, err := in.records(tx)
	if err != nil {
		return nil, wire.SnapshotInfo{}, err
	}
	if c := tx.core.Cluster; c.ID != h.Cluster || c.Epoch != h.Index.Epoch || max(c.Level, 1) != h.Level {
		return nil, wire.SnapshotInfo{}, errors.New("the header and the content are of different clusters, epochs or levels")
	}
	s := tx.commit()
	s.signals, s.hub = newSignals(), newHub(s)
	return s, wire.SnapshotInfo{
		Format: h.Format, Level: h.Level, Cluster: h.Cluster, Index: h.Index, Records: t.Records, Bytes: in.bytes, Fingerprint: t.SHA256,
	}, nil
}

func (in *snapshotReader) header() (header, error) {
	line, err := in.line()
	if err != nil {
		return header{}, err
	}
	in.sum.Write(line)
	var h header
	if err := strict(line, &h); err != nil || h.Format == 0 {
		return h, errors.New("this is not a snapshot of Berth")
	}
	if h.Format != snapshotFormat || h.Level > Level {
		return h, fleet.Errorf(fleet.LevelTooOld, "a newer release has written it (format %d, level %d); this one reads format %d up to level %d", h.Format, h.Level, snapshotFormat, Level)
	}
	return h, nil
}

// records reads every record, and the trailer.
func (in *snapshotReader) records(tx *txn) (trailer, error) {
	last, count := "", 0
	for {
		line, err := in.line()
		if err != nil {
			return trailer{}, err
		}
		if bytes.HasPrefix(line, []byte(trailerStart)) {
			return in.trailer(line, count)
		}
		in.sum.Write(line)
		if last, err = tx.loadLine(line, last); err != nil {
			return trailer{}, err
		}
		count++
	}
}

// trailerStart begins the trailer, and no record.
const trailerStart = `{"records":`

// trailer checks the last line against what it must be at this point, byte for byte.
func (in *snapshotReader) trailer(line []byte, count int) (trailer, error) {
	t := trailer{Records: count, SHA256: hex.EncodeToString(in.sum.Sum(nil))}
	if !bytes.Equal(line, lineOf(t)) {
		return t, errors.New("the trailer's count and checksum are not those of the file: it was altered")
	}
	return t, in.end()
}

// loadLine puts one line's record into its table and returns its place, which must be after last.
func (tx *txn) loadLine(line []byte, last string) (string, error) {
	var rec record
	if err := strict(line, &rec); err != nil {
		return "", fmt.Errorf("not a record: %w", err)
	}
	at := key(rec.Table, rec.Key)
	if at <= last {
		return "", fmt.Errorf("the record %q %q is out of order", rec.Table, rec.Key)
	}
	if err := tx.load(rec); err != nil {
		return "", fmt.Errorf("the record %q %q: %w", rec.Table, rec.Key, err)
	}
	return at, nil
}

// line reads one line with its end. A last line without an end is a file that was cut.
func (in *snapshotReader) line() ([]byte, error) {
	in.lines++
	var line []byte
	for {
		part, err := in.r.ReadSlice('\n')
		in.bytes += int64(len(part))
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case len(line) > maxLine:
			return nil, errors.New("the line is too long for a snapshot")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil, errors.New("the file ends before its trailer: it was cut")
		default:
			return nil, fmt.Errorf("reading it: %w", err)
		}
	}
}

func (in *snapshotReader) end() error {
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the trailer")
	}
	return nil
}

// load puts one record into its table, and what is derived from it into the indexes.
func (tx *txn) load(rec record) error {
	switch rec.Table {
	case tableCore:
		return strict(rec.Row, &tx.core)
	case tableServers:
		return loadRow(rec, func(s *fleet.Server) string { tx.servers.put(s.ID, s); return s.ID })
	case tableModels:
		return loadRow(rec, func(m *fleet.Model) string { tx.indexModel(m); return m.Name() })
	case tableSpecs:
		return loadRow(rec, func(s *fleet.ModelSpec) string { tx.specs.put(rec.Key, s); return rec.Key })
	case tableNodes:
		return loadRow(rec, func(n *fleet.Node) string { tx.indexNode(n); return n.Name })
	case tableReplicas:
		return loadRow(rec, func(r *fleet.Replica) string { tx.indexReplica(r); return r.ID })
	case tableRequests:
		return loadRow(rec, func(r *request) string { tx.putRequest(r); return r.ID })
	case tableFeeds:
		return loadRow(rec, func(i *fleet.Index) string { tx.feeds.put(rec.Key, i); return rec.Key })
	default:
		return errors.New("there is no such table")
	}
}

// loadRow decodes a row, puts it, and refuses one whose own name is not its key.
func loadRow[T any](rec record, put func(*T) string) error {
	row := new(T)
	if err := strict(rec.Row, row); err != nil {
		return err
	}
	if own := put(row); own != rec.Key {
		return fmt.Errorf("the row is of %q", own)
	}
	return nil
}
