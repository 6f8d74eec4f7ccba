package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm/ordered"
	"berth/fsm/record"
)

// Load reads a snapshot into a state of its own. Errors are fleet.Error values: bad_request for a file that is no snapshot, cut or altered;
// level_too_old for one that a newer release has written.
func Load(r io.Reader) (*State, wire.SnapshotInfo, error) {
	s, info, err := load(record.NewReader(r))
	if err != nil {
		code := fleet.CodeOf(err)
		if code == fleet.Internal {
			code = fleet.BadRequest
		}
		return nil, wire.SnapshotInfo{}, fleet.Errorf(code, "snapshot: %s", err)
	}
	return s, info, nil
}

func load(in *record.Reader) (*State, wire.SnapshotInfo, error) {
	h, err := readHeader(in)
	if err != nil {
		return nil, wire.SnapshotInfo{}, err
	}
	var l loader
	if err := record.Each(in, decodeBlock, l.take); err != nil {
		return nil, wire.SnapshotInfo{}, err
	}
	if l.count != in.Rows() {
		return nil, wire.SnapshotInfo{}, fmt.Errorf("it has %d rows and says %d", l.count, in.Rows())
	}
	s, err := l.state(h)
	return s, wire.SnapshotInfo{
		Format: h.Format, Level: h.Level, Cluster: h.Cluster, Index: h.Index, Records: l.count, Bytes: in.Bytes(), Fingerprint: in.Sum(),
	}, err
}

func readHeader(in *record.Reader) (header, error) {
	line, err := in.Header()
	if err != nil {
		return header{}, err
	}
	h, err := strict[header](line)
	if err != nil || h.Format == 0 {
		return h, errors.New("this is not a snapshot of Berth")
	}
	if h.Format != snapshotFormat || h.Level > Level {
		return h, fleet.Errorf(fleet.LevelTooOld, "a newer release has written it (format %d, level %d); this one reads format %d up to level %d", h.Format, h.Level, snapshotFormat, Level)
	}
	return h, nil
}

// batch is the rows of one block, of one table.
type batch struct {
	table byte
	count int
	put   func(*loader)
}

// decodeBlock reads one block, on any goroutine: what it returns is put into the loader later and in order.
func decodeBlock(b record.Block) (batch, error) {
	switch b.Table {
	case tableCore:
		return decoded(b, coreFields, func(l *loader) *[]*core { return &l.core })
	case tableServers:
		return decoded(b, serverFields, func(l *loader) *[]*fleet.Server { return &l.servers })
	case tableModels:
		return decoded(b, modelFields, func(l *loader) *[]*fleet.Model { return &l.models })
	case tableSpecs:
		return decoded(b, pastSpecFields, func(l *loader) *[]*pastSpec { return &l.specs })
	case tableNodes:
		return decoded(b, nodeFields, func(l *loader) *[]*fleet.Node { return &l.nodes })
	case tableReplicas:
		return decoded(b, replicaFields, func(l *loader) *[]*fleet.Replica { return &l.replicas })
	case tableRequests:
		return decoded(b, requestFields, func(l *loader) *[]*request { return &l.requests })
	case tableFeeds:
		return decoded(b, feedFields, func(l *loader) *[]*feedRow { return &l.feeds })
	case tableStrays:
		return decoded(b, strayFields, func(l *loader) *[]*stray { return &l.strays })
	default:
		return batch{}, fmt.Errorf("there is no table %d", b.Table)
	}
}

func decoded[T any](b record.Block, fields func(*record.Codec, *T), of func(*loader) *[]*T) (batch, error) {
	rows, err := record.Rows(b, fields)
	return batch{table: b.Table, count: len(rows), put: func(l *loader) {
		into := of(l)
		*into = append(*into, rows...)
	}}, err
}

// loader is the rows of a snapshot, in the file's order, before they are tables.
type loader struct {
	last  byte
	count int

	core     []*core
	servers  []*fleet.Server
	models   []*fleet.Model
	specs    []*pastSpec
	nodes    []*fleet.Node
	replicas []*fleet.Replica
	requests []*request
	feeds    []*feedRow
	strays   []*stray
}

func (l *loader) take(b batch) error {
	if b.table < l.last {
		return fmt.Errorf("the table %d is out of order", b.table)
	}
	l.last, l.count = b.table, l.count+b.count
	b.put(l)
	return nil
}

// state makes the tables, those that hold nothing but rows and those that are derived from them, all at the same time.
func (l *loader) state(h header) (*State, error) {
	if len(l.core) != 1 {
		return nil, fmt.Errorf("it has %d rows of what there is one of", len(l.core))
	}
	c := *l.core[0]
	if c.Cluster.ID != h.Cluster || c.Cluster.Epoch != h.Index.Epoch || max(c.Cluster.Level, 1) != h.Level {
		return nil, errors.New("the header and the content are of different clusters, epochs or levels")
	}
	s := &State{tables: tables{core: c}, index: h.Index, signals: newSignals()}
	s.hub = newHub(s)
	var errs [6]error
	record.Together(
		func() { errs[0] = l.makeReplicas(s) },
		func() { errs[1] = l.group(&s.byModel, modelsOf) },
		func() { errs[2] = l.group(&s.byNode, nodesOf) },
		func() { errs[3] = l.makeModels(s) },
		func() { errs[4] = l.makeNodes(s) },
		func() { errs[5] = l.makeRequests(s) },
	)
	return s, errors.Join(errs[:]...)
}

func (l *loader) makeReplicas(s *State) error {
	return tableFrom(&s.replicas, "replica", l.replicas, func(r *fleet.Replica) string { return r.ID })
}

func (l *loader) group(t *table[fleet.Replica], of func(*fleet.Replica, func(string))) error {
	var ok bool
	if *t, ok = replicasBy(l.replicas, of); !ok {
		return errors.New("a replica has two shards on one node, or is there twice")
	}
	return nil
}

func (l *loader) makeModels(s *State) error {
	var names []ordered.Entry[*string]
	var specs []ordered.Entry[*fleet.ModelSpec]
	for _, m := range l.models {
		name := m.Name()
		for _, n := range append([]string{name}, m.Spec.Aliases...) {
			names = append(names, ordered.Entry[*string]{Key: nameKey(n), Value: &name})
		}
		specs = append(specs, ordered.Entry[*fleet.ModelSpec]{Key: specKey(name, m.Generation), Value: &m.Spec})
	}
	for _, p := range l.specs {
		specs = append(specs, ordered.Entry[*fleet.ModelSpec]{Key: specKey(p.Spec.Name, p.Generation), Value: &p.Spec})
	}
	return errors.Join(
		tableFrom(&s.models, "model", l.models, (*fleet.Model).Name),
		derive(&s.names, "a model's name", names),
		derive(&s.specs, "the spec of a generation", specs),
		tableFrom(&s.servers, "peer", l.servers, func(p *fleet.Server) string { return p.ID }),
	)
}

func (l *loader) makeNodes(s *State) error {
	ids := make([]ordered.Entry[*string], len(l.nodes))
	for i, n := range l.nodes {
		ids[i] = ordered.Entry[*string]{Key: n.ID, Value: &n.Name}
	}
	return errors.Join(
		tableFrom(&s.nodes, "node", l.nodes, func(n *fleet.Node) string { return n.Name }),
		derive(&s.nodeIDs, "a node's id", ids),
		tableFrom(&s.strays, "rank", l.strays, func(r *stray) string { return strayKey(r.Run) }),
	)
}

func (l *loader) makeRequests(s *State) error {
	at := make([]ordered.Entry[*string], len(l.requests))
	for i, r := range l.requests {
		at[i] = ordered.Entry[*string]{Key: indexKey(r.Outcome.Index), Value: &r.ID}
	}
	feeds := make([]ordered.Entry[*fleet.Index], len(l.feeds))
	for i, f := range l.feeds {
		feeds[i] = ordered.Entry[*fleet.Index]{Key: f.Name, Value: &f.Changed}
	}
	var ok bool
	if s.feeds.rows, ok = ordered.FromSorted(feeds); !ok {
		return errors.New("the feeds are out of order")
	}
	return errors.Join(
		tableFrom(&s.requests, "request", l.requests, func(r *request) string { return r.ID }),
		derive(&s.requestAt, "the index of a request", at),
	)
}

// tableFrom makes a table of rows that must be in order of key.
func tableFrom[T any](t *table[T], what string, rows []*T, key func(*T) string) error {
	var ok bool
	t.rows, ok = ordered.Build(len(rows), func(i int) (string, *T) { return key(rows[i]), rows[i] })
	if !ok {
		return fmt.Errorf("a %s is out of order", what)
	}
	return nil
}

// derive makes a table of what is derived from rows, in which no key may be there twice.
func derive[T any](t *table[T], what string, entries []ordered.Entry[*T]) error {
	byKey := func(a, b ordered.Entry[*T]) int { return cmp.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(entries, byKey) {
		slices.SortFunc(entries, byKey)
	}
	var ok bool
	if t.rows, ok = ordered.FromSorted(entries); !ok {
		return fmt.Errorf("%s is there twice", what)
	}
	return nil
}
