package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Fault is a set of ways to go wrong; the zero value is a healthy engine. In
// JSON durations are Go's ("1.5s"), and unknown fields are refused.
type Fault struct {
	// CrashAfterRequests ends the engine when that many requests have been
	// accepted since the fault was set, before the last of them is answered.
	CrashAfterRequests int `json:"crash_after_requests,omitempty"`
	// CrashAfter ends the engine that long after it was ready, or after the
	// fault was set at run time.
	CrashAfter Duration `json:"crash_after,omitempty"`
	// CrashCode is the exit code of these. Default 1.
	CrashCode int `json:"crash_code,omitempty"`

	Hang       bool         `json:"hang,omitempty"`        // requests are accepted and never answered; /health stays well, as vLLM's does
	HangHealth bool         `json:"hang_health,omitempty"` // /health too
	Stream     *StreamFault `json:"stream,omitempty"`      // trouble in the middle of an answer

	Health       int    `json:"health,omitempty"`        // what /health answers instead of 200
	Admission503 bool   `json:"admission_503,omitempty"` // every request is refused as overload
	FlatErrors   bool   `json:"flat_errors,omitempty"`   // error bodies without the "error" member (old vLLM, SGLang)
	Gzip         string `json:"gzip,omitempty"`          // "real": unasked-for gzip; "label": the header alone, over plain text

	IgnoreTerm bool     `json:"ignore_term,omitempty"` // SIGTERM does nothing
	SlowDrain  Duration `json:"slow_drain,omitempty"`  // after SIGTERM it takes at least that long

	FailLoadAfter  Duration `json:"fail_load_after,omitempty"`  // exit 1 that long into loading; at the start only
	StallLoadAfter Duration `json:"stall_load_after,omitempty"` // loading makes no progress from then on; at the start only
	// ExitOnMasterLoss makes a headless rank exit 1 when rank 0 is gone. Without it
	// the rank lives on and complains, as vLLM's does.
	ExitOnMasterLoss bool `json:"exit_on_master_loss,omitempty"`
	// ForkChild starts a child in a session of its own that outlives the engine
	// for up to this long: the process that still holds the card. Only where the
	// engine is a process.
	ForkChild Duration `json:"fork_child,omitempty"`
}

// StreamFault strikes when an answer has After tokens (0: before anything was sent).
type StreamFault struct {
	After int `json:"after"`
	// How: "hang" stops moving; "reset" cuts the connection with a TCP reset;
	// "end" ends the body as if complete, without [DONE]; "error" sends vLLM's
	// error event and ends; "crash" ends the engine.
	How string `json:"how"`
}

// Duration is a time.Duration that JSON writes as Go does: "1.5s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// ParseFault reads the JSON form, strictly.
func ParseFault(r io.Reader) (Fault, error) {
	var f Fault
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return Fault{}, fmt.Errorf("fault: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Fault{}, errors.New("fault: more than one JSON value")
	}
	return f, nil
}

func (f *Fault) set(s string) error {
	v, err := ParseFault(bytes.NewReader([]byte(s)))
	*f = v
	return err
}

func (f Fault) validate(canSpawn bool) error {
	var bad []error
	if s := f.Stream; s != nil {
		switch s.How {
		case "hang", "reset", "end", "error", "crash":
		default:
			bad = append(bad, fmt.Errorf("fault: stream.how is %q, not hang, reset, end, error or crash", s.How))
		}
		if s.After < 0 {
			bad = append(bad, errors.New("fault: stream.after must not be negative"))
		}
	}
	if f.Gzip != "" && f.Gzip != "real" && f.Gzip != "label" {
		bad = append(bad, fmt.Errorf("fault: gzip is %q, not real or label", f.Gzip))
	}
	if f.Health != 0 && (f.Health < 200 || f.Health > 599) {
		bad = append(bad, fmt.Errorf("fault: health %d is not a final HTTP status", f.Health))
	}
	if f.ForkChild > 0 && !canSpawn {
		bad = append(bad, errors.New("fault: fork_child needs an engine that is a process of its own"))
	}
	if f.CrashAfterRequests < 0 || f.CrashAfter < 0 || f.SlowDrain < 0 || f.FailLoadAfter < 0 || f.StallLoadAfter < 0 || f.ForkChild < 0 {
		bad = append(bad, errors.New("fault: counts and durations must not be negative"))
	}
	return errors.Join(bad...)
}

func (f Fault) crash(why string) *ExitError {
	code := f.CrashCode
	if code == 0 {
		code = 1
	}
	return &ExitError{Code: code, Reason: why}
}

// faultBox holds the current fault and what counts towards it.
type faultBox struct {
	mu       sync.Mutex
	fault    Fault
	accepted int
	timer    *time.Timer
	onTimer  func(*ExitError)
}

func (b *faultBox) get() Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

// replace sets f, forgets what was counted and arms its timer.
func (b *faultBox) replace(f Fault) {
	b.mu.Lock()
	b.fault, b.accepted = f, 0
	b.mu.Unlock()
	b.arm()
}

// arm starts the clock of CrashAfter.
func (b *faultBox) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked()
	if f := b.fault; f.CrashAfter > 0 {
		b.timer = time.AfterFunc(time.Duration(f.CrashAfter), func() { b.onTimer(f.crash("crash_after has passed")) })
	}
}

func (b *faultBox) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked()
}

func (b *faultBox) stopLocked() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// accept counts a request and says whether the engine dies of it.
func (b *faultBox) accept() *ExitError {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted++
	if n := b.fault.CrashAfterRequests; n > 0 && b.accepted == n {
		return b.fault.crash("crash_after_requests is reached")
	}
	return nil
}
