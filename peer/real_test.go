package peer

import (
	"context"
	"net/http"
	"testing"
	"time"

	"berth/admin/client"
	"berth/fsm"
	"berth/internal/listen"
)

// TestOnePeerOnTheMachinesNetwork runs what the bubbles leave out: real sockets on ports that the machine chooses, a real disk, the boot clock.
func TestOnePeerOnTheMachinesNetwork(t *testing.T) {
	loopback := Endpoint{Bind: "127.0.0.1:0"}
	p, err := New(Config{Name: "peer-1", DataDir: t.TempDir(), HTTP: loopback, Raft: loopback, Gossip: loopback, BootstrapExpect: 1, Policy: listen.Policy{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for {
		state := p.State()
		if s, ok := state.Server("peer-1"); ok && s.HTTP == p.HTTPAddr() {
			break
		}
		select {
		case <-state.Watch(fsm.Cluster):
		case err := <-done:
			t.Fatalf("it ended before it had announced itself: %v", err)
		}
	}
	transport := listen.Transport(listen.System)
	defer transport.CloseIdleConnections()
	c, err := client.New(client.Config{Addrs: []string{p.HTTPAddr()}, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	s, meta, err := c.Status(ctx, client.ReadOptions{Consistency: "consistent"})
	if err != nil || s.Leader != "peer-1" || !s.CaughtUp || meta.Cluster == "" {
		t.Errorf("status: %+v, %v", s, err)
	}
	end()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
