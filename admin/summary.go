package admin

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/status"
)

const (
	// tallyPace is how long changes are collected before they are counted ahead of the next question.
	tallyPace = 10 * time.Millisecond
	// wordPace is how often what the leader observes is read anew while somebody asks, and wordFor how long a reading is used. Ages in it are
	// given as of its last moment, because what is said to be certain must be no less so when it is read.
	wordPace = 500 * time.Millisecond
	wordFor  = time.Second
	// warmFor is for how long after a question the next one is prepared.
	warmFor = time.Minute
)

// summary keeps the status document's parts ready, so that an answer costs what has changed since the last one and not the size of the fleet. It
// is right without anybody running it, and only slower.
type summary struct {
	core  Core
	board Board
	asked atomic.Int64 // when somebody asked last, in Unix nanoseconds
	runs  atomic.Bool  // somebody prepares the parts

	mu      sync.Mutex
	tally   *status.Tally
	counted *fsm.State // what the tally has counted
	fabrics fabricRows
	reading reading
}

func newSummary(core Core, board Board) *summary {
	return &summary{core: core, board: board, tally: status.NewTally(), counted: fsm.New().State(), fabrics: fabricRows{json: encodeFabrics(nil)}}
}

// fabricRows is the fabrics as JSON, and which of the tally's they are: few changes of a fleet change them.
type fabricRows struct {
	json    []byte
	version uint64
}

// reading is what the leader has observed, as the summary shows it.
type reading struct {
	at    time.Time
	lasts time.Duration // ages in it are given as of so long after at
	word  status.Word
	idle  []byte // word.IdleReplicas as JSON: the one part that grows with what is quiet
}

// run prepares the parts until the context ends.
func (s *summary) run(ctx context.Context) error {
	s.runs.Store(true)
	defer s.runs.Store(false)
	tick := time.NewTicker(wordPace)
	defer tick.Stop()
	for {
		changed := s.catchUp(s.core.State()).Watch(fsm.Models, fsm.Nodes, fsm.Replicas)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if time.Since(time.Unix(0, s.asked.Load())) < warmFor {
				s.read()
			}
		case <-changed:
			sleep(ctx, tallyPace)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// catchUp counts what has changed up to a state, or leaves a newer one.
func (s *summary) catchUp(is *fsm.State) *fsm.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(is)
	return s.counted
}

func (s *summary) count(is *fsm.State) {
	if !s.counted.Index().Before(is.Index()) {
		return
	}
	var c status.Changes
	fsm.Diff(s.counted, is, fsm.Changes{
		Model:   func(old, row *fleet.Model) { c.Models = append(c.Models, present(old, row).Name()) },
		Node:    func(old, row *fleet.Node) { c.Nodes = append(c.Nodes, present(old, row).Name) },
		Replica: func(old, row *fleet.Replica) { c.Replicas = append(c.Replicas, present(old, row).ID) },
	})
	s.tally.Update(is, c)
	s.counted = is
	if v := s.tally.FabricsVersion(); v != s.fabrics.version {
		s.fabrics = fabricRows{encodeFabrics(s.tally.Fabrics()), v}
	}
}

func present[T any](old, row *T) *T {
	if row != nil {
		return row
	}
	return old
}

// read takes a new reading of what the leader observes. It looks at every replica and so is made ahead of the questions, and beside them.
func (s *summary) read() {
	at := time.Now() // before anything is looked at
	state := s.core.State()
	o := s.board.Brief(max(0, state.Settings().IdleThreshold.Std()))
	r := reading{at: at, lasts: wordFor, word: wordOf(o)}
	if r.word.Known {
		r.word.IdleReplicas = s.stoppable(o, state)
	}
	r.idle = encodeRows(r.word.IdleReplicas)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = r
}

// stoppable lists the replicas that have been quiet for long.
func (s *summary) stoppable(o wire.Observed, state *fsm.State) []wire.IdleRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(state)
	return s.tally.IdleReplicas(words(o.Idle, length(o.AgeSeconds)+wordFor), state.Settings().IdleThreshold.Std())
}

func wordOf(o wire.Observed) status.Word {
	age := length(o.AgeSeconds)
	w := status.Word{Known: o.AgeSeconds >= 0 && age <= staleObserved, Age: age, Silent: wire.Silent{Agents: []string{}, Routers: []string{}}, IdleReplicas: []wire.IdleRow{}}
	for _, r := range o.Refusals {
		w.Refusals = append(w.Refusals, status.Refused{Refusal: r.Refusal, Since: length(r.SinceSeconds) + max(0, age)})
	}
	if w.Known {
		w.Attention = o.Attention
		w.Backup = agedBackup(o.Backup, age)
		w.Silent.Agents = append(w.Silent.Agents, o.Silent.Agents...)
		w.Silent.Routers = append(w.Silent.Routers, o.Silent.Routers...)
	}
	return w
}

// agedBackup is the leader's word on the newest backup, as old as it is by now.
func agedBackup(b *wire.Backup, age time.Duration) *wire.Backup {
	if b == nil {
		return nil
	}
	aged := *b
	aged.AgeSeconds += age.Seconds()
	return &aged
}

// words gives the ledger's rows as status takes them.
func words(rows []wire.IdleView, held time.Duration) iter.Seq2[string, status.Idle] {
	return func(yield func(string, status.Idle) bool) {
		for _, row := range rows {
			if !yield(row.ID, idleOf(row, held)) {
				return
			}
		}
	}
}

// answer makes the document of the newest state, which is none older than what the caller has read.
func (s *summary) answer() (encoded, fleet.Index) {
	now := time.Now()
	s.asked.Store(now.UnixNano())
	k, state := s.core.Knowledge(), s.core.State()
	if !s.prepared(now) {
		s.read()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(state)
	s.reading.extend(now)
	r := s.reading
	if r.word.Age >= 0 {
		r.word.Age += elapsed(r.at, now)
	}
	if k.Leader == "" {
		r.word, r.idle = withoutLeader(r.word), []byte("[]")
	}
	doc := s.tally.Summarize(frameOf(k, s.core.ID(), s.counted), r.word)
	return encodeStatus(doc, s.fabrics.json, r.idle), s.counted.Index()
}

// prepared says whether there is a reading that may be used. In a fleet so large that the next one takes longer than it is meant to, the last one
// goes on, as old as it is: a question never makes one while somebody else does.
func (s *summary) prepared(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs.Load() && elapsed(s.reading.at, now) < staleObserved
}

// extend lets a reading be used for longer, and takes as much from how recent its certainties are said to be.
func (r *reading) extend(now time.Time) {
	age := elapsed(r.at, now)
	if age < r.lasts {
		return
	}
	more := age - r.lasts + wordFor
	r.lasts += more
	r.word.IdleReplicas = slices.Clone(r.word.IdleReplicas)
	for i := range r.word.IdleReplicas {
		if row := &r.word.IdleReplicas[i]; row.AsOfSeconds >= 0 {
			row.AsOfSeconds += more.Seconds()
		}
	}
	r.idle = encodeRows(r.word.IdleReplicas)
}

// elapsed is the time between two moments, by the clock that goes on while the machine is suspended if that says more.
func elapsed(from, to time.Time) time.Duration {
	return max(0, to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// withoutLeader keeps of a leader's word what stays true when it is gone: what it refused, until another one plans.
func withoutLeader(w status.Word) status.Word {
	return status.Word{
		Age: w.Age, Refusals: w.Refusals, IdleReplicas: []wire.IdleRow{}, Silent: wire.Silent{Agents: []string{}, Routers: []string{}},
	}
}

func frameOf(k Knowledge, peer string, s *fsm.State) status.Frame {
	return status.Frame{
		Cluster: s.Cluster().ID, Peer: peer, Leader: k.Leader, Index: s.Index(), KnowledgeAge: k.Age, CaughtUp: k.CaughtUp, Frozen: s.Freeze(),
	}
}
