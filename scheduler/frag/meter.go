package frag

import (
	"cmp"
	"math/bits"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// Meter measures the fragments of one map's hosts for a set of shapes.
//
// For a host with free room T (thousandths of cards) and a shape m, let U be what of T is used when the host is filled with shards of m alone, until
// its cards, CPUs or memory are at an end. The fragment for m is T - U, and when not one shard fits, 3 T: room that is of no use at all weighs more
// than a remainder. The loss of the host is the mean over the shapes, weighted by how often each was asked for.
//
// Fragmentation as the expected room that a task drawn from the workload cannot use is from Weng et al., "Beware of Fragmentation", USENIX ATC 2023.
// They ask whether one more task fits; filling the host to the brim also sees CPUs run out before the cards do.
type Meter struct {
	shapes []measure
	admits func(Shape, *fleet.Node) bool
	cards  [][]uint64    // by host: for each shape the cards that suit it
	kept   []kept        // by host
	room   []fleet.Bytes // scratch
}

type measure struct {
	Shape
	weight int64
	need   int         // whole cards
	share  fleet.Bytes // or a part of one
}

type kept struct {
	version uint32
	known   bool
	loss    int64
}

// useless is the weight of room that a shape cannot use at all, beside the 1 of a remainder.
const useless = 2

// NewMeter returns a meter. admits says whether a node may ever take a shard of a shape, as far as its labels, fabric and engines go.
func NewMeter(m *capacity.Map, asked []Asked, admits func(Shape, *fleet.Node) bool) *Meter {
	f := &Meter{admits: admits, cards: make([][]uint64, len(m.Hosts)), kept: make([]kept, len(m.Hosts))}
	for _, a := range Top(asked) {
		p := a.Shape.Placement
		f.shapes = append(f.shapes, measure{Shape: a.Shape, weight: int64(a.Times), need: p.GPUsPerNode, share: p.GPUShare})
	}
	slices.SortStableFunc(f.shapes, func(a, b measure) int { return cmp.Compare(b.share, a.share) })
	return f
}

// Loss returns the loss of a host as it is.
func (f *Meter) Loss(h *capacity.Host) int64 {
	k := &f.kept[h.Index]
	if !k.known || k.version != h.Version {
		f.lay(h)
		*k = kept{h.Version, true, f.loss(h, h.CPUs, h.Memory)}
	}
	return k.loss
}

// Adds returns by how much the loss of a host grows with one shard of the given placement on the given cards (by their place among the host's); it is
// negative when the shard takes room that was of little use.
func (f *Meter) Adds(h *capacity.Host, p *fleet.PlacementSpec, cards []int) int64 {
	if len(f.shapes) == 0 {
		return 0
	}
	before := f.Loss(h)
	f.lay(h)
	for _, i := range cards {
		if p.GPUShare > 0 {
			f.room[i] -= p.GPUShare
		} else {
			f.room[i] = 0
		}
	}
	return f.loss(h, h.CPUs-p.CPUs, h.Memory-p.Memory) - before
}

// lay copies what is left of the host's cards to the scratch space.
func (f *Meter) lay(h *capacity.Host) {
	f.room = f.room[:0]
	for i := range h.Cards {
		f.room = append(f.room, h.Cards[i].Room())
	}
}

// loss is in thousandths of a card times shapes asked for.
func (f *Meter) loss(h *capacity.Host, cpus int, memory fleet.Bytes) int64 {
	var free int64
	var empty uint64
	for i, room := range f.room {
		if i >= 64 || room <= 0 {
			continue
		}
		size := h.Cards[i].GPU.Memory
		free += int64(room * 1000 / size)
		if room == size {
			empty |= 1 << i
		}
	}
	if free == 0 || !h.Ready {
		return 0
	}
	suits := f.suits(h)
	var sum int64
	var last fill
	for i := range f.shapes {
		m := &f.shapes[i]
		n, size := f.fits(h, m, suits[i], empty, &last)
		if c := m.Placement.CPUs; c > 0 {
			n = min(n, max(0, cpus)/c)
		}
		if need := m.Placement.Memory; need > 0 {
			n = min(n, int(max(0, memory)/need))
		}
		if n == 0 {
			sum += m.weight * free * (1 + useless)
		} else {
			sum += m.weight * (free - int64(n)*size)
		}
	}
	return sum
}

// fill remembers what fits of a share, for shapes that differ only in CPUs or memory.
type fill struct {
	share fleet.Bytes
	cards uint64
	n     int
	size  int64
}

// fits returns how many shards of a shape the cards have room for, and how many thousandths of cards one takes.
func (f *Meter) fits(h *capacity.Host, m *measure, cards, empty uint64, last *fill) (int, int64) {
	switch {
	case cards == 0:
		return 0, 0
	case m.share == 0:
		return bits.OnesCount64(cards&empty) / m.need, int64(m.need) * 1000
	case last.share == m.share && last.cards == cards:
		return last.n, last.size
	}
	n, size := 0, fleet.Bytes(0)
	for rest := cards; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if room := f.room[i]; room >= m.share {
			n += int(room / m.share)
			size = h.Cards[i].GPU.Memory
		}
	}
	if size > 0 {
		size = m.share * 1000 / size
	}
	*last = fill{m.share, cards, n, int64(size)}
	return n, int64(size)
}

// suits returns for each shape the cards of the host that it may use, whatever is left of them.
func (f *Meter) suits(h *capacity.Host) []uint64 {
	if have := f.cards[h.Index]; have != nil {
		return have
	}
	out := make([]uint64, len(f.shapes))
	for i := range f.shapes {
		m := &f.shapes[i]
		if !f.admits(m.Shape, h.Node) {
			continue
		}
		for j := range h.Cards[:min(64, len(h.Cards))] {
			c := &h.Cards[j]
			if c.GPU.Memory >= max(1, m.Placement.GPUMemory) && (len(m.Placement.Classes) == 0 || slices.Contains(m.Placement.Classes, c.Class)) {
				out[i] |= 1 << j
			}
		}
	}
	f.cards[h.Index] = out
	return out
}
