package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/admin/client"
	"berth/fleet"
)

// measured is what a load saw.
type measured struct {
	Acked   int     `json:"acked"`
	Unknown int     `json:"unknown"` // no answer that settles it
	Refused int     `json:"refused"` // a certain no, mostly for want of a leader
	Lost    int     `json:"lost"`    // acknowledged, and not there in the end
	Gap     float64 `json:"gap"`     // seconds: the longest time in which no write was acknowledged
	P50     float64 `json:"p50"`     // seconds
	P99     float64 `json:"p99"`
}

func (m measured) String() string {
	return fmt.Sprintf("%d writes acknowledged, %d lost, %d unknown, %d refused; longest time without one %.2f s; p50 %.1f ms, p99 %.1f ms",
		m.Acked, m.Lost, m.Unknown, m.Refused, m.Gap, 1000*m.P50, 1000*m.P99)
}

// load is a program that writes until its input ends, then reads everything back and says what came of it.
type load struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out strings.Builder
}

// loadFlag makes this program the load instead.
const loadFlag = "-load-on"

// startLoad runs a load on the operator's machine against all peers.
func (l *lab) startLoad(ctx context.Context, peers []*machine) (*load, error) {
	m, err := l.machine(ctx, operatorHost)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, p := range peers {
		addrs = append(addrs, p.ip)
	}
	ld := &load{cmd: exec.CommandContext(ctx, "ip", "netns", "exec", m.ns, self, loadFlag, strings.Join(addrs, ","))}
	ld.cmd.Stdout, ld.cmd.Stderr = &ld.out, os.Stderr
	if ld.in, err = ld.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return ld, ld.cmd.Start()
}

// end stops the load and returns what it saw.
func (ld *load) end() (measured, error) {
	var m measured
	_ = ld.in.Close() // it may have ended by itself; Wait says so
	if err := ld.cmd.Wait(); err != nil {
		return m, fmt.Errorf("the load: %w", err)
	}
	return m, json.Unmarshal([]byte(ld.out.String()), &m)
}

// writers is how many clients write at once.
const writers = 4

// notes are what the writers saw together.
type notes struct {
	mu    sync.Mutex
	m     measured
	last  time.Time
	took  []time.Duration
	acked []string
}

// runLoad is the load's process.
func runLoad(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	n := &notes{last: time.Now()}
	var wg sync.WaitGroup
	for i := range writers {
		c, err := newLoadClient(addrs, i)
		if err != nil {
			cancel()
			return err
		}
		wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				n.write(ctx, c, fmt.Sprintf("load-%d-%d", i, k))
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	wg.Wait()
	if err := n.readBack(addrs); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(n.m)
}

// newLoadClient knows the peers in an order of its own. It waits a second for an answer, as a client does that has other peers to ask.
func newLoadClient(addrs []string, shift int) (*client.Client, error) {
	shift %= len(addrs)
	return client.New(client.Config{
		Addrs: append(slices.Clone(addrs[shift:]), addrs[:shift]...), Agent: "e2e",
		HTTP: &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: time.Second, DialContext: dialer(time.Second), MaxIdleConnsPerHost: 1}},
	})
}

func (n *notes) write(ctx context.Context, c *client.Client, name string) {
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", name
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
	spec.Placement.GPUsPerNode = 1
	spec.Replicas = fleet.ReplicaCount{Min: 0, Max: 1}
	began := time.Now()
	_, err := c.Apply(context.WithoutCancel(ctx), spec, client.ApplyOptions{AllowUnplaceable: true})
	n.mu.Lock()
	defer n.mu.Unlock()
	var e *fleet.Error
	switch {
	case err == nil:
		n.m.Acked++
		n.m.Gap = max(n.m.Gap, time.Since(n.last).Seconds())
		n.last = time.Now()
		n.took = append(n.took, time.Since(began))
		n.acked = append(n.acked, name)
	case errors.As(err, &e) && e.Code != fleet.OutcomeUnknown:
		n.m.Refused++
	default:
		n.m.Unknown++
	}
}

// readBack looks for everything that was acknowledged, with a read that a quorum confirms.
func (n *notes) readBack(addrs []string) error {
	c, err := newLoadClient(addrs, 0)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		models, _, err := c.Models(context.Background(), client.ReadOptions{Consistency: "consistent"})
		if err == nil {
			for _, m := range models {
				there[m.Spec.Name] = true
			}
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("read back: %w", err)
		}
	}
	for _, name := range n.acked {
		if !there[name] {
			n.m.Lost++
		}
	}
	slices.Sort(n.took)
	if k := len(n.took); k > 0 {
		n.m.P50, n.m.P99 = n.took[k/2].Seconds(), n.took[k*99/100].Seconds()
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
