// Command e2e runs Berth as an operator does: real processes, each machine a network namespace with its own name, address, /etc and /var/lib.
//
// It does two things. It reads the pages of docs/operations and does what they say, block by block, so that no page says what does not work. And it
// does to a cluster what machines and networks do to clusters (kills, pauses, cuts, loss, full and frozen disks), under load, and measures how
// long nobody could write and whether anything acknowledged was lost.
//
// What the machine lacks is named: a line "needs X: …", counted as skipped, never as passed. It needs Linux, root and iproute2; all that it makes is
// in namespaces and a temporary folder, and goes with it. Nobody imports it.
package main
