// Package agent owns the role of a GPU node: it measures the machine, registers it, follows the orders of the peers through shims, and
// reports what became of them. What outlives it (engines, doors, drains) is the shims'; what it must not forget (identity, the newest order
// seen, the last orders) is on its disk.
//
// It must never know how a driver's command line looks, how a card is measured, or how peers are found: those come in through the small
// interfaces of seams.go, which cmd and dev fill. It never stops an engine because something is missing from an answer: only an order to stop,
// not older than what it has seen, stops one.
package agent
