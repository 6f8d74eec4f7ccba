package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
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
	err := bench(files{filepath.Join(t.TempDir(), "nowhere"), "nodes.csv"}, []string{"default"}, 1, 1, "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// write puts a small cluster and a trace of another name into a folder; the trace has fewer columns, as some of the published have.
func write(t *testing.T, published string) string {
	t.Helper()
	dir := t.TempDir()
	nodes, tasks := "sn,cpu_milli,memory_mib,gpu,model\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	for i := range 8 {
		nodes += fmt.Sprintf("node-%d,32000,262144,4,T4\n", i)
		tasks += fmt.Sprintf("whole-%d,4000,16384,%d,1000\npart-%d,2000,8192,1,%d\nnone-%d,1000,1024,0,0\n", i, 1+i%2, i, 300+100*(i%4), i)
	}
	for name, text := range map[string]string{"openb_node_list_gpu_node.csv": nodes, "openb_pod_list_other.csv": tasks, "published_allocated.csv": published} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// A trace may have any name, and be a file of anywhere; nothing need be published for it.
func TestATraceOfAnyName(t *testing.T) {
	dir := write(t, "")
	from := files{dir, "openb_node_list_gpu_node.csv"}
	for _, trace := range []string{"other", filepath.Join(dir, "openb_pod_list_other.csv")} {
		if err := bench(from, []string{trace}, 2, 1, filepath.Join(dir, "out.json")); err != nil {
			t.Errorf("%s: %v", trace, err)
		}
	}
	var reports []report
	data, err := os.ReadFile(filepath.Join(dir, "out.json"))
	if err == nil {
		err = json.Unmarshal(data, &reports)
	}
	if err != nil || len(reports) != 1 || len(reports[0].Runs) != 2*len(names) {
		t.Errorf("the file has %d reports: %v", len(reports), err)
	}
}

// A baseline that is not what was published is an error that names it.
func TestABaselineThatIsNotWhatWasPublished(t *testing.T) {
	dir := write(t, "# of the test\ntrace,policy,at_100,at_130\nopenb_pod_list_other,FGD,12.00,13.00\n")
	err := bench(files{dir, "openb_node_list_gpu_node.csv"}, []string{"other"}, 1, 1, "")
	if err == nil || !strings.Contains(err.Error(), "at 100 % of demand FGD") || !strings.Contains(err.Error(), "at 130 % of demand FGD") || strings.Contains(err.Error(), "Random") {
		t.Errorf("got %v", err)
	}
}

// Each run has its own order of names, the same machines, and the same for every policy.
func TestNamesAreInAnotherOrderInEachRun(t *testing.T) {
	w := small()
	order := func(seed uint64) (models string) {
		for _, n := range w.policy("FGD", seed).(*baseline).nodes {
			models += n.model
		}
		return models
	}
	if a, b := order(42), order(43); a == b || a != order(42) || len(a) != len(w.machines) {
		t.Errorf("by name the machines are %s and %s", a, b)
	}
	for i, n := range w.policy("BestFit", 42).(*baseline).nodes {
		if m := w.policy("FGD", 42).(*baseline).nodes[i]; m.name != n.name || i > 0 && n.name < w.policy("FGD", 42).(*baseline).nodes[i-1].name {
			t.Fatalf("machine %d is %s for one policy and %s for another", i, n.name, m.name)
		}
	}
}
