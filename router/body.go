package router

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// body is a client's request body: the part that was read to find the model, and what is still to come.
type body struct {
	head   []byte
	rest   io.Reader // nil: head is all
	length int64     // of all; -1: unknown

	memory *memory
	held   int64 // taken from memory

	mu    sync.Mutex
	spent bool // some of rest was read: it cannot be sent again
	ended bool // rest was read to its end
	bad   bool // the client broke rest off, or it does not pass its check
	turn  int  // of the newest reader; older ones, of attempts that are over, read nothing more
}

// whole says whether all of the body is here and can be sent as often as need be.
func (b *body) whole() bool { return b.rest == nil }

// again says whether the body can be sent once more.
func (b *body) again() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rest == nil || !b.spent
}

// unfinished says whether the client may still be sending.
func (b *body) unfinished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rest != nil && !b.ended
}

// unreadable says whether an attempt failed because the client's body did.
func (b *body) unreadable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bad
}

// open gives a reader for one more attempt.
func (b *body) open() io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	return &bodyReader{body: b, turn: b.turn, head: b.head}
}

// forget drops the body if all of it is here: it is not sent again. A reader that is still at it goes on.
func (b *body) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rest == nil {
		b.head = nil
	}
}

// free gives the memory of the body back to the others' account.
func (b *body) free() {
	b.memory.used.Add(-b.held)
	b.held = 0
}

type bodyReader struct {
	body *body
	turn int
	head []byte
}

var errOldAttempt = errors.New("this attempt is over")

func (r *bodyReader) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.body.rest == nil {
		return 0, io.EOF
	}
	r.body.mu.Lock()
	old := r.turn != r.body.turn
	r.body.spent = r.body.spent || !old
	r.body.mu.Unlock()
	if old {
		return 0, errOldAttempt
	}
	n, err := r.body.rest.Read(p)
	if err != nil {
		r.body.mu.Lock()
		r.body.ended, r.body.bad = err == io.EOF, err != io.EOF
		r.body.mu.Unlock()
	}
	return n, err
}

func (r *bodyReader) Close() error { return nil } // net/http's server closes the client's body

// memory is an account of the bytes that large bodies hold together.
type memory struct {
	limit int64
	used  atomic.Int64
}

func (m *memory) take(n int64) bool {
	if m.used.Add(n) <= m.limit {
		return true
	}
	m.used.Add(-n)
	return false
}
