package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/admin/client"
	"berth/fleet"
)

// load applies new models, one after the other from each client, and prints what came of it.
func load(ctx context.Context, peers []string, clients, size int, length time.Duration, round string) error {
	payload := strings.Repeat("x", size)
	var mu sync.Mutex
	var took []time.Duration
	failed := 0
	var all []*client.Client
	for i := range clients {
		c, err := client.New(client.Config{Addrs: []string{peers[i%len(peers)]}, Agent: "bench", HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}})
		if err != nil {
			return err
		}
		if err := put(ctx, c, name(round, i, -1), payload); err != nil { // connects
			return err
		}
		all = append(all, c)
	}
	began := time.Now()
	var work sync.WaitGroup
	for i, c := range all {
		work.Go(func() {
			for k := 0; time.Since(began) < length && ctx.Err() == nil; k++ {
				at := time.Now()
				err := put(ctx, c, name(round, i, k), payload)
				mu.Lock()
				if err != nil {
					failed++
				} else {
					took = append(took, time.Since(at))
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	whole := time.Since(began)
	if len(took) == 0 {
		return fmt.Errorf("no write of %d succeeded", failed)
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
	return json.NewEncoder(os.Stdout).Encode(sample{Rate: float64(len(took)) / whole.Seconds(), P50: at(.5), P99: at(.99), Failed: failed})
}

func name(round string, i, k int) string { return fmt.Sprintf("bench-%s-%d-%d", round, i, k) }

// put applies a model whose weights' name carries the payload.
func put(ctx context.Context, c *client.Client, name, payload string) error {
	_, err := c.Apply(ctx, modelOf(name, payload), client.ApplyOptions{AllowUnplaceable: true})
	return err
}

func modelOf(name, payload string) fleet.ModelSpec {
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", name
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: payload}
	spec.Placement.GPUsPerNode = 1
	spec.Replicas = fleet.ReplicaCount{Min: 0, Max: 1}
	return spec
}
