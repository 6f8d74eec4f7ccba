package access

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"berth/internal/modelfile"
)

// FileVersion is the version of the file of keys that this release reads.
const FileVersion = 1

// File is the file of keys.
type File struct {
	Version int     `json:"version"`
	Keys    []Key   `json:"keys"`
	Models  []Model `json:"models"`
}

// Key is one client's key and what it may do.
type Key struct {
	Name   string   `json:"name"`   // of the client, for metrics and messages
	SHA256 string   `json:"sha256"` // of the key's bytes, in hexadecimal digits
	Models []string `json:"models"` // that it may use, by name; none: all
	// RequestsPerMinute is the rate in the long run, ten seconds' worth of which may come at once; 0: no limit.
	RequestsPerMinute int `json:"requests_per_minute"`
	MaxInFlight       int `json:"max_in_flight"` // requests at once, those that wait too; 0: no limit
}

// Model is what all clients together may ask of one model.
type Model struct {
	Name              string `json:"name"` // not an alias
	RequestsPerMinute int    `json:"requests_per_minute"`
	MaxInFlight       int    `json:"max_in_flight"`
}

var hints = map[string]string{
	"key": "sha256: the SHA-256 of the key, printf %s KEY | sha256sum", "hash": "sha256", "rpm": "requests_per_minute", "limit": "max_in_flight",
}

// Read reads the file of keys, strictly. It lists all that is wrong with it at once.
func Read(path string) (File, error) {
	r, err := os.Open(path)
	if err != nil {
		return File{}, err // names the path already
	}
	defer r.Close()
	docs, err := modelfile.Documents(path, r)
	if err != nil {
		return File{}, err
	}
	if len(docs) != 1 {
		return File{}, fmt.Errorf("%s: a file of keys is one document; this one has %d", path, len(docs))
	}
	var f File
	if err := docs[0].Decode(&f, hints); err != nil {
		return File{}, err
	}
	if err := f.Validate(); err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Validate lists everything that is wrong.
func (f File) Validate() error {
	var bad []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	require(f.Version == FileVersion, "version is %d; this release reads version: %d", f.Version, FileVersion)
	require(len(f.Keys) > 0, "there is no key, so nobody could send a request; leave --api-keys out to admit everybody")
	names, hashes := map[string]bool{}, map[string]string{}
	for i, k := range f.Keys {
		require(k.Name != "", "keys[%d] has no name", i)
		require(!names[k.Name], "two keys have the name %q", k.Name)
		sum, err := hex.DecodeString(k.SHA256)
		require(err == nil && len(sum) == 32, "the key %q: sha256 is not 64 hexadecimal digits; printf %%s KEY | sha256sum prints them", k.Name)
		other, twice := hashes[string(sum)]
		require(!twice, "the keys %q and %q are the same", other, k.Name)
		require(k.RequestsPerMinute >= 0 && k.MaxInFlight >= 0, "the key %q: a limit is negative", k.Name)
		names[k.Name], hashes[string(sum)] = true, k.Name
	}
	models := map[string]bool{}
	for i, m := range f.Models {
		require(m.Name != "" && !models[m.Name], "models[%d]: the name %q is missing or there twice", i, m.Name)
		require(m.RequestsPerMinute >= 0 && m.MaxInFlight >= 0, "the model %q: a limit is negative", m.Name)
		models[m.Name] = true
	}
	return errors.Join(bad...)
}
