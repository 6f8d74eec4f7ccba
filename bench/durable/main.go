// Command durable measures how many placements a second a cluster of three peers decides and writes down: from a submitter's request to a placement that
// is in the log of a quorum, on disk, and that every peer shows.
//
// What is real: three `berth peer` processes with their defaults on loopback, each write in a log that is synced, the leader's planner, the state machine,
// the HTTP API, history. What is left out: agents. The nodes are registered by this program as agents do, and nothing is started on them. A submitter asks
// one peer to scale its model up by some replicas, and asks again when history of all three peers has shown each of them placed. A plan's placements share
// log entries, and so do the requests of several submitters; how many replicas one request asks for makes the rest of the difference, so it is varied.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/demo/stage"
)

// setup is what is measured.
type setup struct {
	bin        string
	nodes      int
	submitters int
	each       []int         // replicas a request
	length     time.Duration // of each measurement
}

func main() {
	var s setup
	flag.StringVar(&s.bin, "bin", "bin", "folder with berth and berthctl")
	flag.IntVar(&s.nodes, "nodes", 5000, "nodes of 8 GPUs, in fabrics of 16")
	flag.IntVar(&s.submitters, "submitters", 64, "submitters, each with one request at a time, spread over the peers")
	flag.DurationVar(&s.length, "for", 6*time.Second, "length of a measurement; it also ends when a quarter of the fleet has been placed on")
	each := flag.String("each", "1,16,64", "replicas that a request asks for: a measurement each")
	file := flag.String("json", "", "also write everything to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := s.parse(*each)
	if err == nil {
		err = s.measure(ctx, *file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		stop()
		os.Exit(1)
	}
}

func (s *setup) parse(each string) error {
	for _, text := range strings.Split(each, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-each %q: want numbers of at least 1", text)
		}
		s.each = append(s.each, n)
	}
	return nil
}

func (s *setup) measure(ctx context.Context, file string) (err error) {
	st, err := stage.New(stage.Config{Bin: s.bin, Peers: 3})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(stage.Patience)) }()
	if err := st.Start(st.Peers); err != nil {
		return err
	}
	var peers []string
	for _, p := range st.Peers {
		peers = append(peers, p.Addr)
	}
	if err := register(ctx, peers, s.nodes); err != nil {
		return err
	}
	w, err := watch(ctx, peers)
	if err != nil {
		return err
	}
	var out []sample
	for _, each := range s.each {
		one, err := s.load(ctx, peers, w, each)
		if err != nil {
			return errors.Join(err, w.close())
		}
		fmt.Printf("%d submitters, %3d replicas a request: %7.0f placements/s  (%d placed; request until placed at all peers p50 %.0f ms, p99 %.0f ms)\n",
			s.submitters, one.Each, one.Rate, one.Placed, one.P50, one.P99)
		out = append(out, one)
	}
	if err := w.close(); err != nil || file == "" {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"nodes": s.nodes, "submitters": s.submitters, "samples": out}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
