package board

import (
	"maps"
	"slices"
	"sync"

	"berth/fleet/wire"
)

// bell wakes everybody who waits, once.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// Refused gives a channel that is closed when other models than now are refused a place: what waits for such a model at a router is told so at
// once. That the wording of a refusal changes wakes nobody.
func (b *Board) Refused() <-chan struct{} { return b.refused.wait() }

// refusedModels lists the models that are refused, in order.
func refusedModels(list []wire.SinceRefusal) []string {
	set := make(map[string]bool, len(list))
	for _, r := range list {
		set[r.Model] = true
	}
	return slices.Sorted(maps.Keys(set))
}
