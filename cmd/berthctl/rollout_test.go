package main

import (
	"testing"
	"time"

	"berth/fleet/wire"
)

func TestARolloutIsPausedAndResumed(t *testing.T) {
	inCluster(t, func(x terminal) {
		x.at(0, "model", "apply", "-f", "../../examples/sim")
		time.Sleep(20 * time.Second)
		out, _ := x.at(0, "rollout", "status", "llama-8b")
		has(t, out, "generation 1 is complete: 2 of 2 new replicas ready, 0 old to replace")
		out, _ = x.at(0, "rollout", "pause", "llama-8b")
		has(t, out, "llama-8b: paused")
		out, _ = x.at(0, "rollout", "pause", "llama-8b")
		has(t, out, "llama-8b: already paused")
		out, _ = x.at(exitNotPlaced, "rollout", "status", "llama-8b")
		has(t, out, "is paused", "berthctl rollout resume")
		out, _ = x.at(0, "rollout", "resume", "llama-8b")
		has(t, out, "llama-8b: resumed")
		x.at(1, "rollout", "status", "nobody")
	})
}

func TestWhatARolloutsStateSays(t *testing.T) {
	v := wire.RolloutView{Model: "m", Generation: 3, State: "stopped", Want: 2, NewReady: 1, Old: 1, Failed: 3, Ending: 1, Reason: "exit 1"}
	if got, want := rolloutLine(v), "m: generation 3 is stopped: 1 of 2 new replicas ready, 1 old to replace, 3 failed, 1 draining\n  exit 1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for state, code := range map[string]int{"going": exitNotPlaced, "waiting": exitNotPlaced, "paused": exitNotPlaced, "stopped": exitPerson} {
		if err := rolloutExit(wire.RolloutView{State: state}); err != (exit{code: code}) {
			t.Errorf("%s ends with %v, want %d", state, err, code)
		}
	}
	if err := rolloutExit(wire.RolloutView{State: "complete"}); err != nil {
		t.Errorf("complete ends with %v", err)
	}
}
