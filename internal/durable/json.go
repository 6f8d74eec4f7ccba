package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrVersion is wrapped by the error for a file of a version that the reader does not know.
var ErrVersion = errors.New("unknown version")

// envelope is the form of every JSON file on disk: {"version":N,"data":{…}}. The version stands outside so that it can
// be read before anything is known of the rest.
type envelope struct {
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// WriteJSON replaces the file by v in JSON form under a version, as [WriteFile] does.
func WriteJSON(path string, version int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	all, err := json.Marshal(envelope{Version: version, Data: data})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, append(all, '\n'))
}

// ReadJSON reads what WriteJSON wrote. It is strict: another version ([ErrVersion]), an unknown field, or anything after
// the value is an error that names the file. A file that is not there is [fs.ErrNotExist]. On error v may be half filled.
func ReadJSON(path string, version int, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err // names the path already
	}
	var e envelope
	if err := decode(raw, &e); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if e.Version != version {
		return fmt.Errorf("read %s: %w %d, this program reads version %d", path, ErrVersion, e.Version, version)
	}
	if len(e.Data) == 0 {
		return fmt.Errorf("read %s: no field \"data\"", path)
	}
	if err := decode(e.Data, v); err != nil {
		return fmt.Errorf("read %s: data: %w", path, err)
	}
	return nil
}

func decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file is cut off")
	case err != nil:
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the JSON value at byte %d", d.InputOffset())
	}
	return nil
}
