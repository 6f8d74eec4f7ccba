package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// Reader takes one measurement of the machine.
type Reader interface {
	Read(ctx context.Context) (Reading, error)
}

// ErrNoDriver says that the machine has no NVIDIA driver: it is a node without cards.
var ErrNoDriver = errors.New("no NVIDIA driver on this machine")

// patience is how long one answer may take: a driver call can hang for ever.
const patience = 3 * time.Second

// Measured is an inventory that is measured by a Reader.
type Measured struct {
	source string
	reader Reader
	ours   func(pid int) bool

	mu   sync.Mutex
	last *Reading // the newest, for loads between two measurements
}

// NewMeasured returns an inventory measured by reader; ours says whether a process belongs to an engine that Berth started.
func NewMeasured(source string, reader Reader, ours func(pid int) bool) *Measured {
	return &Measured{source: source, reader: reader, ours: ours}
}

func (m *Measured) read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := m.reader.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer about the cards within %s", patience)
		}
		return Reading{}, err
	}
	m.mu.Lock()
	m.last = &r
	m.mu.Unlock()
	return r, nil
}

// Measure implements agent.Inventory. A machine without a driver is one without cards, said in one clear line; cards that were seen before and
// cannot be asked now stay, as unknown.
func (m *Measured) Measure(ctx context.Context) (fleet.Inventory, error) {
	r, err := m.read(ctx)
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.last == nil && errors.Is(err, ErrNoDriver) {
			return machine(fleet.Inventory{Source: m.source, Note: err.Error()}), nil
		}
		if m.last == nil {
			return machine(fleet.Inventory{Source: m.source, Note: "the cards cannot be measured: " + err.Error()}), nil
		}
		stale := Reading{Driver: m.last.Driver, Cards: append([]Card{}, m.last.Cards...)}
		for i := range stale.Cards {
			stale.Cards[i].Unsure = err.Error()
		}
		return machine(stale.inventory(m.source, m.ours)), nil
	}
	return machine(r.inventory(m.source, m.ours)), nil
}

func machine(inv fleet.Inventory) fleet.Inventory {
	inv.CPUs, inv.Memory = runtime.NumCPU(), hostMemory()
	return inv
}

// Free implements agent.Inventory: a card is empty when its own process list says that none of Berth's processes, and nobody else's, is left on it.
// A claim of part of a card looks for Berth's own processes only in the list of the engine that ended, which the shim has seen gone; the card may
// hold others.
func (m *Measured) Free(ctx context.Context, claims []fleet.Claim) (bool, error) {
	r, err := m.read(ctx)
	if err != nil {
		return false, err
	}
	for _, c := range claims {
		card, ok := r.card(c.GPU)
		if !ok {
			return false, fmt.Errorf("the card %s cannot be found any more, so nobody can say that it is empty", c.GPU)
		}
		if !card.ProcessesKnown {
			return false, fmt.Errorf("the process list of card %s cannot be read", c.GPU)
		}
		if c.Share == 0 && len(card.Processes) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// Load implements agent.Inventory. It asks nothing: a heartbeat must not wait for a driver.
func (m *Measured) Load(context.Context) []wire.GPULoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return nil
	}
	return m.last.loads()
}
