package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	fl "berth/fleet"
	"berth/fleet/wire"
	"berth/router/pool"
)

// berth is routers that share nothing; each request comes to one of them.
type berth struct {
	pools []*pool.Pool
	pick  func() int // which router a request comes to
}

// look has the engines tell the routers how many requests wait in them, as routers ask them to once a second.
func (b *berth) look(engines []*engine) {
	waiting := make(map[string]int, len(engines))
	for i, e := range engines {
		waiting[strconv.Itoa(i)] = e.queue()
	}
	for _, p := range b.pools {
		p.Tell(waiting)
	}
}

// newBerth makes routers over engines that are named by their numbers. now is the virtual time.
func newBerth(policy string, routers, engines int, now func() time.Duration, pick func(n int) int) *berth {
	row := wire.TableModel{Name: "m", Max: engines, Generation: 1, Serve: fl.ServeSpec{Policy: policy, Queue: fl.QueueSpec{Limit: 1, Timeout: fl.Duration(time.Minute)}}}
	for i := range engines {
		row.Endpoints = append(row.Endpoints, wire.Endpoint{Replica: strconv.Itoa(i), Node: "n", Address: fmt.Sprintf("192.0.2.%d:1", i), Key: "k", State: fl.Ready, Generation: 1})
	}
	b := &berth{pick: func() int { return pick(routers) }}
	for range routers {
		p := pool.NewAt(now, now)
		p.Apply(wire.Table{Version: 1, Cluster: "c", Models: []wire.TableModel{row}})
		b.pools = append(b.pools, p)
	}
	return b
}

func (b *berth) choose(r *request) (int, handle) {
	lease, err := b.pools[b.pick()].Acquire(context.Background(), "m", &pool.Hint{Prompt: r.prompt, Stream: true})
	if err != nil {
		panic(err) // nothing is ever full here
	}
	n, err := strconv.Atoi(lease.Endpoint.Replica)
	if err != nil {
		panic(err)
	}
	return n, &held{lease}
}

type held struct{ lease pool.Lease }

func (h *held) first() { h.lease.Answered() }
func (h *held) end()   { h.lease.Release(pool.Served) }
