package main

import (
	"fmt"
	"time"

	"berth/fleet"
	"berth/scheduler"
)

// readingAge is how old the door's word is that the leader decides on.
const readingAge = 2 * time.Second

// planned asks the real planner, and carries out what it says as agents and doors do.
type planned struct {
	*sim
	node   *fleet.Node
	models []*fleet.Model
	rows   []*fleet.Replica // by model; nil: none
	turns  *scheduler.Turns
	marks  []mark // readings of the last ticks, oldest first
}

// mark is the doors' word at one moment, by model.
type mark struct {
	at         time.Duration
	admissions []uint64
	idle       []bool
}

func newPlanned(s *sim, residence time.Duration) *planned {
	p := &planned{sim: s, turns: scheduler.NewTurns(), rows: make([]*fleet.Replica, s.Models)}
	p.node = &fleet.Node{Name: "gpu-001", Instance: 1, Inventory: fleet.Inventory{Fabric: "fa", CPUs: 64, Memory: 512 * fleet.GiB}}
	p.node.Engines = []fleet.EngineOffer{{Driver: "sim", Version: "1.0", Hub: true, AllowArgs: []string{"*"}}}
	for i := range s.Room {
		p.node.Inventory.GPUs = append(p.node.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprint("g", i), Index: i, Class: "h100", Memory: 80 * fleet.GiB, Health: fleet.Healthy})
	}
	for m := range s.Models {
		spec := fleet.DefaultedSpec()
		spec.Version, spec.Kind, spec.Name = 1, "model", fmt.Sprint("m", m)
		spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: spec.Name}
		spec.Placement.GPUsPerNode = 1
		spec.Replicas = fleet.ReplicaCount{Min: 0, Max: 1}
		spec.Idle.MinResidence = fleet.Duration(residence)
		p.models = append(p.models, &fleet.Model{Spec: spec, Generation: 1, Created: fleet.Index{Epoch: 1, N: uint64(m + 1)}})
	}
	return p
}

func (p *planned) decide() {
	p.read()
	s := p.snapshot()
	plan := scheduler.Plan(s)
	p.turns.Note(p.now, s, plan.Items)
	for m := range p.cannot {
		p.cannot[m] = false
	}
	for _, r := range plan.Refusals {
		p.cannot[p.model(r.Model)] = true
	}
	for _, item := range plan.Items {
		switch {
		case item.Place != nil:
			p.place(item.Place)
		case item.Stop != nil:
			p.stop(item.Stop)
		case item.Wake != nil:
			p.models[p.model(item.Wake.Model)].Want = 1
		}
	}
}

func (p *planned) model(name string) int {
	for m := range p.models {
		if p.models[m].Name() == name {
			return m
		}
	}
	panic("no model " + name)
}

// read keeps what the doors say now; the leader decides on what they said a while ago.
func (p *planned) read() {
	k := mark{at: p.now, admissions: make([]uint64, p.Models), idle: make([]bool, p.Models)}
	for m, r := range p.of {
		if r != nil && r.state == ready {
			k.admissions[m], k.idle[m] = r.admissions, len(r.busy) == 0
		}
	}
	p.marks = append(p.marks, k)
	for p.now-p.marks[0].at > readingAge {
		p.marks = p.marks[1:]
	}
}

func (p *planned) snapshot() scheduler.Snapshot {
	s := scheduler.Snapshot{Now: p.wall(p.now), Settings: fleet.DefaultSettings(), Models: p.models, Nodes: []*fleet.Node{p.node}}
	s.Demand, s.Quiet = map[string]scheduler.Waiting{}, map[string]scheduler.Quiet{}
	s.Backoff.Turns = p.turns.Holds(p.now)
	old := p.marks[0]
	for m, r := range p.of {
		if r == nil {
			p.rows[m] = nil
		}
		if n := len(p.waiting[m]); n > 0 && (r == nil || r.state != ready) {
			s.Demand[p.models[m].Name()] = scheduler.Waiting{Requests: n, Oldest: p.now - p.waiting[m][0]}
		}
		if r == nil || p.rows[m] == nil {
			continue
		}
		row := p.rows[m]
		row.State = map[state]fleet.ReplicaState{loading: fleet.Starting, ready: fleet.Ready, draining: fleet.DrainingDown}[r.state]
		row.StateAt = p.wall(r.since)
		s.Replicas = append(s.Replicas, row)
		if r.state == ready && old.idle[m] && old.at > max(r.since, r.used) {
			s.Quiet[row.ID] = scheduler.Quiet{For: old.at - max(r.since, r.used), Known: true, Mark: fleet.Mark{Admissions: old.admissions[m]}}
		}
	}
	return s
}

func (p *planned) wall(at time.Duration) fleet.Time {
	return fleet.TimeOf(time.Unix(1_700_000_000, 0).Add(at))
}

func (p *planned) place(item *fleet.PlaceItem) {
	m := p.model(item.Model)
	p.load(m)
	p.rows[m] = &fleet.Replica{ID: fmt.Sprintf("r-1.%d.1", p.loads), Model: item.Model, Generation: 1, State: fleet.Starting, Shards: item.Shards, StateAt: p.wall(p.now)}
}

// stop asks the door: it shuts if its mark is still the one of the verdict.
func (p *planned) stop(item *fleet.StopItem) {
	for m, row := range p.rows {
		if row == nil || row.ID != item.Replica {
			continue
		}
		r := p.of[m]
		if item.Mark == nil || item.Mark.Admissions != r.admissions || len(r.busy) > 0 {
			r.since = p.now // ready again: asked for again
			return
		}
		p.models[m].Want = *item.Want
		row.Drain = &fleet.Drain{Mark: item.Mark}
		p.drain(m)
		return
	}
}
