package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/admin/client"
	"berth/fleet"
)

// pair makes a pseudo-terminal: what is written to the terminal can be read at its other end.
func pair(t *testing.T) (terminal, other *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs /dev/ptmx:", err)
	}
	t.Cleanup(func() { _ = other.Close() })
	fd := int(other.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("needs /dev/pts:", err)
	}
	return terminal, other
}

// NO_COLOR, and a terminal that can do nothing, also mean that nothing is written over what is there.
func TestNoColourIsNoMotion(t *testing.T) {
	for _, c := range []struct {
		no, term string
		moves    bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", c.no)
		t.Setenv("TERM", c.term)
		tty, other := pair(t)
		a := &app{out: tty, err: io.Discard}
		shows := 0
		err := a.watch(t.Context(), func(context.Context, client.ReadOptions) (client.Meta, error) {
			if shows++; shows > 1 {
				return client.Meta{}, fleet.Errorf(fleet.NotFound, "it is gone")
			}
			_, err := io.WriteString(a.out, "a view\n")
			return client.Meta{}, err
		})
		if !errors.Is(err, fleet.NotFound) {
			t.Error(err)
		}
		_ = tty.Close()
		shown, _ := io.ReadAll(other) // ends with an error, when nobody has the terminal open any more
		if moved := strings.Contains(string(shown), "\x1b"); moved != c.moves || !strings.Contains(string(shown), "a view") {
			t.Errorf("%+v: %q", c, shown)
		}
	}
}
