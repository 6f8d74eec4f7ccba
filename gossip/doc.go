// Package gossip finds out which processes are there and at what addresses. It owns the membership view of one process,
// on hashicorp/memberlist: joining and re-joining, the metadata that every member carries, and which strangers are kept
// out. It must never know what follows from a membership: gossip is a hint, and nobody is registered, judged or removed
// because of it.
//
// # Names
//
// A member is known to memberlist as "ID#INSTANCE", the identity on its disk and the count of its starts. A process that
// comes back, at whatever address, is therefore a new member at once, where memberlist would keep a returning name at a
// new address out for half a minute. Two live members of one id are a copied machine; they are reported, and both stay.
//
// # Clusters
//
// All members share one label (not a cluster's id: a machine that starts for the first time does not know that, and could
// not be discovered if it had to). Clusters are kept apart by the id in the metadata: a member of another known cluster is
// refused at the first message, in both directions, whether it joins or is only gossiped about. One without a cluster is
// accepted as a newcomer, and takes the first cluster that it hears of as its own until it is told, so it cannot become a
// bridge between two. Where a gossip key is set, that is the stronger wall; the key also authenticates.
//
// # Goroutines
//
// Run joins every goroutine of this package. memberlist cannot be waited for: its own goroutines see the end within
// [Linger]. A test in a bubble sleeps for so long after Run has returned.
package gossip
