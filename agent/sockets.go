package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/durable"
)

// maxSockets is how long the path of the folder for sockets may be: a socket's path has at most 107 bytes on Linux (unix(7)), and the names in
// the folder need room.
const maxSockets = 60

// socketFolder makes the folder for engines' sockets: the one that is configured, else the usual one, else, where its path is too long, one below
// the system's temporary folder, the same at each start.
func socketFolder(configured, usual string) (string, error) {
	path := configured
	if path == "" {
		path = usual
	}
	path, err := filepath.Abs(path) // shims may have another working folder
	if err != nil {
		return "", fmt.Errorf("folder for sockets: %w", err)
	}
	if len(path) <= maxSockets {
		return path, durable.MakeDir(path)
	}
	sum := sha256.Sum256([]byte(path))
	path = filepath.Join(os.TempDir(), "berth-"+hex.EncodeToString(sum[:6]))
	if err := durable.MakeDir(path); err != nil {
		return "", err
	}
	return path, private(path)
}

// private refuses a folder that somebody else has put where anybody may put one: whoever owns it could take the place of an engine.
func private(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	if info.Mode().Type() != fs.ModeDir || info.Mode().Perm()&0o077 != 0 || !ours(info) {
		return fmt.Errorf("folder for sockets: %s is not a folder of this user alone (mode %s); remove it, or choose a data directory with a shorter path", path, info.Mode())
	}
	return nil
}
