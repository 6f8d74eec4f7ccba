package gossip_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/gossip"
)

// in gives the change that puts a member into another cluster, with seeds of its own.
func in(cluster string, seeds ...string) func(*gossip.Config) {
	return func(c *gossip.Config) { c.Meta.Cluster, c.Seeds = cluster, seeds }
}

// TestForeignCluster (C43): a member of one cluster is given a seed of another. Both member lists stay as they are, with an event each.
func TestForeignCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a1, a2 := f.start(1), f.start(2)
		b1, b2 := f.start(3, in("c-2")), f.start(4, in("c-2", host(3)))
		f.wait(2*time.Second, 2, a1, a2, b1, b2)
		b2.quit()
		b2 = f.start(4, in("c-2", host(3), host(1)), func(c *gossip.Config) { c.Instance = 2 })
		for _, m := range []*member{a1, b2} {
			if e := m.event(time.Minute, gossip.ForeignCluster); !strings.Contains(e.Text, "c-1") || !strings.Contains(e.Text, "c-2") {
				t.Errorf("event %q does not name both clusters", e.Text)
			}
		}
		time.Sleep(5 * time.Minute)
		f.wait(0, 2, a1, a2, b1, b2)
		if strings.Contains(b2.log.String(), "cannot join") {
			t.Errorf("a refusal was explained twice: %s", b2.log)
		}
	})
}

// TestReusedAddress (C43): a peer of another cluster starts at the address of a dead member, which the others go on trying.
func TestReusedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a1, a2, dead := f.start(1), f.start(2), f.start(3)
		f.wait(2*time.Second, 3, a1, a2, dead)
		dead.kill()
		b1 := f.start(4, in("c-2"))
		b2 := f.start(3, in("c-2", host(4)), func(c *gossip.Config) { c.ID, c.Meta.Role, c.Meta.Name = "id-9", gossip.Peer, "peer-9" })
		a1.event(2*time.Minute, gossip.ForeignCluster)
		b2.event(2*time.Minute, gossip.ForeignCluster)
		time.Sleep(5 * time.Minute)
		f.wait(0, 2, a1, a2, b1, b2)
	})
}

// TestNewcomerIsNoBridge: a machine without a cluster is given seeds of two. Both may discover it, neither hears of the other, and once it
// belongs to one it is gone from the other.
func TestNewcomerIsNoBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a1, a2 := f.start(1), f.start(2)
		b1, b2 := f.start(3, in("c-2")), f.start(4, in("c-2", host(3)))
		f.wait(2*time.Second, 2, a1, a2, b1, b2)
		n := f.start(5, in("", host(1), host(3)))
		n.event(time.Minute, gossip.ForeignCluster)
		time.Sleep(5 * time.Minute)
		for m, stranger := range map[*member]string{a1: "id-3", a2: "id-4", b1: "id-1", b2: "id-2"} {
			if m.alive() > 3 || m.sees(stranger).ID != "" {
				t.Errorf("%s has %d members", m.Address(), m.alive())
			}
		}
		if err := n.Update(configure(5).Meta); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // gossip need not reach those who refuse it; the next full exchanges do
		f.wait(0, 2, b1, b2)
	})
}

func TestNewcomerIsDiscoveredAndRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a := f.start(1)
		n := f.start(2, in("", host(1)))
		f.wait(2*time.Second, 2, a, n)
		if got := a.sees("id-2").Cluster; got != "" {
			t.Errorf("a newcomer of cluster %q", got)
		}
		if err := n.Update(configure(2).Meta); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := a.sees("id-2").Cluster; got != "c-1" {
			t.Errorf("after the registration it is of cluster %q", got)
		}
	})
}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// TestBadSeeds: each seed that is not what it should be gets one line that names it and says what would be right.
func TestBadSeeds(t *testing.T) {
	keyed := func(k ...[]byte) func(*gossip.Config) { return func(c *gossip.Config) { c.Keys = k } }
	for name, c := range map[string]struct {
		seed, joiner func(*gossip.Config) // seed nil: something else listens there
		banner, want string
	}{
		"nobody":        {want: "connection refused"},
		"http":          {banner: "HTTP/1.1 400 Bad Request\r\n\r\n", want: "it answers HTTP"},
		"ssh":           {banner: "SSH-2.0-x\r\n", want: "not gossip"},
		"another label": {seed: func(c *gossip.Config) { c.Label = "other" }, want: "another gossip key or label"},
		"another key":   {seed: keyed(key(1)), joiner: keyed(key(2)), want: "another key"},
		"needs a key":   {seed: keyed(key(1)), joiner: keyed(), want: "needs the same gossip key"},
		"has no key":    {seed: keyed(), joiner: keyed(key(1)), want: "not encrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				defer f.end()
				if c.seed != nil {
					f.start(1, c.seed)
				} else {
					defer f.impostor(c.banner)()
				}
				b := f.start(2, func(cfg *gossip.Config) {
					if c.joiner != nil {
						c.joiner(cfg)
					}
				})
				time.Sleep(2 * time.Minute)
				if b.alive() != 1 {
					t.Error("it was joined")
				}
				var lines []string
				for line := range strings.Lines(b.log.String()) {
					if strings.Contains(line, "cannot join") {
						lines = append(lines, line)
					}
				}
				if len(lines) != 1 || !strings.Contains(lines[0], host(1)) || !strings.Contains(lines[0], c.want) {
					t.Errorf("%d lines, want one with %q: %s", len(lines), c.want, lines)
				}
			})
		})
	}
}

// impostor answers on the gossip port of member 1 with something else; with nothing if there is no banner.
func (f *fleet) impostor(banner string) (stop func()) {
	h := f.net.Host(host(1))
	if banner == "" {
		return func() {}
	}
	ln, err := h.Listen(context.Background(), host(1)+":7302")
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(banner))
			_, _ = c.Read(make([]byte, 64))
			_ = c.Close()
		}
	}()
	return func() { _ = ln.Close(); <-done }
}

func TestSeedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		f.start(1)
		b := f.start(2, func(c *gossip.Config) {
			c.Seeds = []string{"peers.example.net", "nobody.example.net:7000"}
			c.Resolve = func(_ context.Context, host string) ([]string, error) {
				if host == "peers.example.net" {
					return []string{"192.0.2.77", "192.0.2.1"}, nil
				}
				return nil, errors.New("no such host")
			}
		})
		f.wait(5*time.Second, 2, b)
		if log := b.log.String(); strings.Count(log, "nobody.example.net") != 1 || !strings.Contains(log, "no such host") {
			t.Errorf("log %s", log)
		}
	})
}

func TestKeysRotateWithoutDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		for i := 1; i <= 3; i++ {
			f.start(i, func(c *gossip.Config) { c.Keys = [][]byte{key(1)} })
		}
		f.wait(2*time.Second, 3, f.members...)
		for _, keys := range [][][]byte{{key(1), key(2)}, {key(2), key(1)}, {key(2)}} {
			for _, m := range f.members {
				if err := m.SetKeys(keys); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if m.alive() != 3 {
					t.Fatalf("%d alive during the rotation", m.alive())
				}
			}
		}
		if err := f.members[0].SetKeys(nil); err == nil {
			t.Error("the last key was taken away")
		}
	})
}
