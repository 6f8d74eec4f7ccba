package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/consensus"
	"berth/fleet"
	"berth/fsm"
	"berth/internal/listen"
	"berth/internal/procs"
	together "berth/internal/run"
)

// node is one peer's consensus alone, without an API, and when it is told to it loads itself as the leader: it prints what came of it, or nothing when it
// does not lead. raft says where each of the three listens, by its place.
func node(ctx context.Context, place int, raft []string, data string, s setup) error {
	machine := fsm.New()
	n, err := consensus.Open(consensus.Config{
		ID: fmt.Sprint("peer-", place+1), DataDir: data, Network: listen.System, Bind: raft[place], Machine: machine, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	var others []consensus.Candidate
	for i, addr := range raft {
		others = append(others, consensus.Candidate{ID: fmt.Sprint("peer-", i+1), Address: addr})
	}
	g := together.NewGroup(ctx)
	g.Add("consensus", n.Run)
	g.Add("lead", func(ctx context.Context) error {
		if err := n.Bootstrap(ctx, len(raft), func() []consensus.Candidate { return others }); err != nil {
			return err
		}
		return n.Lead(ctx, func(ctx context.Context, _ uint64) error {
			_, err := n.Propose(ctx, fsm.Meta{}, fsm.ClusterCreate{ID: n.Cluster()})
			return err
		})
	})
	g.Add("orders", func(ctx context.Context) error {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if n.IsLeader() && machine.State().Cluster().ID != "" {
				if err := proposals(ctx, n, machine, s, lines.Text()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g.Wait()
}

// proposals are new models, one after the other from each client, each with a request id.
func proposals(ctx context.Context, n *consensus.Node, machine *fsm.Machine, s setup, round string) error {
	payload := strings.Repeat("x", s.size)
	var mu sync.Mutex
	var took []time.Duration
	failed := 0
	began := time.Now()
	var work sync.WaitGroup
	for i := range 64 {
		work.Go(func() {
			for k := 0; time.Since(began) < s.length && ctx.Err() == nil; k++ {
				at := time.Now()
				spec := modelOf(name(round, i, k), payload)
				out, err := n.Propose(ctx, fsm.Meta{Request: fsm.RequestID(machine.State().Index(), spec.Name), At: fleet.TimeOf(at), By: "bench"}, fsm.ModelApply{Spec: spec})
				mu.Lock()
				if err != nil || out.Err != nil {
					failed++
				} else {
					took = append(took, time.Since(at))
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	whole := time.Since(began)
	if len(took) == 0 {
		return fmt.Errorf("no proposal of %d succeeded", failed)
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
	return json.NewEncoder(os.Stdout).Encode(sample{Rate: float64(len(took)) / whole.Seconds(), P50: at(.5), P99: at(.99), Failed: failed})
}

// trio is three nodes, each in a process of its own.
type trio struct {
	commands []*exec.Cmd
	orders   []*os.File
	answers  chan sample
	readers  sync.WaitGroup
}

func startTrio(g *procs.Group, self string, s setup) (*trio, error) {
	first, err := procs.NewPorts().Take(60)
	if err != nil {
		return nil, err
	}
	var raft []string
	for i := range 3 {
		raft = append(raft, fmt.Sprintf("127.0.0.1:%d", first+50+i)) // the peers' ports are taken from the same place
	}
	t := &trio{answers: make(chan sample, 3)}
	for i := range 3 {
		cmd := exec.Command(self, "-node", fmt.Sprint(i), "-raft", strings.Join(raft, ","), "-data", g.Path(fmt.Sprint("node-", i)), "-size", fmt.Sprint(s.size), "-for", s.length.String())
		cmd.Stderr = os.Stderr
		in, orders, err := os.Pipe()
		if err != nil {
			return t, err
		}
		cmd.Stdin = in
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		_ = in.Close()
		if err != nil {
			return t, errors.Join(err, orders.Close())
		}
		t.commands, t.orders = append(t.commands, cmd), append(t.orders, orders)
		t.readers.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var one sample
				if json.Unmarshal(lines.Bytes(), &one) == nil {
					t.answers <- one
				}
			}
		})
	}
	return t, nil
}

// round tells all three to begin; the one that leads answers.
func (t *trio) round(ctx context.Context, name string, length time.Duration) (sample, error) {
	for range 30 {
		for _, o := range t.orders {
			if _, err := fmt.Fprintln(o, name); err != nil {
				return sample{}, err
			}
		}
		select {
		case one := <-t.answers:
			return one, nil
		case <-ctx.Done():
			return sample{}, ctx.Err()
		case <-time.After(length + 2*time.Second): // nobody leads yet
		}
	}
	return sample{}, errors.New("none of the nodes leads")
}

func (t *trio) close() error {
	var errs []error
	for i, c := range t.commands {
		errs = append(errs, t.orders[i].Close(), c.Process.Kill())
	}
	t.readers.Wait()
	for _, c := range t.commands {
		_ = c.Wait() // it was killed
	}
	return errors.Join(errs...)
}
