package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// small is a cluster and a workload made here: half the machines are short of CPUs for their cards.
func small() *workload {
	w := &workload{trace: "small", specs: []string{"A|B"}}
	for i := range 20 {
		w.machines = append(w.machines, machine{name: fmt.Sprintf("n%02d", i), cpu: 20_000 + 20_000*(i%2), memory: 100_000, gpus: 4, model: string(rune('A' + i%3))})
		w.capacity += 4 * card
	}
	for i := range 60 {
		w.tasks = append(w.tasks, task{cpu: 4_000, memory: 1000, gpus: 1, milli: []int{1000, 700, 300}[i%3]}, task{cpu: 12_000, gpus: i % 3, milli: 1000})
		w.tasks[len(w.tasks)-2].spec = []string{"", "A|B"}[i%2]
	}
	return w
}

// Every policy places what it can and never more than there is; equal seeds give equal runs.
func TestPoliciesOnASmallCluster(t *testing.T) {
	w := small()
	for _, name := range names {
		a, b := w.run(name, 42), w.run(name, 42)
		if a.At130 != b.At130 || a.At130 <= 60 || a.At130 > 100 || a.Dropped == 0 {
			t.Errorf("%s: %.2f %% allocated with %d dropped, and again %.2f %%", name, a.At130, a.Dropped, b.At130)
		}
	}
}

// A task that Berth's planner places fits what the baselines count, and one that it drops fits nowhere.
func TestBerthAgreesOnWhatFits(t *testing.T) {
	w := small()
	p := newPlanner(w.machines, w.specs).(*planner)
	nodes := newNodes(w.machines)
	for _, task := range arrivals(rand.New(rand.NewPCG(1, 0)), w.tasks, w.capacity*2) {
		shards, ok := p.placer.Place(specOf(&task))
		fits := false
		for _, n := range nodes {
			fits = fits || n.fits(&task)
		}
		if fits != ok {
			t.Fatalf("%+v: placed %v, fits %v", task, ok, fits)
		}
		for _, n := range nodes {
			if !ok || n.name != shards[0].Node {
				continue
			}
			if gpu := -1; n.fits(&task) {
				if task.part() {
					fmt.Sscan(shards[0].Claims[0].GPU, &gpu)
				}
				n.take(&task, gpu)
			} else {
				t.Fatalf("%+v does not fit on %s", task, n.name)
			}
		}
	}
}

func TestMissingDataIsNamed(t *testing.T) {
	err := bench(filepath.Join(t.TempDir(), "nowhere"), []string{"default"}, 1, 1, true, "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
