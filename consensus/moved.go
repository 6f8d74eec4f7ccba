package consensus

import (
	"context"
	"fmt"
	"log/slog"

	"berth/internal/durable"
)

// stayed refuses a data directory that is a copy. Two peers on copies of one log can vote twice in one term, and a log from a backup of files has
// forgotten what it acknowledged since: both can lose writes that the cluster has promised.
func (n *Node) stayed() error {
	if n.cfg.DataDir == "" {
		return nil
	}
	if err := durable.CheckPlace(n.cfg.DataDir); err != nil {
		return fmt.Errorf("%w; if the old one is gone for good and this is its newest state, say so with berth peer recover --moved --data-dir %s; otherwise move the directory away and join anew",
			err, n.cfg.DataDir)
	}
	return nil
}

// Move is the word of an operator that a data directory has moved to where it is now. It holds the data directory.
type Move struct {
	off     *offline
	was, is durable.Place
}

// PrepareMove looks where a data directory was used and where it is. It changes nothing. The caller closes what it gets.
func PrepareMove(ctx context.Context, dir string, log *slog.Logger) (*Move, error) {
	off, err := openOffline(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	m := &Move{off: off}
	if m.was, err = durable.ReadPlace(dir); err == nil {
		m.is, err = durable.PlaceOf(dir)
	}
	if err != nil {
		_ = off.close() // the error above is the one that counts
		return nil, err
	}
	return m, nil
}

// Diff says what changes.
func (m *Move) Diff() string {
	head := fmt.Sprintf("peer %s of cluster %s, %s\n", m.off.me.ID, m.off.me.Cluster, m.off.dir)
	if m.was == m.is {
		return head + "  it is where it was; nothing changes\n"
	}
	return head + fmt.Sprintf("- machine %s, lock file %d\n+ machine %s, lock file %d\n", orUnknown(m.was.Machine), m.was.File, orUnknown(m.is.Machine), m.is.File) +
		"  no other copy of this directory may ever be started again\n"
}

func orUnknown(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}

// Commit does it.
func (m *Move) Commit() error { return durable.SetPlace(m.off.dir, m.is) }

// Close gives the data directory back.
func (m *Move) Close() error { return m.off.close() }
