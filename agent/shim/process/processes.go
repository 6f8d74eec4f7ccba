package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/internal/durable"
)

// killPatience is how long SIGKILL may take before what is left is called stuck.
const killPatience = 10 * time.Second

// stuckPatience is the same for what was stuck before: others wait for this look at it.
const stuckPatience = 200 * time.Millisecond

// closingPatience is how long a shim may live after it has removed its folder.
const closingPatience = 200 * time.Millisecond

// abandonAfter is how long a shim that could not begin may take to end.
const abandonAfter = 5 * time.Second

// Config is what Processes need.
type Config struct {
	// Dir holds a folder for each shim, and the counter of their numbers. Its owner holds the lock of the agent's data
	// directory: only one process at a time may use it.
	Dir string
	// LogDir is the root of the engines' output files.
	LogDir string
	// Command runs a shim when "--dir" and the shim's folder are appended: the agent's own program and "shim".
	Command []string
	Logger  *slog.Logger
}

// Processes makes shims that are processes and finds them again. It is a [shim.Maker]; it has no goroutine of its own.
type Processes struct {
	cfg     Config
	counter *durable.Counter

	// finding is held by the one Find at a time: what one is about to bury is not to be found alive, or missing, by another.
	finding chan struct{}
	stuck   map[folder]bool // what SIGKILL could not end when it was last tried; of who holds finding

	mu       sync.Mutex
	starting map[folder]bool // folders that a Start works on
}

// New prepares the directories.
func New(c Config) (*Processes, error) {
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("shims: %w", err)
	}
	if c.LogDir, err = filepath.Abs(c.LogDir); err != nil {
		return nil, fmt.Errorf("shims: %w", err)
	}
	if len(c.Command) == 0 {
		return nil, errors.New("shims: no command that runs one is configured")
	}
	if err := errors.Join(durable.MakeDir(c.Dir), durable.MakeDir(c.LogDir)); err != nil {
		return nil, fmt.Errorf("shims: %w", err)
	}
	return &Processes{
		cfg: c, counter: durable.NewCounter(filepath.Join(c.Dir, "count.json")),
		finding: make(chan struct{}, 1), stuck: make(map[folder]bool), starting: make(map[folder]bool),
	}, nil
}

// Start implements [shim.Maker].
func (p *Processes) Start(ctx context.Context, l shim.Launch) (shim.Handle, error) {
	number, err := p.counter.Next()
	if err != nil {
		return nil, fmt.Errorf("shim of %s: %w", l.Order.Replica, err)
	}
	l.Shim, l.Logs = number, shim.LogDir(p.cfg.LogDir, l.Order.Replica, l.Order.Rank)
	if err := l.Validate(); err != nil {
		return nil, err
	}
	f := folder(filepath.Join(p.cfg.Dir, strconv.FormatUint(number, 10)))
	p.begin(f)
	defer p.begun(f)
	if err := p.start(ctx, f, l); err != nil {
		return nil, fmt.Errorf("shim of %s: %w", l.Order.Replica, err)
	}
	return &handle{f, l}, nil
}

// begin keeps Find from a folder that is not yet what it will be: locked, but without a shim that answers.
func (p *Processes) begin(f folder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting[f] = true
}

func (p *Processes) begun(f folder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.starting, f)
}

func (p *Processes) isStarting(f folder) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starting[f]
}

// start prepares the folder, locked from the beginning, and hands the lock to the process.
func (p *Processes) start(ctx context.Context, f folder, l shim.Launch) error {
	if err := durable.MakeDir(string(f)); err != nil {
		return err
	}
	lock, err := f.lock()
	if err != nil {
		return err
	}
	defer lock.Close() // the shim's copy keeps it
	if err := durable.WriteJSON(f.file(launchFile), folderVersion, l); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	err = p.spawn(ctx, f, l.Order.Claims, lock, w)
	_ = w.Close()
	if err == nil {
		err = await(ctx, r, f)
	}
	_ = lock.Close()
	if err != nil {
		return errors.Join(err, abandon(ctx, f))
	}
	return nil
}

// abandon removes the folder of a shim that has said that it ends. One that lives on is found by Find.
func abandon(ctx context.Context, f folder) error {
	ctx, cancel := context.WithTimeout(ctx, abandonAfter)
	defer cancel()
	lock, err := os.Open(f.file(lockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := gone(ctx, lock); err != nil {
		return fmt.Errorf("it has not ended: %w", err)
	}
	return os.RemoveAll(string(f))
}

// spawn runs the first stage, which ends at once.
func (p *Processes) spawn(ctx context.Context, f folder, claims []fleet.Claim, lock, ready *os.File) error {
	log, err := os.OpenFile(f.file(logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, durable.FileMode)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append(p.cfg.Command[1:len(p.cfg.Command):len(p.cfg.Command)], "--dir", string(f))
	cmd := exec.CommandContext(ctx, p.cfg.Command[0], args...)
	cmd.Env = append(shimEnv(f), claimed(claims))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock, ready} // lockFD, readyFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w; its log: %s", p.cfg.Command[0], err, tail(f.file(logFile)))
	}
	return nil
}

// shimEnv is the agent's environment without its own settings, tokens among them, and with the shim's mark.
func shimEnv(f folder) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "BERTH_") {
			env = append(env, kv)
		}
	}
	return append(env, shimMark+string(f))
}

// await reads the shim's first word: that it is ready, or what is wrong.
func await(ctx context.Context, r *os.File, f folder) error {
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })()
	word, err := io.ReadAll(r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case string(word) == readyWord:
		return nil
	case len(word) > 0:
		return errors.New(string(word))
	}
	return fmt.Errorf("it ended before it was ready; its log: %s", tail(f.file(logFile)))
}

// tail is the end of a small log, for an error.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}

// Find implements [shim.Maker]. What is being started meanwhile is left out.
func (p *Processes) Find(ctx context.Context) (shim.Found, error) {
	var found shim.Found
	select {
	case p.finding <- struct{}{}:
		defer func() { <-p.finding }()
	case <-ctx.Done():
		return found, ctx.Err()
	}
	entries, err := os.ReadDir(p.cfg.Dir)
	if err != nil {
		return found, fmt.Errorf("find shims: %w", err)
	}
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 64); err != nil || !e.IsDir() {
			continue
		}
		f := folder(filepath.Join(p.cfg.Dir, e.Name()))
		if p.isStarting(f) {
			continue
		}
		if err := p.look(ctx, f, &found); err != nil {
			return found, fmt.Errorf("find shims: %w", err)
		}
	}
	lost, err := p.lost(ctx)
	found.Unmanaged = append(found.Unmanaged, lost...)
	return found, err
}

// look decides what one folder is.
func (p *Processes) look(ctx context.Context, f folder, found *shim.Found) error {
	held, err := f.held()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has gone since it was listed
	}
	if err != nil {
		return err
	}
	l, err := f.launch()
	switch {
	case held && err == nil:
		h := &handle{f, l}
		if err := h.greet(ctx); err != nil {
			p.cfg.Logger.Warn("a shim lives but does not answer", "shim", l.Shim, "replica", l.Order.Replica, "error", err)
		}
		found.Live = append(found.Live, h)
	case held:
		found.Unmanaged = append(found.Unmanaged, unreadable(f, err))
	case errors.Is(err, os.ErrNotExist): // the agent ended before it could start anything
		return os.RemoveAll(string(f))
	case err != nil:
		found.Unmanaged = append(found.Unmanaged, unreadable(f, err))
	default:
		if err := f.copied(ctx); err != nil {
			return err
		}
		found.Dead = append(found.Dead, p.bury(ctx, f, l))
	}
	return nil
}

func unreadable(f folder, err error) fleet.Unmanaged {
	s, _ := f.state()
	u := fleet.Unmanaged{What: fmt.Sprintf("shim in %s, which cannot be read: %v", f, err), PID: s.Shim.PID}
	if s.Shim.alive() {
		u.GPUs = cardsOf(s.Shim.PID)
	}
	return u
}

// bury ends what a dead shim left.
func (p *Processes) bury(ctx context.Context, f folder, l shim.Launch) shim.Dead {
	d := shim.Dead{Launch: l, Forget: func() error { return os.RemoveAll(string(f)) }}
	s, err := f.state()
	if err != nil {
		p.cfg.Logger.Error("a dead shim's record cannot be read", "shim", l.Shim, "error", err)
	}
	d.Last = s.Status
	o, err := f.order()
	if err != nil {
		p.cfg.Logger.Error("a dead shim's last order cannot be read", "shim", l.Shim, "error", err)
	}
	d.Continue(o)
	t, _ := f.tree()
	patience := killPatience
	if p.stuck[f] {
		patience = stuckPatience
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.kill(limited); err != nil {
		p.cfg.Logger.Error("a dead shim's engine lives on", "shim", l.Shim, "replica", l.Order.Replica, "error", err)
		d.Stuck, p.stuck[f] = true, true
		return d
	}
	delete(p.stuck, f)
	if t.group != nil {
		group(s.Group).remove()
	}
	return d
}

// lost lists the processes of shims whose folder is gone, with the cards that they hold.
func (p *Processes) lost(ctx context.Context) ([]fleet.Unmanaged, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("find shims: %w", err)
	}
	out := p.folderless(all)
	if len(out) == 0 {
		return nil, nil
	}
	select { // a shim that is being closed removes its folder and then ends
	case <-time.After(closingPatience):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return p.folderless(all), nil
}

// folderless picks from a list of processes those that live and whose folder is gone.
func (p *Processes) folderless(all []proc) []fleet.Unmanaged {
	var out []fleet.Unmanaged
	for _, each := range all {
		for mark, what := range map[string]string{shimMark: "shim", engineMark: "engine"} {
			dir, ok := environ(each.pid, mark)
			if now, err := readProc(each.pid); !ok || filepath.Dir(dir) != p.cfg.Dir || err != nil || now.start != each.start || now.ended() {
				continue
			}
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				out = append(out, fleet.Unmanaged{What: fmt.Sprintf("%s whose folder %s is lost", what, dir), PID: each.pid, GPUs: cardsOf(each.pid)})
			}
		}
	}
	return out
}
