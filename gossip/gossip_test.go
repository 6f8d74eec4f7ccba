package gossip_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/gossip"
)

func TestMembersAreFoundWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		for i := 1; i <= 9; i++ {
			f.start(i)
		}
		f.wait(5*time.Second, 9, f.members...)
		f.start(10, func(c *gossip.Config) { c.Meta.MaxLevel, c.Meta.Digest = 3, 1<<63 })
		f.wait(2*time.Second, 10, f.members...)
		m := f.members[4].sees("id-10")
		if m.Name != "gpu-010" || m.Role != gossip.Agent || m.Instance != 1 || m.MaxLevel != 3 || m.Digest != 1<<63 || m.Cluster != "c-1" ||
			m.Gossip != "192.0.2.10:7302" || m.Addresses["http"] != "192.0.2.10:7310" {
			t.Errorf("member %+v", m)
		}
	})
}

func TestPartitionHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		for i := 1; i <= 10; i++ {
			f.start(i)
		}
		f.wait(5*time.Second, 10, f.members...)
		for i := 1; i <= 5; i++ {
			for j := 6; j <= 10; j++ {
				f.net.Cut(host(i), host(j))
				f.net.Cut(host(j), host(i))
			}
		}
		time.Sleep(5 * time.Minute)
		f.wait(time.Second, 5, f.members...)
		f.net.HealAll()
		healed := time.Now()
		f.wait(time.Minute, 10, f.members...)
		t.Logf("whole again after %s", time.Since(healed))
	})
}

func TestDeathAndLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a, b, c := f.start(1), f.start(2), f.start(3)
		f.wait(2*time.Second, 3, a, b, c)
		b.kill()
		f.wait(20*time.Second, 2, a, c)
		if s := a.sees("id-2").State; s != gossip.Dead {
			t.Errorf("killed member is %s", s)
		}
		if err := c.Leave(5 * time.Second); err != nil {
			t.Error(err)
		}
		f.wait(2*time.Second, 1, a)
		if s := a.sees("id-3").State; s != gossip.Left {
			t.Errorf("member that left is %s", s)
		}
		time.Sleep(time.Minute)
		if a.alive() != 1 {
			t.Error("a member that left came back")
		}
	})
}

// TestReturnAtANewAddress (C40): a machine is rebuilt and returns with its id and name at another address, after leaving and after a crash.
func TestReturnAtANewAddress(t *testing.T) {
	for name, end := range map[string]func(*member){
		"left":   func(m *member) { _ = m.Leave(time.Second); m.quit() },
		"killed": (*member).kill,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				defer f.end()
				a, b, old := f.start(1), f.start(2), f.start(11)
				f.wait(2*time.Second, 3, a, b, old)
				end(old)
				time.Sleep(3 * time.Second)
				f.start(61, func(c *gossip.Config) { c.ID, c.Meta.Name, c.Instance = "id-11", "gpu-011", 2 })
				time.Sleep(2 * time.Second)
				for _, m := range []*member{a, b} {
					if got := m.sees("id-11"); got.State != gossip.Alive || got.Instance != 2 || got.Gossip != "192.0.2.61:7302" {
						t.Errorf("%s sees %+v", m.Address(), got)
					}
				}
				time.Sleep(5 * time.Minute)
				f.wait(0, 3, a, b)
				if log := a.log.String(); strings.Contains(log, "duplicate") {
					t.Errorf("a return was called a copy: %s", log)
				}
			})
		})
	}
}

func TestRestartAtTheSameAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a, b := f.start(1), f.start(2)
		f.wait(2*time.Second, 2, a, b)
		b.kill()
		f.start(2, func(c *gossip.Config) { c.Instance = 2 })
		time.Sleep(2 * time.Second)
		f.wait(0, 2, a) // the start before is known to be over: another process has its port
		if got := a.sees("id-2"); got.Instance != 2 {
			t.Errorf("sees %+v", got)
		}
	})
}

// TestCopiedMachine (C40): a second machine with the same id is alive. Both are named, and neither is dropped.
func TestCopiedMachine(t *testing.T) {
	for name, instance := range map[string]uint64{"same start": 1, "later start": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				defer f.end()
				a, old := f.start(1), f.start(11)
				f.wait(2*time.Second, 2, a, old)
				f.start(61, func(c *gossip.Config) { c.ID, c.Meta.Name, c.Instance = "id-11", "gpu-011", instance })
				e := a.event(time.Minute, gossip.DuplicateID)
				if !strings.Contains(e.Text, "192.0.2.11:7302") || !strings.Contains(e.Text, "192.0.2.61:7302") {
					t.Errorf("event %q does not name both", e.Text)
				}
				if a.sees("id-11").State != gossip.Alive {
					t.Error("the first one was dropped")
				}
			})
		})
	}
}

func TestTwoOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a := f.start(1)
		f.start(2)
		f.start(3, func(c *gossip.Config) { c.Meta.Name = "gpu-002" })
		e := a.event(time.Minute, gossip.DuplicateName)
		if !strings.Contains(e.Text, "192.0.2.2:7302") || !strings.Contains(e.Text, "192.0.2.3:7302") {
			t.Errorf("event %q does not name both", e.Text)
		}
	})
}

func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		a, b := f.start(1), f.start(2)
		f.wait(2*time.Second, 2, a, b)
		meta := configure(2).Meta
		meta.Digest = 77
		if err := b.Update(meta); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := a.sees("id-2").Digest; got != 77 {
			t.Errorf("digest %d", got)
		}
		meta.Name = strings.Repeat("x", gossip.MetaBudget)
		if err := b.Update(meta); err == nil || !strings.Contains(err.Error(), "at most 256") {
			t.Errorf("error %v for metadata over the budget", err)
		}
		time.Sleep(2 * time.Second)
		if got := a.sees("id-2").Digest; got != 77 {
			t.Errorf("digest %d after a refused update", got)
		}
	})
}

func TestKnownMembersReplaceLostSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		known := filepath.Join(t.TempDir(), "known.json")
		a, c := f.start(1), f.start(3)
		b := f.start(2, func(c *gossip.Config) { c.Known = known })
		f.wait(2*time.Second, 3, a, b, c)
		time.Sleep(20 * time.Second)
		b.kill()
		b = f.start(2, func(c *gossip.Config) { c.Known, c.Instance, c.Seeds = known, 2, []string{"192.0.2.77"} })
		f.wait(2*time.Second, 3, b)
	})
}

func TestLateSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		b := f.start(2)
		time.Sleep(time.Minute)
		a := f.start(1)
		f.wait(15*time.Second, 2, a, b)
	})
}

// TestEndDoesNotWait: Run ends at once, also while it tries to reach members that are cut off.
func TestEndDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		for i := 1; i <= 3; i++ {
			f.start(i)
		}
		f.wait(2*time.Second, 3, f.members...)
		f.net.Isolate(host(1))
		time.Sleep(40 * time.Second)
		begin := time.Now()
		f.members[0].quit()
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

// TestLossIsNoDeath: with a tenth of all datagrams lost for two minutes, nobody is declared dead for good and everybody is found.
func TestLossIsNoDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.end()
		f.net.SetLoss(0.1)
		for i := 1; i <= 20; i++ {
			f.start(i)
		}
		f.wait(30*time.Second, 20, f.members...)
		ended := time.Now().Add(2 * time.Minute)
		for time.Now().Before(ended) {
			time.Sleep(time.Second)
			for _, m := range f.members {
				if n := m.alive(); n < 20 {
					t.Fatalf("%s sees %d alive", m.Address(), n)
				}
			}
		}
	})
}
