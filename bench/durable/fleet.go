package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth/admin/client"
	"berth/demo/stage"
	"berth/fleet"
	"berth/fleet/wire"
)

const (
	cardsPerNode   = 8
	nodesPerFabric = 16
)

// registering is how many nodes register at a time.
const registering = 64

// register registers the fleet with the cluster, once that has a leader.
func register(ctx context.Context, peers []string, nodes int) error {
	c, err := client.New(client.Config{Addrs: peers, Agent: "bench"})
	if err != nil {
		return err
	}
	first := func(ctx context.Context) error { _, err := c.Register(ctx, registration(0)); return err }
	if err := stage.Until(ctx, 30*time.Second, first); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var work sync.WaitGroup
	for range registering {
		work.Go(func() {
			for i := int(next.Add(1)); i < nodes && ctx.Err() == nil; i = int(next.Add(1)) {
				if _, err := c.Register(ctx, registration(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// registration is what the agent of a node says of it.
func registration(i int) wire.Registration {
	name := fmt.Sprintf("gpu-%05d", i)
	r := wire.Registration{
		Version: wire.Version, Name: name, ID: "id-" + name, Instance: 1, Address: name + ":7310", Level: 1, Release: "bench",
		Engines:   []fleet.EngineOffer{{Driver: "sim", Version: "1.0.0", Hub: true, SpanNodes: true}},
		Inventory: fleet.Inventory{Source: "file", Fabric: fmt.Sprintf("fabric-%04d", i/nodesPerFabric), CPUs: 128, Memory: 1024 * fleet.GiB},
	}
	for g := range cardsPerNode {
		r.Inventory.GPUs = append(r.Inventory.GPUs, fleet.GPU{
			UUID: fmt.Sprintf("GPU-%05d-%d", i, g), Index: g, Class: "h100-sxm-80gb", Memory: 80 * fleet.GiB, Health: fleet.Healthy,
		})
	}
	return r
}
