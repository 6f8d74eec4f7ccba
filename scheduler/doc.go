// Package scheduler decides which replica of which model sits on which GPUs, and explains what it refuses. Plan is a pure function: equal
// snapshots give equal plans. It must never know how a snapshot was gathered or what becomes of a plan: no clock, log, network or goroutine
// is in here, and whatever it proposes is checked again when it is applied.
//
// A leader keeps one Failures a term. On every change it takes a Snapshot, lets Failures.Observe see it, fills Snapshot.Backoff from
// Failures.Backoff, proposes what Plan returns, and looks again when Backoff.Next says that a hold has ended. EndedDrains tells it which node
// drains to close.
package scheduler
