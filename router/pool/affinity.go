package pool

import (
	"berth/router/prefix"
	"slices"
)

// Prompt is what is known of a request's prompt.
type Prompt struct {
	Blocks  []uint64 // a chain of hashes, see [prefix.Chain]
	Bytes   int      // of all of it
	Session uint64   // hash of the client's own word for requests that belong together; 0: none
	Adapter uint64   // hash of the name that was asked for where it is not the model's: perhaps an adapter; 0: none
}

// affinity is what a replica likely has of a prompt.
type affinity struct {
	blocks  int
	session bool
	adapter bool
}

const (
	// sessionShare is the part of a prompt that is taken for cached where its session has been before: more cannot be
	// known of a prompt whose bytes say nothing.
	sessionShare = 0.5
	// adapterSeconds is what it costs to load an adapter.
	adapterSeconds = 0.1
)

// cached is how many bytes of the prompt the replica need not compute.
func (a affinity) cached(p *Prompt) float64 {
	bytes := float64(a.blocks * prefix.BlockSize)
	if a.session {
		bytes = max(bytes, sessionShare*float64(p.Bytes))
	}
	return min(bytes, float64(p.Bytes))
}

func (r *replica) affinity(p *Prompt) affinity {
	return affinity{blocks: r.index.Match(p.Blocks), session: p.Session != 0 && r.index.Has(p.Session), adapter: p.Adapter != 0 && r.index.Has(p.Adapter)}
}

// keep notes that the replica has the prompt from now on: at the moment of choice, so that a burst is told apart.
func (r *replica) keep(p *Prompt) {
	r.index.Add(p.Blocks)
	for _, h := range [...]uint64{p.Session, p.Adapter} {
		if h != 0 {
			r.index.Touch(h)
		}
	}
}

// home is where a prompt belongs that no replica is known to have: a replica chosen by the hash of the first block that
// tells the prompt from others, so that routers that know nothing of each other choose the same one.
type home struct {
	index  int // among the candidates; -1: the prompt is known somewhere, or too short
	shared int // blocks that most replicas have, which tell nothing
}

// homeOf finds it. Blocks that at least half of the candidates have are skipped: a system prompt that all conversations
// begin with would otherwise bring all of them to one replica.
func (m *model) homeOf(p *Prompt, c []*replica, has []affinity) home {
	m.lengths = m.lengths[:0]
	longest := 0
	for _, a := range has {
		m.lengths = append(m.lengths, a.blocks)
		longest = max(longest, a.blocks)
	}
	slices.Sort(m.lengths)
	h := home{index: -1, shared: m.lengths[len(c)/2]}
	if h.shared >= len(p.Blocks) || longest > h.shared {
		return h
	}
	h.index = rendezvous(p.Blocks[h.shared], c, nil)
	return h
}

// rendezvous returns the candidate that the key ranks highest among those that may is true for; -1 if there is none
// (Thaler and Ravishankar, 1998). A replica that comes or goes moves only the keys that it takes or had.
func rendezvous(key uint64, c []*replica, may func(*replica) bool) int {
	best, most := -1, uint64(0)
	for i, r := range c {
		if rank := prefix.Mix(key, r.seed); (best < 0 || rank > most) && (may == nil || may(r)) {
			best, most = i, rank
		}
	}
	return best
}
