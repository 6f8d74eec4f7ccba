package gpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Probe reads the cards in a child process, which may die or hang without harm: a wrong NVML call ends the process that makes it (the dynamic
// linker does, no Go panic), and a driver call can hang in the kernel. The child answers each line that it is sent with one line of JSON.
type Probe struct {
	command []string

	mu    sync.Mutex
	child *child
	stuck int // children that were killed and have not ended: a driver holds them in the kernel
	ends  sync.WaitGroup
}

// maxStuck is how many children may hang in the driver before no more are started: each holds memory, and another would hang as well.
const maxStuck = 2

// NewProbe returns a probe whose child is that command line. Close ends the child.
func NewProbe(command ...string) *Probe { return &Probe{command: command} }

type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer // has room for the one answer that may be on its way and for the child's end, so that nobody waits to give them
	ended   chan struct{}
}

type answer struct {
	line []byte
	err  error
}

// Read implements Reader. When the context ends before the child answers, the child is killed and the next call starts another.
func (p *Probe) Read(ctx context.Context) (Reading, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.start(); err != nil {
		return Reading{}, err
	}
	if _, err := io.WriteString(p.child.in, "read\n"); err != nil {
		return Reading{}, p.drop(fmt.Errorf("the GPU probe has ended: %w", err))
	}
	select {
	case a := <-p.child.answers:
		if a.err != nil {
			return Reading{}, p.drop(fmt.Errorf("the GPU probe has ended: %w", a.err))
		}
		var r message
		if err := json.Unmarshal(a.line, &r); err != nil || r.Version != readingVersion {
			return Reading{}, p.drop(errors.New("the GPU probe answered what this release does not read"))
		}
		return r.Reading, r.err()
	case <-ctx.Done():
		return Reading{}, p.drop(ctx.Err())
	}
}

func (p *Probe) start() error {
	if p.child != nil {
		return nil
	}
	if p.stuck >= maxStuck {
		return fmt.Errorf("%d GPU probes hang in the driver; no more are started until one ends", p.stuck)
	}
	c := &child{cmd: exec.Command(p.command[0], p.command[1:]...), answers: make(chan answer, 2), ended: make(chan struct{})}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start the GPU probe: %w", err)
	}
	c.in = in
	p.ends.Add(1)
	go p.listen(c, out)
	p.child = c
	return nil
}

// listen passes the child's lines on and waits for its end.
func (p *Probe) listen(c *child, out io.Reader) {
	defer p.ends.Done()
	defer close(c.ended)
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if exit := c.cmd.Wait(); exit != nil {
				err = exit
			}
			c.answers <- answer{err: err}
			return
		}
		c.answers <- answer{line: line}
	}
}

// endWait is how long a killed child may take to end before it counts as stuck.
const endWait = time.Second

// drop kills the child and gives the error back. A child that does not end is counted until it does.
func (p *Probe) drop(err error) error {
	c := p.child
	p.child = nil
	_ = c.cmd.Process.Kill() // it may have ended by itself
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-c.ended:
		return err
	case <-timer.C:
	}
	p.stuck++
	p.ends.Add(1)
	go func() {
		defer p.ends.Done()
		<-c.ended
		p.mu.Lock()
		p.stuck--
		p.mu.Unlock()
	}()
	return err
}

// Close ends the child and waits for it, and for those that hang, unless the context ends first.
func (p *Probe) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.child != nil {
		_ = p.drop(nil)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() { p.ends.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a GPU probe hangs in the driver: %w", ctx.Err())
	}
}

// message is one line of the child.
type message struct {
	Reading
	Error    string `json:"error,omitempty"`
	NoDriver bool   `json:"no_driver,omitempty"`
}

func (m message) err() error {
	switch {
	case m.NoDriver:
		return fmt.Errorf("%w%s", ErrNoDriver, strings.TrimPrefix(m.Error, ErrNoDriver.Error()))
	case m.Error != "":
		return errors.New(m.Error)
	}
	return nil
}

// Serve is the child's side: it answers every line of in with a reading, or with the reason why there is none.
func Serve(ctx context.Context, in io.Reader, out io.Writer, r Reader) error {
	lines := bufio.NewScanner(in)
	enc := json.NewEncoder(out)
	for lines.Scan() {
		reading, err := r.Read(ctx)
		m := message{Reading: reading}
		m.Version = readingVersion
		if err != nil {
			m.Error, m.NoDriver = err.Error(), errors.Is(err, ErrNoDriver)
		}
		if err := enc.Encode(m); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Broken is a Reader that can only say why there are no readings.
type Broken struct{ Err error }

// Read implements Reader.
func (b Broken) Read(context.Context) (Reading, error) { return Reading{}, b.Err }
