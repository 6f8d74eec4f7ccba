// Package ops owns what every process shows to those who operate it: the health endpoints, the metrics endpoint with a
// registry of its own, and a log that never makes anyone wait. It must never know a role: what is checked and measured is
// handed in.
package ops
