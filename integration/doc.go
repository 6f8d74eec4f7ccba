// Package integration tests whole clusters of real processes: the program as it is built and started by people, on loopback, with data on disk and
// signals from outside. What can be shown inside one process, on memory networks and a bubble's clock, is tested in the rooms themselves. Nobody
// imports it.
package integration
