package router

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync/atomic"
)

// ids makes ids for requests that come without one: unlike any other router's and start's by chance, and unlike each other
// by a count.
type ids struct {
	start string
	count atomic.Uint64
}

func newIDs() *ids { return &ids{start: "req_" + strings.ToLower(rand.Text()[:20])} }

func (i *ids) next() string { return i.start + strconv.FormatUint(1<<30+i.count.Add(1), 36) }
