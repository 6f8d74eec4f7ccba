// Package admin is a peer's HTTP API: what operators, agents and routers call. It turns requests into commands and reads, forwards once to the
// leader what only the leader can answer, and says with each answer how fresh it is. It owns no state: the replicated side, the observed side and
// the membership are interfaces that the peer fills. One table lists every route, and one place decides who may call it.
package admin
