package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/durable"
)

// A shim keeps at most logFiles files of logFileBytes each: engine.log, and engine.log.1 to .3 from newer to older.
const (
	logName      = "engine.log"
	logFiles     = 4
	logFileBytes = 16 << 20
)

// rotation writes to a file until it is full and then to the next. An error is kept and the output of that moment lost;
// the next write tries again.
type rotation struct {
	dir   string
	limit int64
	file  *os.File
	size  int64
	err   error
}

func newRotation(dir string) *rotation { return &rotation{dir: dir, limit: logFileBytes} }

func (r *rotation) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if r.err = r.ready(int64(len(p))); r.err != nil {
		return
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	r.err = err
}

// ready opens the file, or the next one when n more bytes are too many.
func (r *rotation) ready(n int64) error {
	if r.file != nil && r.size > 0 && r.size+n > r.limit {
		r.close()
		if err := r.shift(); err != nil {
			return err
		}
	}
	if r.file != nil {
		return nil
	}
	if err := durable.MakeDir(r.dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, durable.FileMode)
	if err != nil {
		return fmt.Errorf("engine log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("engine log: %w", err)
	}
	r.file, r.size = f, info.Size()
	return nil
}

func (r *rotation) shift() error {
	for i := logFiles - 1; i > 0; i-- {
		if err := os.Rename(logFile(r.dir, i-1), logFile(r.dir, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("engine log: %w", err)
		}
	}
	return nil
}

func (r *rotation) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

func logFile(dir string, i int) string {
	if i == 0 {
		return filepath.Join(dir, logName)
	}
	return filepath.Join(dir, fmt.Sprintf("%s.%d", logName, i))
}

// ReadLogs gives the last lines of the output that a shim left in its log folder, also when the shim is long gone.
func ReadLogs(dir string, tail int) (io.ReadCloser, error) {
	var text []byte
	for i := range logFiles {
		part, err := os.ReadFile(logFile(dir, i))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("engine log: %w", err)
		}
		text = append(part, text...)
		if at := lastLines(text, tail); at > 0 {
			text = text[at:]
			break
		}
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}
