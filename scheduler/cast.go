package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"berth/fleet"
)

// cast is one model's replicas by the part they play. Those that are draining, stopped or failed play none: they hold their claims and nothing else.
type cast struct {
	model   *fleet.Model
	want    int
	staying []*fleet.Replica // live, of the present generation, where they may stay
	leaving []*fleet.Replica // live and to be replaced: older generation, draining node, or a card that is gone
	lost    []*fleet.Replica // live on an unreachable or unknown node: they count for nothing until it returns
	failed  []*fleet.Replica // of the present generation
	movers  []*fleet.Replica // those of leaving that cannot stay where they run
	ending  []*fleet.Replica // draining on reachable nodes, cards not yet proved empty
	placed  int              // by this plan
	braked  bool
}

func (p *planner) cast(m *fleet.Model) *cast {
	c := &cast{model: m, want: m.Want, braked: p.Braked}
	switch {
	case m.Deleting:
		c.want = 0
	case m.Want == 0 && m.Spec.Replicas.Max > 0 && p.Demand[m.Name()].Requests > 0:
		c.want = 1
	}
	for _, r := range p.replicas[m.Name()] {
		switch {
		case p.preempted[r.ID]:
			c.ending = append(c.ending, r)
		case r.State == fleet.Failed && r.Generation == m.Generation:
			c.failed = append(c.failed, r)
		case r.State == fleet.DrainingDown && !p.isLost(r):
			c.ending = append(c.ending, r)
			if failing(r) && r.Generation == m.Generation {
				c.failed = append(c.failed, r)
			}
		case !r.State.Live():
		case p.isLost(r):
			c.lost = append(c.lost, r)
		case p.mustMove(r):
			c.leaving = append(c.leaving, r)
			c.movers = append(c.movers, r)
		case r.Generation != m.Generation:
			c.leaving = append(c.leaving, r)
		default:
			c.staying = append(c.staying, r)
		}
	}
	return c
}

func (p *planner) isLost(r *fleet.Replica) bool {
	if p.keeper.knowsSound(r) {
		return false
	}
	for _, s := range r.Shards {
		if n := p.nodes[s.Node]; n == nil || n.Unreachable {
			return true
		}
	}
	return false
}

// mustMove says whether a replica cannot stay where it is: its node is being drained, or the node no longer reports one of its cards.
func (p *planner) mustMove(r *fleet.Replica) bool {
	if p.keeper.knowsSound(r) {
		return false
	}
	for _, s := range r.Shards {
		n := p.nodes[s.Node]
		if n.Admin == fleet.Draining {
			return true
		}
		for _, claim := range s.Claims {
			if _, ok := n.GPU(claim.GPU); !ok {
				return true
			}
		}
	}
	p.keeper.isSound(r)
	return false
}

// present counts the replicas that count towards the wanted number.
func (c *cast) present() int {
	n := len(c.staying) + len(c.leaving) + c.placed
	if c.braked {
		n += len(c.lost)
	}
	return n
}

// missing is how many replicas the model is short of, whatever their generation.
func (c *cast) missing() int { return max(0, c.want-c.present()) }

// toPlace is how many new replicas may be placed now: what is missing, and beside the replicas that are to be replaced as many as surge
// allows. A replica that must move because of its node never waits for surge.
func (c *cast) toPlace() int {
	surge := 0
	if c.old() > 0 && !c.model.Paused {
		surge = c.model.Spec.Rollout.MaxSurge
	}
	return min(c.successors(), c.want+surge+len(c.movers)-c.present())
}

// successors is how many replicas of the present generation are still to be placed.
func (c *cast) successors() int {
	n := c.want - len(c.staying) - c.placed
	if c.braked {
		n -= len(c.lost)
	}
	return n
}

// old is how many replicas a rollout still has to replace.
func (c *cast) old() int { return len(c.leaving) - len(c.movers) }

// turn says whether a rollout goes on only if an old replica is drained before its successor is placed: no surge is allowed, and nothing is on its way.
func (c *cast) turn() bool {
	return c.old() > 0 && !c.model.Paused && c.successors() > 0 && c.starting() == 0 && len(c.ending) == 0 && c.model.Spec.Rollout.MaxSurge == 0
}

// stalled says whether a rollout has stopped because its new replicas keep failing; the old ones are kept.
func (c *cast) stalled() bool { return len(c.failed) >= maxFailures && c.old() > 0 }

// maxFailures is how many failed replicas of one generation stop its rollout; as many rows of them are kept.
const maxFailures = 3

func (c *cast) starting() int { return len(c.staying) - ready(c.staying) }

// underWay says whether nothing is missing and a rollout's next replica is loading, so that its turn comes without any more room now.
func (c *cast) underWay() bool { return c.missing() == 0 && len(c.movers) == 0 && c.starting() > 0 }

// waiting says what waits for room although nothing is missing yet.
func (c *cast) waiting() string {
	name, block := c.model.Name(), shape(&c.model.Spec)
	if len(c.movers) == 0 {
		return fmt.Sprintf("waiting: no free block of %s for generation %d of %s", block, c.model.Generation, name)
	}
	return fmt.Sprintf("waiting: no free block of %s for %s, to replace %s", block, name, c.movers[0].ID)
}

// held says why nothing of the model is placed now, or "".
func (c *cast) held(h Hold) string {
	if c.stalled() {
		last := slices.MaxFunc(c.failed, func(a, b *fleet.Replica) int { return cmp.Compare(a.StateAt, b.StateAt) })
		return fmt.Sprintf("rollout of generation %d stopped after %d replicas of it failed, the old ones are kept; last: %s",
			c.model.Generation, len(c.failed), last.Reason)
	}
	if h.For <= 0 {
		return ""
	}
	return fmt.Sprintf("backing off for %s after failures, last: %s", fleet.Duration(h.For.Round(1e9)), h.Cause)
}

func ready(rs []*fleet.Replica) int {
	n := 0
	for _, r := range rs {
		if r.State == fleet.Ready {
			n++
		}
	}
	return n
}

// failing says whether a replica is on its way to failed: its engines are being ended.
func failing(r *fleet.Replica) bool {
	return r.State == fleet.DrainingDown && r.Drain != nil && r.Drain.Failed != ""
}
