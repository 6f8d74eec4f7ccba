package sim

import (
	"sync"
	"time"
)

// Outcome is how a recorded request ended.
type Outcome string

// The outcomes of a [Record].
const (
	Running Outcome = "running" // not ended yet
	Served  Outcome = "served"  // answered to the end
	Aborted Outcome = "aborted" // its client went away, or the engine did
	Refused Outcome = "refused" // answered with an error
	Broken  Outcome = "broken"  // cut short by a fault of the "stream" kind
)

// Record is one arrival on a route that does work: what a test compares with what
// it thinks it sent.
type Record struct {
	Seq              int     `json:"seq"`       // 1, 2, …, in order of arrival
	OffsetMS         int64   `json:"offset_ms"` // since the engine was made
	Route            string  `json:"route"`
	RequestID        string  `json:"request_id,omitempty"` // X-Request-Id as received
	Model            string  `json:"model"`
	PromptHash       string  `json:"prompt_hash,omitempty"` // see PromptHash
	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	Outcome          Outcome `json:"outcome"`
	Status           int     `json:"status,omitempty"` // of the answer; absent while there is none
}

// ledger keeps the last limit records in order.
type ledger struct {
	mu    sync.Mutex
	began time.Time
	limit int
	count int
	rows  []*Record
}

func (l *ledger) arrive(route, requestID string) *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	r := &Record{Seq: l.count, OffsetMS: time.Since(l.began).Milliseconds(), Route: route, RequestID: requestID, Outcome: Running}
	l.rows = append(l.rows, r)
	if len(l.rows) >= 2*l.limit { // let go of the old half at once, not one a time
		l.rows = append([]*Record(nil), l.rows[len(l.rows)-l.limit:]...)
	}
	return r
}

// update changes a record under the lock that readers take.
func (l *ledger) update(change func()) {
	l.mu.Lock()
	change()
	l.mu.Unlock()
}

func (l *ledger) all() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := l.rows[max(0, len(l.rows)-l.limit):]
	out := make([]Record, len(rows))
	for i, r := range rows {
		out[i] = *r
	}
	return out
}
