package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func openAt(t testing.TB, dir string, size int64) *Log {
	t.Helper()
	l, err := open(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func entry(index, term uint64, size int) *raft.Log {
	return &raft.Log{
		Index: index, Term: term, Type: raft.LogCommand, AppendedAt: time.Unix(0, int64(index)+1),
		Data: bytes.Repeat([]byte{byte(index)}, size), Extensions: bytes.Repeat([]byte{byte(term)}, int(index%3)),
	}
}

func entries(from, to, term uint64) (out []*raft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, entry(i, term, 5))
	}
	return out
}

func store(t testing.TB, l *Log, e ...*raft.Log) {
	t.Helper()
	if err := l.StoreLogs(e); err != nil {
		t.Fatal(err)
	}
}

// check compares the log with what should be in it.
func check(l *Log, want []*raft.Log) error {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if len(want) == 0 {
		if first != 0 || last != 0 {
			return fmt.Errorf("it has entries %d to %d and should be empty", first, last)
		}
		return nil
	}
	if first != want[0].Index || last != want[len(want)-1].Index {
		return fmt.Errorf("it has entries %d to %d, want %d to %d", first, last, want[0].Index, want[len(want)-1].Index)
	}
	for _, w := range want {
		var got raft.Log
		if err := l.GetLog(w.Index, &got); err != nil {
			return err
		}
		if len(w.Extensions) == 0 {
			w.Extensions = nil
		}
		if !reflect.DeepEqual(&got, w) {
			return fmt.Errorf("entry %d is %+v, want %+v", w.Index, got, w)
		}
	}
	for _, index := range []uint64{0, first - 1, last + 1} {
		if err := l.GetLog(index, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			return fmt.Errorf("entry %d, which is not there: %v", index, err)
		}
	}
	return nil
}

// TestALogIsWhatWasDoneToIt does at random what raft does to a log, and opens it again in between.
func TestALogIsWhatWasDoneToIt(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	l := openAt(t, dir, 600)
	var want []*raft.Log
	deleted := uint64(0) // entries up to it may come back when the log is opened
	for step := range 500 {
		next := uint64(1 + rng.IntN(5))
		if len(want) > 0 {
			next = want[len(want)-1].Index + 1
		}
		what := rng.IntN(10)
		switch {
		case what < 5:
			var batch []*raft.Log
			for range 1 + rng.IntN(6) {
				batch = append(batch, entry(next, uint64(step), rng.IntN(200)))
				next++
			}
			store(t, l, batch...)
			want = append(want, batch...)
		case what == 5 && len(want) > 0: // compaction
			n := rng.IntN(len(want))
			must(t, l.DeleteRange(want[0].Index, want[n].Index))
			deleted = want[n].Index
			want = want[n+1:]
		case what == 6 && len(want) > 0: // a conflict
			n := rng.IntN(len(want))
			must(t, l.DeleteRange(want[n].Index, want[len(want)-1].Index))
			want = want[:n]
		case what == 7 && rng.IntN(5) == 0 && len(want) > 0: // a snapshot far ahead
			next += 1000
			store(t, l, entry(next, uint64(step), 10))
			want, deleted = []*raft.Log{entry(next, uint64(step), 10)}, 0
		case what == 8:
			must(t, l.Close())
			l = openAt(t, dir, 600)
			if first, _ := l.FirstIndex(); first > 0 && first <= deleted {
				must(t, l.DeleteRange(first, deleted))
			}
		}
		if len(want) == 0 {
			deleted = 0 // with the whole log its files are gone
		}
		if err := check(l, want); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAWriteThatWasCutShortIsCutOff takes from the last write every number of bytes, and in other runs every sector, as a crash may: what was synced
// before is there, of the last write at most a part, and the log goes on.
func TestAWriteThatWasCutShortIsCutOff(t *testing.T) {
	dir := t.TempDir()
	l := openAt(t, dir, segmentSize)
	store(t, l, entries(1, 3, 1)...)
	store(t, l, entries(4, 5, 1)...)
	synced := l.segments[0].end
	store(t, l, entries(6, 7, 2)...)
	must(t, l.segments[0].trim())
	must(t, l.Close())
	whole, err := os.ReadFile(segmentPath(dir, 1))
	must(t, err)
	for at := int(synced); at < len(whole); at++ {
		for name, torn := range map[string][]byte{
			"short":          whole[:at],
			"zeros from":     append(slices.Clone(whole[:at]), make([]byte, len(whole)-at)...),
			"zeros until":    append(append(slices.Clone(whole[:synced]), make([]byte, at-int(synced))...), whole[at:]...),
			"another's data": append(slices.Clone(whole[:at]), bytes.Repeat([]byte("bwf1 not a frame"), 20)...),
		} {
			if bytes.Equal(torn, whole) {
				continue
			}
			d := t.TempDir()
			must(t, os.WriteFile(segmentPath(d, 1), torn, fileMode))
			l, err := open(d, segmentSize)
			if err != nil {
				t.Fatalf("%s byte %d: %v", name, at, err)
			}
			last, _ := l.LastIndex()
			if last < 5 || last > 7 {
				t.Fatalf("%s byte %d: the log ends at %d", name, at, last)
			}
			store(t, l, entries(last+1, last+1, 3)...)
			must(t, l.Close())
			l = openAt(t, d, segmentSize)
			if err := check(l, append(append(entries(1, 5, 1), entries(6, last, 2)...), entries(last+1, last+1, 3)...)); err != nil {
				t.Fatalf("%s byte %d, opened again: %v", name, at, err)
			}
		}
	}
}

// TestRotIsNotTakenForATornWrite flips each bit of what was synced before the last write: the log is refused, never shorter.
func TestRotIsNotTakenForATornWrite(t *testing.T) {
	dir := t.TempDir()
	l := openAt(t, dir, segmentSize)
	store(t, l, entries(1, 2, 1)...)
	store(t, l, entries(3, 4, 1)...)
	synced := l.segments[0].end
	store(t, l, entries(5, 5, 1)...)
	must(t, l.segments[0].trim())
	must(t, l.Close())
	whole, err := os.ReadFile(segmentPath(dir, 1))
	must(t, err)
	for bit := range int(synced) * 8 {
		data := slices.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		if i := bit / 8; i > 11 && i < segmentHeader {
			continue // not used
		}
		must(t, os.WriteFile(segmentPath(dir, 1), data, fileMode))
		if l, err := open(dir, segmentSize); err == nil {
			last, _ := l.LastIndex()
			_ = l.Close()
			t.Fatalf("bit %d flipped: opened, up to entry %d", bit, last)
		}
	}
}

// TestRotUnderARunningLogIsFoundWhenItIsRead is the same while the log is open.
func TestRotUnderARunningLogIsFoundWhenItIsRead(t *testing.T) {
	dir := t.TempDir()
	l := openAt(t, dir, segmentSize)
	store(t, l, entries(1, 3, 1)...)
	s := l.segments[0]
	for at := s.starts[1]; at < s.starts[2]; at++ {
		var b [1]byte
		_, _ = s.file.ReadAt(b[:], at)
		_, _ = s.file.WriteAt([]byte{b[0] ^ 4}, at)
		if err := l.GetLog(2, new(raft.Log)); err == nil {
			t.Fatalf("byte %d of the entry is wrong, and it was read", at-s.starts[1])
		}
		_, _ = s.file.WriteAt(b[:], at)
	}
	must(t, l.GetLog(2, new(raft.Log)))
}

func TestAMissingSegmentIsNoticed(t *testing.T) {
	dir := t.TempDir()
	l := openAt(t, dir, 300)
	for i := range uint64(12) {
		store(t, l, entry(i+1, 1, 40))
	}
	if len(l.segments) < 3 {
		t.Fatal("too few segments for this test")
	}
	path := l.segments[1].path
	must(t, l.Close())
	must(t, os.Remove(path))
	if l, err := open(dir, 300); err == nil {
		_ = l.Close()
		t.Error("it was opened")
	}
}

// TestAWriteThatFailedLeavesNothing closes the file under the log: the write fails, and what comes after it is what is found.
func TestAWriteThatFailedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	l := openAt(t, dir, segmentSize)
	store(t, l, entries(1, 2, 1)...)
	s := l.segments[0]
	good := s.file
	readOnly, err := os.Open(s.path)
	must(t, err)
	s.file = readOnly
	if err := l.StoreLogs(entries(3, 4, 1)); err == nil || errors.Is(err, ErrSync) {
		t.Fatalf("a write to a file that cannot be written to: %v", err)
	}
	must(t, readOnly.Close())
	s.file = good
	store(t, l, entries(3, 3, 2)...)
	must(t, l.Close())
	if err := check(openAt(t, dir, segmentSize), append(entries(1, 2, 1), entries(3, 3, 2)...)); err != nil {
		t.Error(err)
	}
}

func TestWhatDoesNotFollowIsRefused(t *testing.T) {
	l := openAt(t, t.TempDir(), segmentSize)
	store(t, l, entries(1, 5, 1)...)
	for _, bad := range [][]*raft.Log{entries(5, 6, 1), {entry(6, 1, 1), entry(8, 1, 1)}} {
		if err := l.StoreLogs(bad); err == nil {
			t.Errorf("entries from %d were taken", bad[0].Index)
		}
	}
	if err := l.DeleteRange(2, 3); err == nil {
		t.Error("a piece of the middle was deleted")
	}
	if err := check(l, entries(1, 5, 1)); err != nil {
		t.Error(err)
	}
}

func TestOnlyTheOwnerCanReadTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	store(t, openAt(t, dir, segmentSize), entry(1, 1, 1))
	for path, want := range map[string]os.FileMode{dir: 0o700, segmentPath(dir, 1): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

// FuzzOpen gives any bytes as a segment: what is opened can be read, appended to and opened again.
func FuzzOpen(f *testing.F) {
	good := newHeader()
	for i := range uint64(3) {
		good = appendFrame(good, entry(i+1, 1, 9), i+1)
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte(segmentMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(segmentPath(dir, 1), data, fileMode))
		l, err := open(dir, segmentSize)
		if err != nil {
			return
		}
		last := l.last()
		for i := uint64(1); i <= last; i++ {
			must(t, l.GetLog(i, new(raft.Log)))
		}
		store(t, l, entry(last+1, 1, 5))
		must(t, l.Close())
		if got := openAt(t, dir, segmentSize).last(); got != last+1 {
			t.Fatalf("it ends at %d, want %d", got, last+1)
		}
	})
}

// BenchmarkStore is one write of so many entries of 830 bytes, synced.
func BenchmarkStore(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := openAt(b, b.TempDir(), segmentSize)
			next := uint64(1)
			batch := make([]*raft.Log, n)
			for b.Loop() {
				for i := range batch {
					batch[i] = entry(next, 1, 830)
					next++
				}
				store(b, l, batch...)
			}
		})
	}
}

func TestAnEntryIsReplacedWhereItStands(t *testing.T) {
	dir := t.TempDir()
	l := openAt(t, dir, 300)
	want := entries(1, 12, 1)
	for i := 0; i < len(want); i += 2 {
		store(t, l, want[i:i+2]...)
	}
	for _, i := range []int{4, 0, 11} {
		want[i] = &raft.Log{Index: want[i].Index, Term: want[i].Term, Type: raft.LogNoop, Data: []byte{}}
		must(t, l.Replace(want[i]))
		if err := check(l, want); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Replace(entry(13, 1, 1)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that is not there was replaced: %v", err)
	}
	must(t, l.Close())
	if err := check(openAt(t, dir, 300), want); err != nil {
		t.Error(err)
	}
}
