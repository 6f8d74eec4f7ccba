package shim

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"
)

func text(t *testing.T, r io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\n", 5, "a\n"}, {"", 3, ""}, {"a\nb\n", 0, ""}, {"a\n\n\n", 2, "\n\n"},
	} {
		if got := c.text[lastLines([]byte(c.text), c.n):]; got != c.want {
			t.Errorf("the last %d lines of %q are %q, want %q", c.n, c.text, got, c.want)
		}
	}
}

// The last words of an engine are what a terminal would show of its last lines, and not the whole life of a bar of progress.
func TestLastWordsAreShort(t *testing.T) {
	o := NewOutput("")
	for i := range 20_000 {
		fmt.Fprintf(o, "\rloading: %d%%", i/200)
	}
	fmt.Fprint(o, "\r\n", strings.Repeat("ü", 1000), "out of memory\r\n", "\xff\n")
	got := o.LastWords()
	if len(got) != 3 || got[0] != "loading: 99%" || len(got[1]) > exitLine || !strings.HasSuffix(got[1], "üout of memory") || !utf8.ValidString(got[1]) || got[2] != "" {
		t.Errorf("%q", got)
	}
}

func TestOutputIsBoundedInMemory(t *testing.T) {
	o := NewOutput("")
	for i := range 30_000 {
		fmt.Fprintf(o, "%063d\n", i)
	}
	if got := o.Tail(2); len(got) != 2 || !strings.HasSuffix(got[1], "029999") {
		t.Errorf("tail %q", got)
	}
	if n := len(text(t, o.Reader(1<<30, false), nil)); n < recentBytes || n > 2*recentBytes {
		t.Errorf("%d bytes in memory", n)
	}
}

// A disk that does not take the output costs output, never time.
func TestOutputDropsRatherThanWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := NewOutput(dir) // nobody runs it yet: the disk is as slow as it gets
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 2 * queueBytes / len(line) {
			if n, err := o.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		ctx, end := context.WithCancel(t.Context())
		ran, followed := make(chan error, 1), make(chan string, 1)
		follow := o.Reader(0, true)
		go func() { ran <- o.Run(ctx) }()
		go func() { followed <- text(t, follow, nil) }()
		synctest.Wait() // the queue has been written
		fmt.Fprintln(o, "the last word")
		end()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
		if s := <-followed; s != "the last word\n" {
			t.Errorf("a follower saw %q", s)
		}
		kept := text(t, must(ReadLogs(dir, 1<<30)), nil)
		if !strings.Contains(kept, "1048576 bytes of output were dropped here") || !strings.HasSuffix(kept, "the last word\n") {
			t.Errorf("%d bytes on disk, ending %q", len(kept), kept[max(0, len(kept)-200):])
		}
	})
}

func must(r io.ReadCloser, err error) io.ReadCloser {
	if err != nil {
		panic(err)
	}
	return r
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	r := newRotation(dir)
	r.limit = 100
	for i := range 60 {
		r.write(fmt.Appendf(nil, "line %04d\n", i)) // ten bytes: ten lines a file
		if i == 30 {
			r.close() // another shim goes on with the same files
			r = newRotation(dir)
			r.limit = 100
		}
	}
	r.close()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != logFiles {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 100 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	if got := text(t, must(ReadLogs(dir, 12)), nil); !strings.HasPrefix(got, "line 0048\n") || !strings.HasSuffix(got, "line 0059\n") || strings.Count(got, "\n") != 12 {
		t.Errorf("the last 12 lines: %q", got)
	}
	if got := text(t, must(ReadLogs(dir, 1000)), nil); strings.Count(got, "\n") != 40 {
		t.Errorf("%d lines are kept, want four files of ten", strings.Count(got, "\n"))
	}
}
