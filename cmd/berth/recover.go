package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/consensus"
)

// change is a change of a data directory that has been worked out, can be shown, and is done only when its operator says so.
type change interface {
	Diff() string
	Commit() error
	Close() error
}

type recoverFlags struct {
	dataDir string
	peers   []string
	skip    uint64
	moved   bool
	compact bool
	yes     bool
}

func recoverCmd() *cobra.Command {
	f := &recoverFlags{}
	c := &cobra.Command{
		Use: "recover (--peers ID=ADDR,... | --skip INDEX | --moved | --compact)", Short: "repair the data directory of a peer that does not run", Args: cobra.NoArgs,
		Long: "Repair the data directory of a peer that does not run. What would change is printed first.\n\n" +
			"--peers is for a quorum that is lost for good. Run it on one survivor, the one with the newest index, and name it with its raft address.\n" +
			"It becomes the cluster, in a new epoch; other peers named get a vote once they have caught up, and any other may join with an empty directory.\n\n" +
			"--skip is for an entry that every peer refuses. Run it on every peer before any of them starts.\n\n" +
			"--moved is for a data directory that was moved to another machine or file system. A peer refuses to start on one, because it could be a copy:\n" +
			"two peers on copies of one log can lose what was acknowledged, and so can one on an old copy. Say it only of the newest and only copy.\n\n" +
			"--compact makes the log store's file as small as what is in it.",
		Example: "  berth peer recover --peers peer-1=192.0.2.1:7301\n  berth peer recover --skip 4711",
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	s := c.Flags()
	s.StringVar(&f.dataDir, "data-dir", dataDir("peer"), "the data directory")
	s.StringSliceVar(&f.peers, "peers", nil, "members of the recovered cluster, ID=RAFT-ADDRESS; the peer of the directory is one of them")
	s.Uint64Var(&f.skip, "skip", 0, "index of the entry to pass over")
	s.BoolVar(&f.moved, "moved", false, "the directory was moved here, and no other copy of it will be used")
	s.BoolVar(&f.compact, "compact", false, "give the unused room of the log store back to the file system")
	s.BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

func (f *recoverFlags) run(c *cobra.Command) error {
	ctx := c.Context()
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	ch, err := f.prepare(ctx, log)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	fmt.Fprint(c.OutOrStdout(), ch.Diff())
	if err := f.confirm(c.InOrStdin(), c.ErrOrStderr()); err != nil {
		return err
	}
	if err := ch.Commit(); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), "done")
	return nil
}

func (f *recoverFlags) prepare(ctx context.Context, log *slog.Logger) (change, error) {
	asked := 0
	for _, one := range []bool{len(f.peers) > 0, f.skip > 0, f.moved, f.compact} {
		if one {
			asked++
		}
	}
	switch {
	case asked != 1:
		return nil, usageError{errors.New("say one of --peers ID=ADDR,..., --skip INDEX, --moved and --compact")}
	case f.skip > 0:
		return prepared(consensus.PrepareSkip(ctx, f.dataDir, f.skip, log))
	case f.moved:
		return prepared(consensus.PrepareMove(ctx, f.dataDir, log))
	case f.compact:
		return prepared(consensus.PrepareCompaction(ctx, f.dataDir, log))
	}
	peers, err := candidates(f.peers)
	if err != nil {
		return nil, usageError{err}
	}
	return prepared(consensus.PrepareRecovery(ctx, f.dataDir, peers, time.Now(), log))
}

// prepared keeps a nil pointer from becoming a change.
func prepared[C change](c C, err error) (change, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// candidates reads ID=HOST:PORT.
func candidates(texts []string) ([]consensus.Candidate, error) {
	var out []consensus.Candidate
	for _, t := range texts {
		id, addr, ok := strings.Cut(t, "=")
		if _, _, err := net.SplitHostPort(addr); !ok || id == "" || err != nil {
			return nil, fmt.Errorf("--peers %q is not ID=HOST:PORT; write for example peer-1=192.0.2.1:7301", t)
		}
		out = append(out, consensus.Candidate{ID: id, Address: addr})
	}
	return out, nil
}

// confirm asks on a terminal. Elsewhere nobody can answer, so it must have been said.
func (f *recoverFlags) confirm(in io.Reader, out io.Writer) error {
	if f.yes {
		return nil
	}
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return usageError{errors.New("nothing was changed; repeat with --yes to do it")}
	}
	fmt.Fprint(out, "do this? [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}
