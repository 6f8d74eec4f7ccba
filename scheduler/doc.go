// Package scheduler decides which replica of which model sits on which GPUs, and explains what it refuses. Plan is a pure function: equal
// snapshots give equal plans. It must never know how a snapshot was gathered or what becomes of a plan: no clock, log, network or goroutine
// is in here, and whatever it proposes is checked again when it is applied.
//
// A leader keeps a Planner, a Sightings and a Turns for its term, and Rows, which follow the state from change to change, so that nobody looks at the whole
// fleet again for each. On every change it takes a Snapshot of them, lets Sightings.Observe and Turns.Holds
// complete it with what only the leader has seen, proposes what Planner.Plan returns, and looks again when Backoff.Next says that a hold has
// ended. EndedDrains tells it which node drains to close.
//
// Where a replica goes is decided by a finder: it knows which nodes a spec is admitted to, and keeps them in the order of their cost as the
// capacity.Map changes, so that one more decision costs what has changed and not what the fleet is. The cost's main part is measured by package
// frag. Placer is the same without models and plans, for whoever wants single decisions.
package scheduler
