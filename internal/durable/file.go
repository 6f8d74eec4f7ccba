package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Modes of what this package makes, whatever the umask: keys and tokens are among it.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// MakeDir makes a directory and its missing parents, each with DirMode. One that exists keeps its mode, which is then
// an operator's choice.
func MakeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("make directory %s: there is a file of that name", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make directory: %w", err)
	}
	parent := filepath.Dir(dir)
	if err := MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.Chmod(dir, DirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return syncDir(parent)
}

// WriteFile replaces the file: after a crash at any moment there is either the old content or the new one, whole, and
// when it has returned nil, the new one. The directory must exist. Two writers at once are safe; one of them wins.
func WriteFile(path string, data []byte) (err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, "."+name+".tmp-*") // made with 0600
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("replace %s: %w", path, err)
		}
	}()
	if err := f.Chmod(FileMode); err != nil { // a umask may have taken from 0600
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // before the rename, or a crash can leave the new name with no content
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir) // the rename itself
}

// Rename gives a file that is on disk another name, in the place of what has it, and has that on disk when it returns nil. Both names are in one
// directory.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// Remove deletes the file for good; one that is not there is no error.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
