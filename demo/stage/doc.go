// Package stage sets up a cluster of Berth whose roles are separate processes of the real program on loopback: peers, agents with simulated GPUs,
// routers, each with a data directory and ports of its own. It starts, kills and restarts them, runs berthctl as an operator does, and at the end
// leaves nothing behind. What is done with the cluster is for the callers: the demonstrations, the integration tests, the bench of failovers.
package stage
