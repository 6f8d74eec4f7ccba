package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"berth/internal/run"
)

// Linger is how long goroutines of memberlist may outlive Close: a probe in progress waits for its time to be over.
const Linger = 15 * time.Second

// streamTimeout bounds a full exchange with one member, and so a dial to an address where nobody is.
const streamTimeout = 5 * time.Second

// Gossip is this process's membership.
type Gossip struct {
	cfg       Config
	list      *memberlist.Memberlist
	keyring   *memberlist.Keyring // nil: in the clear
	transport *transport
	table     *table
	address   string // host:port that others reach

	selfLock sync.Mutex // of what this member says of itself
	meta     Meta
	encoded  []byte
	adopted  string // cluster of the first member that had one, until Meta has

	saidLock sync.Mutex
	said     map[string]time.Time
	events   chan Event
	refusals atomic.Int64 // of members of other clusters

	update chan struct{} // the metadata changed
	life   sync.Mutex    // of leaving and closing
	left   bool
	closed bool
}

// Open opens the sockets and becomes a member that knows nobody yet. What was opened is closed by Close, or when Run returns.
func Open(ctx context.Context, cfg Config) (*Gossip, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gossip{
		cfg: cfg, table: newTable(), said: make(map[string]time.Time), events: make(chan Event, eventQueue), update: make(chan struct{}, 1),
	}
	var err error
	if err = g.setMeta(cfg.Meta); err != nil {
		return nil, err
	}
	if g.transport, err = newTransport(ctx, cfg); err != nil {
		return nil, err
	}
	g.address = net.JoinHostPort(g.transport.ip.String(), strconv.Itoa(g.transport.port))
	if g.list, err = memberlist.Create(g.settings()); err != nil {
		_ = g.transport.Shutdown()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return g, nil
}

// settings are memberlist's for a data centre, with what this package adds.
func (g *Gossip) settings() *memberlist.Config {
	if len(g.cfg.Keys) > 0 {
		g.keyring, _ = memberlist.NewKeyring(g.cfg.Keys, g.cfg.Keys[0]) // the sizes are checked by Validate
	}
	d := delegate{g}
	c := memberlist.DefaultLANConfig()
	c.Name = label(g.cfg.ID, g.cfg.Instance)
	c.Label = g.cfg.Label
	c.Transport = g.transport
	c.BindPort, c.AdvertisePort = Port, g.transport.port
	c.TCPTimeout = streamTimeout
	c.Keyring = g.keyring
	c.Logger = stdLogger(g.cfg.Log)
	c.DeadNodeReclaimTime = 30 * time.Second // of a process that changes its address without a new start
	c.Delegate, c.Events, c.Alive, c.Merge, c.Conflict = d, d, d, d, d
	return c
}

// Run joins the others, keeps joining those that go missing, and returns nil after the context has ended and everything is closed.
func (g *Gossip) Run(ctx context.Context) error {
	group := run.NewGroup(ctx)
	group.Add("join", g.joinLoop)
	group.Add("update", g.updateLoop)
	group.Add("watch", g.watchLoop)
	group.Add("close", func(ctx context.Context) error {
		<-ctx.Done()
		return g.Close() // ends what the others wait for
	})
	return group.Wait()
}

// Close ends this membership without a word; the others find out. See Leave. It may be called more than once.
func (g *Gossip) Close() error {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	return g.list.Shutdown()
}

// Leave tells the others that this process is going, and waits until that is under way or the time is over. It stays open, to pass the
// word on, until Run ends.
func (g *Gossip) Leave(timeout time.Duration) error {
	if !g.leaving() {
		return nil
	}
	// memberlist does not tell its users that a member left; its last metadata does.
	g.selfLock.Lock()
	goodbye := g.meta
	g.selfLock.Unlock()
	goodbye.leaving = true
	if err := g.setMeta(goodbye); err == nil {
		_ = g.list.UpdateNode(timeout / 2)
	}
	if err := g.list.Leave(timeout / 2); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	return nil
}

// leaving notes that the goodbye begins; false if it has begun before, or there is nothing to leave any more. The lock is not held while the
// others are told: that takes seconds, in which the loops must be able to see it.
func (g *Gossip) leaving() bool {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed || g.left {
		return false
	}
	g.left = true
	return true
}

func (g *Gossip) gone() bool {
	g.life.Lock()
	defer g.life.Unlock()
	return g.closed || g.left
}

// Address is where others reach this member's gossip, host:port.
func (g *Gossip) Address() string { return g.address }

// Members lists who is known, this process included, without members of other clusters: by role, name, id, and the newest start first.
func (g *Gossip) Members() []Member { return g.table.list(g.cluster()) }

// Watch gives a channel that is closed when Members has changed since the call.
func (g *Gossip) Watch() <-chan struct{} { return g.table.watch() }

// Events gives what an operator must see. It is for one reader; what nobody reads is logged all the same.
func (g *Gossip) Events() <-chan Event { return g.events }

// Update changes what this member says of itself. It fails, and changes nothing, if that is over the budget.
func (g *Gossip) Update(m Meta) error {
	if err := g.setMeta(m); err != nil {
		return err
	}
	select {
	case g.update <- struct{}{}:
	default: // one is under way already and will take this too
	}
	return nil
}

func (g *Gossip) setMeta(m Meta) error {
	encoded, err := m.encode()
	if err != nil {
		return err
	}
	g.selfLock.Lock()
	defer g.selfLock.Unlock()
	g.meta, g.encoded = m, encoded
	return nil
}

// cluster is the one that this member belongs to: its own if it has one, else the first that it heard of.
func (g *Gossip) cluster() string {
	g.selfLock.Lock()
	defer g.selfLock.Unlock()
	if g.meta.Cluster != "" {
		return g.meta.Cluster
	}
	return g.adopted
}

// adopt takes the first cluster that a newcomer hears of as its own until it is told.
func (g *Gossip) adopt(m Member) {
	g.selfLock.Lock()
	defer g.selfLock.Unlock()
	if g.adopted == "" {
		g.adopted = m.Cluster
	}
}

// updateLoop announces changes of the metadata. memberlist waits until the word is out, up to a second; if it is not, it still goes with the
// next full exchange.
func (g *Gossip) updateLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.update:
		}
		if !g.gone() {
			_ = g.list.UpdateNode(time.Second)
		}
	}
}

// SetKeys replaces the gossip keys while everything runs: first add the new key at every member (second in the list), then make it first
// everywhere, then drop the old one. It fails if this member was opened without a key.
func (g *Gossip) SetKeys(keys [][]byte) error {
	if err := (Config{ID: g.cfg.ID, Bind: g.cfg.Bind, Keys: keys}).Validate(); err != nil {
		return err
	}
	if g.keyring == nil || len(keys) == 0 {
		return errors.New("gossip: encryption is turned on or off by a restart only, on all members")
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, g.keyring.AddKey(key))
	}
	errs = append(errs, g.keyring.UseKey(keys[0]))
	for _, old := range g.keyring.GetKeys() {
		if !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) }) {
			errs = append(errs, g.keyring.RemoveKey(old))
		}
	}
	return errors.Join(errs...)
}
