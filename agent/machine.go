package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/durable"
	"berth/internal/run"
)

const (
	measureEvery = 10 * time.Second
	measureLimit = 30 * time.Second // the first answer of a driver that loads can take long
	offersEvery  = 5 * time.Minute  // an engine may be installed or upgraded while the agent runs
	loadsEvery   = 5 * time.Second
	loadsFresh   = 15 * time.Second // a load older than this is not sent
	freeLimit    = 10 * time.Second

	machineVersion = 1
)

// machine is what is known of the node's hardware and programs. Each slow question has a goroutine of its own, so that nothing that must not wait
// ever does.
type machine struct {
	cfg     *Config
	path    string // of the last measurement
	log     *slog.Logger
	changed func(why string)

	once  sync.Once
	known chan struct{} // closed after the first measurement, good or bad

	offersOnce sync.Once
	offered    chan struct{} // closed once all drivers have said what they offer

	mu      sync.Mutex
	inv     fleet.Inventory
	offers  []fleet.EngineOffer
	loads   []wire.GPULoad
	loadsAt time.Time
	failing string // why the last measurement failed
}

func newMachine(cfg *Config, d *disk, changed func(string)) (*machine, error) {
	m := &machine{cfg: cfg, path: d.path("machine.json"), log: cfg.Logger, changed: changed, known: make(chan struct{}), offered: make(chan struct{})}
	err := durable.ReadJSON(m.path, machineVersion, &m.inv)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, durable.ErrVersion):
		m.log.Warn("the last measurement is of another version; health verdicts begin anew", "error", err)
		m.inv = fleet.Inventory{}
	default:
		return nil, fmt.Errorf("the last measurement, which holds what is known of sick cards, cannot be read; remove it to believe the cards again: %w", err)
	}
	return m, nil
}

// watchInventory measures at once and then every measureEvery, and says when something has changed.
func (m *machine) watchInventory(ctx context.Context) error {
	m.measure(ctx)
	m.once.Do(func() { close(m.known) })
	return run.Every(ctx, measureEvery, func(ctx context.Context) error { m.measure(ctx); return nil })
}

func (m *machine) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	next, err := m.cfg.Inventory.Measure(ctx)
	if ctx.Err() != nil && err == nil {
		err = ctx.Err()
	}
	m.mu.Lock()
	last := m.inv
	if err != nil {
		next = unmeasured(last, err)
	} else {
		keepVerdicts(last, &next)
	}
	m.inv = next
	news := text(err) != m.failing
	m.failing = text(err)
	m.mu.Unlock()
	if err != nil && news {
		m.log.Error("the machine cannot be measured; its cards count as unknown", "error", err)
	}
	if reflect.DeepEqual(last, next) {
		return
	}
	m.tellHealth(last, next)
	if err := durable.WriteJSON(m.path, machineVersion, next); err != nil {
		m.log.Error("the measurement is not kept: a restart of the agent will not know which cards were sick", "error", err)
	}
	m.changed("the inventory has changed")
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// unmeasured is the last measurement with everything about health unknown, except what is known to be bad.
func unmeasured(last fleet.Inventory, err error) fleet.Inventory {
	next := last
	next.Note = "cannot be measured: " + err.Error()
	next.GPUs = slices.Clone(last.GPUs)
	for i := range next.GPUs {
		if g := &next.GPUs[i]; g.Health != fleet.Unhealthy {
			g.Health, g.Reason = fleet.HealthUnknown, "cannot be measured"
		}
	}
	return next
}

// keepVerdicts carries a bad verdict over to a measurement that says nothing of the card's health. Only a positive check lifts it, whether the
// agent has been started again in between or not.
func keepVerdicts(last fleet.Inventory, next *fleet.Inventory) {
	for i := range next.GPUs {
		g := &next.GPUs[i]
		if was, ok := card(last.GPUs, g.UUID); ok && was.Health == fleet.Unhealthy && g.Health == fleet.HealthUnknown {
			g.Health, g.Reason = was.Health, was.Reason
		}
	}
}

func card(all []fleet.GPU, uuid string) (fleet.GPU, bool) {
	i := slices.IndexFunc(all, func(g fleet.GPU) bool { return g.UUID == uuid })
	if i < 0 {
		return fleet.GPU{}, false
	}
	return all[i], true
}

func (m *machine) tellHealth(last, next fleet.Inventory) {
	for _, g := range next.GPUs {
		was, ok := card(last.GPUs, g.UUID)
		if ok && was.Health != g.Health {
			m.log.Warn("the health of a card has changed", "gpu", g.UUID, "was", string(was.Health), "is", string(g.Health), "why", g.Reason)
		}
	}
	for _, g := range last.GPUs {
		if _, ok := card(next.GPUs, g.UUID); !ok {
			m.log.Warn("a card is gone", "gpu", g.UUID, "index", g.Index)
		}
	}
}

// watchOffers asks the drivers what they offer.
func (m *machine) watchOffers(ctx context.Context) error {
	m.ask(ctx)
	return run.Every(ctx, offersEvery, func(ctx context.Context) error { m.ask(ctx); return nil })
}

func (m *machine) ask(ctx context.Context) {
	var offers []fleet.EngineOffer
	for _, d := range m.cfg.Drivers {
		engine, allowed := m.cfg.Engines[d.Name()]
		if !allowed {
			continue
		}
		offer, ok := d.Offer(ctx)
		if !ok {
			continue
		}
		offer.Driver, offer.Hub, offer.AllowArgs = d.Name(), engine.Hub, slices.Clone(engine.AllowArgs)
		if engine.Version != "" {
			offer.Version = engine.Version
		}
		offers = append(offers, offer)
	}
	if ctx.Err() != nil {
		return // a driver that was cut off has not said that it offers nothing
	}
	m.mu.Lock()
	same := reflect.DeepEqual(m.offers, offers)
	m.offers = offers
	m.mu.Unlock()
	m.offersOnce.Do(func() { close(m.offered) })
	if !same {
		m.changed("the engines on offer have changed")
	}
}

// watchLoads keeps what each card does right now for the heartbeat.
func (m *machine) watchLoads(ctx context.Context) error {
	look := func(ctx context.Context) error {
		loads := m.cfg.Inventory.Load(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.loads, m.loadsAt = loads, time.Now()
		return nil
	}
	if err := look(ctx); err != nil {
		return err
	}
	return run.Every(ctx, loadsEvery, look)
}

// load is the newest load, unless it is too old to say anything of now.
func (m *machine) load() []wire.GPULoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.loadsAt) > loadsFresh {
		return nil
	}
	return m.loads
}

func (m *machine) inventory() (fleet.Inventory, []fleet.EngineOffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inv, m.offers
}

// measured says whether the machine was measured, or tried to be, in this life of the agent.
func (m *machine) measured() bool {
	select {
	case <-m.known:
		return true
	default:
		return false
	}
}

// resolve gives the indices of the claimed cards as they are now, and all cards.
func (m *machine) resolve(claims []fleet.Claim) ([]int, []fleet.GPU, error) {
	inv, _ := m.inventory()
	indices := make([]int, len(claims))
	for i, c := range claims {
		g, ok := card(inv.GPUs, c.GPU)
		if !ok {
			return nil, nil, fmt.Errorf("the card %s is not in this machine any more", c.GPU)
		}
		indices[i] = g.Index
	}
	return indices, slices.Clone(inv.GPUs), nil
}

// free proves that claims are empty; an error is no proof.
func (m *machine) free(ctx context.Context, claims []fleet.Claim) (bool, error) {
	if len(claims) == 0 {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, freeLimit)
	defer cancel()
	return m.cfg.Inventory.Free(ctx, claims)
}
