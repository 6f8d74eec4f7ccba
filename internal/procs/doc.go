// Package procs runs programs as real processes for demonstrations, tests and load tools: it starts them, keeps what they say, kills them, and
// finds whatever of them is left. Everything it starts is marked by one temporary folder, in the environment or on the command line; children
// inherit the mark, so that a process which outlives its parent, as a shim is meant to, is found as well. It knows nothing of Berth. Linux only:
// elsewhere nothing can be found by its mark.
package procs
