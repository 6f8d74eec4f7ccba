// Command failover measures how long a cluster of three peers takes no writes after its leader is killed with SIGKILL: from the kill to the first
// write that is answered, again and again. It prints the median and the longest, and with -json FILE writes them as a flat object. With -etcd PROGRAM
// (built from bench/raft/etcd) it does the same to three etcd servers with their defaults, in turns of five kills. With -steady 10m nobody is killed,
// two processes that never rest run beside the peers, and an election is an error.
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
	"syscall"
	"time"

	"berth/admin/client"
	"berth/demo/stage"
	"berth/internal/procs"
)

// Every time is in seconds.
type result struct {
	Kills  int     `json:"kills"`
	Min    float64 `json:"min_seconds"`
	Median float64 `json:"median_seconds"`
	Max    float64 `json:"max_seconds"`

	Times []float64 `json:"times"` // in order of the kills
	Etcd  *result   `json:"etcd,omitempty"`
	Ratio float64   `json:"ratio_median,omitempty"` // to etcd's
}

func main() {
	bin := flag.String("bin", "bin", "folder with berth and berthctl")
	kills := flag.Int("kills", 20, "how often the leader is killed")
	file := flag.String("json", "", "file for the result")
	etcd := flag.String("etcd", "", "program built from bench/raft/etcd, to compare with")
	length := flag.Duration("steady", 0, "kill nobody, and count the elections in so long a time beside busy loops")
	busy := flag.Bool("spin", false, "be a busy loop (internal)")
	flag.Parse()
	if *busy {
		spin()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func() error { return measure(ctx, *bin, *etcd, *kills, *file) }
	if *length > 0 {
		run = func() error { return steady(ctx, *bin, *length) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		stop()
		os.Exit(1)
	}
}

func measure(ctx context.Context, bin, etcd string, kills int, file string) (err error) {
	if kills < 1 {
		return fmt.Errorf("-kills %d; it takes one at least", kills)
	}
	s, err := stage.New(stage.Config{Bin: bin, Peers: 3})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(stage.Patience)) }()
	if err := s.Start(s.Peers); err != nil {
		return err
	}
	if err := settled(ctx, s); err != nil {
		return err
	}
	var times, others []float64
	for n := range kills {
		if etcd != "" && n%turn == 0 {
			more, err := killEtcd(ctx, etcd, min(turn, kills-n))
			if err != nil {
				return err
			}
			fmt.Printf("etcd: %.2f s\n", more)
			others = append(others, more...)
		}
		took, who, err := kill(ctx, s)
		if err != nil {
			return fmt.Errorf("kill %d: %w\n%s", n+1, err, s.Logs(10))
		}
		fmt.Printf("kill %2d of %d: %s died, the next write was answered after %.2f s\n", n+1, kills, who, took.Seconds())
		times = append(times, took.Seconds())
	}
	return report(times, others, file)
}

// turn is how many kills of one side follow each other.
const turn = 5

// killEtcd does the same to etcd.
func killEtcd(ctx context.Context, program string, kills int) (times []float64, err error) {
	port, err := procs.NewPorts().Take(60)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "-failover", fmt.Sprint(kills), "-port", fmt.Sprint(port+50)) // the peers' ports are taken from the same place
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return times, json.Unmarshal(out, &times)
}

func resultOf(times []float64) result {
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	return result{Kills: n, Min: sorted[0], Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Max: sorted[n-1], Times: times}
}

func (r result) String() string {
	return fmt.Sprintf("%d kills: median %.2f s, from %.2f to %.2f s", r.Kills, r.Median, r.Min, r.Max)
}

func report(times, others []float64, file string) error {
	r := resultOf(times)
	fmt.Println(r)
	if len(others) > 0 {
		e := resultOf(others)
		r.Etcd, r.Ratio = &e, r.Median/e.Median
		fmt.Printf("etcd, %v: %.2f × its median\n", e, r.Ratio)
	}
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// kill kills the leader, waits for the next write that is answered, and brings the dead one back.
func kill(ctx context.Context, s *stage.Stage) (time.Duration, string, error) {
	old, err := leader(ctx, s)
	if err != nil {
		return 0, "", err
	}
	began := time.Now()
	if err := old.Kill(); err != nil {
		return 0, "", err
	}
	c, err := s.Client(stage.Alive(s.Peers)...)
	if err != nil {
		return 0, "", err
	}
	if err := untilWritten(ctx, c); err != nil {
		return 0, "", err
	}
	took := time.Since(began)
	if err := old.Start(); err != nil {
		return 0, "", err
	}
	return took, old.Name, settled(ctx, s)
}

const (
	// tryFor bounds one attempt to write: longer than a peer waits by itself for a leader would hide when one is there.
	tryFor = 500 * time.Millisecond
	pause  = 10 * time.Millisecond
	giveUp = time.Minute
)

// untilWritten writes until a write is answered. Freezing what is frozen is a write like any other: an entry in the log that a quorum has.
func untilWritten(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, tryFor)
		err := c.Freeze(try, fmt.Sprint("measurement at ", time.Now().UnixNano()))
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no write within %s: %w", giveUp, err)
		case <-time.After(pause):
		}
	}
}

func leader(ctx context.Context, s *stage.Stage) (*stage.Role, error) {
	c, err := s.Client(s.Peers...)
	if err != nil {
		return nil, err
	}
	st, _, err := c.Status(ctx, client.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return stage.Find(s.Peers, st.Leader)
}

// settled waits until all three peers are voters with the same state, so that each kill finds a whole cluster.
func settled(ctx context.Context, s *stage.Stage) error {
	c, err := s.Client(s.Peers...)
	if err != nil {
		return err
	}
	return stage.Until(ctx, giveUp, func(ctx context.Context) error {
		peers, _, err := c.Peers(ctx)
		if err != nil {
			return err
		}
		for _, p := range peers {
			if !p.Voter || p.Fingerprint == "" || p.Fingerprint != peers[0].Fingerprint {
				return fmt.Errorf("%s is %s at %q with fingerprint %q", p.ID, p.State, p.AppliedIndex, p.Fingerprint)
			}
		}
		if len(peers) != len(s.Peers) {
			return fmt.Errorf("%d of %d peers are listed", len(peers), len(s.Peers))
		}
		return nil
	})
}
