package door

import (
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// Clock reads a clock that only moves forward, also while the machine is suspended (CLOCK_BOOTTIME in production). Its
// zero is arbitrary: only differences mean something.
type Clock func() time.Duration

// Refusal is why a door turns a request away; one of the wire.Door* reasons. The empty Refusal admits.
type Refusal string

type state int

const (
	starting state = iota
	open
	shut
)

// Gate counts what goes through a door and decides what may. All of its methods are safe for concurrent use; whatever
// they decide, they decide under the one lock that also admits requests.
type Gate struct {
	clock Clock
	shim  uint64

	mu         sync.Mutex
	state      state
	serving    bool // the engine is ready, whether or not the door is shut
	engine     uint64
	admissions uint64
	inFlight   int
	number     uint64
	lastUse    *time.Duration // nil: no use was ever seen
	readyAt    *time.Duration // nil: the engine of this start is not ready
	empty      chan struct{}  // closed when nothing is in flight; nil while nobody waits
}

// NewGate makes the gate of the shim with that number. It is starting: it admits nothing until [Gate.Ready].
func NewGate(shim uint64, clock Clock) *Gate { return &Gate{shim: shim, clock: clock} }

// Admit lets one request in or says why not. Every admitted request ends its use by calling done; calling it again
// changes nothing.
// A use is counted here, under the lock that admits it, until done (DESIGN §8, rule 5).
func (g *Gate) Admit() (done func(), why Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case shut:
		return nil, wire.DoorShut
	case starting:
		return nil, wire.DoorStarting
	}
	g.admissions++
	g.inFlight++
	g.use()
	return sync.OnceFunc(g.leave), ""
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.use()
	if g.inFlight == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *Gate) use() {
	now := g.clock()
	g.lastUse = &now
}

// Starting tells the gate that the engine's start with this number (counted from 1 within the shim) has begun or its
// end was seen: it admits nothing more until [Gate.Ready]. A shut gate stays shut.
func (g *Gate) Starting(engine uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.engine, g.serving, g.readyAt = engine, false, nil
	if g.state == open {
		g.state = starting
	}
}

// Ready tells the gate that the engine serves. It opens unless it was shut.
func (g *Gate) Ready() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock()
	g.serving, g.readyAt = true, &now
	if g.state == starting {
		g.state = open
	}
}

// Shut lets nothing in from now on; what is in flight goes on.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = shut
}

// TryShut shuts the gate if mark is still its own and nothing is in flight, in one step under the admitting lock: no
// request can come between the comparison and the shutting. Otherwise nothing happens. A gate that is not open has
// turned somebody away perhaps, without counting it, so it is not shut either.
// (DESIGN §8, rule 11.)
func (g *Gate) TryShut(mark fleet.Mark) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != open || g.inFlight != 0 || mark != g.mark() {
		return false
	}
	g.state = shut
	return true
}

// Open takes a Shut back: the gate admits again if the engine serves, else once it does.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != shut {
		return
	}
	g.state = starting
	if g.serving {
		g.state = open
	}
}

// Mark gives the moment in the door's life that [Gate.TryShut] compares.
func (g *Gate) Mark() fleet.Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mark()
}

func (g *Gate) mark() fleet.Mark {
	return fleet.Mark{Shim: g.shim, Engine: g.engine, Admissions: g.admissions}
}

// InFlight is how many admitted requests have not ended.
func (g *Gate) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

// Empty gives a channel that is closed once nothing is in flight. For a gate that is shut this is for good.
func (g *Gate) Empty() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	ch := g.empty
	if g.inFlight == 0 {
		close(ch)
		g.empty = nil
	}
	return ch
}

// Reading says what the door saw, with the next reading number. Replica and Stamp are left to the caller. Use is
// remembered across restarts of the engine.
func (g *Gate) Reading() wire.Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.number++
	now := g.clock()
	return wire.Reading{
		Shim: g.shim, Engine: g.engine, Number: g.number,
		Admissions: g.admissions, InFlight: g.inFlight,
		UseAge: age(now, g.lastUse), ReadyAge: age(now, g.readyAt),
		Shut: g.state == shut,
	}
}

// age is how long before now the moment was, in seconds, or nil if there was none.
func age(now time.Duration, at *time.Duration) *float64 {
	if at == nil {
		return nil
	}
	s := (now - *at).Seconds()
	return &s
}
