package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"

	"berth/fsm"
)

// Skip is one entry of a log that is to be passed over, because no peer can apply it. It holds the data directory.
//
// The entry becomes one that says nothing, at the same index and of the same term, so the log stays whole. It must be done on every peer, each
// offline, before any of them starts: a peer on which it was not done stops at the entry as before, and one without it would be given it again.
type Skip struct {
	off   *offline
	entry raft.Log
	why   error // for which it cannot be applied
}

// PrepareSkip looks at the entry. It changes nothing. An entry that this release can apply is refused: passing over it would make this peer
// differ from the others. The caller closes what it gets.
func PrepareSkip(ctx context.Context, dir string, index uint64, log *slog.Logger) (*Skip, error) {
	off, err := openOffline(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	s := &Skip{off: off}
	if err := s.look(index); err != nil {
		return nil, errors.Join(err, off.close())
	}
	return s, nil
}

func (s *Skip) look(index uint64) error {
	p := replayed{machine: fsm.New()}
	if err := s.off.restoreNewest(&p); err != nil {
		return err
	}
	last, err := s.off.files.store.LastIndex()
	switch {
	case err != nil:
		return err
	case index <= p.base:
		return fmt.Errorf("entry %d is in the snapshot at %d already: this peer has applied it", index, p.base)
	case index > last:
		return fmt.Errorf("the log of %s ends at %d; there is no entry %d", s.off.dir, last, index)
	}
	if err := s.off.files.store.GetLog(index, &s.entry); err != nil {
		return fmt.Errorf("entry %d of the log: %w", index, err)
	}
	if s.entry.Type != raft.LogCommand {
		return fmt.Errorf("entry %d is one of raft's own (%s), which no peer refuses", index, s.entry.Type)
	}
	if s.why = fsm.Understand(s.entry.Data); s.why == nil {
		return fmt.Errorf("entry %d can be applied by this release; to skip it would make this peer differ from the others", index)
	}
	return nil
}

// Diff says what is passed over.
func (s *Skip) Diff() string {
	return fmt.Sprintf("peer %s of cluster %s, %s\n- entry   %d of term %d, %d bytes: %s\n+ entry   %d of term %d, empty\n",
		s.off.me.ID, s.off.me.Cluster, s.off.dir, s.entry.Index, s.entry.Term, len(s.entry.Data), s.why, s.entry.Index, s.entry.Term)
}

// Commit does it.
func (s *Skip) Commit() error {
	return s.off.files.replace(&raft.Log{Index: s.entry.Index, Term: s.entry.Term, Type: raft.LogNoop, AppendedAt: s.entry.AppendedAt})
}

// Close gives the data directory back.
func (s *Skip) Close() error { return s.off.close() }
