package agent_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"berth/agent"
)

// The folder for sockets may lie where the data directory does not, so it goes with the agent, unless an engine that goes on has its socket there.
func TestFolderForSocketsIsNotLeftBehind(t *testing.T) {
	short, err := os.MkdirTemp("", "s") // short, as t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	dir := filepath.Join(short, "sockets")
	inBubble(t, func(t *testing.T, g *rig) {
		g.adjust = func(c *agent.Config) { c.Sockets = dir }
		g.start()
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
		g.stop()
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an empty folder is left: %v", err)
		}
		g.start()
		socket := filepath.Join(dir, "r-1.2.3.sock")
		if err := os.WriteFile(socket, nil, 0o600); err != nil {
			t.Error(err)
		}
		g.stop()
		if _, err := os.Stat(socket); err != nil {
			t.Errorf("what is in use is gone: %v", err)
		}
	})
}
