// Package shim owns the life of one shard's engine: it starts it, finds out when it serves, opens and shuts the door in
// front of it, starts it again when it died, and ends it when told, by itself and on its own clock. It must never know
// the cluster: no peer, no placement, no other shard. It has no opinion on which program an engine is.
//
// A [Shim] is that life as a state machine; it is told things by [Order] and says things by [Status]. The agent reaches
// it through a [Handle], which a [Maker] gives: package process makes each shim a process of its own that outlives the
// agent, package inproc makes it a goroutine of a [berth/agent/shim/inproc.Node] that outlives the agent's value.
package shim
