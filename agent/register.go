package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// offersPatience is how long the first registration waits for drivers to say what they offer. What they say later is registered later.
const offersPatience = 2 * time.Second

// registrar tells the peers what the machine is and what runs on it: at the start, when that changes, and when they ask.
type registrar struct {
	cfg     *Config
	disk    *disk
	machine *machine
	crew    *crew
	contact *contact
	address func() string
	log     *slog.Logger

	once       sync.Once
	registered chan struct{} // closed after the first answer
	poke       chan struct{}

	mu    sync.Mutex
	force bool
	sent  string // what was last registered, without what runs
}

func newRegistrar(cfg *Config, d *disk, c *contact, address func() string) *registrar {
	return &registrar{cfg: cfg, disk: d, contact: c, address: address, log: cfg.Logger,
		registered: make(chan struct{}), poke: make(chan struct{}, 1)}
}

// look is for who has changed something that is registered; nothing is sent if it is as it was.
func (r *registrar) look(string) { wake(r.poke) }

// again registers even if nothing has changed.
func (r *registrar) again(why string) {
	r.mu.Lock()
	first := !r.force
	r.force = true
	r.mu.Unlock()
	if first {
		r.log.Info("registering again", "why", why)
	}
	wake(r.poke)
}

// waitRegistered waits until the peers know this life of the agent; false: the context ended first.
func (r *registrar) waitRegistered(ctx context.Context) bool {
	select {
	case <-r.registered:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *registrar) isRegistered() bool {
	select {
	case <-r.registered:
		return true
	default:
		return false
	}
}

func (r *registrar) run(ctx context.Context) error {
	select {
	case <-r.machine.known:
	case <-ctx.Done():
		return nil
	}
	r.awaitOffers(ctx)
	r.again("the agent has started")
	wait := retryFirst
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.poke:
		}
		for {
			err := r.register(ctx)
			if err == nil {
				wait = retryFirst
				break
			}
			r.refused(err)
			if !backOff(ctx, &wait) {
				return nil
			}
		}
	}
}

func (r *registrar) awaitOffers(ctx context.Context) {
	t := time.NewTimer(offersPatience)
	defer t.Stop()
	select {
	case <-r.machine.offered:
	case <-t.C:
	case <-ctx.Done():
	}
}

func (r *registrar) register(ctx context.Context) error {
	reg := r.registration()
	what := fingerprint(reg)
	r.mu.Lock()
	force := r.force
	same := what == r.sent
	r.force = false
	r.mu.Unlock()
	if same && !force {
		return nil
	}
	answer, err := r.cfg.Peers.Register(ctx, reg)
	if err == nil {
		err = r.disk.joined(answer.Cluster)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.force = true
		return err
	}
	r.sent = what
	r.once.Do(func() { close(r.registered) })
	r.log.Info("registered", "cluster", answer.Cluster, "index", answer.Index.String(), "gpus", len(reg.Inventory.GPUs), "running", len(reg.Running))
	if reg.Inventory.Note != "" {
		r.log.Warn("about the cards: "+reg.Inventory.Note, "source", reg.Inventory.Source)
	}
	return nil
}

// refused says why in one line. Some refusals need a person; all are tried again, because it may be the other side that is put right.
func (r *registrar) refused(err error) {
	level := slog.LevelWarn
	if errors.Is(err, fleet.WrongCluster) || errors.Is(err, fleet.DuplicateID) || errors.Is(err, fleet.LevelTooOld) {
		level = slog.LevelError
	}
	r.log.Log(context.Background(), level, "this node is not registered", "error", err)
}

func (r *registrar) registration() wire.Registration {
	inv, offers := r.machine.inventory()
	running, unmanaged := r.crew.running()
	return wire.Registration{
		Version: wire.Version, Name: r.cfg.Name, ID: r.disk.id, Instance: r.disk.instance, Cluster: r.disk.cluster(),
		Address: r.address(), EngineAddress: r.cfg.EngineBind, Release: r.cfg.Release, Level: level,
		Labels: r.cfg.Labels, Inventory: inv, Engines: offers, ModelRoots: r.cfg.ModelRoots,
		Running: running, Unmanaged: unmanaged,
	}
}

// level is the version of the messages between agents and peers that this release speaks.
const level = 1

// fingerprint is what a registration says of the machine. What runs is left out: transitions tell of it as it changes.
func fingerprint(reg wire.Registration) string {
	reg.Running = nil
	data, err := json.Marshal(reg)
	if err != nil {
		panic("agent: a registration that does not marshal: " + err.Error()) // strings, numbers, lists and maps of strings
	}
	return string(data)
}
