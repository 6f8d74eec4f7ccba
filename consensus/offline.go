package consensus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/durable"
)

// offline is the data directory of a peer that does not run, held by its lock.
type offline struct {
	dir   string
	me    record
	files *files
}

// openOffline refuses a directory that is none of a member's, or that a running peer holds.
func openOffline(ctx context.Context, dir string, log *slog.Logger) (*offline, error) {
	o := &offline{dir: dir}
	err := durable.ReadJSON(filepath.Join(dir, identityFile), identityVersion, &o.me)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is not the data directory of a peer: there is no %s in it", dir, identityFile)
	case err != nil:
		return nil, err
	case o.me.Cluster == "":
		return nil, fmt.Errorf("the peer %s of %s belongs to no cluster; there is nothing to recover", o.me.ID, dir)
	}
	o.files, err = openFiles(ctx, dir, "", log)
	return o, err
}

func (o *offline) close() error { return o.files.close() }

// replayed is what snapshot and log make together.
type replayed struct {
	machine     *fsm.Machine
	servers     raft.Configuration
	base        uint64 // index of the snapshot; 0 without one
	index, term uint64 // of the last entry
	applied     int    // commands after the snapshot
}

// replay makes the state from the newest snapshot and every entry of the log after it. Whether the last of them were committed nobody can know any
// more without the other peers; they are taken as if they were, like raft's own recovery does.
func (o *offline) replay() (replayed, error) {
	p := replayed{machine: fsm.New()}
	if err := o.restoreNewest(&p); err != nil {
		return p, err
	}
	last, err := o.files.store.LastIndex()
	if err != nil {
		return p, err
	}
	for i := p.base + 1; i <= last; i++ {
		if err := o.replayEntry(&p, i); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (o *offline) restoreNewest(p *replayed) error {
	all, err := o.files.snapshots.List()
	if err != nil || len(all) == 0 {
		return err
	}
	meta, r, err := o.files.snapshots.Open(all[0].ID)
	if err != nil {
		return err
	}
	defer r.Close()
	p.base, p.index, p.term, p.servers = meta.Index, meta.Index, meta.Term, meta.Configuration
	return p.machine.Restore(r)
}

func (o *offline) replayEntry(p *replayed, index uint64) error {
	var l raft.Log
	if err := o.files.store.GetLog(index, &l); err != nil {
		return fmt.Errorf("entry %d of the log: %w", index, err)
	}
	if err := checkEntry(index, &l); err != nil {
		return err
	}
	p.index, p.term = l.Index, l.Term
	switch l.Type {
	case raft.LogConfiguration:
		p.servers = raft.DecodeConfiguration(l.Data)
	case raft.LogCommand:
		if _, err := p.machine.Apply(l.Index, l.Data); err != nil {
			return fmt.Errorf("the state cannot be made: %w; if every peer refuses this entry, skip it first: berth peer recover --skip %d", err, index)
		}
		p.applied++
	}
	return nil
}
