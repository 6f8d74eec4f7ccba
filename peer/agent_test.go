package peer

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
)

// agent is a node that does what it is told, by the messages alone: it registers, beats, follows orders, and its engines are ready after a
// second.
type agent struct {
	rig      *rig
	name     string
	gpus     int
	client   *client.Client
	end      context.CancelFunc
	wg       sync.WaitGroup
	instance uint64
	host     string // of its address; empty: its name

	mu     sync.Mutex
	seq    uint64
	stamp  *wire.Stamp
	shards map[string]*shard // by replica
	used   map[string]time.Time
	mute   bool // sends no heartbeat
	broken bool // every engine fails at its start
	starts int  // run orders taken
}

type shard struct {
	ready   time.Time
	reading uint64
	order   fleet.Index
	stopped bool
}

// node starts an agent that knows the peers, and makes it a gossip member.
func (r *rig) node(name string, gpus int, instance uint64, peers ...string) *agent {
	r.t.Helper()
	return r.nodeAt("", name, gpus, instance, peers...)
}

// nodeAt is node on a host of another name than the node's.
func (r *rig) nodeAt(host, name string, gpus int, instance uint64, peers ...string) *agent {
	r.t.Helper()
	transport := listen.Transport(r.net.Host(name))
	transport.DisableKeepAlives = true
	c, err := client.New(client.Config{Addrs: peers, HTTP: &http.Client{Transport: transport}, Agent: "agent"})
	if err != nil {
		r.t.Fatal(err)
	}
	a := &agent{rig: r, name: name, gpus: gpus, client: c, instance: instance, host: host, shards: make(map[string]*shard), used: make(map[string]time.Time)}
	ctx, end := context.WithCancel(context.Background())
	a.end = end
	r.hub.set(member{Role: roleAgent, Name: name, ID: "id-" + name, Instance: instance, HTTP: name + ":7310"})
	a.wg.Go(func() { a.beat(ctx) })
	a.wg.Go(func() { a.follow(ctx) })
	return a
}

// stop ends the agent; its gossip member goes with it.
func (a *agent) stop() {
	a.end()
	a.wg.Wait()
	a.rig.hub.drop(roleAgent, a.name)
}

// silence makes the agent send no heartbeats, or send them again.
func (a *agent) silence(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mute = on
}

// register is asked for again if it did not arrive.
func (a *agent) register(ctx context.Context) error {
	host := cmp.Or(a.host, a.name)
	reg := wire.Registration{
		Version: wire.Version, Name: a.name, ID: "id-" + a.name, Instance: a.instance, Address: host + ":7310", EngineAddress: host,
		Release: "test", Level: 1, Engines: []fleet.EngineOffer{{Driver: "sim", Version: "1.0.0", Hub: true, SpanNodes: true, AllowArgs: []string{"*"}}},
		Inventory: fleet.Inventory{Source: "file", Fabric: "fa", CPUs: 64, Memory: 512 * fleet.GiB},
	}
	for i := range a.gpus {
		reg.Inventory.GPUs = append(reg.Inventory.GPUs, fleet.GPU{
			UUID: fmt.Sprintf("%s-gpu-%d", a.name, i), Index: i, Class: "h100-sxm-80gb", Memory: 80 * fleet.GiB, Health: fleet.Healthy,
		})
	}
	_, err := a.client.Register(ctx, reg)
	return err
}

func (a *agent) beat(ctx context.Context) {
	_ = a.register(ctx)
	for ctx.Err() == nil {
		if h, ok := a.heartbeat(); ok {
			answer, err := a.client.Heartbeat(ctx, h)
			if err == nil && answer.Stamp != nil {
				a.mu.Lock()
				a.stamp = answer.Stamp
				a.mu.Unlock()
			}
			if err == nil && answer.Register {
				_ = a.register(ctx)
			}
		}
		pause(ctx, time.Second)
	}
}

func (a *agent) heartbeat() (wire.Heartbeat, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	h := wire.Heartbeat{Version: wire.Version, Node: a.name, ID: "id-" + a.name, Instance: a.instance, Seq: a.seq}
	for id, s := range a.shards {
		if s.ready.IsZero() || s.stopped {
			continue
		}
		s.reading++
		age := time.Since(s.ready).Seconds()
		r := wire.Reading{Replica: id, Shim: 1, Engine: 1, Number: s.reading, ReadyAge: &age, Stamp: a.stamp}
		if at, ok := a.used[id]; ok {
			use := time.Since(at).Seconds()
			r.UseAge = &use
		}
		h.Readings = append(h.Readings, r)
	}
	return h, !a.mute
}

// follow takes orders as they come.
func (a *agent) follow(ctx context.Context) {
	var seen fleet.Index
	for ctx.Err() == nil {
		orders, err := a.client.Orders(ctx, a.name, seen, 10*time.Second)
		if err != nil {
			pause(ctx, 200*time.Millisecond)
			continue
		}
		seen = orders.Index
		for _, o := range orders.Orders {
			a.obey(ctx, o)
		}
	}
}

func (a *agent) obey(ctx context.Context, o wire.Order) {
	a.mu.Lock()
	s := a.shards[o.Replica]
	if s == nil {
		s = &shard{}
		a.shards[o.Replica] = s
	}
	isNew := s.order.Before(o.ID)
	s.order = o.ID
	a.mu.Unlock()
	switch {
	case !isNew:
	case o.Action == wire.ActionRun && a.fails():
		a.say(ctx, o, wire.Transition{To: wire.BecameFailed, Shim: 1, Reason: "no such weights", Released: true})
	case o.Action == wire.ActionRun:
		a.say(ctx, o, wire.Transition{To: wire.BecameStarting, Shim: 1, Door: &fleet.Door{Address: a.name + ":20000", Key: "k"}})
		pause(ctx, time.Second)
		a.say(ctx, o, wire.Transition{To: wire.BecameReady, Shim: 1})
		a.mu.Lock()
		s.ready = time.Now()
		a.mu.Unlock()
	case o.Action == wire.ActionStop:
		a.say(ctx, o, wire.Transition{To: wire.BecameShut, Shim: 1})
		a.say(ctx, o, wire.Transition{To: wire.BecameStopped, Shim: 1, Released: true})
		a.mu.Lock()
		s.stopped = true
		a.mu.Unlock()
	}
}

// fails counts a start and says whether it is to fail.
func (a *agent) fails() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starts++
	return a.broken
}

// say reports one step until somebody takes it.
func (a *agent) say(ctx context.Context, o wire.Order, t wire.Transition) {
	t.Replica, t.Rank, t.Order, t.Start = o.Replica, o.Rank, o.ID, o.Start
	for ctx.Err() == nil {
		res, err := a.client.Transitions(ctx, a.name, wire.Transitions{Version: wire.Version, Instance: a.instance, Items: []wire.Transition{t}})
		if err == nil {
			if res.Results[0] != "" && t.To != wire.BecameShut {
				a.rig.log.Warn("a step was refused", "node", a.name, "replica", o.Replica, "to", t.To, "reason", res.Results[0])
			}
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}
