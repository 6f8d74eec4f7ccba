package ops

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Formats of --log-format.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Logger makes the log of a process: lines of the level ("debug", "info", "warn", "error"; --log-level) and above, in
// the format (--log-format), to w. Writing a log line never waits for w: lines that w is too slow for are dropped and
// counted, and the log says how many. The LogWriter must be closed at the end, or the last lines are lost.
func Logger(w io.Writer, level, format string) (*slog.Logger, *LogWriter, error) {
	at, levelErr := ParseLevel(level)
	handler, formatErr := newHandler(format)
	if err := errors.Join(levelErr, formatErr); err != nil {
		return nil, nil, err
	}
	o := &slog.HandlerOptions{Level: at}
	lw := newLogWriter(w, slog.New(handler(w, o)))
	return slog.New(handler(lw, o)), lw, nil
}

// ParseLevel reads a log level; the error lists those there are.
func ParseLevel(level string) (slog.Level, error) {
	switch strings.ToLower(level) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q is none of debug, info, warn, error (--log-level)", level)
}

func newHandler(format string) (func(io.Writer, *slog.HandlerOptions) slog.Handler, error) {
	switch format {
	case FormatText:
		return func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) }, nil
	case FormatJSON:
		return func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) }, nil
	}
	return nil, fmt.Errorf("log format %q is neither %s nor %s (--log-format)", format, FormatText, FormatJSON)
}
