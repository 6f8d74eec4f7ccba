package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
)

// cards is how many GPUs a node has.
const cards = 2

// node is a GPU machine whose agent does what it is told, by the messages alone. What it runs goes on whatever happens to the agent. It is the
// last witness of who owns a card: an order to run on a card that another replica of its still holds is a broken promise.
type node struct {
	w      *world
	n      int
	name   string
	dice   *rand.Rand
	client *client.Client

	lock     chan struct{}
	instance uint64
	seq      uint64
	stamp    *wire.Stamp
	shards   map[string]*shard // by replica
}

// shard is what runs for a replica.
type shard struct {
	order   wire.Order
	ready   time.Time // zero: not yet
	reading uint64
	shim    uint64 // a new one for each start after a stop
	stopped bool
}

func (w *world) node(i int) *node {
	n := &node{w: w, n: i, name: fmt.Sprintf("gpu-%03d", i+1), dice: rand.New(rand.NewPCG(w.seed, uint64(200+i))), lock: make(chan struct{}, 1),
		instance: 1, shards: map[string]*shard{}}
	transport := listen.Transport(w.net.Host(n.name, fmt.Sprintf("192.0.2.%d", 150+i)))
	transport.DisableKeepAlives = true
	c, err := client.New(client.Config{Addrs: w.urls(n.dice), HTTP: &http.Client{Transport: transport, Timeout: 20 * time.Second}, Agent: n.name})
	if err != nil {
		w.t.Fatal(err)
	}
	n.client = c
	return n
}

func (n *node) do(fn func()) {
	n.lock <- struct{}{}
	defer func() { <-n.lock }()
	fn()
}

// live is the agent's life.
func (n *node) live(ctx context.Context) {
	n.w.wg.Go(func() { n.follow(ctx) })
	n.register(ctx)
	for ctx.Err() == nil {
		answer, err := n.client.Heartbeat(ctx, n.heartbeat())
		n.do(func() {
			if err == nil && answer.Stamp != nil {
				n.stamp = answer.Stamp
			}
		})
		if err == nil && answer.Register {
			n.register(ctx)
		}
		_ = n.client.SetAddrs(n.w.urls(n.dice))
		pause(ctx, time.Second)
	}
}

// restart is a new life of the agent that finds everything running.
func (n *node) restart(ctx context.Context) {
	n.do(func() { n.instance++ })
	n.register(ctx)
}

func (n *node) register(ctx context.Context) {
	reg := wire.Registration{
		Version: wire.Version, Name: n.name, ID: "id-" + n.name, Address: n.name + ":7310", EngineAddress: n.name, Release: "sim", Level: 1,
		Engines:   []fleet.EngineOffer{{Driver: "sim", Version: "1.0.0", Hub: true, AllowArgs: []string{"*"}}},
		Inventory: fleet.Inventory{Source: "file", Fabric: "fa", CPUs: 64, Memory: 512 * fleet.GiB},
	}
	for i := range cards {
		reg.Inventory.GPUs = append(reg.Inventory.GPUs, fleet.GPU{
			UUID: fmt.Sprintf("%s-%d", n.name, i), Index: i, Class: "h100-sxm-80gb", Memory: 80 * fleet.GiB, Health: fleet.Healthy,
		})
	}
	n.do(func() {
		reg.Instance = n.instance
		for _, s := range n.shards {
			if s.stopped {
				continue
			}
			reg.Running = append(reg.Running, wire.Running{
				Replica: s.order.Replica, Model: s.order.Model, Generation: s.order.Generation, RunHash: s.order.RunHash, Order: s.order.ID,
				Start: s.order.Start, Ready: !s.ready.IsZero(), Shim: s.shim, Door: n.door(), Claims: s.order.Claims,
			})
		}
	})
	_, err := n.client.Register(ctx, reg) // asked for again if it did not arrive
	n.w.story.say(n.name, "registers with %d running: %v", len(reg.Running), orDone(err))
}

func (n *node) door() *fleet.Door { return &fleet.Door{Address: n.name + ":20000", Key: "k"} }

func (n *node) heartbeat() (h wire.Heartbeat) {
	n.do(func() {
		n.seq++
		h = wire.Heartbeat{Version: wire.Version, Node: n.name, ID: "id-" + n.name, Instance: n.instance, Seq: n.seq}
		for id, s := range n.shards {
			if s.ready.IsZero() || s.stopped {
				continue
			}
			s.reading++
			age := time.Since(s.ready).Seconds()
			h.Readings = append(h.Readings, wire.Reading{Replica: id, Shim: s.shim, Engine: 1, Number: s.reading, ReadyAge: &age, Stamp: n.stamp})
		}
	})
	return h
}

// follow takes orders as they come.
func (n *node) follow(ctx context.Context) {
	var seen fleet.Index
	for ctx.Err() == nil {
		orders, err := n.client.Orders(ctx, n.name, seen, 10*time.Second)
		if err != nil {
			pause(ctx, 300*time.Millisecond)
			continue
		}
		if orders.Index.Before(seen) {
			n.w.story.say(n.name, "ignores orders of %s, older than %s", orders.Index, seen)
			continue
		}
		seen = orders.Index
		for _, o := range orders.Orders {
			n.obey(ctx, o)
		}
	}
}

func (n *node) obey(ctx context.Context, o wire.Order) {
	isNew, conflict := false, ""
	n.do(func() {
		s := n.shards[o.Replica]
		if isNew = s == nil || s.order.ID.Before(o.ID); !isNew {
			return
		}
		if o.Action == wire.ActionRun && (s == nil || s.stopped) { // after a restore what was stopped may be wanted again
			conflict = n.holder(o.Claims)
			n.shards[o.Replica] = &shard{order: o, shim: n.shim(s)}
		} else if s != nil {
			s.order = o
		}
	})
	switch {
	case !isNew:
	case conflict != "":
		n.w.story.wrong("%s is ordered at %s to run %s on a card that %s still holds", n.name, o.ID, o.Replica, conflict)
	case o.Action == wire.ActionRun:
		n.run(ctx, o)
	default:
		n.stop(ctx, o)
	}
}

// shim numbers the shim of a start.
func (n *node) shim(before *shard) uint64 {
	if before == nil {
		return 1
	}
	return before.shim + 1
}

// holder names a replica that still holds one of the cards.
func (n *node) holder(claims []fleet.Claim) string {
	for id, s := range n.shards {
		for _, held := range s.order.Claims {
			for _, c := range claims {
				if held.GPU == c.GPU && !s.stopped {
					return id
				}
			}
		}
	}
	return ""
}

func (n *node) run(ctx context.Context, o wire.Order) {
	n.say(ctx, o, wire.Transition{To: wire.BecameStarting, Door: n.door()})
	pause(ctx, time.Second)
	n.do(func() {
		if s := n.shards[o.Replica]; s.ready.IsZero() {
			s.ready = time.Now()
		}
	})
	n.say(ctx, o, wire.Transition{To: wire.BecameReady})
	n.w.tally.add("replicas started", 1)
}

func (n *node) stop(ctx context.Context, o wire.Order) {
	n.say(ctx, o, wire.Transition{To: wire.BecameShut})
	n.do(func() { // the engine has ended, and the cards are empty, before anybody is told
		if s := n.shards[o.Replica]; s != nil {
			s.stopped = true
		}
	})
	n.say(ctx, o, wire.Transition{To: wire.BecameStopped, Released: true})
}

// say reports one step until somebody takes it.
func (n *node) say(ctx context.Context, o wire.Order, t wire.Transition) {
	t.Replica, t.Rank, t.Order, t.Start = o.Replica, o.Rank, o.ID, o.Start
	n.do(func() {
		if t.Shim = 1; n.shards[o.Replica] != nil {
			t.Shim = n.shards[o.Replica].shim
		}
	})
	for ctx.Err() == nil {
		var instance uint64
		n.do(func() { instance = n.instance })
		res, err := n.client.Transitions(ctx, n.name, wire.Transitions{Version: wire.Version, Instance: instance, Items: []wire.Transition{t}})
		if err == nil {
			n.w.story.say(n.name, "%s of %s: %s", t.To, o.Replica, res.Results[0])
			return
		}
		pause(ctx, 300*time.Millisecond)
	}
}

// operate scales a few models up and down, so that there is something to place.
func (u *user) operate(ctx context.Context) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("app-%d", 1+u.dice.IntN(3))
		s := spec(name, "app")
		s.Replicas = fleet.ReplicaCount{Min: u.dice.IntN(3), Max: 3}
		out := u.send(ctx, putModel(s))
		u.w.story.say(u.name, "scales %s to %d: done %v, %v", name, s.Replicas.Min, out.done, out.last)
		pause(ctx, time.Duration(3+u.dice.IntN(10))*time.Second)
	}
}
