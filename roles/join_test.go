package roles

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/admin/client"
	"berth/gossip"
	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An ordered end is no failure because nobody has heard the goodbye: with every other member dead, or too few to tell, a unit would be marked as failed.
func TestAnEndThatNobodyHearsIsNoFailure(t *testing.T) {
	for _, dead := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			net := memnet.New(1)
			a, b := net.Host("a", "10.0.0.1"), net.Host("b", "10.0.0.2")
			log := slog.New(slog.DiscardHandler)
			first, err := gossip.Open(t.Context(), gossip.Config{
				ID: "peer-1", Instance: 1, Meta: gossip.Meta{Role: gossip.Peer, Name: "a", Addresses: map[string]string{"http": "10.0.0.1:7300"}},
				Network: a, Policy: listen.Policy{InsecureNoTLS: true}, Bind: "10.0.0.1:7302", Known: filepath.Join(dir, "a"), Log: log,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, kill := context.WithCancel(t.Context())
			other := make(chan error, 1)
			go func() { other <- first.Run(ctx) }()

			c, err := client.New(client.Config{Discover: true})
			if err != nil {
				t.Fatal(err)
			}
			j := Join{Seeds: []string{"10.0.0.1:7302"}, Bind: "10.0.0.2:7302"}
			m := member{id: "router-1", instance: 1, known: filepath.Join(dir, "b"), meta: gossip.Meta{Role: gossip.Router, Name: "b"}}
			life, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- j.gossip(life, b, listen.Policy{InsecureNoTLS: true}, log, m, c) }()
			time.Sleep(10 * time.Second)
			if dead {
				kill()
				time.Sleep(time.Second)
			}
			end()
			if err := <-ended; err != nil {
				t.Errorf("with a dead peer %t: %v", dead, err)
			}
			kill()
			<-other
			time.Sleep(gossip.Linger)
		})
	}
}
