package shim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Bounds of what is kept of an engine's output.
const (
	recentBytes = 256 << 10 // in memory at least, for the last lines and for followers; at most twice that
	queueBytes  = 1 << 20   // waiting for the disk; beyond it output is dropped, because an engine must never wait for a log
	exitLines   = 20        // that an exit carries
	exitLine    = 500       // bytes of each, the last ones: an exit travels in orders' answers and is kept in every peer's state
)

// Output takes what an engine writes. Writing never blocks: what the disk is too slow for is dropped and counted.
type Output struct {
	files *rotation // nil: memory only

	mu      sync.Mutex
	recent  []byte
	total   int64 // bytes ever written
	at      time.Time
	queue   []byte
	dropped int
	closed  bool
	grew    chan struct{} // closed and renewed at each write, and at the end
}

// NewOutput keeps output in memory and, if dir is not empty, in rotated files there. [Output.Run] writes the files.
func NewOutput(dir string) *Output {
	o := &Output{grew: make(chan struct{})}
	if dir != "" {
		o.files = newRotation(dir)
	}
	return o
}

// Write implements [io.Writer]. It always takes all of p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recent = append(o.recent, p...)
	if n := len(o.recent); n > 2*recentBytes { // not at each write: moving it costs
		o.recent = append(o.recent[:0], o.recent[n-recentBytes:]...)
	}
	o.total += int64(len(p))
	o.at = time.Now()
	o.enqueue(p)
	o.tell()
	return len(p), nil
}

func (o *Output) enqueue(p []byte) {
	if o.files == nil {
		return
	}
	if len(o.queue)+len(p) > queueBytes {
		o.dropped += len(p)
		return
	}
	if o.dropped > 0 {
		o.queue = fmt.Appendf(o.queue, "\n[%d bytes of output were dropped here: the disk was too slow]\n", o.dropped)
		o.dropped = 0
	}
	o.queue = append(o.queue, p...)
}

func (o *Output) tell() {
	close(o.grew)
	o.grew = make(chan struct{})
}

// Run writes the files until the context ends, and then what is still waiting.
func (o *Output) Run(ctx context.Context) error {
	if o.files == nil {
		<-ctx.Done()
		o.end()
		return nil
	}
	defer o.files.close()
	for {
		o.mu.Lock()
		batch, grew := o.queue, o.grew
		o.queue = nil
		o.mu.Unlock()
		o.files.write(batch)
		if len(batch) > 0 {
			continue
		}
		select {
		case <-grew:
		case <-ctx.Done():
			o.end()
			o.mu.Lock()
			defer o.mu.Unlock()
			o.files.write(o.queue)
			return o.files.err
		}
	}
}

// end lets followers go.
func (o *Output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.tell()
}

// Grown says how much was ever written and when last; progress while an engine loads.
func (o *Output) Grown() (total int64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total, o.at
}

// Tail gives the last n lines.
func (o *Output) Tail(n int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := strings.TrimSuffix(string(o.recent[lastLines(o.recent, n):]), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// LastWords gives the last lines as a terminal would show them, each cut to what an exit carries: a bar of progress is one line for megabytes, which
// begins again and again.
func (o *Output) LastWords() []string {
	lines := o.Tail(exitLines)
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		if over := len(line) - exitLine; over > 0 {
			line = line[over:]
		}
		lines[i] = strings.ToValidUTF8(line, "")
	}
	return lines
}

// lastLines is where the last n lines of b begin.
func lastLines(b []byte, n int) int {
	at := len(bytes.TrimSuffix(b, []byte("\n")))
	for ; n > 0; n-- {
		at = bytes.LastIndexByte(b[:at], '\n')
		if at < 0 {
			return 0
		}
	}
	return min(at+1, len(b))
}

// Reader gives the last lines, and with follow whatever comes after them until it is closed or the shim ends. A reader
// that is too slow misses what memory no longer holds.
func (o *Output) Reader(tail int, follow bool) io.ReadCloser {
	o.mu.Lock()
	defer o.mu.Unlock()
	base := o.total - int64(len(o.recent))
	return &outputReader{o: o, at: base + int64(lastLines(o.recent, tail)), follow: follow, gone: make(chan struct{})}
}

type outputReader struct {
	o      *Output
	at     int64
	follow bool
	once   sync.Once
	gone   chan struct{}
}

// Read implements [io.Reader].
func (r *outputReader) Read(p []byte) (int, error) {
	for {
		n, grew, ended := r.copy(p)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if ended || !r.follow {
			return 0, io.EOF
		}
		select {
		case <-grew:
		case <-r.gone:
			return 0, io.EOF
		}
	}
}

func (r *outputReader) copy(p []byte) (n int, grew <-chan struct{}, ended bool) {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	base := r.o.total - int64(len(r.o.recent))
	r.at = max(r.at, base)
	n = copy(p, r.o.recent[r.at-base:])
	r.at += int64(n)
	return n, r.o.grew, r.o.closed
}

// Close implements [io.Closer]; a Read that waits returns.
func (r *outputReader) Close() error {
	r.once.Do(func() { close(r.gone) })
	return nil
}
