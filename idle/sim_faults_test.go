package idle_test

import "time"

// harsh injects everything that the design allows to go wrong, at a rate of the schedule's own.
func (w *world) harsh() {
	mean := pick(w, []time.Duration{500 * time.Millisecond, 2 * time.Second, 10 * time.Second})
	kinds := []func(){
		w.routerRestarts, w.routerMute, w.routerClone,
		w.agentRestarts, w.agentSilent, w.machinePaused,
		w.shimDies, w.engineExits, w.doorHangs,
		w.failover, w.peerPaused, w.replicaLeaves, w.otherLeaders,
	}
	w.strike(mean, kinds)
}

// mild leaves every agent heard and every door answering.
func (w *world) mild() {
	w.strike(3*time.Second, []func(){w.routerRestarts, w.routerMute, w.routerClone, w.shimDies, w.engineExits, w.rareFailover, w.replicaLeaves})
}

func (w *world) strike(mean time.Duration, kinds []func()) {
	w.after(time.Duration(w.rng.ExpFloat64()*float64(mean)), func() {
		w.fault()
		pick(w, kinds)()
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

// machinePaused stops the agent without its knowing: it goes on with the stamp that it had.
func (w *world) machinePaused() {
	n := pick(w, w.nodes)
	n.silent = true
	stamp := n.stamp
	w.after(w.upTo(time.Minute), func() { n.silent, n.stamp = false, stamp })
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
