// Package status computes what operators see: the summary of the fleet, its exit code, and the lists of models, nodes, replicas and routers.
// Everything is derived, when it is asked for, from the agreed tables and from what the leader observes, by pure functions; so no screen can
// disagree with a table. It must never know how its input was gathered: no clock, log or network is in here.
package status
