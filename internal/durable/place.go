package durable

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	placeFile    = "place.json"
	placeVersion = 1
)

// ErrMoved is wrapped by the error for a data directory that is not where it was used before.
var ErrMoved = errors.New("the data directory is a copy, or was moved")

// Place is where a data directory is used: on which machine, and in which file of its file system its lock is. A copy differs in one of them
// wherever it is made: copied to another machine, or restored from a backup of files, its lock is another file. A directory that was renamed
// keeps both. What cannot be found out is left empty and not compared.
//
// A clone of a whole machine, disk and machine-id included, cannot be told from its original by anything that is on it.
type Place struct {
	Machine string `json:"machine,omitempty"` // hash of the machine-id
	File    uint64 `json:"file,omitempty"`    // inode number of the lock
}

// machineIDFiles hold the machine's id in the order in which systemd and D-Bus keep it; all may read them.
var machineIDFiles = [...]string{"/etc/machine-id", "/var/lib/dbus/machine-id"}

// PlaceOf looks where a directory is that was locked before.
func PlaceOf(dir string) (Place, error) {
	file, err := inode(filepath.Join(dir, lockName))
	if err != nil {
		return Place{}, fmt.Errorf("place of %s: %w", dir, err)
	}
	p := Place{File: file}
	for _, path := range machineIDFiles {
		if id, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(id))) > 0 {
			p.Machine = machineHash(strings.TrimSpace(string(id)))
			break
		}
	}
	return p, nil
}

// machineHash keeps the id itself to the machine, as machine-id(5) asks of programs.
func machineHash(id string) string {
	h := hmac.New(sha256.New, []byte(id))
	h.Write([]byte("berth data directory"))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// CheckPlace notes where a directory is used when it is used for the first time, and returns an error that wraps [ErrMoved] when it is somewhere
// else later. The caller holds the directory's lock.
func CheckPlace(dir string) error {
	is, err := PlaceOf(dir)
	if err != nil {
		return err
	}
	var was Place
	err = ReadJSON(filepath.Join(dir, placeFile), placeVersion, &was)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return SetPlace(dir, is)
	case err != nil:
		return err
	case was.Machine != "" && is.Machine != "" && was.Machine != is.Machine:
		return fmt.Errorf("%w: %s was used on another machine (id %s there, %s here)", ErrMoved, dir, was.Machine[:min(8, len(was.Machine))], is.Machine[:8])
	case was.File != 0 && is.File != 0 && was.File != is.File:
		return fmt.Errorf("%w: the files of %s are not those that were used before; it was copied, or restored from a backup of files", ErrMoved, dir)
	}
	return nil
}

// ReadPlace gives what was noted; empty if nothing was.
func ReadPlace(dir string) (Place, error) {
	var p Place
	err := ReadJSON(filepath.Join(dir, placeFile), placeVersion, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	return p, err
}

// SetPlace notes where a directory is used.
func SetPlace(dir string, p Place) error {
	return WriteJSON(filepath.Join(dir, placeFile), placeVersion, p)
}
