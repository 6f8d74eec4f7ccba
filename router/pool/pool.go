package pool

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/router/prefix"
)

// Pool routes by the newest table that it was given. It is safe for concurrent use.
type Pool struct {
	clock *clock
	view  atomic.Pointer[view]

	mu    sync.Mutex        // one Apply at a time
	known map[string]*model // by name; also models that left the table, while something of them is in flight or unreported
}

// view is what Acquire looks up: immutable, replaced by Apply.
type view struct {
	table  wire.Table
	models map[string]*model // by name and by alias
}

// New makes a pool that has no table yet: it refuses everything as not ready. boot tells the time since an arbitrary,
// fixed moment and must go on while the machine is suspended; it is read once per report.
func New(boot func() time.Duration) *Pool {
	start := time.Now()
	return NewAt(boot, func() time.Duration { return time.Since(start) })
}

// NewAt is New for a simulation, whose time is what now says instead of the machine's. Only what choices are made and
// learned by follows it; waiting for a replica does not.
func NewAt(boot, now func() time.Duration) *Pool {
	return &Pool{clock: newClock(boot, now), known: make(map[string]*model)}
}

// Apply replaces the table. What is in flight stays counted on its replica, in the table or not; requests that wait for
// a model go to what the table now has for it. The table is kept and must not be changed afterwards.
func (p *Pool) Apply(t wire.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &view{table: t, models: make(map[string]*model, len(t.Models))}
	listed := make(map[*model]bool, len(t.Models))
	for i := range t.Models {
		row := &t.Models[i]
		m := p.known[row.Name]
		if m == nil {
			m = &model{pool: p, name: row.Name, luck: firstLuck}
			p.known[row.Name] = m
		}
		listed[m] = true
		for _, alias := range row.Aliases {
			v.models[alias] = m
		}
	}
	for m := range listed {
		v.models[m.name] = m // a name goes before another model's alias
	}
	for i := range t.Models {
		p.known[t.Models[i].Name].update(&t.Models[i])
	}
	p.view.Store(v)
	for _, m := range p.known {
		if !listed[m] {
			m.update(nil)
		}
	}
}

// Table returns the table that the pool routes by; false before the first one. It must not be changed.
func (p *Pool) Table() (wire.Table, bool) {
	v := p.view.Load()
	if v == nil {
		return wire.Table{}, false
	}
	return v.table, true
}

// Name returns the name of the model that a name or an alias stands for; false if there is none.
func (p *Pool) Name(nameOrAlias string) (string, bool) {
	v := p.view.Load()
	if v == nil {
		return "", false
	}
	m, ok := v.models[nameOrAlias]
	if !ok {
		return "", false
	}
	return m.name, true
}

// KnowsPrompts says whether the policy of a model (name or alias) makes use of prompts.
func (p *Pool) KnowsPrompts(nameOrAlias string) bool {
	v := p.view.Load()
	if v == nil || v.models[nameOrAlias] == nil {
		return false
	}
	m := v.models[nameOrAlias]
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.replicas) > 1 && knowsPrompts(m.policy)
}

// model is one model: its row of the table, its replicas, and who waits for one.
type model struct {
	pool *Pool
	name string

	mu       sync.Mutex
	row      *wire.TableModel // nil: not in the table
	policy   policy
	replicas []*replica // in the table, in its order
	gone     []*replica // not in the table any more; kept while in flight or unreported
	scratch  []*replica // candidates of one choice, so that choosing allocates nothing
	turn     int        // where the next choice begins, so that equals take turns
	waiting  []*waiter  // in the order in which they are served, see fair.go
	rounds   rounds
	knocked  bool       // a request came and could not even wait; told in the next report
	pace     pace       // of all replicas, for one of which little is known
	typical  float64    // seconds that a prompt takes to compute, as far as this router sends them
	luck     float64    // part of a prompt that its home has although this router did not send it there
	has      []affinity // scratch, as are the next two
	indexes  []*prefix.Index
	blocks   []int
	trunks   trunks
	seen     sight
	troubled int // replicas with trouble: while 0, no choice reads a clock for them
}

// replica is one replica that is in the table, or was.
type replica struct {
	wire.Endpoint
	inFlight int
	used     stamp
	trouble  trouble
	motion   motion
	life     life          // of requests that wait for their first byte
	end      life          // of streams that have had it
	moves    atomic.Uint64 // bytes came; written without the lock
	seed     uint64        // hash of its id, for rendezvous
	index    prefix.Index
	queue    queue
	pace     pace
}

func newReplica(e wire.Endpoint) *replica {
	return &replica{Endpoint: e, life: newLife(), end: newLife(), seed: prefix.Text(0, e.Replica)}
}

// stamp is a moment of the clock, or the fact that there was none.
type stamp struct {
	at    time.Duration
	known bool
}

// update takes a new row, or the model's absence from the table.
func (m *model) update(row *wire.TableModel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row = row
	old := append(m.replicas, m.gone...)
	m.replicas, m.gone = nil, nil
	if row != nil {
		m.policy = policyOf(row.Serve.Policy)
		for _, e := range current(row.Endpoints) {
			var r *replica
			if i := slices.IndexFunc(old, func(r *replica) bool { return r.Replica == e.Replica }); i >= 0 {
				r = old[i]
				old = slices.Delete(old, i, i+1)
				r.renew(e)
			} else {
				r = newReplica(e)
			}
			m.replicas = append(m.replicas, r)
		}
	}
	for _, r := range old {
		if r.inFlight > 0 || r.used.known {
			r.index = prefix.Index{} // when it comes back it has been started anew
			m.gone = append(m.gone, r)
		}
	}
	m.scratch = make([]*replica, 0, len(m.replicas))
	m.countTrouble()
	m.serveWaiting()
}

// current drops lost replicas of an older generation than one that is ready and not lost.
func current(all []wire.Endpoint) []wire.Endpoint {
	var newest uint64
	for _, e := range all {
		if e.State == fleet.Ready && !e.Lost {
			newest = max(newest, e.Generation)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(e wire.Endpoint) bool { return e.Lost && e.Generation < newest })
}

// renew takes what a new table says of a replica that is known. Its trouble is forgotten with the address or key that
// caused it; a refused key is forgotten with any new table.
func (r *replica) renew(e wire.Endpoint) {
	if r.Address != e.Address || r.Key != e.Key {
		r.trouble = trouble{}
	}
	r.trouble.wrongKey = false
	r.Endpoint = e
}

// hasReady says whether the table has a ready replica of the model. The model's lock is held.
func (m *model) hasReady() bool {
	return slices.ContainsFunc(m.replicas, func(r *replica) bool { return r.State == fleet.Ready && !r.Lost })
}
