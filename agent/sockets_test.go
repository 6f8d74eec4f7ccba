package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketFolder(t *testing.T) {
	tmp, err := os.MkdirTemp("", "s") // short, as t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	t.Setenv("TMPDIR", tmp)
	short, long := filepath.Join(tmp, "d", "sockets"), filepath.Join(tmp, strings.Repeat("d", 60))
	if got, err := socketFolder("", short); err != nil || got != short {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := socketFolder(short, long); err != nil || got != short {
		t.Errorf("configured: %q, %v", got, err)
	}
	got, err := socketFolder("", long)
	again, err2 := socketFolder("", long)
	if err != nil || err2 != nil || got != again || filepath.Dir(got) != tmp || len(got) > maxSockets {
		t.Errorf("%q, %v; then %q, %v", got, err, again, err2)
	}
	if info, err := os.Stat(got); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chmod(got, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := socketFolder("", long); err == nil {
		t.Error("a folder that others can read is taken")
	}
	if err := os.Remove(got); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(short), got); err != nil {
		t.Fatal(err)
	}
	if _, err := socketFolder("", long); err == nil {
		t.Error("a symlink is taken")
	}
}
