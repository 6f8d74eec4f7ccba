package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"berth/admin/client"
	"berth/fleet"
)

// sample is one measurement.
type sample struct {
	Each    int     `json:"replicas_a_request"`
	Placed  int     `json:"placed"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"placements_per_second"`
	P50     float64 `json:"p50_ms"` // from a request until every peer shows all that it asked for as placed
	P99     float64 `json:"p99_ms"`
}

// submitter scales one model up, by the same number each time.
type submitter struct {
	client *client.Client
	model  string
	placed int
	took   []time.Duration
}

// load lets all submitters ask for so many replicas at a time.
func (s *setup) load(ctx context.Context, peers []string, w *watcher, each int) (sample, error) {
	all := make([]*submitter, s.submitters)
	for i := range all {
		c, err := client.New(client.Config{Addrs: []string{peers[i%len(peers)]}, Agent: "bench", HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}})
		if err != nil {
			return sample{}, err
		}
		all[i] = &submitter{client: c, model: fmt.Sprintf("bench-%d-%d", each, i)}
		if err := all[i].begin(ctx, w); err != nil {
			return sample{}, err
		}
	}
	most := s.nodes * cardsPerNode / 4 / s.submitters // replicas of one model
	if most < each {
		return sample{}, fmt.Errorf("a quarter of %d nodes has no room for %d replicas of each submitter", s.nodes, each)
	}
	began := time.Now()
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, x := range all {
		work.Go(func() {
			for time.Since(began) < s.length && x.placed+each <= most && errs[i] == nil {
				errs[i] = x.submit(ctx, w, each)
			}
		})
	}
	work.Wait()
	return summary(all, each, time.Since(began)), errors.Join(errs...)
}

// begin applies the model, which wants one replica at first, and waits for that.
func (x *submitter) begin(ctx context.Context, w *watcher) error {
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", x.model
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
	spec.Placement.GPUsPerNode = 1
	spec.Replicas = fleet.ReplicaCount{Min: 1, Max: 10_000}
	if _, err := x.client.Apply(ctx, spec, client.ApplyOptions{}); err != nil {
		return err
	}
	return w.wait(ctx, x.model, 1)
}

func (x *submitter) submit(ctx context.Context, w *watcher, each int) error {
	at := time.Now()
	if _, err := x.client.Scale(ctx, x.model, 1+x.placed+each); err != nil {
		return err
	}
	if err := w.wait(ctx, x.model, 1+x.placed+each); err != nil {
		return err
	}
	x.placed += each
	x.took = append(x.took, time.Since(at))
	return nil
}

func summary(all []*submitter, each int, whole time.Duration) sample {
	out := sample{Each: each, Seconds: whole.Seconds()}
	var took []time.Duration
	for _, x := range all {
		out.Placed += x.placed
		took = append(took, x.took...)
	}
	if len(took) == 0 {
		return out
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
	out.Rate, out.P50, out.P99 = float64(out.Placed)/whole.Seconds(), at(.5), at(.99)
	return out
}
