package raftmetrics

import "github.com/prometheus/client_golang/prometheus"

type kind int

const (
	counter kind = iota
	gauge
	duration     // a timer, in seconds
	milliseconds // a sample that a library gives in milliseconds
	size
	amount
)

func (k kind) buckets() []float64 {
	switch k {
	case size:
		return prometheus.ExponentialBuckets(64, 4, 10) // to 16 MiB
	case amount:
		return prometheus.ExponentialBuckets(1, 2, 11) // to 1024, raft's largest batch
	default:
		return prometheus.ExponentialBuckets(0.0001, 2.5, 13) // 0.1 ms to 6 s
	}
}

type figure struct {
	key  string // as the library names it, joined by dots
	kind kind
	peer bool // one series for each remote peer
	name string
	help string
}

func (f figure) scale() float64 {
	if f.kind == milliseconds {
		return 0.001
	}
	return 1
}

// figures are raft v1.7.3's, raft-boltdb/v2 v2.3.1's and memberlist v0.6.0's, as far as an operator needs them.
var figures = []figure{
	{"raft.apply", counter, false, "berth_raft_proposals_total", "Entries proposed by this peer as leader."},
	{"raft.barrier", counter, false, "berth_raft_barriers_total", "Barriers requested of this peer as leader."},
	{"raft.verify_leader", counter, false, "berth_raft_leader_verifications_total", "Requests to confirm leadership with a quorum."},
	{"raft.commitTime", duration, false, "berth_raft_commit_seconds", "Time from proposal to commit of an entry."},
	{"raft.commitNumLogs", gauge, false, "berth_raft_committed_batch_entries", "Entries in the last batch committed."},
	{"raft.leader.dispatchLog", duration, false, "berth_raft_leader_append_seconds", "Time for the leader to write a batch to its own log."},
	{"raft.leader.dispatchNumLogs", gauge, false, "berth_raft_appended_batch_entries", "Entries in the last batch that the leader wrote."},
	{"raft.leader.lastContact", milliseconds, false, "berth_raft_leader_contact_age_seconds", "Age of each follower's last answer, seen at each check of the lease."},
	{"raft.replication.appendEntries.rpc", duration, true, "berth_raft_replication_seconds", "Round trip of a replication message."},
	{"raft.replication.appendEntries.logs", counter, true, "berth_raft_replicated_entries_total", "Entries sent to a follower."},
	{"raft.replication.heartbeat", duration, true, "berth_raft_heartbeat_seconds", "Round trip of a heartbeat."},
	{"raft.replication.installSnapshot", duration, true, "berth_raft_snapshot_install_seconds", "Time to send a snapshot to a follower."},
	{"raft.rpc.appendEntries", duration, false, "berth_raft_append_entries_seconds", "Time for a follower to take a replication message."},
	{"raft.rpc.installSnapshot", duration, false, "berth_raft_snapshot_receive_seconds", "Time for a follower to take a snapshot."},
	{"raft.fsm.apply", duration, false, "berth_raft_apply_seconds", "Time to apply one entry to the state."},
	{"raft.fsm.restore", duration, false, "berth_raft_restore_seconds", "Time to restore the state from a snapshot."},
	{"raft.snapshot.takeSnapshot", duration, false, "berth_raft_snapshot_seconds", "Time to take a snapshot, writing included."},
	{"raft.state.leader", counter, false, "berth_raft_elections_won_total", "Times that this peer became leader."},
	{"raft.state.candidate", counter, false, "berth_raft_elections_begun_total", "Times that this peer became candidate."},
	{"raft.transition.heartbeat_timeout", counter, false, "berth_raft_heartbeat_timeouts_total", "Times that this peer missed its leader."},
	{"raft.transition.leader_lease_timeout", counter, false, "berth_raft_leader_lease_timeouts_total", "Times that this peer stepped down for want of a quorum."},
	{"raft.peers", gauge, false, "berth_raft_peers", "Peers in the configuration."},
	{"raft.boltdb.storeLogs", duration, false, "berth_raft_store_seconds", "Time to write a batch to the log file, sync included."},
	{"raft.boltdb.getLog", duration, false, "berth_raft_read_seconds", "Time to read one entry from the log file."},
	{"raft.boltdb.logBatchSize", size, false, "berth_raft_store_batch_bytes", "Size of a batch written to the log file."},
	{"raft.boltdb.logsPerBatch", amount, false, "berth_raft_store_batch_entries", "Entries in a batch written to the log file."},

	{"memberlist.health.score", gauge, false, "berth_gossip_health_score", "How much this member doubts its own health; 0 is healthy."},
	{"memberlist.gossip", duration, false, "berth_gossip_round_seconds", "Time of a round of gossip."},
	{"memberlist.probeNode", duration, false, "berth_gossip_probe_seconds", "Time of a probe of another member."},
	{"memberlist.msg.suspect", counter, false, "berth_gossip_suspicions_total", "Suspicions heard of."},
	{"memberlist.msg.dead", counter, false, "berth_gossip_deaths_total", "Deaths heard of."},
	{"memberlist.udp.sent", counter, false, "berth_gossip_sent_bytes_total", "Bytes sent in datagrams."},
	{"memberlist.udp.received", counter, false, "berth_gossip_received_bytes_total", "Bytes received in datagrams."},
	{"memberlist.degraded.probe", counter, false, "berth_gossip_degraded_probes_total", "Probes begun while this member doubted its own health."},
}
