package prefix

import "sync/atomic"

// Index remembers the blocks that one replica has had, for as long as the replica is likely to have them. It is a table
// of sets of eight, as a processor's cache is: no pointers for the garbage collector, one line of memory a look-up, and
// the longest-unused of a full set makes room. It grows with use up to [MaxBlocks]; an entry takes [EntrySize] bytes and
// tables are kept a third full, so a block costs 21 bytes or up to twice that when the table has just grown. Its zero value is empty. It is not safe for concurrent use.
//
// Time in it is the number of blocks that were new to the replica: what is behind by more than the replica's capacity has
// been evicted there, and is taken for unknown.
type Index struct {
	sets  []set
	used  int
	clock uint32
	limit uint32 // capacity that is believed of the replica, blocks; 0: MaxBlocks
}

// ways is how many entries a set has.
const ways = 8

// set is eight entries, in one line of a processor's cache. Tags lie two to a word, so that a look-up compares two at once and, since
// most look-ups of a block are in vain, branches once. Tag 0 is an empty entry.
type set struct {
	tags   [ways / 2]uint64
	stamps [ways]uint32
}

// slot is where in the set a tag is; -1 if it is not there.
func (s *set) slot(tag uint32) int {
	const low, high = 1<<32 | 1, 1<<63 | 1<<31
	both := uint64(tag) * low
	a, b, c, d := s.tags[0]^both, s.tags[1]^both, s.tags[2]^both, s.tags[3]^both
	if ((a-low)&^a|(b-low)&^b|(c-low)&^c|(d-low)&^d)&high == 0 { // no half of a word is zero
		return -1
	}
	for i, x := range [...]uint64{a, b, c, d} {
		switch {
		case uint32(x) == 0:
			return 2 * i
		case x>>32 == 0:
			return 2*i + 1
		}
	}
	return -1
}

func (s *set) tag(slot int) uint32 { return uint32(s.tags[slot/2] >> (slot % 2 * 32)) }

func (s *set) put(slot int, tag, stamp uint32) {
	shift := slot % 2 * 32
	s.tags[slot/2] = s.tags[slot/2]&^(0xffffffff<<shift) | uint64(tag)<<shift
	s.stamps[slot] = stamp
}

// EntrySize is the memory of an entry in bytes.
const EntrySize = 8

const (
	firstSets = 1 << 4
	maxSets   = 1 << 14
	// MaxBlocks is the most blocks that are remembered of a replica: 32 MiB of prompts.
	MaxBlocks = 4 * maxSets
	// MinBlocks is the least capacity that is ever believed of a replica.
	MinBlocks = 64
)

func tagOf(hash uint64) uint32 { return max(uint32(hash>>32), 1) }

// find returns where the block's stamp is; nil if the block is not remembered.
func (x *Index) find(hash uint64) *uint32 {
	if len(x.sets) == 0 {
		return nil
	}
	tag := tagOf(hash)
	s := &x.sets[tag&uint32(len(x.sets)-1)]
	if i := s.slot(tag); i >= 0 {
		return &s.stamps[i]
	}
	return nil
}

// Limit is the capacity that is believed of the replica, in blocks.
func (x *Index) Limit() int {
	if x.limit == 0 {
		return MaxBlocks
	}
	return int(x.limit)
}

// SetLimit changes what is believed.
func (x *Index) SetLimit(blocks int) { x.limit = uint32(min(max(blocks, MinBlocks), MaxBlocks)) }

// Age is how many new blocks the replica has had since it last had this one; false if it is not remembered.
func (x *Index) Age(hash uint64) (int, bool) {
	e := x.find(hash)
	if e == nil {
		return 0, false
	}
	return int(x.clock - *e), true
}

// Has says whether the replica likely has the block.
func (x *Index) Has(hash uint64) bool {
	age, ok := x.Age(hash)
	return ok && age <= x.Limit()
}

// Match returns how many blocks at the begin of the chain the replica likely has. guess is looked at first: what another
// replica has is often right, since many have the same trunk of a prompt and no more. 0 is no guess.
func (x *Index) Match(chain []uint64, guess int) int { return x.match(chain, x.Limit(), guess) }

// Matches appends Match of each index. The tables of many replicas lie in no cache, so a look-up is a wait for memory; those
// that do not depend on each other are made to overlap, by a first pass that only touches what the second will read.
func Matches(to []int, indexes []*Index, chain []uint64) []int {
	if len(chain) == 0 {
		for range indexes {
			to = append(to, 0)
		}
		return to
	}
	touch(indexes, chain[:min(2, len(chain))])
	guess := 0
	for i, x := range indexes {
		n := x.Match(chain, guess)
		if to = append(to, n); n > 0 && n != guess {
			guess = n
			touch(indexes[i+1:], chain[n-1:min(n+2, len(chain))])
		}
	}
	return to
}

// touched keeps the loads of touch from being left out as useless.
var touched atomic.Uint32

// touch brings the sets of the hashes into the processor's cache.
func touch(indexes []*Index, hashes []uint64) {
	sum := uint32(0)
	for _, h := range hashes {
		tag := tagOf(h)
		for _, x := range indexes {
			if len(x.sets) > 0 {
				sum += x.sets[tag&uint32(len(x.sets)-1)].stamps[0]
			}
		}
	}
	if sum == 1<<31 { // hardly ever, which the compiler cannot know
		touched.Add(1)
	}
}

// Remembered is Match for what the replica has ever had and may have evicted, and the age of the last such block.
func (x *Index) Remembered(chain []uint64) (blocks, age int) {
	if blocks = x.match(chain, MaxBlocks, 0); blocks > 0 {
		age, _ = x.Age(chain[blocks-1])
	}
	return blocks, age
}

// match steps along the chain with growing strides and then halves the last one. A block that was dropped from a full
// set is a hole, so two neighbours are looked at before a miss is believed.
func (x *Index) match(chain []uint64, limit, guess int) int {
	has := func(i int) bool {
		if e := x.find(chain[i]); e != nil && int(x.clock-*e) <= limit {
			return true
		}
		if i+1 == len(chain) {
			return false
		}
		e := x.find(chain[i+1])
		return e != nil && int(x.clock-*e) <= limit
	}
	if 0 < guess && guess <= len(chain) && has(guess-1) && (guess == len(chain) || !has(guess)) {
		return guess
	}
	if len(chain) == 0 || !has(0) {
		return 0
	}
	low, stride := 0, 1
	for low+stride < len(chain) && has(low+stride) {
		low, stride = low+stride, 2*stride
	}
	high := min(low+stride, len(chain))
	for low+1 < high {
		if mid := (low + high) / 2; has(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low + 1
}

// Add notes that the replica has the blocks of the chain from now on.
func (x *Index) Add(chain []uint64) {
	fresh := uint32(0) // the clock goes on first: all blocks of a prompt are of one age
	for _, h := range chain {
		if !x.Has(h) {
			fresh++
		}
	}
	x.clock += fresh
	for _, h := range chain {
		x.put(h)
	}
}

// Touch notes that the replica has something that is no block of a prompt and takes no room there.
func (x *Index) Touch(hash uint64) { x.put(hash) }

func (x *Index) put(hash uint64) {
	if e := x.find(hash); e != nil {
		*e = x.clock
		return
	}
	if x.used >= 3*len(x.sets) && len(x.sets) < maxSets { // fuller, too many sets would overflow
		x.grow()
	}
	x.insert(tagOf(hash), x.clock)
}

func (x *Index) insert(tag, stamp uint32) {
	s := &x.sets[tag&uint32(len(x.sets)-1)]
	oldest := 0
	for i := range ways {
		if s.tag(i) == 0 {
			s.put(i, tag, stamp)
			x.used++
			return
		}
		if x.clock-s.stamps[i] > x.clock-s.stamps[oldest] {
			oldest = i
		}
	}
	s.put(oldest, tag, stamp)
}

func (x *Index) grow() {
	old := x.sets
	x.sets, x.used = make([]set, max(2*len(old), firstSets)), 0
	for i := range old {
		for j := range ways {
			if tag := old[i].tag(j); tag != 0 {
				x.insert(tag, old[i].stamps[j])
			}
		}
	}
}

// Blocks is how many blocks are remembered, and Bytes what memory they take.
func (x *Index) Blocks() int { return x.used }

// Bytes is the memory of the index.
func (x *Index) Bytes() int { return len(x.sets) * ways * EntrySize }
