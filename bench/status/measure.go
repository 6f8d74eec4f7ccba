package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"berth/fleet/wire"
)

// size is what was measured at one size of the fleet.
type size struct {
	Nodes    int     `json:"nodes"`
	GPUs     int     `json:"gpus"`
	Replicas int     `json:"replicas"`
	Updates  float64 `json:"updates_per_second"`
	Bytes    int     `json:"answer_bytes"`
	IdleRows int     `json:"idle_rows"`
	Leader   spread  `json:"leader"`
	Follower spread  `json:"follower"`
}

// spread is a distribution in microseconds.
type spread struct {
	Questions int     `json:"questions"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	Max       float64 `json:"max_us"`
	// CPU is what the answering thread worked; on a machine that is busy with other things the difference is time spent waiting for a core.
	CPUP50 float64 `json:"cpu_p50_us"`
	CPUP99 float64 `json:"cpu_p99_us"`
}

func spreadOf(all []answer) spread {
	at := func(q float64, of func(answer) time.Duration) float64 {
		slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(of(a), of(b)) })
		return float64(of(all[int(q*float64(len(all)-1))]).Nanoseconds()) / 1000
	}
	wall, cpu := func(a answer) time.Duration { return a.wall }, func(a answer) time.Duration { return a.cpu }
	return spread{len(all), at(.5, wall), at(.99, wall), at(1, wall), at(.5, cpu), at(.99, cpu)}
}

// answer is what one answer took.
type answer struct{ wall, cpu time.Duration }

// worked is the processor time of the calling thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID); getrusage counts in ticks.
func worked() time.Duration {
	const threadClock = 3
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("clock_gettime: " + errno.Error()) // Linux has had it since 2.6.12
	}
	return time.Duration(ts.Nano())
}

// measure asks both peers while everything goes on.
func (r *rig) measure(o options) (size, error) {
	defer r.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var updates atomic.Int64
	var work sync.WaitGroup
	failed := make(chan error, 8)
	run := func(fn func(context.Context) error) {
		work.Go(func() {
			if err := fn(ctx); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	run(r.beat)
	run(r.relay)
	run(r.apis["leader"].Run)
	run(r.apis["follower"].Run)
	for r.idleRows() == 0 && ctx.Err() == nil { // until the leader has heard every door
		time.Sleep(time.Second)
	}
	run(func(ctx context.Context) error {
		return every(ctx, o.updates, func(i int) error { updates.Add(1); return r.update(i) })
	})
	time.Sleep(2 * time.Second)
	before, began := updates.Load(), time.Now()
	var asked [2][]answer
	var asking sync.WaitGroup
	for i, name := range []string{"leader", "follower"} {
		asking.Go(func() { asked[i] = r.ask(ctx, name, o) })
	}
	asking.Wait()
	rate := float64(updates.Load()-before) / time.Since(began).Seconds()
	doc, bytes, err := r.document("follower")
	cancel()
	work.Wait()
	close(failed)
	if err := errors.Join(err, <-failed); err != nil {
		return size{}, err
	}
	return size{
		Nodes: doc.Nodes.Total, GPUs: doc.Nodes.Total * cardsPerNode, Replicas: r.nodes * replicasPerNode, Updates: rate, Bytes: bytes, IdleRows: len(doc.IdleReplicas),
		Leader: spreadOf(asked[0]), Follower: spreadOf(asked[1]),
	}, nil
}

func (r *rig) idleRows() int {
	doc, _, _ := r.document("leader")
	return len(doc.IdleReplicas)
}

func (r *rig) document(peer string) (wire.Status, int, error) {
	w := httptest.NewRecorder()
	r.apis[peer].ServeHTTP(w, httptest.NewRequest(http.MethodGet, wire.Prefix+"/status", nil))
	var doc wire.Status
	err := json.Unmarshal(w.Body.Bytes(), &doc)
	if err == nil && w.Code != http.StatusOK {
		err = fmt.Errorf("status %d: %s", w.Code, w.Body)
	}
	return doc, w.Body.Len(), err
}

// ask asks one peer again and again: from the call of its handler to its return, the answer written into memory that is used again.
func (r *rig) ask(ctx context.Context, peer string, o options) []answer {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out []answer
	w := new(sink)
	for began := time.Now(); time.Since(began) < o.duration && ctx.Err() == nil; time.Sleep(o.pause) {
		q := httptest.NewRequest(http.MethodGet, wire.Prefix+"/status", nil)
		w.reset()
		t, cpu := time.Now(), worked()
		r.apis[peer].ServeHTTP(w, q)
		out = append(out, answer{time.Since(t), worked() - cpu})
	}
	return out
}

// sink is where an answer goes.
type sink struct {
	header http.Header
	body   []byte
}

func (s *sink) reset()              { s.header, s.body = http.Header{}, s.body[:0] }
func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	s.body = append(s.body, p...)
	return len(p), nil
}

func (s size) print() {
	fmt.Printf("%d nodes, %d GPUs, %d replicas, %.0f updates/s, answer of %d bytes with %d idle replicas\n", s.Nodes, s.GPUs, s.Replicas, s.Updates, s.Bytes, s.IdleRows)
	for name, d := range map[string]spread{"leader": s.Leader, "follower": s.Follower} {
		fmt.Printf("  %-9s %5d questions  p50 %7.0f us  p99 %7.0f us  max %7.0f us  of it worked p50 %6.0f us, p99 %6.0f us\n", name, d.Questions, d.P50, d.P99, d.Max, d.CPUP50, d.CPUP99)
	}
}
