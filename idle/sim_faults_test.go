package idle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// faults counts what was injected, by kind. Wall clocks are none of them: no message of a witness holds a time of day, and TestPure keeps the ledger
// from reading one; what a witness would send that took an age from a clock which jumped is among the malformed readings and reports.
type faults map[string]int

func (f faults) sum() int {
	n := 0
	for _, of := range f {
		n += of
	}
	return n
}

func (f faults) add(o faults) {
	for kind, n := range o {
		f[kind] += n
	}
}

func (f faults) String() string {
	parts := make([]string, 0, len(f))
	for _, kind := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, fmt.Sprintf("%d %s", f[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// strikes are faults that come by themselves, by kind.
type strikes []strike

type strike struct {
	kind string
	hit  func()
}

// harsh injects everything that the design allows to go wrong, at a rate of the schedule's own.
func (w *world) harsh() {
	mean := pick(w, []time.Duration{500 * time.Millisecond, 2 * time.Second, 10 * time.Second})
	w.strike(mean, strikes{
		{"routers restarted", w.routerRestarts}, {"routers cut off or hung", w.routerMute}, {"routers cloned", w.routerClone}, {"routers suspended", w.routerSuspended},
		{"agents restarted", w.agentRestarts}, {"agents cut off or hung", w.agentSilent}, {"agents paused", w.agentPaused}, {"machines suspended", w.machineSuspended},
		{"shims died", w.shimDies}, {"engines exited", w.engineExits}, {"doors hung", w.doorHangs},
		{"failovers", w.failover}, {"peers paused", w.peerPaused}, {"replicas replaced", w.replicaLeaves}, {"deposed leaders asked", w.otherLeaders},
	})
}

// mild leaves every agent heard and every door answering.
func (w *world) mild() {
	w.strike(3*time.Second, strikes{
		{"routers restarted", w.routerRestarts}, {"routers cut off or hung", w.routerMute}, {"routers cloned", w.routerClone}, {"routers suspended", w.routerSuspended},
		{"shims died", w.shimDies}, {"engines exited", w.engineExits}, {"failovers", w.rareFailover}, {"replicas replaced", w.replicaLeaves},
	})
}

func (w *world) strike(mean time.Duration, kinds strikes) {
	w.after(time.Duration(w.rng.ExpFloat64()*float64(mean)), func() {
		s := pick(w, kinds)
		w.fault(s.kind)
		s.hit()
		w.strike(mean, kinds)
	})
}

func (w *world) routerRestarts() { pick(w, w.routers).restart() }

func (w *world) routerMute() {
	r := pick(w, w.routers)
	r.mute = true
	w.after(w.upTo(2*time.Minute), func() { r.mute = false })
}

func (w *world) routerClone() {
	if len(w.routers) < 6 {
		pick(w, w.routers).clone()
	}
}

func (w *world) agentRestarts() { pick(w, w.nodes).stamp = nil }

func (w *world) agentSilent() {
	n := pick(w, w.nodes)
	n.silent = true
	w.after(w.upTo(30*time.Second), func() { n.silent = false })
}

// agentPaused stops the agent without its knowing: it goes on with the stamp that it had.
func (w *world) agentPaused() {
	n := pick(w, w.nodes)
	n.silent = true
	stamp := n.stamp
	w.after(w.upTo(time.Minute), func() { n.silent, n.stamp = false, stamp })
}

// machineSuspended stops a whole machine: agent, doors and engines. Its boot clock goes on. Requests that were in flight end, at the earliest, when
// it wakes up; what is sent to it meanwhile is not admitted.
func (w *world) machineSuspended() { w.suspend(&pick(w, w.nodes).suspension) }

// routerSuspended stops a router's machine: what goes through it ends when it wakes up.
func (w *world) routerSuspended() { w.suspend(&pick(w, w.routers).suspension) }

func (w *world) suspend(s *suspension) {
	if s.suspended {
		return
	}
	s.suspended = true
	w.after(w.upTo(2*time.Minute), s.resume)
}

// suspension is whether a machine stands still, and what waits until it does no more.
type suspension struct {
	suspended bool
	waiting   []func()
}

// run does something now, or when the machine wakes up.
func (s *suspension) run(do func()) {
	if s.suspended {
		s.waiting = append(s.waiting, do)
		return
	}
	do()
}

func (s *suspension) resume() {
	waiting := s.waiting
	s.suspended, s.waiting = false, nil
	for _, do := range waiting {
		do()
	}
}

func (w *world) shim() *shim {
	n := pick(w, w.nodes)
	if len(n.shims) == 0 {
		return nil
	}
	return pick(w, n.shims)
}

// shimDies also stands for a shim whose folder was lost: the replica runs again under a new shim.
func (w *world) shimDies() {
	if s := w.shim(); s != nil {
		s.die()
		s.n.newShim(s.replica)
	}
}

func (w *world) engineExits() {
	if s := w.shim(); s != nil {
		s.exit()
		s.start()
	}
}

func (w *world) doorHangs() {
	if s := w.shim(); s != nil {
		s.hung = true
		w.after(w.upTo(time.Minute), func() { s.hung = false })
	}
}

func (w *world) failover() { w.elect(pick(w, w.peers)) }

func (w *world) rareFailover() {
	if w.chance(0.2) {
		w.failover()
	}
}

// peerPaused stops a peer, often the leader, while heartbeats and reports gather in its buffers; another may lead meanwhile.
func (w *world) peerPaused() {
	p := w.leader
	if w.chance(0.3) {
		p = pick(w, w.peers)
	}
	if p.paused {
		return
	}
	p.paused = true
	w.after(w.upTo(30*time.Second), p.resume)
	if w.chance(0.5) {
		w.elect(pick(w, w.peers))
	}
}

// otherLeaders asks those who were deposed and do not know it yet.
func (w *world) otherLeaders() {
	for _, p := range w.peers {
		w.probe(p)
	}
}

// replicaLeaves removes a replica and places another, as a rollout does. The leader forgets it; late messages still name it.
func (w *world) replicaLeaves() {
	s := w.shim()
	if s == nil || len(w.oracle.replicas) > 20 {
		return
	}
	s.die()
	for _, p := range w.peers {
		if p.ledger != nil {
			p.ledger.Forget(s.replica)
			delete(p.told, s.replica)
		}
	}
	w.place()
}
