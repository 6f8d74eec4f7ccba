package shim

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestAnEarlierStartsSocketIsRemovedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "e.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false) // as after SIGKILL
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "weights")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"unix:" + path, "unix:" + file, "unix:" + path, "127.0.0.1:1", ""} {
		if err := dropSocket(engine); err != nil {
			t.Errorf("%s: %v", engine, err)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
	if _, err := os.Lstat(file); err != nil {
		t.Error("a file that is no socket is gone")
	}
}
