package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"berth/fleet"
	"berth/fsm"
)

// Recovery from a lost quorum: how one survivor goes on when too many of the others are gone for good.
//
// The survivor becomes the only voter of its cluster, so it can lead at once. The other peers named become members without a vote and get one when
// they have caught up, like any newcomer. Nothing is taken over from them: what they have in their data directories is of a history that ends here.
//
// The state that goes on is written as a snapshot far after the end of the log, in a term after its last. No log of any old peer reaches there, so
// one that comes back with its old data is sent the snapshot, and cannot pass for one that has it. The epoch is raised: orders that a lost leader
// gave and this peer never saw are older than all that follow, and what the nodes run is looked at before anything is done.

// recoveryGap is how far beyond the log of the survivor the new history begins. It must exceed what any other peer's log can be ahead.
const recoveryGap = 1 << 20

// Recovery is a recovery that has been worked out and not yet done. It holds the data directory.
type Recovery struct {
	off     *offline
	was     replayed
	image   *fsm.State
	servers raft.Configuration
	index   uint64
	term    uint64
}

// PrepareRecovery works out how the peer of a data directory goes on with the peers named, of which it must be one. It changes nothing. No other
// process may use the directory. The caller closes what it gets.
func PrepareRecovery(ctx context.Context, dir string, peers []Candidate, now time.Time, log *slog.Logger) (*Recovery, error) {
	off, err := openOffline(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	r := &Recovery{off: off}
	if err := r.prepare(peers, now); err != nil {
		return nil, errors.Join(err, off.close())
	}
	return r, nil
}

func (r *Recovery) prepare(peers []Candidate, now time.Time) error {
	if err := r.members(peers); err != nil {
		return err
	}
	var err error
	if r.was, err = r.off.replay(); err != nil {
		return err
	}
	if len(r.was.servers.Servers) == 0 {
		return fmt.Errorf("the log of %s names no peers; it has never been in a cluster", r.off.dir)
	}
	state := r.was.machine.State()
	epoch := max(state.Cluster().Epoch, uint64(now.Unix())) + 1
	r.image, err = state.WithIdentity(r.off.me.Cluster, epoch, fleet.TimeOf(now))
	if err != nil {
		return err
	}
	current, err := currentTerm(r.off.files.store)
	r.index, r.term = r.was.index+recoveryGap, max(r.was.term, current)+1
	return err
}

// members makes the new configuration.
func (r *Recovery) members(peers []Candidate) error {
	self := r.off.me.ID
	for i, p := range peers {
		if err := fleet.CheckName("peer", p.ID); err != nil {
			return err
		}
		if slices.ContainsFunc(peers[:i], func(o Candidate) bool { return o.ID == p.ID || o.Address == p.Address }) {
			return fmt.Errorf("the peer %s at %s is named twice, by id or by address", p.ID, p.Address)
		}
		s := raft.Server{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address), Suffrage: raft.Nonvoter}
		if p.ID == self {
			s.Suffrage = raft.Voter
		}
		r.servers.Servers = append(r.servers.Servers, s)
	}
	if !slices.ContainsFunc(peers, func(p Candidate) bool { return p.ID == self }) {
		return fmt.Errorf("%s belongs to the peer %s, which is not among those named: the peer that is recovered goes on, so name it", r.off.dir, self)
	}
	return nil
}

// termKey is raft's name for the newest term in the stable store.
var termKey = []byte("CurrentTerm")

func currentTerm(s raft.StableStore) (uint64, error) {
	term, err := s.GetUint64(termKey)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return 0, nil
	}
	return term, err
}

// Diff says what the recovery changes, in lines: first what there is, then a line a peer that stays, comes, goes or moves.
func (r *Recovery) Diff() string {
	var b strings.Builder
	was, is := r.was.machine.State(), r.image
	fmt.Fprintf(&b, "peer %s of cluster %s, %s\n", r.off.me.ID, r.off.me.Cluster, r.off.dir)
	fmt.Fprintf(&b, "  state   index %s, from the snapshot at %d and %d commands after it; the last entry is %d of term %d\n",
		was.Index(), r.was.base, r.was.applied, r.was.index, r.was.term)
	fmt.Fprintf(&b, "          of the last entries nobody can say any more whether they were committed; they are kept\n")
	fmt.Fprintf(&b, "- epoch   %d\n+ epoch   %d\n", was.Cluster().Epoch, is.Cluster().Epoch)
	for _, s := range r.was.servers.Servers {
		if !slices.Contains(r.servers.Servers, s) {
			fmt.Fprintf(&b, "- peer    %s\n", serverText(s))
		}
	}
	for _, s := range r.servers.Servers {
		mark := "+"
		if slices.Contains(r.was.servers.Servers, s) {
			mark = " "
		}
		fmt.Fprintf(&b, "%s peer    %s\n", mark, serverText(s))
	}
	return b.String()
}

func serverText(s raft.Server) string {
	vote := "no vote until it has caught up"
	if s.Suffrage == raft.Voter {
		vote = "voter"
	}
	return fmt.Sprintf("%s at %s, %s", s.ID, s.Address, vote)
}

// Commit does it. After an error the peer is as before, or recovered: a crash in between leaves the one or the other.
func (r *Recovery) Commit() error {
	f := r.off.files
	first, err := f.store.FirstIndex()
	if err != nil {
		return err
	}
	last, err := f.store.LastIndex()
	if err != nil {
		return err
	}
	if err := f.store.SetUint64(termKey, r.term); err != nil { // a higher term alone does no harm
		return err
	}
	if err := r.writeSnapshot(); err != nil {
		return fmt.Errorf("write the recovered state: %w", err)
	}
	if err := preflight(r.off.dir, f.snapshots); err != nil {
		return err
	}
	if last == 0 {
		return nil
	}
	return f.store.DeleteRange(first, last) // what it held is in the snapshot; left behind it would be swept later
}

func (r *Recovery) writeSnapshot() error {
	sink, err := r.off.files.snapshots.Create(raft.SnapshotVersionMax, r.index, r.term, r.servers, r.index, plainAddresses{})
	if err != nil {
		return err
	}
	return image{r.image}.Persist(sink)
}

// Close gives the data directory back.
func (r *Recovery) Close() error { return r.off.close() }

// plainAddresses is all that a snapshot store wants of a transport: how to write down an address.
type plainAddresses struct{ raft.Transport }

// EncodePeer implements raft.Transport.
func (plainAddresses) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }
