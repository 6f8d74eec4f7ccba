package consensus

import (
	"context"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/run"
)

const (
	// silentAfter is how long a follower may answer heartbeats and nothing else before its connections are cut. raft sends it the newest commit
	// index many times a second, so that is long.
	silentAfter = 20 * time.Second
	// installWait is how long it may take to make a snapshot that it has whole its state.
	installWait = 5 * time.Minute
	// silentCuts is how many cuts may fail before another peer shall lead.
	silentCuts = 3
)

// MendSilent is a duty of the leader. raft can stop to replicate to a follower whose heartbeats it goes on to send, on connections of their own (raft
// issue 612): the follower then looks well and learns nothing. Its connections are cut, and if that does not help, another peer leads, which
// begins anew with everybody. It returns nil at the end of the context.
func (n *Node) MendSilent(ctx context.Context) error {
	cuts := map[string]int{}
	return run.Every(ctx, time.Second, func(ctx context.Context) error {
		for _, s := range n.Servers() {
			switch {
			case s.Silent == 0:
				delete(cuts, s.ID)
			case s.Silent < time.Duration(cuts[s.ID]+1)*silentAfter:
			case cuts[s.ID] < silentCuts:
				cuts[s.ID]++
				n.cfg.Log.Warn("a peer answers heartbeats and nothing else; cutting its connections", "peer", s.ID, "for", s.Silent, "time", cuts[s.ID])
				n.port.cut(s.ID)
			case cuts[s.ID] == silentCuts:
				cuts[s.ID]++
				n.cfg.Log.Warn("cutting a peer's connections did not help; handing leadership over", "peer", s.ID, "for", s.Silent, "error", n.Transfer(ctx, ""))
			}
		}
		return nil
	})
}

// silent is for how long a follower has answered heartbeats alone; 0: not for long, or not even those.
func (f follower) silent(now time.Time) time.Duration {
	if now.Sub(f.asked) > silentAfter/2 || now.Sub(f.replicated) < silentAfter {
		return 0
	}
	if !f.installing.IsZero() && now.Sub(f.installing) < installWait {
		return 0
	}
	return now.Sub(f.replicated)
}

// replicating notes what a follower was sent of a snapshot; done: it has answered, or the sending has failed.
func (l *ledger) replicating(id raft.ServerID, term uint64, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term < l.term {
		return
	}
	f := l.at(id, term)
	if f.installing = time.Now(); done {
		f.installing, f.replicated = time.Time{}, time.Now()
	}
}

// outgoing is a snapshot on its way out.
type outgoing struct {
	io.Reader
	note func()
}

// Read implements io.Reader.
func (o outgoing) Read(p []byte) (int, error) {
	o.note()
	return o.Reader.Read(p)
}
