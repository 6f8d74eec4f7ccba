// Package board holds what is observed and never agreed: the newest heartbeat of each node, what routers report, who sees whom alive, what
// the planner refuses, and a ring of events. It lives in memory and answers agents and routers at once.
//
// A [Board] lives as long as its peer. It keeps heartbeats for the leader and hands out the leader's stamps. While its peer leads it also has
// a [Term]: a new one for each term, because what one leader heard is not what the next one has heard, and absence must mean unknown.
//
// It must never know the log, the network or the disk: the agreed state and the clock are given to it, and what it concludes it leaves to the
// leader's duties.
package board
