package consensus

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"berth/internal/durable"
)

// Candidate is a peer that may be reached: its id, if known, and its raft address.
type Candidate struct {
	ID      string `json:"id,omitempty"`
	Address string `json:"address"`
}

// Promise is what a peer gives once, to one proposed cluster: see bootstrap.go.
type Promise struct {
	Cluster  string      `json:"cluster"`
	Proposer string      `json:"proposer"`
	Peers    []Candidate `json:"peers"` // the first voters, sorted by id
}

func (p *Promise) equal(o *Promise) bool {
	return p != nil && o != nil && p.Cluster == o.Cluster && p.Proposer == o.Proposer && slices.Equal(p.Peers, o.Peers)
}

const (
	identityFile    = "peer.json"
	identityVersion = 1
)

// record is the content of peer.json.
type record struct {
	ID      string   `json:"id"`
	Cluster string   `json:"cluster,omitempty"` // empty until this peer is a member; never changes after
	Promise *Promise `json:"promise,omitempty"` // only while Cluster is empty
}

// identity is who this peer is. What it says it has said on disk before.
type identity struct {
	path     string // empty: in memory
	instance string // of this start; tells this process from another of the same id

	mu  sync.Mutex
	rec record
}

func loadIdentity(dir, id string) (*identity, error) {
	if dir == "" {
		return &identity{instance: durable.NewID("i-"), rec: record{ID: id}}, nil
	}
	i := &identity{path: filepath.Join(dir, identityFile), instance: durable.NewID("i-")}
	err := durable.ReadJSON(i.path, identityVersion, &i.rec)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		i.rec = record{ID: id}
		err = durable.WriteJSON(i.path, identityVersion, i.rec)
		return i, err
	case err != nil:
		return nil, err
	case i.rec.ID != id:
		return nil, fmt.Errorf("data directory %s belongs to peer %q and was started as %q: use its name, or another directory",
			dir, i.rec.ID, id)
	}
	return i, nil
}

func (i *identity) get() record {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec
}

// update changes the record, on disk first. An error of change changes nothing.
func (i *identity) update(change func(*record) error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := i.rec
	if err := change(&next); err != nil {
		return err
	}
	if i.path != "" {
		if err := durable.WriteJSON(i.path, identityVersion, next); err != nil {
			return err
		}
	}
	i.rec = next
	return nil
}

// join makes this peer a member, for good.
func (i *identity) join(cluster string) error {
	return i.update(func(r *record) error {
		if r.Cluster != "" && r.Cluster != cluster {
			return fmt.Errorf("peer %s belongs to cluster %s and cannot join %s", r.ID, r.Cluster, cluster)
		}
		r.Cluster, r.Promise = cluster, nil
		return nil
	})
}
