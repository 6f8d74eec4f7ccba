package ops_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"berth/internal/ops"
)

func logger(t *testing.T, w io.Writer, level, format string) (*slog.Logger, *ops.LogWriter) {
	t.Helper()
	log, lw, err := ops.Logger(w, level, format)
	if err != nil {
		t.Fatal(err)
	}
	return log, lw
}

func TestLoggerWritesEachLineOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, lw := logger(t, &out, "warn", ops.FormatJSON)
		for i := range 1000 {
			log.Warn("line", "n", i)
			log.Info("below the level")
		}
		if err := lw.Close(); err != nil {
			t.Fatal(err)
		}
		log.Warn("after the end")
		d := json.NewDecoder(&out)
		for i := range 1000 {
			var line struct{ N *int }
			if err := d.Decode(&line); err != nil || line.N == nil || *line.N != i {
				t.Fatalf("line %d is %+v, %v", i, line, err)
			}
		}
		if d.More() {
			t.Error("more lines than were logged")
		}
		if lw.Dropped() != 1 {
			t.Errorf("%d dropped, want the one after the end", lw.Dropped())
		}
	})
}

func TestLoggerRefusesWhatItDoesNotKnow(t *testing.T) {
	_, _, err := ops.Logger(io.Discard, "loud", "xml")
	if err == nil || !strings.Contains(err.Error(), `"loud"`) || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("%v does not name both", err)
	}
	for _, level := range []string{"debug", "info", "WARN", "error"} {
		if _, err := ops.ParseLevel(level); err != nil {
			t.Error(err)
		}
	}
}

// gate is a writer that blocks until it is opened.
type gate struct {
	open chan struct{}
	out  bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.out.Write(p)
}

func TestBlockedWriterDropsInsteadOfStalling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		log, lw := logger(t, g, "info", ops.FormatText)
		start := time.Now()
		const lines = 3000
		long := strings.Repeat("x", 1000)
		for range lines {
			log.Info(long) // would block the bubble for ever if it waited
		}
		if time.Since(start) != 0 {
			t.Errorf("logging waited %v", time.Since(start))
		}
		dropped := lw.Dropped()
		if dropped < lines/4 || dropped == lines {
			t.Errorf("%d of %d dropped", dropped, lines)
		}
		if got := testutil.ToFloat64(lw); got != float64(dropped) {
			t.Errorf("metric says %v, want %d", got, dropped)
		}
		close(g.open)
		if err := lw.Close(); err != nil {
			t.Fatal(err)
		}
		text := g.out.String()
		if got := uint64(strings.Count(text, long)); got != lines-dropped {
			t.Errorf("%d lines written, want %d", got, lines-dropped)
		}
		if !strings.Contains(text, "log lines dropped") {
			t.Error("the log does not say that it has a hole")
		}
	})
}

func TestCloseGivesUpOnABlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		defer close(g.open)
		log, lw := logger(t, g, "info", ops.FormatText)
		log.Info("last words")
		start := time.Now()
		if err := lw.Close(); err == nil || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v, want an error after 2s", err, time.Since(start))
		}
	})
}
