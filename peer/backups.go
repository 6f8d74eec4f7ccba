package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/fleet/wire"
	"berth/fsm"
	"berth/internal/durable"
	"berth/internal/run"
)

// Backups says whether and how a peer saves snapshots by a schedule.
type Backups struct {
	Dir   string        // where they go; empty: none are taken
	Every time.Duration // 0: an hour
	Keep  int           // how many of its own a peer keeps; 0: 24
}

func (b Backups) withDefaults() Backups {
	if b.Every == 0 {
		b.Every = time.Hour
	}
	if b.Keep == 0 {
		b.Keep = 24
	}
	return b
}

func (b Backups) check() error {
	switch {
	case b.Dir == "":
		return nil
	case b.Every != 0 && b.Every < time.Minute:
		return fmt.Errorf("--backup-every %v: at least a minute", b.Every)
	case b.Keep < 0:
		return fmt.Errorf("--backup-keep %d: keep at least 1", b.Keep)
	}
	return nil
}

const (
	backupLook   = 10 * time.Second // how often the schedule is looked at, which is also the wait after a failure
	backupSuffix = ".snapshot"
	backupTime   = "20060102T150405Z"
)

// backups is a peer's schedule of snapshots. Each peer that has a folder takes its own, of its own state, whoever leads and also while nobody does:
// what it has then is what there is. A peer that has not caught up since its start takes none.
//
// A file's name is berth-PEER-TIME-EPOCH.INDEX.snapshot; it is there whole and read back, or not at all. Retention touches only files of this peer.
type backups struct {
	Backups
	log    *slog.Logger
	peer   string
	state  func() *fsm.State
	caught func() bool
	began  time.Time

	mu     sync.Mutex
	last   wire.Backup // File empty: none
	at     time.Time   // when it was found good
	failed error       // of the last try
}

func (b *backups) run(ctx context.Context) error {
	if b.Dir == "" {
		<-ctx.Done()
		return nil
	}
	b.find()
	return run.Every(ctx, backupLook, func(context.Context) error {
		if b.due() {
			b.attempt()
		}
		return nil
	})
}

// find takes up the schedule where the last start left it.
func (b *backups) find() {
	all, err := b.list()
	if err != nil || len(all) == 0 {
		return
	}
	newest := all[len(all)-1]
	info, err := readBackup(filepath.Join(b.Dir, newest))
	at, ok := b.takenAt(newest)
	if err != nil || !ok {
		b.log.Warn("the newest backup cannot be used", "file", newest, "error", err)
		return
	}
	b.note(wire.Backup{Peer: b.peer, Index: info.Index, File: newest}, at, nil)
}

func (b *backups) due() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.caught() && (b.last.File == "" || time.Since(b.at) >= b.Every)
}

func (b *backups) attempt() {
	backup, err := b.take()
	if err != nil {
		b.log.Error("the backup failed", "dir", b.Dir, "error", err)
		b.note(wire.Backup{}, time.Time{}, err)
		return
	}
	b.log.Info("backup taken and read back", "dir", b.Dir, "file", backup.File, "index", backup.Index)
	b.note(backup, time.Now(), nil)
	if err := b.prune(); err != nil {
		b.log.Error("an old backup cannot be removed", "dir", b.Dir, "error", err)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.failed = err
	}
}

func (b *backups) note(backup wire.Backup, at time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed = err; err == nil {
		b.last, b.at = backup, at
	}
}

// take writes one file and reads it back.
func (b *backups) take() (wire.Backup, error) {
	state := b.state()
	out := wire.Backup{Peer: b.peer, Index: state.Index()}
	out.File = fmt.Sprintf("%s%s-%s%s", b.prefix(), time.Now().UTC().Format(backupTime), state.Index(), backupSuffix)
	if err := durable.MakeDir(b.Dir); err != nil {
		return out, err
	}
	path := filepath.Join(b.Dir, out.File)
	part := path + ".part"
	err := writeBackup(part, state)
	if err == nil {
		err = sameState(part, state)
	}
	if err == nil {
		err = durable.Rename(part, path)
	}
	if err != nil {
		return out, errors.Join(err, durable.Remove(part))
	}
	return out, nil
}

func writeBackup(path string, state *fsm.State) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, durable.FileMode)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	err = state.WriteSnapshot(buf)
	return errors.Join(err, buf.Flush(), f.Sync(), f.Close())
}

// sameState reads a file as a restore would, and holds it against what it was made of.
func sameState(path string, state *fsm.State) error {
	info, err := readBackup(path)
	if err != nil {
		return fmt.Errorf("what was written cannot be read back: %w", err)
	}
	if want := state.Fingerprint(); info.Fingerprint != want || info.Index != state.Index() {
		return fmt.Errorf("what was written reads back as index %s with fingerprint %s; it was %s with %s", info.Index, info.Fingerprint, state.Index(), want)
	}
	return nil
}

func readBackup(path string) (wire.SnapshotInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return wire.SnapshotInfo{}, err
	}
	defer f.Close()
	return fsm.Inspect(bufio.NewReaderSize(f, 1<<20))
}

func (b *backups) prefix() string { return "berth-" + b.peer + "-" }

// takenAt reads the time in a file's name; ok is false for a name that is none of this peer's.
func (b *backups) takenAt(name string) (time.Time, bool) {
	rest, mine := strings.CutPrefix(name, b.prefix())
	rest, whole := strings.CutSuffix(rest, backupSuffix)
	stamp, _, _ := strings.Cut(rest, "-")
	at, err := time.Parse(backupTime, stamp)
	return at, mine && whole && err == nil
}

// list gives this peer's files, oldest first.
func (b *backups) list() ([]string, error) {
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if _, ok := b.takenAt(e.Name()); ok {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out) // the time comes first of what differs
	return out, nil
}

func (b *backups) prune() error {
	all, err := b.list()
	if err != nil {
		return err
	}
	for _, name := range all[:max(0, len(all)-b.Keep)] {
		if err := durable.Remove(filepath.Join(b.Dir, name)); err != nil {
			return fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return nil
}

// warnings says what a person should do, once a failure has lasted.
func (b *backups) warnings() []string {
	if b.Dir == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.at
	if b.last.File == "" {
		since = b.began
	}
	late := time.Since(since) > b.Every+b.Every/2
	switch {
	case b.failed != nil:
		return []string{fmt.Sprintf("its last backup to %s failed: %v", b.Dir, b.failed)}
	case late && b.last.File == "":
		return []string{fmt.Sprintf("it has taken no backup to %s since its start %s ago", b.Dir, time.Since(since).Round(time.Minute))}
	case late:
		return []string{fmt.Sprintf("its last backup to %s was %s ago, and one is due every %s", b.Dir, time.Since(since).Round(time.Minute), b.Every)}
	}
	return nil
}

// word is what this peer says of its last good backup; nil: it has none.
func (b *backups) word() *wire.Backup {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.File == "" {
		return nil
	}
	out := b.last
	out.AgeSeconds = max(0, time.Since(b.at).Seconds())
	return &out
}
