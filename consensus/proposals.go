package consensus

import (
	"sync"

	"berth/fsm"
)

// proposals is what this peer has proposed and not applied yet. A proposer has read its own entry already, so the leader
// need not read it once more when raft brings it back: raft hands over the very bytes that it was given, and those alone
// are looked for. An entry that comes from the disk or from another peer is read as everywhere else.
type proposals struct {
	mu   sync.Mutex
	made map[*byte]*fsm.Entry // by the first of its bytes, which no other entry can have while it is here
}

func (p *proposals) add(e *fsm.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = map[*byte]*fsm.Entry{}
	}
	p.made[&e.Data()[0]] = e
}

// take gives the entry whose bytes these are, once, or nil.
func (p *proposals) take(data []byte) *fsm.Entry {
	if len(data) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.made[&data[0]]
	if !ok || len(e.Data()) != len(data) {
		return nil
	}
	delete(p.made, &data[0])
	return e
}
