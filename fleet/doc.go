// Package fleet is Berth's vocabulary: models, nodes, GPUs, replicas, plans, settings, errors, and the rules by which each is valid.
// Every other room speaks in these words. It knows no log, no network, no clock and no disk; it imports the standard library alone.
package fleet
