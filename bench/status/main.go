// Command status measures how fast a peer answers GET status while its fleet changes, on the leader and on a follower, at several sizes of the
// fleet; and, where etcd can be had, how long a range, a decode and a recount of the same fleet take there in the same run.
//
// What is real: the state machine with encoded commands, the board with heartbeats from every node at the rate of §6, the relay of what the leader
// observes, and the API's handler. What is left out: raft and the network, which no status answer waits for. etcd runs inside its measuring process,
// asked without gRPC and without fsync, which is the kindest setting for it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// result is everything that one run says.
type result struct {
	Sizes    []size  `json:"sizes"`
	Etcd     *etcd   `json:"etcd,omitempty"`
	EtcdNote string  `json:"etcd_note,omitempty"`
	Ratio    float64 `json:"etcd_p50_to_berth_p50,omitempty"`
	RatioP99 float64 `json:"etcd_p99_to_berth_p99,omitempty"`
}

type options struct {
	updates  int
	duration time.Duration
	pause    time.Duration
}

func main() {
	sizes := flag.String("nodes", "5000,50000", "sizes of the fleet, nodes of 8 GPUs and 6 replicas; the first one is given to etcd too")
	updates := flag.Int("updates", 500, "committed updates a second: inventory, health, lifecycle, cordons")
	duration := flag.Duration("duration", 20*time.Second, "how long each size is asked")
	pause := flag.Duration("pause", 5*time.Millisecond, "between two questions to a peer")
	etcdDir := flag.String("etcd", "", "folder of the etcd module; it is built and run beside")
	out := flag.String("json", "", "also write everything to this file")
	flag.Parse()
	if err := bench(strings.Split(*sizes, ","), options{*updates, *duration, *pause}, *etcdDir, *out); err != nil {
		fmt.Fprintln(os.Stderr, "status:", err)
		os.Exit(1)
	}
}

func bench(sizes []string, o options, etcdDir, file string) error {
	var r result
	for i, text := range sizes {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes < 1 {
			return fmt.Errorf("-nodes %q: want numbers of at least 1", text)
		}
		rig, err := newRig(nodes)
		if err != nil {
			return err
		}
		s, err := rig.measure(o)
		if err != nil {
			return err
		}
		s.print()
		r.Sizes = append(r.Sizes, s)
		if i == 0 && etcdDir != "" {
			r.besideEtcd(rig, etcdDir, o)
		}
	}
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func (r *result) besideEtcd(g *rig, dir string, o options) {
	e, err := runEtcd(dir, g.machine.State(), o)
	if err != nil {
		r.EtcdNote = err.Error()
		fmt.Println("etcd could not be had:", err)
		return
	}
	ours := r.Sizes[0].Follower
	r.Etcd, r.Ratio, r.RatioP99 = e, e.P50/ours.P50, e.P99/ours.P99
	fmt.Printf("etcd %s, %d rows: range + decode + aggregate p50 %.1f ms, p99 %.1f ms: %.0f times a follower's p50, %.0f times its p99\n",
		e.Version, e.Rows, e.P50/1000, e.P99/1000, r.Ratio, r.RatioP99)
}
