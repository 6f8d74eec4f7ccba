package gossip_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/gossip"
	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a network of members in a bubble.
type fleet struct {
	t       *testing.T
	net     *memnet.Network
	members []*member
}

type member struct {
	*gossip.Gossip
	fleet *fleet
	host  *memnet.Host
	log   *logbook
	stop  context.CancelFunc
	ended chan error
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, net: memnet.New(1)}
	f.net.SetLatency(time.Millisecond)
	return f
}

// end stops everyone and lets memberlist's own goroutines see it.
func (f *fleet) end() {
	for _, m := range f.members {
		m.quit()
	}
	time.Sleep(gossip.Linger)
}

func host(i int) string { return fmt.Sprintf("192.0.2.%d", i) }

// configure gives the configuration of member i: an agent that begins with member 1.
func configure(i int) gossip.Config {
	return gossip.Config{
		ID: fmt.Sprintf("id-%d", i), Instance: 1,
		Meta: gossip.Meta{
			Role: gossip.Agent, Name: fmt.Sprintf("gpu-%03d", i), Cluster: "c-1",
			Addresses: map[string]string{"http": ":7310"},
		},
		Policy: listen.Policy{InsecureNoTLS: true},
		Bind:   host(i) + ":7302",
		Seeds:  []string{host(1)},
	}
}

// start runs member i.
func (f *fleet) start(i int, change ...func(*gossip.Config)) *member {
	f.t.Helper()
	cfg := configure(i)
	m := &member{fleet: f, host: f.net.Host(host(i)), log: &logbook{}, ended: make(chan error, 1)}
	cfg.Network, cfg.Log = m.host, slog.New(slog.NewTextHandler(m.log, nil))
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if m.Gossip, err = gossip.Open(f.t.Context(), cfg); err != nil {
		f.t.Fatal(err)
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	go func() { m.ended <- m.Run(ctx) }()
	f.members = append(f.members, m)
	return m
}

func (m *member) quit() {
	m.stop()
	if err, first := <-m.ended; first && err != nil {
		m.fleet.t.Error(err)
	}
	m.ended = closed
}

// kill ends the process without a word.
func (m *member) kill() {
	m.host.Kill()
	m.quit()
}

var closed = func() chan error { c := make(chan error); close(c); return c }()

// alive counts the members that m sees alive, itself included.
func (m *member) alive() (n int) {
	for _, o := range m.Members() {
		if o.State == gossip.Alive {
			n++
		}
	}
	return n
}

// sees finds what m knows of an id: the newest start.
func (m *member) sees(id string) gossip.Member {
	for _, o := range m.Members() {
		if o.ID == id {
			return o
		}
	}
	return gossip.Member{}
}

// wait gives the time until every one of the members sees n alive.
func (f *fleet) wait(limit time.Duration, n int, members ...*member) {
	f.t.Helper()
	end := time.Now().Add(limit)
	for _, m := range members {
		for {
			changed := m.Watch()
			if m.alive() == n {
				break
			}
			select {
			case <-changed:
			case <-time.After(time.Until(end)):
				f.t.Fatalf("%s sees %d alive after %s, want %d: %v", m.Address(), m.alive(), limit, n, m.Members())
			}
		}
	}
}

// event gives the next event of a kind, or fails.
func (m *member) event(limit time.Duration, kind gossip.Kind) gossip.Event {
	m.fleet.t.Helper()
	timeout := time.After(limit)
	for {
		select {
		case e := <-m.Events():
			if e.Kind == kind {
				return e
			}
		case <-timeout:
			m.fleet.t.Fatalf("%s: no event %s within %s", m.Address(), kind, limit)
		}
	}
}

// logbook keeps what was logged.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
