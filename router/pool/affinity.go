package pool

import (
	"berth/router/prefix"
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

// affinity is what the replica has, which has so many blocks.
func (r *replica) affinity(p *Prompt, blocks int) affinity {
	return affinity{blocks: blocks, session: p.Session != 0 && r.index.Has(p.Session), adapter: p.Adapter != 0 && r.index.Has(p.Adapter)}
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

// home is where a prompt belongs as far as nothing better is known: the replica that the hash of the first block that tells
// the prompt from others ranks highest, so that routers that know nothing of each other choose the same one.
type home struct {
	index  int // among the candidates; -1: the prompt is too short
	shared int // blocks of the trunk, which tell nothing
	known  int // blocks that some candidate has
}

// of is the replica among the candidates; nil if there is none.
func (h home) of(c []*replica) *replica {
	if h.index < 0 {
		return nil
	}
	return c[h.index]
}

// sight is what the newest choice saw, for what is learned of it.
type sight struct {
	hint *Hint
	home home
	at   *replica
}

func (m *model) homeOf(p *Prompt, c []*replica, has []affinity) home {
	h := home{index: -1}
	for _, a := range has {
		h.known = max(h.known, a.blocks)
	}
	h.shared = m.trunks.length(p.Blocks, h.known, len(c))
	if h.shared < len(p.Blocks) {
		h.index = rendezvous(p.Blocks[h.shared], c, nil)
	}
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
