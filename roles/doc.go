// Package roles joins an agent or a router to a cluster: beside the role itself it runs gossip, which finds the peers, and the client that speaks
// to them. It is what a process of cmd/berth starts once and what a cluster in one process starts many of. It decides nothing.
package roles
