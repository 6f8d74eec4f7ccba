package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/durable"
	"berth/router/pool"
)

// tableVersion is the version of the file that holds the table.
const tableVersion = 1

// tables follows the peers' routing table and keeps the newest one on disk, keys and all.
type tables struct {
	path string
	pool *pool.Pool
	log  *slog.Logger

	mu      sync.Mutex
	foreign bool // the file belongs to another process now
	have    bool
	cluster string
	index   fleet.Index
	heard   time.Time // when a peer last said that this is the table, by this machine's clock
	trouble error     // what the last question met; nil: answered
}

// openTables takes the table on disk, if there is one. A file that cannot be read is logged and replaced by the next
// table: a router without a table is no better than one that has forgotten its old one.
func openTables(path string, p *pool.Pool, log *slog.Logger) *tables {
	t := &tables{path: path, pool: p, log: log}
	var table wire.Table
	err := durable.ReadJSON(path, tableVersion, &table)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Error("the routing table on disk is of no use; this router serves nothing until a peer gives it one", "error", err)
		}
		return t
	}
	t.have, t.cluster, t.index = true, table.Cluster, table.Index
	if info, err := os.Stat(path); err == nil {
		t.heard = info.ModTime()
	}
	p.Apply(table)
	log.Info("routing by the table on disk", "index", t.index, "age", t.age().Round(time.Second), "models", len(table.Models))
	return t
}

// age is how long ago a peer last confirmed the table; 0 at least, whatever the machine's clock did since.
func (t *tables) age() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ageLocked()
}

func (t *tables) ageLocked() time.Duration { return max(time.Since(t.heard), 0) }

// take takes a table that a peer gave. It refuses one of another cluster and one that is older than what it has.
func (t *tables) take(table wire.Table) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.have && table.Cluster != t.cluster:
		return fleet.Errorf(fleet.WrongCluster, "a peer gave a table of the cluster %q; this router belongs to %q", table.Cluster, t.cluster).
			WithHint("check the addresses of the peers, or delete %s to move this router to the other cluster", t.path)
	case t.have && table.Index.Before(t.index):
		return fleet.Errorf(fleet.StaleEpoch, "a peer gave a table of index %s; this router has %s", table.Index, t.index)
	}
	t.pool.Apply(table)
	t.have, t.cluster, t.index = true, table.Cluster, table.Index
	if err := t.keep(table); err != nil {
		t.log.Error("the routing table is in use but not on disk; a restart would begin with an older one", "error", err)
	}
	t.confirm()
	return nil
}

// keep writes the table to disk. The lock is held.
func (t *tables) keep(table wire.Table) error {
	if t.foreign {
		return nil
	}
	return durable.WriteJSON(t.path, tableVersion, table)
}

// detach leaves the file on disk to another process.
func (t *tables) detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.foreign = true
}

// confirm notes that a peer has said that the table is the newest. The time is kept as the file's, so that a restarted
// router knows its table's age. The lock is held.
func (t *tables) confirm() {
	t.heard = time.Now()
	if t.foreign {
		return
	}
	_ = os.Chtimes(t.path, t.heard, t.heard) // without it the age is only too high
}

// follow asks for tables until the context ends. After each failure it takes the whole table anew, so that nothing that
// was missed in between stays.
func (t *tables) follow(ctx context.Context, source Source, wait time.Duration) error {
	pause := time.Duration(0)
	for after := (fleet.Index{}); ctx.Err() == nil; {
		index, err := t.ask(ctx, source, after, wait)
		if ctx.Err() != nil {
			break
		}
		t.note(err)
		after = index
		if err == nil {
			pause = 0
			continue
		}
		pause = min(max(2*pause, 100*time.Millisecond), 3*time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
	return nil
}

// ask asks once and returns the index to ask after next: zero after a failure.
func (t *tables) ask(ctx context.Context, source Source, after fleet.Index, wait time.Duration) (fleet.Index, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+10*time.Second)
	defer cancel()
	table, err := source.Table(ctx, after, wait)
	if err != nil {
		return fleet.Index{}, fmt.Errorf("ask a peer for the routing table: %w", err)
	}
	if !after.IsZero() && table.Index == after {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.pool.Apply(table) // what is agreed is the same; why a model cannot be started may have changed
		t.confirm()
		return after, nil
	}
	if err := t.take(table); err != nil {
		return fleet.Index{}, err
	}
	return table.Index, nil
}

// note keeps what the last question met and logs when that changes.
func (t *tables) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.trouble == nil {
		t.log.Warn("no news of the routing table; routing by the one there is", "error", err, "index", t.index)
	}
	if err == nil && t.trouble != nil {
		t.log.Info("the routing table is followed again", "index", t.index)
	}
	t.trouble = err
}

// tableState describes the table for operators; it has no keys.
type tableState struct {
	Have    bool        `json:"have"`
	Cluster string      `json:"cluster,omitempty"`
	Index   fleet.Index `json:"index"`
	Age     float64     `json:"age_seconds"` // since a peer confirmed it; -1: there is none
	Stale   bool        `json:"stale"`       // older than the longest a peer leaves a question unanswered
	Trouble string      `json:"trouble,omitempty"`
}

func (t *tables) state(stale time.Duration) tableState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := tableState{Have: t.have, Cluster: t.cluster, Index: t.index, Age: -1}
	if t.have {
		s.Age, s.Stale = t.ageLocked().Seconds(), t.ageLocked() > stale
	}
	if t.trouble != nil {
		s.Trouble = t.trouble.Error()
	}
	return s
}
