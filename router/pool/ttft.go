package pool

import (
	"time"

	"berth/router/prefix"
)

// ttft takes the replica from which the first token is expected soonest: after what it has yet to compute of others'
// prompts, and what it does not have of this one. That weighs affinity against load in the one unit that both are felt
// in, so neither needs a weight (Qin et al., "Mooncake", FAST 2025, section 6, choose so by the engines' own numbers).
// What it needs to know is learned from what this router sees: times to first bytes, and what it sent where.
type ttft struct{}

// Bounds of how uneven the numbers in flight may be for the sake of affinity, whatever the estimates say.
const (
	boundShare = 1.25
	boundSlack = 2
	// even is what estimates may differ by, in seconds and as a part, and still count as equal.
	evenSeconds, evenShare = 0.002, 0.01
)

// bound is the most that a replica may have in flight before it takes one more.
func bound(c []*replica) float64 {
	sum := 1
	for _, r := range c {
		sum += r.inFlight
	}
	return boundShare*float64(sum)/float64(len(c)) + boundSlack
}

func (ttft) pick(m *model, hint *Hint, c []*replica, start int) int {
	if len(c) == 1 {
		return 0
	}
	now, most, p := m.pool.clock.now(), bound(c), &hint.Prompt
	has := m.affinities(p, c)
	home := home{index: -1}
	if len(p.Blocks) > 0 {
		home = m.homeOf(p, c, has)
		m.seen = sight{hint, home, home.of(c)}
	}
	best, soonest := -1, 0.0
	for i := range c {
		j := (start + i) % len(c)
		r := c[j]
		if float64(r.inFlight) > most {
			continue
		}
		fixed, perByte := r.pace.line(m.pace)
		compute := float64(p.Bytes) - has[j].cached(p)
		if j == home.index {
			compute -= homeWeight * m.luck * (compute - float64(home.shared*prefix.BlockSize))
		}
		first := r.queue.wait(now, fixed, perByte, m.typical) + fixed + perByte*compute
		if p.Adapter != 0 && !has[j].adapter {
			first += adapterSeconds
		}
		margin := evenSeconds + evenShare*soonest
		switch {
		case best < 0 || first < soonest-margin:
			best, soonest = j, first
		case first < soonest+margin && r.inFlight < c[best].inFlight:
			best, soonest = j, min(first, soonest)
		}
	}
	return best
}

// affinities returns what each candidate has of the prompt, in the model's scratch.
func (m *model) affinities(p *Prompt, c []*replica) []affinity {
	m.has, m.indexes = m.has[:0], m.indexes[:0]
	for _, r := range c {
		m.indexes = append(m.indexes, &r.index)
	}
	m.blocks = prefix.Matches(m.blocks[:0], m.indexes, p.Blocks)
	for i, r := range c {
		m.has = append(m.has, r.affinity(p, m.blocks[i]))
	}
	return m.has
}

// prefixBounded is consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, SODA 2018) of the part of
// a prompt that tells it from others, or of its session.
type prefixBounded struct{}

func (prefixBounded) pick(m *model, hint *Hint, c []*replica, start int) int {
	p := &hint.Prompt
	key := p.Session
	if key == 0 {
		key = p.Adapter
	}
	if len(p.Blocks) > 0 && p.Session == 0 {
		home := m.homeOf(p, c, m.affinities(p, c))
		m.seen = sight{hint, home, home.of(c)}
		key = prefix.Mix(p.Blocks[min(home.shared, len(p.Blocks)-1)], p.Adapter)
	}
	if key == 0 {
		return leastLoaded{}.pick(m, hint, c, start)
	}
	most := bound(c)
	if i := rendezvous(key, c, func(r *replica) bool { return float64(r.inFlight+1) <= most }); i >= 0 {
		return i
	}
	return leastLoaded{}.pick(m, hint, c, start)
}

// guess is what a lease was chosen by, to be held against what comes.
type guess struct {
	made    bool
	arrived time.Duration
	bytes   float64 // of the prompt
	compute float64 // of these, that the replica was expected to compute
	blocks  int     // that it has ever had, whether or not it was believed to have them still
	age     int     // of the last of them
	crowded bool    // others wait there too, so that what it takes says little of the engine
	luck    bool    // nothing told it from others, and it went home
}

// expect puts a request into the queue of the replica that it goes to. The model's lock is held.
func (m *model) expect(r *replica, hint *Hint, now time.Duration) guess {
	p := &hint.Prompt
	has := r.affinity(p, r.index.Match(p.Blocks, 0))
	g := guess{made: true, arrived: now, bytes: float64(p.Bytes), compute: float64(p.Bytes) - has.cached(p)}
	g.crowded = r.queue.crowded(now)
	g.blocks, g.age = r.index.Remembered(p.Blocks)
	if m.seen.hint == hint {
		h := m.seen.home
		g.luck = m.seen.at == r && h.known == h.shared
		if h.known > 0 && h.known < len(p.Blocks) {
			m.trunks.part(p.Blocks[h.known-1])
		}
	}
	m.seen = sight{}
	fixed, perByte := r.pace.line(m.pace)
	takes := fixed + perByte*g.compute
	m.typical += typicalFade * (takes - m.typical)
	r.queue.join(now, hint.Stream, g.compute, takes)
	r.keep(p)
	return g
}

// Observations say something only of prompts that take long enough to be told from noise.
const (
	tellingSeconds = 0.05
	tellingShare   = 0.3
	luckFade       = 0.05
	typicalFade    = 0.02
	firstLuck      = 0.1
	// homeWeight is how much more a prompt's home counts than by what it saves this request: the next ones of the same
	// conversation come to other routers, which will look for it there. It was found by trying 1 to 6 on a trace with
	// three routers: more costs p90, less costs hits. With one router there is no luck and it weighs nothing.
	homeWeight = 4
	// missShare: what was not found is weaker evidence than what was, since a wait for others looks the same.
	missShare = 24
)

// met learns from a first byte. The model's lock is held.
func (m *model) met(r *replica, g *guess, now time.Duration) {
	if g.crowded {
		return
	}
	took := (now - max(g.arrived, r.queue.since)).Seconds() // behind others it began when theirs was done
	fixed, perByte := r.pace.line(m.pace)
	if old := float64(g.blocks * prefix.BlockSize); old*perByte > tellingSeconds {
		m.judgeLimit(r, g, took > fixed+perByte*(g.bytes-old/2))
	}
	if g.luck && g.compute*perByte > tellingSeconds {
		share := min(max(1-(took-fixed)/(g.compute*perByte), 0), 1)
		m.luck += luckFade * (share - m.luck)
	}
	if g.compute >= tellingShare*g.bytes && !(g.luck && m.luck > tellingShare) {
		weight := 1.0
		if g.bytes > 0 {
			weight = g.compute / g.bytes
		}
		r.pace.learn(g.compute, took, weight)
		m.pace.learn(g.compute, took, weight)
	}
}

// judgeLimit corrects how much a replica is believed to keep: a block of some age was, or was not, there.
func (m *model) judgeLimit(r *replica, g *guess, missed bool) {
	limit := r.index.Limit()
	switch {
	case missed && g.age < limit:
		r.index.SetLimit(limit - (limit-g.age)/missShare)
	case !missed && g.age > limit:
		r.index.SetLimit(limit + (g.age-limit)/2)
	}
}
