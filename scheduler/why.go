package scheduler

import (
	"fmt"
	"strings"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// Endings of reasons that begin with a class.
const (
	busy   = " busy"
	unwell = " unhealthy"
	others = " held by what Berth did not start"
)

// cardReason is why the cards of a host take no shard; never says that an empty, healthy host would not either.
type cardReason struct {
	text  string
	never bool
}

// whyCards looks at each allowed class and returns the reason that is nearest to a fit; the zero value when the cards would do.
func (f *finder) whyCards(h *capacity.Host) cardReason {
	worst := cardReason{"without " + strings.Join(f.spec.Placement.Classes, " or "), true}
	if len(h.Cards) == 0 {
		worst.text = "without GPUs"
	}
	rank := 0
	for _, class := range f.classes {
		if r, near := f.whyClass(h, class); near > rank {
			worst, rank = r, near
		}
	}
	return worst
}

// tally counts the cards of one class on one host.
type tally struct {
	class  int // of that class
	large  int // of those, with memory enough
	well   int // of those, healthy
	usable int // of those, not held by what Berth did not start
	fit    int // of those, with room for a claim of the spec
}

func (f *finder) tally(h *capacity.Host, class string) tally {
	var t tally
	share := f.spec.Placement.GPUShare
	for i := range h.Cards {
		c := &h.Cards[i]
		if c.Class != class {
			continue
		}
		t.class++
		if !f.suits(c, class) || c.GPU.Memory < share {
			continue
		}
		t.large++
		if c.GPU.Health == fleet.Healthy {
			t.well++
		}
		if !c.Usable() {
			continue
		}
		t.usable++
		if share > 0 && c.Room() >= share || share == 0 && c.Idle() {
			t.fit++
		}
	}
	return t
}

// whyClass returns why cards of one class do not do, and how near they are to it: 0 there is none, 6 they would do.
func (f *finder) whyClass(h *capacity.Host, class string) (cardReason, int) {
	need := max(1, f.spec.Placement.GPUsPerNode)
	least := max(f.spec.Placement.GPUMemory, f.spec.Placement.GPUShare)
	switch t := f.tally(h, class); {
	case t.class == 0:
		return cardReason{}, 0
	case t.class >= need && t.large < need:
		return cardReason{fmt.Sprintf("whose %s have less than %s", class, least), true}, 1
	case t.large < need:
		return cardReason{fmt.Sprintf("with only %d x %s", t.class, class), true}, 2
	case t.well < need:
		return cardReason{class + unwell, false}, 3
	case t.usable < need:
		return cardReason{class + others, false}, 4
	case t.fit < need:
		return cardReason{class + busy, false}, 5
	default:
		return cardReason{}, 6
	}
}
