package scheduler

import (
	"fmt"
	"testing"

	"berth/fleet"
)

// A fleet on which everything runs, and one replica more is wanted: what a planner that has seen the fleet before needs for it.
func BenchmarkPlannerAgain(b *testing.B) {
	s := large(5000)
	s.Models = []*fleet.Model{wanting("m", 1, 1, 5000), wanting("g", 2, 8, 1000)}
	s.Asked = AskedBy(s.Models)
	for i, item := range Plan(s).Items {
		s.Replicas = append(s.Replicas, &fleet.Replica{ID: fmt.Sprintf("r-%06d", i), Model: item.Place.Model, Generation: 1, State: fleet.Ready, Shards: item.Place.Shards})
	}
	var p Planner
	p.Plan(s)
	more := *s.Models[0]
	more.Want++
	s.Models = []*fleet.Model{&more, s.Models[1]}
	b.ReportAllocs()
	for b.Loop() {
		if plan := p.Plan(s); len(plan.Items) != 1 {
			b.Fatalf("%d items", len(plan.Items))
		}
	}
}

// A fleet that is full, and models for which there is no room: what their explanations cost in each plan.
func BenchmarkPlannerRefuses(b *testing.B) {
	for _, models := range []int{10, 1000} {
		b.Run(fmt.Sprint(models), func(b *testing.B) { plannerRefuses(b, models) })
	}
}

func plannerRefuses(b *testing.B, models int) {
	s := large(5000)
	s.Models = []*fleet.Model{wanting("m", 1, 4, 10000)}
	s.Asked = AskedBy(s.Models)
	for i, item := range Plan(s).Items {
		s.Replicas = append(s.Replicas, &fleet.Replica{ID: fmt.Sprintf("r-%06d", i), Model: item.Place.Model, Generation: 1, State: fleet.Ready, Shards: item.Place.Shards})
	}
	for i := range models {
		s.Models = append(s.Models, wanting(fmt.Sprint("x", i), 1+i%2, 8, 1))
	}
	var p Planner
	for b.Loop() {
		if plan := p.Plan(s); len(plan.Refusals) != models {
			b.Fatalf("%d refusals", len(plan.Refusals))
		}
	}
}
