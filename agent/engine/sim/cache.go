package sim

import (
	"container/list"
	"encoding/binary"
	"hash/fnv"
	"sync"
)

// BlockSize is the number of tokens in a block of the prefix cache, vLLM's default.
const BlockSize = 16

// prefixCache remembers blocks of tokens by the hash of everything up to and
// including them, so that a block is only ever found behind its own prefix.
type prefixCache struct {
	mu       sync.Mutex
	capacity int
	order    *list.List // of uint64, most recently used first
	blocks   map[uint64]*list.Element
}

func newPrefixCache(capacity int) *prefixCache {
	return &prefixCache{capacity: capacity, order: list.New(), blocks: make(map[uint64]*list.Element)}
}

// chain returns the hash of each full block of tokens, each over its predecessors.
func chain(tokens []int64) []uint64 {
	out := make([]uint64, 0, len(tokens)/BlockSize)
	var word [8]byte
	h := fnv.New64a() // never reset: block n's hash covers blocks 0 to n
	for i, t := range tokens {
		binary.LittleEndian.PutUint64(word[:], uint64(t))
		h.Write(word[:])
		if (i+1)%BlockSize == 0 {
			out = append(out, h.Sum64())
		}
	}
	return out
}

// lookup returns how many leading tokens are cached, and marks them used. The
// last token is always computed, as in vLLM: its output is what comes next.
func (c *prefixCache) lookup(tokens []int64) int {
	if len(tokens) == 0 {
		return 0
	}
	hashes := chain(tokens[:len(tokens)-1])
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(hashes) && c.blocks[hashes[n]] != nil {
		n++
	}
	c.touch(hashes[:n])
	return n * BlockSize
}

// insert caches every full block of tokens.
func (c *prefixCache) insert(tokens []int64) {
	hashes := chain(tokens)
	if len(hashes) > c.capacity {
		hashes = hashes[:c.capacity] // the rest could never be found behind an evicted prefix
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touch(hashes)
	for c.order.Len() > c.capacity {
		oldest := c.order.Back()
		delete(c.blocks, c.order.Remove(oldest).(uint64))
	}
}

// touch makes hashes the most recently used, the earliest of the chain most of
// all: a prefix must outlive what hangs on it.
func (c *prefixCache) touch(hashes []uint64) {
	for i := len(hashes) - 1; i >= 0; i-- {
		if e := c.blocks[hashes[i]]; e != nil {
			c.order.MoveToFront(e)
			continue
		}
		c.blocks[hashes[i]] = c.order.PushFront(hashes[i])
	}
}

// blocksOf is how many blocks n tokens take.
func blocksOf(n int) int { return (n + BlockSize - 1) / BlockSize }
