// Command raft measures replicated writes of three `berth peer` processes through their HTTP API beside three etcd servers through etcd's own
// client: the same machine, the same disk, fsync on, defaults on both sides, in turn and several times. Berth's writes are whole ones: a new model with a
// request id, checked, planned for, remembered. Both sides have one connection a client, spread over the three servers. Beside them three processes with
// consensus and state machine alone are loaded at Propose.
//
// It prints a table with medians, ratios and the spread of the rounds, and with -json FILE writes it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/demo/stage"
	"berth/internal/procs"
)

// sample is what one load saw.
type sample struct {
	Version string  `json:"version,omitempty"`
	Rate    float64 `json:"writes_per_second"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Failed  int     `json:"failed"`
}

// setup is what is measured.
type setup struct {
	bin, etcd string
	size      int
	rounds    int
	length    time.Duration
}

func main() {
	var s setup
	flag.StringVar(&s.bin, "bin", "bin", "folder with berth and berthctl")
	flag.StringVar(&s.etcd, "etcd", "", "program built from bench/raft/etcd")
	flag.IntVar(&s.size, "size", 256, "bytes of a value")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of each, in turn")
	flag.DurationVar(&s.length, "for", 5*time.Second, "length of a round")
	file := flag.String("json", "", "file for the result")
	on := flag.String("load", "", "be the load on these peers (internal)")
	clients := flag.Int("clients", 64, "clients of that load (internal)")
	round := flag.String("round", "", "prefix of its names (internal)")
	place := flag.Int("node", -1, "be consensus alone, in this place of -raft (internal)")
	raft := flag.String("raft", "", "raft addresses of the three, with commas (internal)")
	data := flag.String("data", "", "its data directory (internal)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *place >= 0:
		err = node(ctx, *place, strings.Split(*raft, ","), *data, s)
	case *on != "":
		err = load(ctx, strings.Split(*on, ","), *clients, s.size, s.length, *round)
	default:
		err = s.measure(ctx, *file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "raft:", err)
		stop()
		os.Exit(1)
	}
}

// measure runs both clusters and loads them in turn; the one that is not loaded only idles.
func (s setup) measure(ctx context.Context, file string) (err error) {
	st, err := stage.New(stage.Config{Bin: s.bin, Peers: 3})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(stage.Patience)) }()
	if err := st.Start(st.Peers); err != nil {
		return err
	}
	endpoints, err := startEtcd(st.Group, s.etcd)
	if err != nil {
		return err
	}
	var peers []string
	for _, p := range st.Peers {
		peers = append(peers, p.Addr)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nodes, err := startTrio(st.Group, self, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nodes.close()) }()
	out := map[string][]sample{}
	for round := range s.rounds {
		one, err := nodes.round(ctx, fmt.Sprint(round), s.length)
		if err != nil {
			return err
		}
		out["propose_64"] = append(out["propose_64"], one)
		fmt.Printf("round %d  propose 64     %7.0f writes/s  p50 %7.2f ms  p99 %7.2f ms  %d failed\n", round+1, one.Rate, one.P50, one.P99, one.Failed)
		for _, clients := range []int{64, 1} {
			args := []string{"-clients", fmt.Sprint(clients), "-size", fmt.Sprint(s.size), "-for", s.length.String(), "-round", fmt.Sprintf("%d.%d", round, clients)}
			sides := map[string][]string{
				"berth": append([]string{self, "-load", strings.Join(peers, ",")}, args...),
				"etcd":  append([]string{s.etcd, "-load", strings.Join(endpoints, ",")}, args...),
			}
			for _, side := range []string{"berth", "etcd"} {
				one, err := run(ctx, sides[side])
				if err != nil {
					return fmt.Errorf("%s: %w", side, err)
				}
				key := fmt.Sprintf("%s_%d", side, clients)
				out[key] = append(out[key], one)
				fmt.Printf("round %d  %-5s %2d clients  %7.0f writes/s  p50 %7.2f ms  p99 %7.2f ms  %d failed\n", round+1, side, clients, one.Rate, one.P50, one.P99, one.Failed)
			}
		}
	}
	return report(out, file)
}

// run runs one load until its cluster takes it, which a cluster that has just started may not at once.
func run(ctx context.Context, argv []string) (sample, error) {
	var one sample
	err := stage.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stderr = os.Stderr
		data, err := cmd.Output()
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &one)
	})
	return one, err
}

// startEtcd starts three servers on loopback and returns their client URLs.
func startEtcd(g *procs.Group, program string) ([]string, error) {
	if program == "" {
		return nil, errors.New("-etcd names no program; make bench-raft builds it")
	}
	first, err := procs.NewPorts().Take(60)
	if err != nil {
		return nil, err
	}
	first += 40 // the peers' ports are taken from the same place
	var clients, cluster []string
	for i := range 3 {
		clients = append(clients, fmt.Sprintf("http://127.0.0.1:%d", first+2*i))
		cluster = append(cluster, fmt.Sprintf("etcd-%d=http://127.0.0.1:%d", i+1, first+2*i+1))
	}
	for i := range 3 {
		name, peer, _ := strings.Cut(cluster[i], "=")
		if _, err := g.Start(name, program, "-serve", name, "-client", clients[i], "-peer", peer, "-cluster", strings.Join(cluster, ","), "-data", g.Path(name)); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// report prints medians and ratios.
func report(out map[string][]sample, file string) error {
	rate := func(key string) float64 { return median(out[key], func(s sample) float64 { return s.Rate }) }
	p50 := func(key string) float64 { return median(out[key], func(s sample) float64 { return s.P50 }) }
	figures := map[string]any{
		"etcd_version":    out["etcd_64"][0].Version,
		"berth_writes_64": rate("berth_64"), "etcd_writes_64": rate("etcd_64"), "ratio_writes_64": rate("berth_64") / rate("etcd_64"),
		"propose_writes_64": rate("propose_64"), "ratio_propose_64": rate("propose_64") / rate("etcd_64"),
		"berth_p50_ms_1": p50("berth_1"), "etcd_p50_ms_1": p50("etcd_1"), "ratio_p50_1": p50("berth_1") / p50("etcd_1"),
		"rounds": out,
	}
	fmt.Printf("64 clients: %.0f writes/s, etcd %s %.0f: %.2f ×\n", rate("berth_64"), out["etcd_64"][0].Version, rate("etcd_64"), figures["ratio_writes_64"])
	fmt.Printf("at Propose: %.0f writes/s: %.2f × etcd\n", rate("propose_64"), figures["ratio_propose_64"])
	fmt.Printf("1 client: p50 %.2f ms, etcd %.2f ms: %.2f ×\n", p50("berth_1"), p50("etcd_1"), figures["ratio_p50_1"])
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func median(all []sample, of func(sample) float64) float64 {
	var v []float64
	for _, s := range all {
		v = append(v, of(s))
	}
	slices.Sort(v)
	return v[len(v)/2]
}
