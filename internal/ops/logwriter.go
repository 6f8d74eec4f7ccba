package ops

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// logBuffer is how many bytes of lines wait for a slow writer: some seconds of a very talkative process.
	logBuffer = 1 << 20
	// closePatience is how long Close waits for a writer that does not take the last lines.
	closePatience = 2 * time.Second
)

// errBlocked is what Close gives when the writer did not take the last lines.
var errBlocked = errors.New("log: the last lines could not be written: the writer blocks")

// LogWriter stands between a log and a writer that may block, as a terminal or a pipe does when nobody reads. It is a
// Prometheus collector of what it dropped.
type LogWriter struct {
	out    io.Writer
	notice *slog.Logger // writes to out itself, and only from the pump

	wake chan struct{} // holds one token when there is something to do
	done chan struct{} // closed when the pump has ended

	mu      sync.Mutex
	buf     []byte // lines not yet taken by the pump
	spare   []byte // the other of the two buffers, while the pump does not have it
	dropped uint64
	closed  bool

	metric *prometheus.Desc
}

func newLogWriter(out io.Writer, notice *slog.Logger) *LogWriter {
	w := &LogWriter{
		out: out, notice: notice,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		metric: prometheus.NewDesc("berth_log_lines_dropped_total",
			"Log lines dropped because the log's reader was too slow.", nil, nil),
	}
	go w.pump()
	return w
}

// Write takes one line, or drops it when the buffer is full or the writer closed. It never waits and never fails: a log
// that cannot be written is no reason to fail what it tells of.
func (w *LogWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	if w.closed || len(w.buf)+len(line) > logBuffer {
		w.dropped++
	} else {
		w.buf = append(w.buf, line...)
	}
	w.mu.Unlock()
	w.signal()
	return len(line), nil
}

// Dropped is how many lines were dropped since the start.
func (w *LogWriter) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close writes what is buffered and ends the writer; later lines are dropped. If the underlying writer blocks, Close
// gives up after 2 s with an error and leaves the blocked write behind: the process is about to end anyway.
func (w *LogWriter) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-w.done:
		return nil
	case <-patience.C:
		return errBlocked
	}
}

func (w *LogWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // a token lies there already
	}
}

// pump is the only one that waits for the underlying writer.
func (w *LogWriter) pump() {
	defer close(w.done)
	told := uint64(0)
	for range w.wake {
		lines, dropped, closed := w.take()
		if len(lines) > 0 {
			_, _ = w.out.Write(lines) // there is nowhere to report it
		}
		if dropped > told {
			w.notice.Warn("log lines dropped: the reader of the log is too slow", "lines", dropped-told, "total", dropped)
			told = dropped
		}
		w.giveBack(lines)
		if closed {
			return
		}
	}
}

func (w *LogWriter) take() (lines []byte, dropped uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, w.buf, w.spare = w.buf, w.spare[:0], nil
	return lines, w.dropped, w.closed
}

func (w *LogWriter) giveBack(lines []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = lines
}

// Describe implements [prometheus.Collector].
func (w *LogWriter) Describe(ch chan<- *prometheus.Desc) { ch <- w.metric }

// Collect implements [prometheus.Collector].
func (w *LogWriter) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(w.metric, prometheus.CounterValue, float64(w.Dropped()))
}
