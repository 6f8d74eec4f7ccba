package pool

// trunks counts how prompts part ways: a block after which many different ones have followed is the end of a trunk, such
// as a system prompt that most conversations begin with, and what is before it tells nothing of where a prompt belongs.
// That shows in the prompts alone, so routers that know nothing of each other come to see the same trunks.
type trunks struct {
	branches map[uint64]int // by the block after which prompts went on in a new way
	total    int
}

const (
	leastBranches = 4    // that make a trunk at all
	maxBranches   = 4096 // that are counted; then all counts are halved, so that old ones fade, and those of one are dropped
)

// part notes that a prompt was known up to a block and went on in a new way.
func (t *trunks) part(block uint64) {
	if t.branches == nil {
		t.branches = make(map[uint64]int)
	}
	t.branches[block]++
	if t.total++; t.total < maxBranches {
		return
	}
	t.total = 0
	for b, n := range t.branches {
		if n /= 2; n == 0 {
			delete(t.branches, b)
		} else {
			t.branches[b] = n
			t.total += n
		}
	}
}

// length is how many blocks at the begin of a chain, of which so many are known, are trunk: more than half of a replica's
// fair share of all prompts part there, so one replica could not serve what follows.
func (t *trunks) length(chain []uint64, known, replicas int) int {
	least := max(leastBranches, t.total/(2*replicas))
	for n := known; n > 0; n-- {
		if t.branches[chain[n-1]] >= least {
			return n
		}
	}
	return 0
}
