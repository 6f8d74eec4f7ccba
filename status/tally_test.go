package status

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

// A tally that is told of changes alone says the same as one that counts every row anew, whatever changes: also when a node's reachability, which
// decides over its replicas and so over their models, turns in the same update as these do.
func TestATallyKeptUpIsARecount(t *testing.T) {
	r := seeded(t)
	for range 200 {
		in := randomInput(r)
		kept := in.tally()
		for range 20 {
			changed := edit(r, &in)
			kept.Update(newRows(&in), changed)
			in.Refusals = refuseAll(in.Models)
			got, want := kept.Summarize(in.frame(), in.word(kept)), Summarize(in)
			if g, w := asJSON(t, got), asJSON(t, want); g != w {
				t.Fatalf("after %+v\nkept up  %s\nrecount  %s", changed, g, w)
			}
		}
	}
}

// edit changes a few rows, takes some away and adds others, and names them; it also names some that have not changed.
func edit(r *rand.Rand, in *Input) Changes {
	var c Changes
	for range 1 + r.IntN(4) {
		i := r.IntN(10)
		switch r.IntN(3) {
		case 0:
			n := randomNode(r, i)
			in.Nodes = swap(r, in.Nodes, n, func(n *fleet.Node) string { return n.Name })
			c.Nodes = append(c.Nodes, n.Name)
		case 1:
			x := randomReplica(r, in.Nodes, i)
			in.Replicas = swap(r, in.Replicas, x, func(x *fleet.Replica) string { return x.ID })
			c.Replicas = append(c.Replicas, x.ID)
		case 2:
			m := randomModel(r, i)
			in.Models = swap(r, in.Models, m, (*fleet.Model).Name)
			c.Models = append(c.Models, m.Name())
		}
	}
	return c
}

// swap puts a row in the place of the one of its name, or at the end; one in five only takes the old one away.
func swap[T any](r *rand.Rand, rows []*T, row *T, name func(*T) string) []*T {
	rows = slices.DeleteFunc(slices.Clone(rows), func(old *T) bool { return name(old) == name(row) })
	if r.IntN(5) > 0 {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *T) int { return strings.Compare(name(a), name(b)) })
	return rows
}

func refuseAll(models []*fleet.Model) []Refused {
	var out []Refused
	for _, m := range models {
		out = append(out, Refused{Refusal: fleet.Refusal{Model: m.Name(), Short: 1, Reason: "no room"}, Since: time.Minute})
	}
	return out
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Of many things of one kind a person reads the first few and the number; of a few, each.
func TestManyIssuesOfAKindAreOneLine(t *testing.T) {
	in := healthy()
	for i := range 5 {
		n := node(fmt.Sprintf("n%d", i), "fa", h100, 1)
		n.Unreachable = true
		n.Inventory.GPUs[0].Health = fleet.Unhealthy
		if i > 1 {
			n.Inventory.GPUs[0].Health = fleet.Healthy
		}
		in.with(n)
	}
	want := []string{"5 nodes are unreachable: n0, n1, n2 and 2 more", "node n0: 1 GPU not healthy", "node n1: 1 GPU not healthy"}
	if got := Summarize(in).Attention; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWithoutTheLeadersWordIdleIsUnknownAndALineSaysWhy(t *testing.T) {
	tally := NewTally()
	for _, c := range []struct {
		frame Frame
		word  Word
		want  string
	}{
		{Frame{CaughtUp: true}, Word{Age: -1}, "no leader is known; nothing can be changed, and idle times are unknown"},
		{Frame{CaughtUp: true, Leader: "p1"}, Word{Age: -1}, "what the leader observes has not been heard yet; idle times are unknown"},
		{Frame{CaughtUp: true, Leader: "p1"}, Word{Age: 7 * time.Second}, "what the leader observes was last heard 7s ago; idle times are unknown"},
		{Frame{CaughtUp: true, Leader: "p1"}, Word{Known: true}, ""},
	} {
		if got := strings.Join(tally.Summarize(c.frame, c.word).Attention, "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
