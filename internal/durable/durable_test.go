package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("DURABLE_LOCK_DIR"); dir != "" {
		holdLock(dir)
	}
	goleak.VerifyTestMain(m)
}

func put(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModesWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o277} {
		old := syscall.Umask(mask)
		dir := filepath.Join(t.TempDir(), "a", "b")
		err := errors.Join(MakeDir(dir), WriteFile(filepath.Join(dir, "f"), []byte("x")))
		lock, lockErr := LockDir(dir)
		syscall.Umask(old)
		if err := errors.Join(err, lockErr); err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock()
		for path, want := range map[string]fs.FileMode{
			filepath.Dir(dir): 0o700, dir: 0o700, filepath.Join(dir, "f"): 0o600, filepath.Join(dir, lockName): 0o600,
		} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("umask %o: %s has %v, %v; want %v", mask, path, info.Mode(), err, want)
			}
		}
	}
}

func TestMakeDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o750 {
		t.Errorf("an operator's directory became %v", info.Mode())
	}
	if err := MakeDir(put(t, "")); err == nil || !strings.Contains(err.Error(), "file.json") {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestWriteFileReplacesOrLeavesAlone(t *testing.T) {
	path := put(t, "old")
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "new" {
		t.Errorf("content %q", got)
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(target, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(target, []byte("x")); err == nil || !strings.Contains(err.Error(), target) {
		t.Errorf("replacing a directory: %v", err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 1 {
		t.Errorf("a failed write left %v", left)
	}
}

func TestRemove(t *testing.T) {
	path := put(t, "x")
	for range 2 {
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("still there")
	}
}

type sample struct {
	Name string `json:"name"`
}

func TestJSONRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteJSON(path, 3, sample{"gpu-017"}); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(path)
	if want := `{"version":3,"data":{"name":"gpu-017"}}` + "\n"; string(raw) != want {
		t.Errorf("on disk %q, want %q", raw, want)
	}
	var got sample
	if err := ReadJSON(path, 3, &got); err != nil || got.Name != "gpu-017" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadJSONIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "empty"},
		"cut off":           {`{"version":1,"da`, "cut off"},
		"not json":          {"version: 1", "invalid character"},
		"other version":     {`{"version":2,"data":{"name":"x"}}`, "unknown version 2, this program reads version 1"},
		"no version":        {`{"data":{"name":"x"}}`, "unknown version 0"},
		"no data":           {`{"version":1}`, `no field "data"`},
		"unknown field":     {`{"version":1,"data":{"name":"x","nmae":"y"}}`, `unknown field "nmae"`},
		"unknown beside":    {`{"version":1,"data":{},"sum":1}`, `unknown field "sum"`},
		"something follows": {`{"version":1,"data":{}}{}`, "follows"},
		"wrong type":        {`{"version":1,"data":{"name":7}}`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, c.text)
			err := ReadJSON(path, 1, new(sample))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want the path and %q", err, c.want)
			}
			if strings.Contains(name, "version") != errors.Is(err, ErrVersion) {
				t.Errorf("%v: is ErrVersion: %v", err, errors.Is(err, ErrVersion))
			}
		})
	}
	if err := ReadJSON(filepath.Join(t.TempDir(), "none"), 1, new(sample)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestCounterNeverRepeats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boots")
	const workers, each = 4, 10
	c := NewCounter(path)
	seen := make(chan uint64, workers*each)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				v, err := c.Next()
				if err != nil {
					t.Error(err)
				}
				seen <- v
			}
		})
	}
	wg.Wait()
	close(seen)
	got := make(map[uint64]bool)
	for v := range seen {
		got[v] = true
	}
	if len(got) != workers*each || got[0] || !got[workers*each] {
		t.Errorf("numbers given: %v", got)
	}
	if v, err := NextCounter(path); v != workers*each+1 || err != nil {
		t.Errorf("after a restart %d, %v", v, err)
	}
}

func TestCounterRefusesToStartAgain(t *testing.T) {
	for _, text := range []string{"", "garbage", `{"version":1,"data":{"value":-1}}`, `{"version":1,"data":{"value":18446744073709551615}}`} {
		path := put(t, text)
		if v, err := NextCounter(path); err == nil {
			t.Errorf("%q gives %d", text, v)
		}
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Errorf("%q was overwritten by %q", text, after)
		}
	}
}

func TestID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "id")
	first, err := LoadOrCreateID(path, "node-")
	if err != nil || len(first) != len("node-")+32 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := LoadOrCreateID(path, "node-"); again != first || err != nil {
		t.Errorf("second load %q, %v; want %q", again, err, first)
	}
	if _, err := LoadOrCreateID(path, "router-"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("another role's id: %v", err)
	}
	if a, b := NewID(""), NewID(""); a == b {
		t.Error("two ids are equal")
	}
}

func TestLockWithinAProcess(t *testing.T) {
	dir := t.TempDir()
	lock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockDir(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second lock: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Unlock()
}
