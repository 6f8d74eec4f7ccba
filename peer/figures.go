package peer

import "github.com/prometheus/client_golang/prometheus"

// figures are what Prometheus gets from a peer. They are computed when asked for.
func figures(c *core) []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "berth", Subsystem: "peer", Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		gauge("is_leader", "1 while raft believes that this peer leads.", func() float64 { return truth(c.node.IsLeader()) }),
		gauge("caught_up", "1 once the state machine has caught up since the start.", func() float64 { return truth(c.node.CaughtUp()) }),
		gauge("term", "Newest raft term known.", func() float64 { return float64(c.node.Term()) }),
		gauge("applied_index", "Newest log index that the state machine has applied.", func() float64 { return float64(c.node.AppliedIndex()) }),
		gauge("commit_index", "Newest commit index of the leader known here.", func() float64 { return float64(c.node.CommitIndex()) }),
		gauge("knowledge_age_seconds", "Age of the commit index; -1 if none was ever heard.", func() float64 {
			_, _, age := c.node.Knowledge()
			if age < 0 {
				return unknown
			}
			return age.Seconds()
		}),
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
