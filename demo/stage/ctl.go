package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Answer is what a run of berthctl said.
type Answer struct {
	Out, Err string
	Code     int
}

// Ctl runs berthctl against the peers that run, as an operator does. Any exit code is an answer; an error is a berthctl that did not run.
func (s *Stage) Ctl(ctx context.Context, stdin string, args ...string) (Answer, error) {
	var addrs []string
	for _, p := range Alive(s.Peers) {
		addrs = append(addrs, p.Addr)
	}
	return s.CtlAt(ctx, strings.Join(addrs, ","), stdin, args...)
}

// CtlAt runs berthctl against the given addresses.
func (s *Stage) CtlAt(ctx context.Context, addr, stdin string, args ...string) (Answer, error) {
	cmd := exec.CommandContext(ctx, s.Program("berthctl"), append([]string{"--addr", addr}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	a := Answer{Out: out.String(), Err: strings.TrimSpace(errs.String()), Code: cmd.ProcessState.ExitCode()}
	if errors.As(err, new(*exec.ExitError)) && ctx.Err() == nil {
		err = nil
	}
	return a, err
}

// Do runs berthctl and fails unless it ends with 0. It returns what was printed.
func (s *Stage) Do(ctx context.Context, args ...string) (string, error) {
	a, err := s.Ctl(ctx, "", args...)
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("berthctl %s ended with %d: %s", strings.Join(args, " "), a.Code, a.Err)
	}
	return a.Out, err
}

// JSON runs berthctl with --json and reads what it prints, whatever its exit code says of the fleet.
func JSON[T any](ctx context.Context, s *Stage, args ...string) (T, error) {
	var out T
	a, err := s.Ctl(ctx, "", append(args, "--json")...)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal([]byte(a.Out), &out); err != nil {
		return out, fmt.Errorf("berthctl %s --json printed no JSON (exit %d): %s", strings.Join(args, " "), a.Code, a.Err)
	}
	return out, nil
}
