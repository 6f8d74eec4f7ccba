package sim

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// fault is one kind of fault, or of repair, and how often it comes. do is called with the world's lock and says what it did; "" means that it
// could not be done now. What takes long goes on beside.
type fault struct {
	kind   string
	weight int
	do     func(w *world, ctx context.Context) string
	repair bool
}

func usual() []fault {
	return []fault{
		{"kill", 10, killOne, false},
		{"kill all at once", 1, killAll, false},
		{"start again", 24, startOne, true},
		{"stop in order", 3, stopOne, false},
		{"isolate", 8, isolateOne, false},
		{"cut one way", 8, cutOneWay, false},
		{"silence", 8, silence, false},
		{"pause", 6, pauseOne, false},
		{"freeze", 6, freezeOne, false},
		{"heal the network", 14, healNetwork, true},
		{"lose packets", 3, losePackets, false},
		{"latency", 3, latency, false},
		{"slow disk", 6, slowDisk, false},
		{"stuck disk", 4, stuckDisk, false},
		{"full disk", 4, fullDisk, false},
		{"heal a disk", 14, healDisk, true},
		{"hand leadership over", 5, transfer, false},
		{"cut a node off", 3, cutNode, false},
		{"restart an agent", 3, restartAgent, false},
	}
}

func membership() []fault {
	return append(usual(), fault{"remove a peer", 3, removeOne, false}, fault{"take a vote away", 3, demoteOne, false}, fault{"a new peer joins", 3, joinOne, false})
}

func restores() []fault { return append(usual(), fault{"restore a snapshot", 12, restoreOne, false}) }

// rage does faults until the context ends.
func (w *world) rage(ctx context.Context) {
	total := 0
	for _, f := range w.faults {
		total += f.weight
	}
	for {
		pause(ctx, w.every/2+time.Duration(w.dice.Int64N(int64(w.every))))
		if ctx.Err() != nil {
			return
		}
		n := w.dice.IntN(total)
		for _, f := range w.faults {
			if n -= f.weight; n < 0 {
				w.inflict(ctx, f)
				break
			}
		}
	}
}

func (w *world) inflict(ctx context.Context, f fault) {
	w.do(func() {
		if did := f.do(w, ctx); did != "" {
			w.tally.fault(f)
			w.story.say("fault", "%s: %s", f.kind, did)
		}
	})
}

// any picks one of the peers that run; nil: none does.
func (w *world) any() *server {
	all := w.running()
	if len(all) == 0 {
		return nil
	}
	return all[w.dice.IntN(len(all))]
}

// two picks two of them.
func (w *world) two() (*server, *server) {
	all := w.running()
	if len(all) < 2 {
		return nil, nil
	}
	w.dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[0], all[1]
}

func killOne(w *world, _ context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	w.kill(s)
	return s.name
}

func killAll(w *world, _ context.Context) string {
	all := w.running()
	for _, s := range all {
		w.kill(s)
	}
	return fmt.Sprintf("%d peers", len(all))
}

func startOne(w *world, _ context.Context) string {
	all := w.down()
	if len(all) == 0 {
		return ""
	}
	s := all[w.dice.IntN(len(all))]
	w.start(s)
	return s.name
}

func stopOne(w *world, _ context.Context) string {
	s := w.any()
	if s == nil || s.disk.misbehaved() {
		return "" // its process would not end while its disk is stuck
	}
	s.doomed = true
	s.end()
	return s.name
}

func isolateOne(w *world, _ context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	w.net.Isolate(s.ip)
	return s.name
}

func cutOneWay(w *world, _ context.Context) string {
	a, b := w.two()
	if a == nil {
		return ""
	}
	w.net.Cut(a.ip, b.ip)
	return a.name + " to " + b.name
}

func silence(w *world, _ context.Context) string {
	a, b := w.two()
	if a == nil {
		return ""
	}
	w.net.Stall(a.ip, b.ip)
	return a.name + " to " + b.name
}

// pauseOne holds everything that a peer says and is told, for a while; then it all arrives, as after a suspended machine.
func pauseOne(w *world, ctx context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	for _, other := range w.peers {
		if other != s {
			w.stall(s, other.ip)
		}
	}
	d := time.Duration(1+w.dice.IntN(15)) * time.Second
	w.wg.Go(func() {
		pause(ctx, d)
		w.net.Heal(s.ip)
	})
	return fmt.Sprintf("%s for %v", s.name, d)
}

func (w *world) stall(s *server, other string) {
	w.net.Stall(s.ip, other)
	w.net.Stall(other, s.ip)
}

// freezeOne is the pause of a whole process, as far as others can tell: nobody, clients and nodes included, hears of it, it hears nobody, and nothing
// that it writes lands until it goes on. Its own timers run on, which no process in a bubble can be kept from; so it ends before the watchdog of
// the disk would, which in a process that is really paused stands still.
func freezeOne(w *world, ctx context.Context) string {
	s := w.any()
	if s == nil || s.disk.misbehaved() || s.disk.slowed() {
		return ""
	}
	for _, other := range w.peers {
		if other != s {
			w.stall(s, other.ip)
		}
	}
	for _, n := range w.farm {
		w.stall(s, n.name)
	}
	for i := range users {
		w.stall(s, userName(i))
	}
	d := time.Duration(300+w.dice.IntN(4200)) * time.Millisecond
	life := s.life
	life.freeze(true)
	w.wg.Go(func() {
		pause(ctx, d)
		w.net.Heal(s.ip)
		life.freeze(false)
	})
	return fmt.Sprintf("%s for %v", s.name, d)
}

func healNetwork(w *world, _ context.Context) string {
	w.net.HealAll()
	w.net.SetLoss(0)
	w.net.SetLatency(time.Millisecond)
	return "all"
}

func losePackets(w *world, _ context.Context) string {
	share := float64(5+w.dice.IntN(30)) / 100
	w.net.SetLoss(share)
	return fmt.Sprintf("%.0f %% of all datagrams", 100*share)
}

func latency(w *world, _ context.Context) string {
	d := time.Duration(1+w.dice.IntN(60)) * time.Millisecond
	w.net.SetLatency(d)
	return d.String()
}

func slowDisk(w *world, _ context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	d := time.Duration(20+w.dice.IntN(800)) * time.Millisecond
	s.disk.set(d, nil, false)
	return fmt.Sprintf("%s, %v a write", s.name, d)
}

func stuckDisk(w *world, _ context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	s.disk.set(0, nil, true)
	return s.name
}

func fullDisk(w *world, _ context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	s.disk.set(0, syscall.ENOSPC, false)
	return s.name
}

func healDisk(w *world, _ context.Context) string {
	healed := ""
	for _, s := range w.peers {
		if s.disk.misbehaved() || s.disk.slowed() {
			s.disk.set(0, nil, false)
			healed += s.name + " "
		}
	}
	return healed
}

func transfer(w *world, ctx context.Context) string {
	return w.ask(ctx, "transfer leadership", func(o *operator) error { return o.transfer(ctx) })
}

func removeOne(w *world, ctx context.Context) string {
	s := w.any()
	if s == nil || w.members() <= 3 {
		return ""
	}
	return w.ask(ctx, "remove "+s.name, func(o *operator) error { return o.remove(ctx, s.name) })
}

func demoteOne(w *world, ctx context.Context) string {
	s := w.any()
	if s == nil {
		return ""
	}
	return w.ask(ctx, "demote "+s.name, func(o *operator) error { return o.demote(ctx, s.name) })
}

func joinOne(w *world, _ context.Context) string {
	if w.members() >= 5 {
		return ""
	}
	s := w.addServer(0)
	w.start(s)
	return s.name
}

// members counts the peers that are not gone for good.
func (w *world) members() int {
	n := 0
	for _, s := range w.peers {
		if !s.gone {
			n++
		}
	}
	return n
}

func restoreOne(w *world, ctx context.Context) string {
	return w.ask(ctx, "restore", func(o *operator) error { return o.restore(ctx) })
}

func cutNode(w *world, ctx context.Context) string {
	n := w.farm[w.dice.IntN(len(w.farm))]
	d := time.Duration(5+w.dice.IntN(90)) * time.Second
	w.net.Isolate(n.name)
	w.wg.Go(func() {
		pause(ctx, d)
		w.net.Heal(n.name)
	})
	return fmt.Sprintf("%s for %v", n.name, d)
}

func restartAgent(w *world, ctx context.Context) string {
	n := w.farm[w.dice.IntN(len(w.farm))]
	w.wg.Go(func() { n.restart(ctx) })
	return n.name
}
