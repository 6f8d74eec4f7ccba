package durable

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	idVersion = 1
	idBytes   = 16
)

type idFile struct {
	ID string `json:"id"`
}

// NewID gives prefix followed by 128 random bits in 32 hexadecimal digits.
func NewID(prefix string) string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // never fails: the process ends instead
	return prefix + hex.EncodeToString(b[:])
}

// LoadOrCreateID gives the id kept at path, and makes it with [NewID] where there is none. Once made it stays; a file
// that does not hold an id with this prefix is an error, never replaced.
func LoadOrCreateID(path, prefix string) (string, error) {
	var f idFile
	err := ReadJSON(path, idVersion, &f)
	if errors.Is(err, fs.ErrNotExist) {
		f.ID = NewID(prefix)
		err = WriteJSON(path, idVersion, f)
	}
	if err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	digits, ok := strings.CutPrefix(f.ID, prefix)
	if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != idBytes {
		return "", fmt.Errorf("identity: %s holds %q, want %q and %d hexadecimal digits", path, f.ID, prefix, 2*idBytes)
	}
	return f.ID, nil
}
