// Package dev is a whole cluster in one process: peers, nodes with simulated GPUs whose engines are simulated too, and routers, the same code as
// in production on a network that the caller chooses: the machine's loopback for a first look, an in-memory one for tests in bubbles.
package dev
