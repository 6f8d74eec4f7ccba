// Package idle is the ledger of who uses which replica, held by the leader of one term. It merges what routers and
// doors say and answers two questions: when was a replica last used as far as anyone saw (IdleFor), and for how long is
// it certain that nobody used it (QuietFor). It must never know a network, a disk, the replicated state, or the time:
// every function that needs a clock is given the leader's.
//
// One sentence carries the package: a router can say "used" and can never say "not used"; only a replica's door can
// say both, and only for its own replica. Hence a witness that is silent, new, late or cut off leaves something unsaid,
// and what is unsaid is unknown. It is never idle.
//
// The clock of a ledger is its leader's time since boot (CLOCK_BOOTTIME, which goes on while the machine is
// suspended), as a time.Duration. Witnesses send ages, and an age counts from its arrival here, so no two clocks are
// ever compared. That makes a delayed message say "used" later than it was, which is the safe side.
package idle
