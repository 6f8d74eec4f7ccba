package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/fleet"
	"berth/fsm"
	"berth/peer"
)

// write is one write to a register, by everything that its caller was told.
type write struct {
	key, value string
	start, end int64       // ticks; never: no answer that settles it
	index      fleet.Index // of the acknowledgement; zero: none
	refused    bool        // every attempt was answered with a certain no
	at         time.Time   // of the acknowledgement
}

// read is one answered read.
type read struct {
	key, value, mode, from string
	start, end             int64
	index                  fleet.Index
	commit                 uint64
	asOf                   time.Time // the oldest moment that the answer may speak of, by its own words; zero: it does not say
}

// restore is one attempt after another to bring back one file, until one was acknowledged.
type restore struct {
	after uint64            // epoch before the first attempt
	holds map[string]string // registers in the file

}

// book is everything that was seen in a run. Its checks compare what was promised with it.
type book struct {
	story *story
	ticks atomic.Int64

	mu       sync.Mutex
	writes   map[string]*write // by value
	reads    []read
	restores []restore
	once     map[string]*onceRow
	prints   map[fleet.Index]sighting
	matches  int
	epochs   []epochSeen
	indexes  map[fleet.Index]string // value by index of its acknowledgement
}

// restoreDone is an acknowledged restore, as an epochSeen.
const restoreDone = "a restore"

// sighting is a fingerprint and who had it first.
type sighting struct{ print, who string }

// epochSeen is an operation that proves in which epoch the cluster was.
type epochSeen struct {
	start, end int64
	epoch      uint64
	what       string
}

// onceRow is a model that was created once and perhaps deleted once.
type onceRow struct {
	created, deleted fleet.Index
	createdUnknown   bool
	deletedUnknown   bool
}

func newBook(s *story) *book {
	return &book{story: s, writes: map[string]*write{}, once: map[string]*onceRow{}, prints: map[fleet.Index]sighting{}, indexes: map[fleet.Index]string{}}
}

func (b *book) tick() int64 { return b.ticks.Add(1) }

func (b *book) noteWrite(w *write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes[w.value] = w
	if w.index.IsZero() {
		return
	}
	if other, taken := b.indexes[w.index]; taken {
		b.story.wrong("two writes were acknowledged at index %s: %q and %q", w.index, other, w.value)
	}
	b.indexes[w.index] = w.value
	b.epochs = append(b.epochs, epochSeen{w.start, w.end, w.index.Epoch, "write of " + w.value})
}

// noteRead keeps a read and checks at once what does not depend on the rest of the history: that it is as fresh as it says.
func (b *book) noteRead(r read) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads = append(b.reads, r)
	if r.mode == "consistent" {
		b.epochs = append(b.epochs, epochSeen{r.start, r.end, r.index.Epoch, "consistent read of " + r.key})
	}
	if r.asOf.IsZero() {
		return
	}
	for _, w := range b.writes {
		if !w.index.IsZero() && w.at.Before(r.asOf) && w.index.N > r.commit {
			b.story.wrong("%s claims that index %d was all, as of %.3f; the write of %q had been acknowledged at %s at %.3f",
				r.from, r.commit, b.since(r.asOf), w.value, w.index, b.since(w.at))
		}
	}
}

func (b *book) since(t time.Time) float64 { return t.Sub(b.story.start).Seconds() }

// watch compares a peer's states with those of the others at the same index, and looks at who holds each card, until the peer ends.
func (b *book) watch(name string, p *peer.Peer, done <-chan struct{}) {
	for {
		s := p.State()
		b.see(name, s)
		select {
		case <-s.Watch():
		case <-done:
			return
		}
	}
}

func (b *book) see(name string, s *fsm.State) {
	print := s.Fingerprint()
	b.owners(name, s)
	b.mu.Lock()
	defer b.mu.Unlock()
	first, known := b.prints[s.Index()]
	switch {
	case !known:
		b.prints[s.Index()] = sighting{print, name}
	case first.print != print:
		b.story.wrong("at index %s %s has the state %s and %s has %s", s.Index(), first.who, first.print, name, print)
	case first.who != name:
		b.matches++
	}
}

// owners finds a card with two owners. All cards of a run are claimed whole.
func (b *book) owners(name string, s *fsm.State) {
	owner := map[string]string{}
	for r := range s.Replicas() {
		for _, shard := range r.Shards {
			if shard.Released {
				continue
			}
			for _, c := range shard.Claims {
				card := shard.Node + "/" + c.GPU
				if other := owner[card]; other != "" && len(r.Marks) == 0 {
					b.story.wrong("at index %s of %s the card %s belongs to %s and to %s", s.Index(), name, card, other, r.ID)
				}
				owner[card] = r.ID
			}
		}
	}
}

// check holds the whole history against its promises.
func (b *book) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checkEpochs()
	for _, r := range b.reads {
		if err := b.explain(r); err != nil {
			b.story.wrong("%s read of %s through %s at index %s gave %q: %v", r.mode, r.key, r.from, r.index, r.value, err)
		}
	}
	for line, ops := range b.lines() {
		if err := linearizable(b.initial(line.key, line.epoch), ops); err != nil {
			b.story.wrong("register %s in epoch %d has no order: %v", line.key, line.epoch, err)
		}
	}
}

// line is one register's life between two restores.
type line struct {
	key   string
	epoch uint64
}

// lines sorts writes and linearizable reads by register and epoch. A write without an answer belongs where it was read.
func (b *book) lines() map[line][]op {
	out := map[line][]op{}
	seen := map[line]map[string]bool{}
	for _, r := range b.reads {
		if r.mode != "consistent" {
			continue
		}
		l := line{r.key, r.index.Epoch}
		out[l] = append(out[l], op{value: r.value, start: r.start, end: r.end})
		if seen[l] == nil {
			seen[l] = map[string]bool{}
		}
		seen[l][r.value] = true
	}
	for _, w := range b.writes {
		for l, values := range seen {
			switch {
			case l.key != w.key || w.value == b.initial(l.key, l.epoch):
			case w.index.Epoch == l.epoch, w.index.IsZero() && values[w.value]:
				out[l] = append(out[l], op{write: true, value: w.value, start: w.start, end: w.end})
			}
		}
	}
	return out
}

// initial is what a register held when an epoch began.
func (b *book) initial(key string, epoch uint64) string {
	for _, r := range slices.Backward(b.restores) {
		if r.after < epoch {
			return r.holds[key]
		}
	}
	return ""
}

// explain finds out whether a read, of whatever mode, shows the state of the index that it names.
func (b *book) explain(r read) error {
	var from fleet.Index // of the write that was read; zero: it has none that is known
	if r.value != b.initial(r.key, r.index.Epoch) {
		w := b.writes[r.value]
		switch {
		case w == nil || w.key != r.key:
			return fmt.Errorf("nobody wrote that")
		case w.refused:
			return fmt.Errorf("that write was refused")
		case w.start > r.end:
			return fmt.Errorf("that was written later")
		case w.index.IsZero():
			return nil
		case r.index.Before(w.index):
			return fmt.Errorf("that was written at %s", w.index)
		}
		from = w.index
	}
	for _, w := range b.writes {
		if w.key == r.key && w.index.Epoch == r.index.Epoch && from.Before(w.index) && !r.index.Before(w.index) {
			return fmt.Errorf("%q had been written at %s", w.value, w.index)
		}
	}
	return nil
}

// checkEpochs finds an operation that was done in an older epoch than one that had ended before it began.
func (b *book) checkEpochs() {
	slices.SortFunc(b.epochs, func(a, c epochSeen) int { return int(a.start - c.start) })
	ended := slices.SortedFunc(slices.Values(b.epochs), func(a, c epochSeen) int { return int(a.end - c.end) })
	newest, i := epochSeen{}, 0
	for _, e := range b.epochs {
		for ; i < len(ended) && ended[i].end < e.start; i++ {
			if ended[i].epoch > newest.epoch {
				newest = ended[i]
			}
		}
		if e.epoch < newest.epoch && e.what != restoreDone { // of that only a lower bound is known
			b.story.wrong("%s was done in epoch %d, after %s in epoch %d", e.what, e.epoch, newest.what, newest.epoch)
		}
	}
}

// checkFinal holds the state in which the cluster ends against what was acknowledged.
func (b *book) checkFinal(s *fsm.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := s.Index()
	keys := map[string]bool{}
	for _, w := range b.writes {
		keys[w.key] = true
	}
	for key := range keys {
		value := ""
		if m, ok := s.Model(key); ok {
			value = m.Spec.Labels[valueLabel]
		}
		if err := b.explain(read{key: key, value: value, index: now, end: math.MaxInt64}); err != nil {
			b.story.wrong("in the end register %s holds %q at %s: %v", key, value, now, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.once)) {
		b.checkOnce(s, name, b.once[name])
	}
}

// checkOnce looks for a model that was created once, and perhaps deleted, in the present epoch.
func (b *book) checkOnce(s *fsm.State, name string, row *onceRow) {
	m, there := s.Model(name)
	epoch := s.Index().Epoch
	switch {
	case row.deleted.Epoch == epoch && there:
		b.story.wrong("%s is there; its deletion was acknowledged at %s", name, row.deleted)
	case row.created.Epoch != epoch || row.deletedUnknown:
	case row.deleted.IsZero() && !there:
		b.story.wrong("%s is gone; its creation was acknowledged at %s", name, row.created)
	case there && (m.Created != row.created || m.Generation != 1):
		b.story.wrong("%s was created at %s, generation %d; acknowledged was %s", name, m.Created, m.Generation, row.created)
	}
}
