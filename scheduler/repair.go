package scheduler

import (
	"fmt"

	"berth/fleet"
)

// repair deals with engines that ended by themselves, and says whether a replica was given up. A single node's shim starts its engine again by
// itself; the ranks of a gang start together under a new number, which only an order gives.
func (p *planner) repair(c *cast) bool {
	gaveUp := false
	for _, part := range [][]*fleet.Replica{c.staying, c.leaving} {
		for _, r := range part {
			rank := exited(r)
			switch limit := c.model.Spec.Start.MaxRestarts; {
			case len(r.Shards) == 1 && r.Restarts > limit, rank >= 0 && r.Restarts >= limit:
				gaveUp = true
				p.plan.Items = append(p.plan.Items, fleet.PlanItem{Stop: &fleet.StopItem{
					Replica: r.ID, Reason: "keeps exiting", Failed: fmt.Sprintf("%s; given up after %d restarts in a row", lastExit(r), r.Restarts),
				}})
			case rank >= 0 && p.Backoff.Restarts[r.ID].For <= 0:
				p.plan.Items = append(p.plan.Items, fleet.PlanItem{Restart: &fleet.RestartItem{
					Replica: r.ID, Start: r.Start + 1, Reason: lastExit(r),
				}})
			}
		}
	}
	return gaveUp
}

// exited returns the lowest rank of a gang whose engine has exited under the present start number, or -1. A restart clears the exits.
func exited(r *fleet.Replica) int {
	if len(r.Shards) < 2 {
		return -1
	}
	for i := range r.Shards {
		if r.Shards[i].Exit != nil {
			return i
		}
	}
	return -1
}

func lastExit(r *fleet.Replica) string {
	for i, s := range r.Shards {
		if s.Exit == nil {
			continue
		}
		how := fmt.Sprintf("exited with code %d", s.Exit.Code)
		if s.Exit.Signal != "" {
			how = "was ended by " + s.Exit.Signal
		}
		return fmt.Sprintf("rank %d on %s %s", i, s.Node, how)
	}
	return "its engine exited"
}
