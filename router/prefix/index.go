package prefix

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

type set [8]entry

type entry struct{ tag, stamp uint32 } // tag 0: empty

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

func (x *Index) find(hash uint64) *entry {
	if len(x.sets) == 0 {
		return nil
	}
	tag := tagOf(hash)
	s := &x.sets[tag&uint32(len(x.sets)-1)]
	for i := range s {
		if s[i].tag == tag {
			return &s[i]
		}
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
	return int(x.clock - e.stamp), true
}

// Has says whether the replica likely has the block.
func (x *Index) Has(hash uint64) bool {
	age, ok := x.Age(hash)
	return ok && age <= x.Limit()
}

// Match returns how many blocks at the begin of the chain the replica likely has. guess is looked at first: what another
// replica has is often right, since many have the same trunk of a prompt and no more. 0 is no guess.
func (x *Index) Match(chain []uint64, guess int) int { return x.match(chain, x.Limit(), guess) }

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
		if e := x.find(chain[i]); e != nil && int(x.clock-e.stamp) <= limit {
			return true
		}
		if i+1 == len(chain) {
			return false
		}
		e := x.find(chain[i+1])
		return e != nil && int(x.clock-e.stamp) <= limit
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
		e.stamp = x.clock
		return
	}
	if x.used >= 3*len(x.sets) && len(x.sets) < maxSets { // fuller, too many sets would overflow
		x.grow()
	}
	x.insert(entry{tagOf(hash), x.clock})
}

func (x *Index) insert(e entry) {
	s := &x.sets[e.tag&uint32(len(x.sets)-1)]
	oldest := 0
	for i := range s {
		if s[i].tag == 0 {
			s[i] = e
			x.used++
			return
		}
		if x.clock-s[i].stamp > x.clock-s[oldest].stamp {
			oldest = i
		}
	}
	s[oldest] = e
}

func (x *Index) grow() {
	old := x.sets
	x.sets, x.used = make([]set, max(2*len(old), firstSets)), 0
	for i := range old {
		for _, e := range old[i] {
			if e.tag != 0 {
				x.insert(e)
			}
		}
	}
}

// Blocks is how many blocks are remembered, and Bytes what memory they take.
func (x *Index) Blocks() int { return x.used }

// Bytes is the memory of the index.
func (x *Index) Bytes() int { return len(x.sets) * len(set{}) * EntrySize }
