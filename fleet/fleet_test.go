package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestDurationsAndSizesReadWhatTheyWrite(t *testing.T) {
	for in, want := range map[string]string{"10m": "10m", "90s": "1m30s", "2h": "2h", "0s": "0s", "1h0m5s": "1h0m5s", "250ms": "250ms"} {
		var d Duration
		if err := d.UnmarshalText([]byte(in)); err != nil || d.String() != want {
			t.Errorf("%s: got %s, %v", in, d, err)
		}
	}
	for in, want := range map[string]Bytes{"40GiB": 40 * GiB, "1.5TiB": TiB + TiB/2, "512MiB": 512 * MiB, "7B": 7, "0B": 0} {
		var b, again Bytes
		if err := b.UnmarshalText([]byte(in)); err != nil || b != want {
			t.Errorf("%s: got %d, %v", in, b, err)
		}
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%s written as %s reads as %d, %v", in, b, again, err)
		}
	}
}

func TestWrongUnitsAreRefusedWithTheRightOne(t *testing.T) {
	for _, in := range []string{"40GB", "40", "GiB", "-1GiB", "1e300TiB", "NaNGiB", ""} {
		var b Bytes
		if err := b.UnmarshalText([]byte(in)); err == nil || !strings.Contains(err.Error(), "40GiB") {
			t.Errorf("size %q: got %v", in, err)
		}
	}
	for _, in := range []string{"10", "ten minutes", "-1s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("duration %q accepted as %s", in, d)
		}
	}
}

func TestTimesAreUTCAndAbsentWhenThereIsNone(t *testing.T) {
	loc := time.FixedZone("five and a half hours east", 5*3600+1800)
	at := TimeOf(time.Date(2026, 3, 1, 5, 30, 0, 7e6, loc))
	text, err := json.Marshal(struct {
		At   Time `json:"at,omitzero"`
		None Time `json:"none,omitzero"`
	}{At: at})
	if err != nil || string(text) != `{"at":"2026-03-01T00:00:00.007Z"}` {
		t.Errorf("got %s, %v", text, err)
	}
	var back Time
	if err := json.Unmarshal([]byte(`"2026-03-01T00:00:00.007Z"`), &back); err != nil || back != at {
		t.Errorf("got %d, %v; want %d", back, err, at)
	}
	if TimeOf(time.Time{}) != 0 {
		t.Error("the zero time has become a moment")
	}
}

func TestIndexIsOrderedByEpochFirst(t *testing.T) {
	old, restored := Index{Epoch: 1, N: 900}, Index{Epoch: 2, N: 3}
	if !old.Before(restored) || restored.Before(old) || old.Before(old) {
		t.Error("an entry after a restore is not newer than one before it")
	}
	for _, bad := range []string{"", "7", "1.", "1.x", "-1.2", "1.2.3"} {
		if _, err := ParseIndex(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
	if i, err := ParseIndex(restored.String()); err != nil || i != restored {
		t.Errorf("got %v, %v", i, err)
	}
}

func TestErrorsAreKnownByCodeThroughWrappingAndTheWire(t *testing.T) {
	err := fmt.Errorf("apply: %w", Errorf(NotFound, "no model %s", "m").WithHint("see berthctl models"))
	if !errors.Is(err, NotFound) || errors.Is(err, Conflict) || CodeOf(err) != NotFound {
		t.Errorf("%v is not known as not_found alone", err)
	}
	text, _ := json.Marshal(AsError(err))
	var back Error
	if jsonErr := json.Unmarshal(text, &back); jsonErr != nil || !errors.Is(&back, NotFound) || back.Hint == "" {
		t.Errorf("after the wire: %+v, %v", back, jsonErr)
	}
	if CodeOf(errors.New("x")) != Internal || NotFound.Status() != 404 || Code("new").Status() != 500 {
		t.Error("codes and statuses do not match")
	}
}

func TestModelNamesAreOpaqueButNeverPaths(t *testing.T) {
	for _, good := range []string{"org/Qwen-X:Q4_K_M", "a", "meta-llama/Llama-3.1-8B-Instruct", "ü/x"} {
		if err := CheckModelName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/a", "a/", "a//b", "../admin", "a/../b", "a b", "a\n", "a?b", "%2e", strings.Repeat("x", 254), "\xff"} {
		if CheckModelName(bad) == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestVersionConditions(t *testing.T) {
	for _, c := range []struct {
		cond, have string
		want       bool
	}{
		{">=0.18", "0.18.0", true}, {">=0.18", "0.9.9", false}, {">=0.18,<0.30", "0.30.0", false}, {"0.4.1", "v0.4.1", true},
		{">b6000", "b6123", true}, {"!=0.5", "0.5.0", false}, {">=0.33", "0.33.0rc1", true}, {">=1", "unknown", false}, {">=1", "", false},
	} {
		cond, err := ParseConstraint(c.cond)
		if err != nil || cond.Admits(c.have) != c.want {
			t.Errorf("%s admits %q: want %v, %v", c.cond, c.have, c.want, err)
		}
	}
	if _, err := ParseConstraint("about 3"); err == nil {
		t.Error("nonsense accepted")
	}
}

func goodSpec() ModelSpec {
	s := DefaultedSpec()
	s.Version, s.Kind, s.Name = SpecVersion, "model", "m"
	s.Engine = EngineSpec{Driver: "sim", Weights: "m"}
	s.Placement.GPUsPerNode = 1
	return s
}

func TestCheckNamesEverythingThatIsWrong(t *testing.T) {
	if err := goodSpec().Check(); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for want, change := range map[string]func(*ModelSpec){
		"version is 2":           func(s *ModelSpec) { s.Version = 2 },
		"kind is":                func(s *ModelSpec) { s.Kind = "deployment" },
		"there twice":            func(s *ModelSpec) { s.Aliases = []string{"m"} },
		"engine.driver":          func(s *ModelSpec) { s.Engine.Driver = "tgi" },
		"engine.weights is":      func(s *ModelSpec) { s.Engine.Weights = "" },
		"starts with a dash":     func(s *ModelSpec) { s.Engine.Weights = "--host=0.0.0.0" },
		".. segment":             func(s *ModelSpec) { s.Engine.Weights = "/srv/models/../../etc" },
		"engine.version":         func(s *ModelSpec) { s.Engine.Version = "new" },
		"neither gpus_per_node":  func(s *ModelSpec) { s.Placement.GPUsPerNode = 0 },
		"both gpus_per_node":     func(s *ModelSpec) { s.Placement.GPUShare = GiB },
		"gpu_share needs":        func(s *ModelSpec) { s.Placement = PlacementSpec{Nodes: 2, GPUShare: GiB} },
		"unload_after needs":     func(s *ModelSpec) { s.Idle.UnloadAfter = Duration(minute) },
		"at least one must be 1": func(s *ModelSpec) { s.Rollout = RolloutSpec{} },
		"longer than drain":      func(s *ModelSpec) { s.Drain.Minimum = s.Drain.Deadline + 1 },
		"priority is 101":        func(s *ModelSpec) { s.Priority = 101 },
	} {
		s := goodSpec()
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) || CodeOf(err) != InvalidSpec {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestOnlyWhatTheEngineDependsOnChangesTheRunHash(t *testing.T) {
	a, b := goodSpec(), goodSpec()
	b.Replicas.Min, b.Priority, b.Drain.Deadline = 0, 90, Duration(minute)
	if a.RunHash() != b.RunHash() || a.Hash() == b.Hash() {
		t.Error("replicas, priority or drain changed the run hash, or not the whole one")
	}
	b.Engine.Args = []string{"--max-model-len=1"}
	if a.RunHash() == b.RunHash() {
		t.Error("an argument of the engine did not change the run hash")
	}
}
