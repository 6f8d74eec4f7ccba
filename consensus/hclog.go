package consensus

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLogger gives raft's lines to slog. It keeps no state of its own; levels are the handler's business.
type raftLogger struct {
	log     *slog.Logger
	name    string
	implied []any
}

func newRaftLogger(l *slog.Logger) hclog.Logger { return &raftLogger{log: l, name: "raft"} }

// slogLevel maps levels. raft says at error level what is a retry (a heartbeat that failed, ten times a second while a
// peer is down), so its errors are warnings here: what ends a peer is logged by us.
func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Trace:
		return slog.LevelDebug - 4
	}
	return slog.LevelInfo
}

func (r *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	for i, a := range args { // hclog's lazy formats have no meaning for slog
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			format, _ := f[0].(string)
			args[i] = fmt.Sprintf(format, f[1:]...)
		}
	}
	r.log.Log(context.Background(), slogLevel(level), r.name+": "+msg, args...)
}

func (r *raftLogger) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLogger) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLogger) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLogger) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLogger) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLogger) enabled(l hclog.Level) bool {
	return r.log.Enabled(context.Background(), slogLevel(l))
}
func (r *raftLogger) IsTrace() bool { return r.enabled(hclog.Trace) }
func (r *raftLogger) IsDebug() bool { return r.enabled(hclog.Debug) }
func (r *raftLogger) IsInfo() bool  { return r.enabled(hclog.Info) }
func (r *raftLogger) IsWarn() bool  { return r.enabled(hclog.Warn) }
func (r *raftLogger) IsError() bool { return r.enabled(hclog.Error) }

func (r *raftLogger) ImpliedArgs() []any { return r.implied }
func (r *raftLogger) Name() string       { return r.name }
func (r *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{r.log.With(args...), r.name, append(r.implied[:len(r.implied):len(r.implied)], args...)}
}
func (r *raftLogger) Named(name string) hclog.Logger {
	return &raftLogger{r.log, r.name + "." + name, r.implied}
}
func (r *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{r.log, name, r.implied}
}
func (r *raftLogger) SetLevel(hclog.Level)  {}
func (r *raftLogger) GetLevel() hclog.Level { return hclog.NoLevel }
func (r *raftLogger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(r.StandardWriter(o), "", 0)
}
func (r *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{r} }

type lineWriter struct{ to *raftLogger }

func (w lineWriter) Write(p []byte) (int, error) {
	w.to.Info(strings.TrimSpace(string(p)))
	return len(p), nil
}
