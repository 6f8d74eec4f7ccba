package peer

import "github.com/prometheus/client_golang/prometheus"

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "berth", Subsystem: "peer", Name: name, Help: help}, value)
}

// figures are what Prometheus gets from a peer. They are computed when asked for.
func figures(c *core) []prometheus.Collector {
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

// careFigures are those of disk and backups, as they were when the peer last looked after itself.
func careFigures(c *care) []prometheus.Collector {
	return []prometheus.Collector{
		gauge("disk_free_bytes", "Free on the file system of the data directory.", func() float64 { return float64(c.diskUse().Free) }),
		gauge("disk_total_bytes", "Size of the file system of the data directory.", func() float64 { return float64(c.diskUse().Total) }),
		gauge("log_bytes", "Size of the log's folder; 0 where the log is in raft.db.", func() float64 { return float64(c.diskUse().Store.Log) }),
		gauge("store_file_bytes", "Size of raft.db: term, vote, and the log where it is kept as boltdb.", func() float64 { return float64(c.diskUse().Store.File) }),
		gauge("store_used_bytes", "How much of raft.db holds something.", func() float64 { return float64(c.diskUse().Store.Used) }),
		gauge("snapshot_bytes", "Size of the newest snapshot in the data directory.", func() float64 { return float64(c.diskUse().Snapshot) }),
		gauge("ballast_gone", "1 after the disk was full and the ballast was given up.", func() float64 { return truth(c.diskUse().BallastGone) }),
		gauge("backup_age_seconds", "Age of this peer's last good backup; -1: it has none.", func() float64 {
			if b := c.backups.word(); b != nil {
				return b.AgeSeconds
			}
			return unknown
		}),
		gauge("warnings", "How many things this peer wants a person to see about itself.", func() float64 { return float64(len(c.warnings())) }),
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
