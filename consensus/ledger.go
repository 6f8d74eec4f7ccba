package consensus

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ledger is what a leader has learned from the answers to its own messages: how far each follower's log agrees with
// ours, and how recently a quorum confirmed that we lead. raft keeps the first to itself and the second by the time of
// an answer; only the time of the question proves anything about the present.
type ledger struct {
	mu    sync.Mutex
	term  uint64 // of what is noted; a new term begins with nothing
	peers map[raft.ServerID]*follower
}

type follower struct {
	asked    time.Time // when the newest answered message was sent
	match    uint64    // its log agrees with ours up to here
	installs []time.Time
	// replicated is when it answered anything but a heartbeat; at first, when it was first noted.
	replicated time.Time
	installing time.Time // when a part of a snapshot that is under way was sent to it; zero: none is
}

// installWindow is how far back installs are counted.
const installWindow = 5 * time.Minute

func (l *ledger) at(id raft.ServerID, term uint64) *follower {
	if term > l.term || l.peers == nil {
		l.term, l.peers = term, map[raft.ServerID]*follower{}
	}
	f := l.peers[id]
	if f == nil {
		f = &follower{replicated: time.Now()}
		l.peers[id] = f
	}
	return f
}

// answered notes an answer in the term of the request, be it a refusal for want of earlier entries.
func (l *ledger) answered(id raft.ServerID, req *raft.AppendEntriesRequest, ok bool, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Term < l.term {
		return
	}
	f := l.at(id, req.Term)
	if sent.After(f.asked) {
		f.asked = sent
	}
	if req.PrevLogEntry > 0 || len(req.Entries) > 0 || req.LeaderCommitIndex > 0 {
		f.replicated = time.Now()
	}
	if ok { // a heartbeat names no entry and proves nothing about the log
		f.match = max(f.match, req.PrevLogEntry+uint64(len(req.Entries)))
	}
}

func (l *ledger) installing(id raft.ServerID, term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term < l.term {
		return
	}
	f := l.at(id, term)
	f.installs = slices.DeleteFunc(f.installs, func(t time.Time) bool { return time.Since(t) > installWindow })
	f.installs = append(f.installs, time.Now())
}

// progress gives what is known of a follower in a term: zero values if nothing.
func (l *ledger) progress(id raft.ServerID, term uint64) follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.peers[id]; f != nil && l.term == term {
		out := *f
		out.installs = slices.Clone(f.installs)
		return out
	}
	return follower{}
}

// confirmed is the latest moment at which this peer is known to have led in the term: each of a quorum has answered, in
// this term, a message sent at that moment or later. Nobody else can have been elected before it, since one of that
// quorum would have had to vote in a higher term first.
func (l *ledger) confirmed(term uint64, self raft.ServerID, servers []raft.Server, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var asked []time.Time
	for _, s := range servers {
		switch {
		case s.Suffrage != raft.Voter:
		case s.ID == self:
			asked = append(asked, now)
		case l.term == term && l.peers[s.ID] != nil:
			asked = append(asked, l.peers[s.ID].asked)
		default:
			asked = append(asked, time.Time{})
		}
	}
	if len(asked) == 0 {
		return time.Time{}
	}
	slices.SortFunc(asked, func(a, b time.Time) int { return b.Compare(a) })
	return asked[len(asked)/2]
}
