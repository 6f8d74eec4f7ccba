package shim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

// exec starts the engine, with the placeholders of its command filled in.
func (l *life) exec() (p Process, apiKey string, err error) {
	x := Exec{Args: l.program.Args, Env: l.program.Env, Dir: l.program.Dir, Output: l.cfg.Output}
	if mentions(PlaceAPIKey, x.Args, x.Env) {
		apiKey = newKey()
		x.Args, x.Env = fill(x.Args, PlaceAPIKey, apiKey), fill(x.Env, PlaceAPIKey, apiKey)
	}
	if l.door != nil {
		l.door.SetEngineKey(apiKey)
	}
	if err := dropSocket(l.program.Engine); err != nil {
		return nil, "", err
	}
	p, err = l.cfg.Starter.Start(x)
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", x.Args[0], err)
	}
	l.cfg.Logger.Info("engine started", "replica", l.order.Replica, "engine", l.engine, "program", x.Args[0])
	return p, apiKey, nil
}

// dropSocket removes the unix socket that an engine's earlier start has left: after SIGKILL nobody else does, and the next start could not bind it.
func dropSocket(engine string) error {
	path, ok := strings.CutPrefix(engine, "unix:")
	if !ok {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil // not there; or not a socket, which the engine's own error will say
	}
	return os.Remove(path)
}

// newKey makes a key of 256 bits.
func newKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: the process ends instead
	return hex.EncodeToString(b)
}

func mentions(what string, lists ...[]string) bool {
	for _, list := range lists {
		for _, s := range list {
			if strings.Contains(s, what) {
				return true
			}
		}
	}
	return false
}

func fill(list []string, what, with string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ReplaceAll(s, what, with)
	}
	return out
}

// end makes sure that nothing of the engine is left: SIGTERM and the grace if it is to be gentle, and in any case
// SIGKILL to the whole tree, since an engine that died alone can leave children that hold the card. It returns when
// they are gone, or with the context.
func (l *life) end(ctx context.Context, p Process, e *ending) {
	if e.gently {
		l.terminate(ctx, p)
	}
	for {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
		err := p.Kill(patience)
		cancel()
		if err == nil {
			break
		}
		if !e.stuck {
			l.cfg.Logger.Error("the engine lives on under SIGKILL; its port and cards stay taken", "replica", l.order.Replica, "error", err)
		}
		e.stuck = true
		l.take()
		l.board.say(func(st *Status) { st.Phase, st.Order, st.Reason = Stuck, l.order.ID, err.Error() })
		if ctx.Err() != nil {
			return
		}
	}
	if !e.ordered && e.exit.Code == 0 && e.exit.Signal == "" {
		e.exit = p.Exit()
	}
	if e.exit.Log == nil {
		e.exit.Log = l.cfg.Output.LastWords()
	}
}

func (l *life) terminate(ctx context.Context, p Process) {
	grace := l.cfg.Launch.Grace.Std()
	if grace == 0 {
		grace = defaultGrace
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	p.Terminate()
	select {
	case <-p.Done():
	case <-t.C:
		l.cfg.Logger.Warn("the engine did not end by SIGTERM", "replica", l.order.Replica, "grace", grace)
	case <-ctx.Done():
	}
}
