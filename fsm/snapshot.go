package fsm

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"berth/fleet"
	"berth/fsm/record"
)

// snapshotFormat is the version of the snapshot's form: a header, a line that people can read; then the tables in the order of their numbers,
// each with its rows in order of key; then the number of rows and the SHA-256 of all before. See package record for the bytes. Equal states
// give equal bytes.
const snapshotFormat = 1

// header is the first line of a snapshot.
type header struct {
	Format  int         `json:"berth_snapshot"`
	Level   int         `json:"level"`
	Index   fleet.Index `json:"index"`
	Cluster string      `json:"cluster"`
}

// Numbers of the tables in a snapshot, in the order in which they are written; for ever.
const (
	tableCore byte = iota + 1
	tableServers
	tableModels
	tableSpecs
	tableNodes
	tableReplicas
	tableRequests
	tableFeeds
	tableStrays
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
	head, err := json.Marshal(header{Format: snapshotFormat, Level: max(s.core.Cluster.Level, 1), Index: s.index, Cluster: s.core.Cluster.ID})
	if err != nil {
		return "", fmt.Errorf("snapshot at %s: %w", s.index, err)
	}
	out := record.NewWriter(w, append(head, '\n'))
	record.Row(out, tableCore, &s.core, coreFields)
	writeTable(out, tableServers, s.servers, serverFields)
	writeTable(out, tableModels, s.models, modelFields)
	for spec := range s.pastSpecs() {
		record.Row(out, tableSpecs, spec, pastSpecFields)
	}
	writeTable(out, tableNodes, s.nodes, nodeFields)
	writeTable(out, tableReplicas, s.replicas, replicaFields)
	writeTable(out, tableRequests, s.requests, requestFields)
	for name, changed := range s.feeds.all() {
		record.Row(out, tableFeeds, &feedRow{Name: name, Changed: *changed}, feedFields)
	}
	writeTable(out, tableStrays, s.strays, strayFields)
	if sum, err = out.End(); err != nil {
		return "", fmt.Errorf("snapshot at %s: %w", s.index, err)
	}
	return sum, nil
}

func writeTable[T any](out *record.Writer, number byte, rows table[T], fields func(*record.Codec, *T)) {
	for _, row := range rows.all() {
		record.Row(out, number, row, fields)
	}
}

// pastSpecs goes through the specs that are not their models' present ones; those are in the models' own rows.
func (s *State) pastSpecs() iter.Seq[*pastSpec] {
	return func(yield func(*pastSpec) bool) {
		for k, spec := range s.specs.all() {
			generation := generationOf(k)
			if m, ok := s.models.get(spec.Name); ok && m.Generation == generation {
				continue
			}
			if !yield(&pastSpec{Generation: generation, Spec: *spec}) {
				return
			}
		}
	}
}
