package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/admin/client"
	"berth/fleet"
)

// offline runs a command line that needs no peer, or finds none.
func offline(ctx context.Context, in io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{in: in, out: &out, err: &errs, http: &http.Client{Transport: nobody{}}}
	code = a.run(ctx, append([]string{"--addr", "192.0.2.1"}, args...))
	return code, out.String(), errs.String()
}

// nobody answers nothing.
type nobody struct{}

func (nobody) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("nobody is there")
}

func TestMistakesInACommandLine(t *testing.T) {
	for _, c := range []struct {
		line string
		says string
	}{
		{"replicas --state redy", "starting, ready, draining, stopped, failed"},
		{"nodes --timeout 0", "more than 0s"},
		{"nodes --timeout=-1s", "more than 0s"},
		{"nodes --timeout soon", "invalid duration"},
		{"events --since=-5m", "in the future"},
		{"freeze --reason=\u00a0", "needs --reason"},
		{"model apply examples/sim", `it takes no argument, and was given "examples/sim"`},
		{"status now", `it takes no argument, and was given "now"`},
	} {
		code, out, errs := offline(t.Context(), strings.NewReader(""), strings.Split(c.line, " ")...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("berthctl %s: exit %d, %q, %q", c.line, code, out, errs)
		}
	}
}

// Without a peer the version is still told, and the exit code says that no peer answered.
func TestVersionWithoutAPeer(t *testing.T) {
	for _, form := range []string{"--json", "--stale"} {
		code, out, errs := offline(t.Context(), strings.NewReader(""), "version", form)
		if code != exitError || !strings.Contains(out, "berthctl") || !strings.Contains(errs, "nobody is there") {
			t.Errorf("%s: exit %d, %q, %q", form, code, out, errs)
		}
		if form == "--json" && !json.Valid([]byte(out)) {
			t.Errorf("no JSON: %q", out)
		}
	}
}

// What other people have written down cannot do anything to a terminal, or break a table.
func TestTextIsHarmless(t *testing.T) {
	if got := cell("fans\x1b[2J\nand\tmore\u009b1m"); strings.ContainsAny(got, "\x1b\n\t\u009b") || !strings.Contains(got, "and more") {
		t.Errorf("%q", got)
	}
	if got := describe(fmt.Errorf("model m: %w", fleet.Errorf(fleet.Conflict, "taken by \x1b[31mred").WithHint("choose another"))); got != "model m: taken by \uFFFD[31mred\n  choose another" {
		t.Errorf("%q", got)
	}
}

// Ctrl-C at the question is an answer, and the time limit begins after it.
func TestTheQuestionMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, person := io.Pipe()
		a := &app{in: in, out: io.Discard, err: io.Discard}
		ctx, interrupt := context.WithCancel(context.Background())
		go func() {
			time.Sleep(time.Second)
			interrupt()
		}()
		var e exit
		if err := a.answered(ctx); !errors.As(err, &e) || e.text != "nothing was changed" {
			t.Errorf("interrupted: %v", err)
		}
		if _, err := io.WriteString(person, "\n"); err != nil { // to whoever still reads
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(person, "yes\n")
		}()
		if err := a.answered(context.Background()); err != nil {
			t.Errorf("yes: %v", err)
		}
	})
}

// A command that was interrupted says so, and not what broke on the way.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if code, _, errs := offline(ctx, strings.NewReader(""), "thaw"); code != exitError || !strings.Contains(errs, "interrupted") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestWatchingEndsWhenThereIsNothingToWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &app{out: io.Discard, err: io.Discard}
		n := 0
		err := a.watch(t.Context(), func(context.Context, client.ReadOptions) (client.Meta, error) {
			if n++; n < 3 {
				return client.Meta{}, fleet.Errorf(fleet.NoLeader, "there is no leader")
			}
			return client.Meta{}, fleet.Errorf(fleet.NotFound, "there is no model m")
		})
		if n != 3 || !errors.Is(err, fleet.NotFound) {
			t.Errorf("after %d questions: %v", n, err)
		}
	})
}

// Every verb has an answer in JSON.
func TestVerbsAnswerInJSON(t *testing.T) {
	inCluster(t, func(x terminal) {
		for _, line := range []string{
			"node cordon node-1", "node uncordon node-1", "freeze --reason x", "thaw", "model diff -f ../../examples/sim", "peer transfer peer-2", "settings show",
			"routers", "peers", "idle",
		} {
			out, _ := x.at(0, append(strings.Fields(line), "--json")...)
			if !json.Valid([]byte(out)) {
				t.Errorf("berthctl %s --json: %q", line, out)
			}
		}
	})
}

// slowDrain answers like a peer on which a node is being drained for ever, until the person loses patience.
type slowDrain struct{ patience func() }

func (d slowDrain) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		d.patience()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body := `{"node":"n","state":"draining","left":["r-1.1.1"]}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// Whoever stops looking at a drain is told that it goes on.
func TestADrainGoesOnWithoutWhoLooks(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: io.Discard, err: &errs, http: &http.Client{Transport: slowDrain{interrupt}}}
	if code := a.run(ctx, []string{"--addr", "192.0.2.1", "node", "drain", "n", "--yes"}); code != exitError || !strings.Contains(errs.String(), "the drain goes on; berthctl node undrain n cancels it") {
		t.Errorf("exit %d, %q", code, &errs)
	}
}
