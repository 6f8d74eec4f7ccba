package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

// changed is the fleet after what a refusal says would help: replicas stopped, and wanted no more, or a node uncordoned. What is to be moved is wanted still.
func changed(s Snapshot, verb string, names []string) Snapshot {
	gone := func(r *fleet.Replica) bool { return slices.Contains(names, r.ID) }
	s.Models, s.Nodes = slices.Clone(s.Models), slices.Clone(s.Nodes)
	for i, m := range s.Models {
		less := *m
		for _, r := range s.Replicas {
			if verb == "stop" && r.Model == m.Name() && gone(r) {
				less.Want--
			}
		}
		s.Models[i] = &less
	}
	for i, n := range s.Nodes {
		if verb == "uncordon" && n.Name == names[0] {
			up := *n
			up.Admin = fleet.Schedulable
			s.Nodes[i] = &up
		}
	}
	s.Replicas = slices.DeleteFunc(slices.Clone(s.Replicas), gone)
	return s
}

// helps reads "stop r-1 of a (quiet 1h) and r-2 of b (in use, priority 50)".
func helps(phrase string) (verb string, names []string) {
	verb, rest, _ := strings.Cut(phrase, " ")
	for part := range strings.SplitSeq(rest, " and ") {
		name, _, _ := strings.Cut(part, " ")
		names = append(names, name)
	}
	return verb, names
}

// lets says whether a plan places a model, and everything else that is wanted too.
func lets(s Snapshot, model string) (in, all bool) {
	plan := Plan(s)
	for _, item := range plan.Items {
		in = in || item.Place != nil && item.Place.Model == model
		if item.Stop != nil {
			return false, false
		}
	}
	return in, in && len(plan.Refusals) == 0
}

// What a refusal says would help does: on the fleet with that change the planner lets the model in. What is to be moved finds its place too, and of what is
// to be stopped nothing can be left out.
func TestWouldHelpHelps(t *testing.T) {
	r := seeded(t)
	said := map[string]int{}
	for round := range 4000 {
		w := crowd(t, r)
		m := w.model("m", oneOf(r, 1, 1, 2), 1+r.IntN(3), oneOf(r, "", h100), priority(0))
		m.Created.N = 1 << 20
		phrase := refusal(Plan(w.Snapshot), "m").WouldHelp
		if phrase == "" {
			continue
		}
		verb, names := helps(phrase)
		said[verb]++
		after := changed(w.Snapshot, verb, names)
		if verb == "move" { // the model has its place before what makes way for it looks for another
			i, _ := find(after.Models, "m", (*fleet.Model).Name)
			after.Models[i].Spec.Priority = 100
		}
		if in, all := lets(after, "m"); !in || verb == "move" && !all {
			t.Fatalf("round %d: %q: the model comes in %v, and the others %v\n%+v", round, phrase, in, all, m.Spec.Placement)
		}
		for i := range names {
			if verb != "stop" || len(names) == 1 {
				continue
			}
			rest := slices.Delete(slices.Clone(names), i, i+1)
			if in, _ := lets(changed(w.Snapshot, verb, rest), "m"); in {
				t.Fatalf("round %d: %q: it comes in with %v alone", round, phrase, rest)
			}
		}
	}
	for _, verb := range []string{"stop", "uncordon", "move"} {
		if said[verb] < 20 {
			t.Errorf("%v was said: the test says little", said)
		}
	}
}

// crowd is a small fleet that other models fill, a few of whose replicas are quiet and a few of whose nodes are cordoned.
func crowd(t *testing.T, r *rand.Rand) *world {
	w := newWorld(t)
	for i := range 2 + r.IntN(4) {
		n := w.node("n"+string(rune('1'+i)), oneOf(r, "", "fa", "fa", "fb"), h100, 1+r.IntN(4))
		if r.IntN(4) == 0 {
			n.Admin = fleet.Cordoned
		}
		for at := 0; at < len(n.Inventory.GPUs); {
			cards := min(1+r.IntN(3), len(n.Inventory.GPUs)-at)
			if r.IntN(4) > 0 {
				name := n.Name + string(rune('a'+at))
				w.model(name, 1, cards, h100, func(s *fleet.ModelSpec) { s.Pin = r.IntN(6) == 0 })
				w.put("r-"+name, name, n.Name, at, cards)
				if r.IntN(3) == 0 {
					w.Quiet["r-"+name] = Quiet{For: time.Duration(1+r.IntN(100)) * time.Minute, Known: true}
				}
			}
			at += cards
		}
	}
	return w
}
