package durable

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// holdLock is the other process of TestLockOutlivesNobody: it takes the lock, says so, and waits to be killed.
func holdLock(dir string) {
	lock, err := LockDir(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("locked")
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = lock.Unlock()
	os.Exit(0)
}

func TestLockOutlivesNobody(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "DURABLE_LOCK_DIR="+dir)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("other process: %q, %v", line, err)
	}
	_, err = LockDir(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(other.Process.Pid)) {
		t.Errorf("lock of a live process: %v, want its number %d", err, other.Process.Pid)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	lock, err := LockDir(dir)
	if err != nil {
		t.Fatalf("lock after the holder was killed: %v", err)
	}
	lock.Unlock()
}
