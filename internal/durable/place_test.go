package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// used is a data directory that was used once.
func used(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	l, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if err := CheckPlace(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDirectoryStaysWhereItIs(t *testing.T) {
	dir := used(t)
	if err := CheckPlace(dir); err != nil {
		t.Errorf("in its place: %v", err)
	}
	renamed := dir + ".renamed"
	if err := os.Rename(dir, renamed); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(renamed); err != nil {
		t.Errorf("renamed: %v", err)
	}
}

func TestCopiedDirectoryIsRefused(t *testing.T) {
	dir := used(t)
	copied := dir + ".copy"
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(copied); !errors.Is(err, ErrMoved) {
		t.Errorf("copied on one machine: %v", err)
	}
	is, err := PlaceOf(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(SetPlace(copied, is), CheckPlace(copied)); err != nil {
		t.Errorf("after it was said that it moved: %v", err)
	}
}

func TestDirectoryOfAnotherMachineIsRefused(t *testing.T) {
	dir := used(t)
	p, err := PlaceOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p.Machine == "" {
		t.Skip("needs a machine-id: this machine has none in /etc or /var/lib/dbus")
	}
	p.Machine = machineHash("another")
	if err := SetPlace(dir, p); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(dir); !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("used on another machine: %v", err)
	}
	p.Machine = "" // it was used where no id could be read
	if err := errors.Join(SetPlace(dir, p), CheckPlace(dir)); err != nil {
		t.Errorf("where nothing can be compared: %v", err)
	}
}

func TestSpace(t *testing.T) {
	free, total, ok, err := Space(t.TempDir())
	if err != nil || ok && (free == 0 || free > total) {
		t.Errorf("%d of %d, %v, %v", free, total, ok, err)
	}
}
