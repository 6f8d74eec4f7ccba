package fsm

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"berth/fleet"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed of the random commands; 0 takes a new one and prints it")
	stepsFlag = flag.Int("steps", 1500, "random commands in a run")
)

// TestRandomCommands applies random commands, many of them made from a state that is long past, to two machines, of which one is now and then
// replaced by what its snapshot restores to. After each command every invariant must hold, and the two must have one fingerprint.
func TestRandomCommands(t *testing.T) {
	seen := map[string]int{}
	for i := range 4 {
		seed := *seedFlag
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("repeat with -run RandomCommands -seed %d -steps %d", seed, *stepsFlag)
			w := newWalk(t, seed, seen)
			for range *stepsFlag {
				w.step()
			}
		})
		if *seedFlag != 0 {
			return
		}
	}
	if !t.Failed() && *stepsFlag >= 1000 {
		checkCoverage(t, seen)
	}
}

// walker is one random run.
type walker struct {
	t    *testing.T
	gen  *generator
	a, b *Machine // b is restored now and then
	at   uint64
	past []*State
	sent [][]byte       // entries that may be sent again
	seen map[string]int // what has happened, by kind and outcome
}

func newWalk(t *testing.T, seed uint64, seen map[string]int) *walker {
	w := &walker{t: t, gen: newGenerator(seed), a: New(), b: New(), seen: seen}
	w.apply(Meta{At: 1}, ClusterCreate{ID: "c1"})
	return w
}

func (w *walker) step() {
	r := w.gen.rng
	state := w.a.State()
	if len(w.past) > 0 && r.IntN(4) == 0 {
		state = w.past[r.IntN(len(w.past))] // a stale plan, a late report
	}
	if len(w.sent) > 0 && r.IntN(20) == 0 {
		w.again(w.sent[r.IntN(len(w.sent))])
		return
	}
	meta := Meta{At: fleet.Time(1_796_083_200_000 + int64(w.at)*60_000), By: "walker"}
	if r.IntN(3) == 0 {
		meta.Request = RequestID(state.Index(), fmt.Sprint(r.IntN(40)))
	}
	w.apply(meta, w.gen.command(state))
	if w.past = append(w.past, w.a.State()); len(w.past) > 30 {
		w.past = w.past[1:]
	}
	switch p := r.IntN(300); {
	case p < 2:
		w.b = restored(w.t, w.b.State())
		w.checkEqual()
	case p == 2 && len(w.past) > 0:
		w.rollBack(w.past[r.IntN(len(w.past))])
	}
}

// rollBack restores a state of before on both machines, as an operator does with an old backup.
func (w *walker) rollBack(old *State) {
	now := w.a.State().Cluster()
	image, err := old.WithIdentity(now.ID, now.Epoch+1, fleet.Time(w.at))
	must(w.t, err)
	image.index.N = w.at
	w.a, w.b = restored(w.t, image), restored(w.t, image)
	w.seen["rolled back"]++
	checkInvariants(w.t, w.a.State())
}

// again sends an entry a second time, as a proposer does that does not know what became of the first: it must change nothing.
func (w *walker) again(data []byte) {
	w.at++
	before := w.a.State()
	o, err := w.a.Apply(w.at, data)
	must(w.t, err)
	_, err = w.b.Apply(w.at, data)
	must(w.t, err)
	if d := changes(before, w.a.State()); len(d) > 0 {
		w.t.Fatalf("at %d: a repeated request changed something: %v", w.at, d)
	}
	if o.Index.N != w.at {
		w.seen["answered from memory"]++
	}
}

func (w *walker) checkEqual() {
	w.t.Helper()
	if w.a.State().Fingerprint() != w.b.State().Fingerprint() {
		w.t.Fatalf("at %d: the machine that was restored differs from the one that was not", w.at)
	}
}

func (w *walker) apply(meta Meta, c Command) {
	w.t.Helper()
	w.at++
	before := w.a.State()
	feeds := w.feedsOf(before)
	data, err := Encode(meta, c)
	must(w.t, err)
	if meta.Request != "" {
		w.sent = append(w.sent, data)
	}
	o, err := w.a.Apply(w.at, data)
	must(w.t, err)
	o2, err := w.b.Apply(w.at, data)
	must(w.t, err)
	after := w.a.State()
	if text(o) != text(o2) {
		w.t.Fatalf("at %d: the two machines answer %s differently: %s and %s", w.at, c.Kind(), text(o), text(o2))
	}
	if w.at%20 == 0 {
		w.checkEqual()
	}
	w.count(c, o)
	if o.Index.N == w.at { // not an answer from memory
		w.checkStep(before, after, c, o)
	}
	checkFeeds(w.t, after, feeds)
	checkInvariants(w.t, after)
}

func (w *walker) count(c Command, o Outcome) {
	switch {
	case o.Index.N != w.at:
		w.seen["answered from memory"]++
	case o.Err != nil:
		w.seen[c.Kind()+" refused"]++
	case o.Changed:
		w.seen[c.Kind()]++
	}
	for _, err := range o.Items {
		if err != nil {
			w.seen[c.Kind()+" item refused"]++
		}
	}
}

// checkStep holds one step against what each command may do.
func (w *walker) checkStep(before, after *State, c Command, o Outcome) {
	w.t.Helper()
	if o.Err != nil && (o.Changed || len(changes(before, after)) > 0) {
		w.t.Fatalf("at %d: %s was refused (%s) but changed something", w.at, c.Kind(), o.Err)
	}
	if !o.Changed && len(changes(before, after)) > 0 {
		w.t.Fatalf("at %d: %s says that nothing changed: %v", w.at, c.Kind(), changes(before, after))
	}
	for r := range after.Replicas() {
		old, ok := before.Replica(r.ID)
		if _, registers := c.(NodeRegister); !ok && registers {
			w.checkAdopted(before, r)
		} else if !ok {
			w.checkPlaced(before, r)
		} else if r.Order.Before(old.Order) || r.Start < old.Start {
			w.t.Fatalf("at %d: the order of %s goes back from %s/%d to %s/%d", w.at, r.ID, old.Order, old.Start, r.Order, r.Start)
		}
	}
	for old := range before.Replicas() {
		w.checkReleases(old, after, c)
	}
}

// checkAdopted holds a replica that a registration has made against the rule for it: the engine is of an epoch before, and of a model that is there.
func (w *walker) checkAdopted(before *State, r *fleet.Replica) {
	w.t.Helper()
	w.seen["adopted"]++
	_, ok := before.Spec(r.Model, r.Generation)
	if strings.HasPrefix(r.ID, fmt.Sprintf("r-%d.", before.Cluster().Epoch)) || !ok {
		w.t.Fatalf("at %d: %s was adopted: %s", w.at, r.ID, replicaLine(r))
	}
}

// checkPlaced holds a new replica against the rules for adding a claim, read from the design and not from the code.
func (w *walker) checkPlaced(before *State, r *fleet.Replica) {
	w.t.Helper()
	w.seen["placed"]++
	fabrics := map[string]bool{}
	for _, s := range r.Shards {
		n, ok := before.Node(s.Node)
		if !ok || n.State() != fleet.NodeReady {
			w.t.Fatalf("at %d: %s was placed on %s, which is not there or not ready", w.at, r.ID, s.Node)
		}
		fabrics[n.Fabric()] = true
		for _, c := range s.Claims {
			g, ok := n.GPU(c.GPU)
			if !ok || g.Health != fleet.Healthy || slices.ContainsFunc(n.Unmanaged, func(u fleet.Unmanaged) bool { return slices.Contains(u.GPUs, c.GPU) }) {
				w.t.Fatalf("at %d: %s was placed on the card %s of %s, which cannot take it", w.at, r.ID, c.GPU, s.Node)
			}
		}
	}
	if len(r.Shards) > 1 && (len(fabrics) != 1 || fabrics[""]) {
		w.t.Fatalf("at %d: %s was placed over the fabrics %v", w.at, r.ID, fabrics)
	}
	if before.Freeze() != nil {
		w.t.Fatalf("at %d: %s was placed in a frozen fleet", w.at, r.ID)
	}
}

// checkReleases finds claims that ended without a proof.
func (w *walker) checkReleases(old *fleet.Replica, after *State, c Command) {
	w.t.Helper()
	now, there := after.Replica(old.ID)
	for rank, s := range old.Shards {
		if s.Released || there && !now.Shards[rank].Released {
			continue
		}
		w.seen["released"]++
		switch c := c.(type) {
		case NodeForget:
			if c.Node == s.Node {
				continue
			}
		case ReplicaTransitions:
			if c.Node == s.Node && c.Items[0].Released {
				continue
			}
		case NodeRegister: // an engine that is not there, and whose card is another's
			if c.Registration.Name == s.Node && unconfirmed(old) {
				w.seen["gave way"]++
				continue
			}
		}
		w.t.Fatalf("at %d: %s released the claims of %s on %s without a proof", w.at, c.Kind(), old.ID, s.Node)
	}
}

// feed is what one follower last saw.
type feed struct {
	node  string // "" is the routers' table
	text  string
	watch <-chan struct{}
}

func (w *walker) feedsOf(s *State) []feed {
	out := []feed{{text: text(s.Table()), watch: s.WatchTable()}}
	for _, n := range w.gen.nodes() {
		out = append(out, feed{node: n, text: text(s.Orders(n)), watch: s.WatchOrders(n)})
	}
	return out
}

// checkFeeds finds orders or a table that changed without their index rising and their watcher waking.
func checkFeeds(t *testing.T, after *State, feeds []feed) {
	t.Helper()
	for _, f := range feeds {
		is, index := text(after.Table()), after.TableIndex()
		if f.node != "" {
			is, index = text(after.Orders(f.node)), after.OrdersIndex(f.node)
			if _, ok := after.Node(f.node); !ok {
				continue // a forgotten node has no agent to tell
			}
		}
		switch {
		case f.text == is:
		case index != after.Index():
			t.Fatalf("at %s: the feed %q changed, but its index is %s:\n%s\n%s", after.Index(), f.node, index, f.text, is)
		case !closed(f.watch):
			t.Fatalf("at %s: the feed %q changed, but its watcher sleeps", after.Index(), f.node)
		}
	}
}

// checkCoverage fails runs in which nothing much happened: they would hold every invariant.
func checkCoverage(t *testing.T, seen map[string]int) {
	t.Helper()
	for _, what := range []string{
		"placed", "released", "answered from memory", "plan item refused", "replica.transitions", "replica.transitions item refused",
		"model.apply", "model.delete", "node.register", "node.forget", "node.liveness", "node.drain", "epoch.raise", "replica.fail", "freeze.set", "rolled back", "adopted",
	} {
		if seen[what] == 0 {
			t.Errorf("in four runs of %d steps there was never: %s", *stepsFlag, what)
		}
	}
	t.Logf("%v", seen)
}
