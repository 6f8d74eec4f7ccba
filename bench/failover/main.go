// Command failover measures how long a cluster of three peers takes no writes after its leader is killed with SIGKILL: from the kill to the first
// write that is answered, again and again. It prints the median and the longest, and with -json FILE writes them as a flat object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"berth/admin/client"
	"berth/demo/stage"
)

// Every time is in seconds.
type result struct {
	Kills  int     `json:"kills"`
	Min    float64 `json:"min_seconds"`
	Median float64 `json:"median_seconds"`
	Max    float64 `json:"max_seconds"`
}

func main() {
	bin := flag.String("bin", "bin", "folder with berth and berthctl")
	kills := flag.Int("kills", 20, "how often the leader is killed")
	file := flag.String("json", "", "file for the result")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *bin, *kills, *file); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		stop()
		os.Exit(1)
	}
}

func measure(ctx context.Context, bin string, kills int, file string) (err error) {
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
	var times []float64
	for n := range kills {
		took, who, err := kill(ctx, s)
		if err != nil {
			return fmt.Errorf("kill %d: %w\n%s", n+1, err, s.Logs(10))
		}
		fmt.Printf("kill %2d of %d: %s died, the next write was answered after %.2f s\n", n+1, kills, who, took.Seconds())
		times = append(times, took.Seconds())
	}
	return report(times, file)
}

func report(times []float64, file string) error {
	slices.Sort(times)
	n := len(times)
	r := result{Kills: n, Min: times[0], Median: (times[(n-1)/2] + times[n/2]) / 2, Max: times[n-1]}
	fmt.Printf("%d kills: median %.2f s, from %.2f to %.2f s\n", r.Kills, r.Median, r.Min, r.Max)
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
