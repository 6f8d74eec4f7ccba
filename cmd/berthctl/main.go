// Command berthctl is the operator's command line. It speaks to any peer, prints results on standard output and everything else on standard
// error, and ends with a code that scripts can rely on.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet"
	"berth/internal/release"
)

// Exit codes, stable for scripts.
const (
	exitOK        = 0
	exitError     = 1
	exitNotPlaced = 2 // done, but something is not placed
	exitPerson    = 3 // something needs a person
	exitUsage     = 64
	exitTimeout   = 124
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program whatever it does
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exit ends a command with a code other than 0 or 1; its text, if any, goes to standard error.
type exit struct {
	code int
	text string
}

func (e exit) Error() string { return e.text }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{in: stdin, out: stdout, err: stderr}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil && !errors.As(err, new(exit)) {
		err = exit{exitError, "berthctl: interrupted; if it was to change something, repeat it to find out whether it did"}
	}
	return a.code(err)
}

func (a *app) code(err error) int {
	var e exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		if e.text != "" {
			fmt.Fprintln(a.err, e.text)
		}
		return e.code
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(a.err, "berthctl: no answer in time:", describe(err))
		return exitTimeout
	}
	fmt.Fprintln(a.err, "berthctl:", describe(err))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitError
}

// describe writes an error for people: what it is about, and the hint on a line of its own.
func describe(err error) string {
	var e *fleet.Error
	text := err.Error()
	if errors.As(err, &e) && e.Hint != "" {
		text = strings.Replace(text, e.Error(), e.Message, 1) + "\n  " + e.Hint
	}
	return harmless(text)
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// app is one run of the command line.
type app struct {
	in       io.Reader
	out, err io.Writer
	screen   io.Writer    // where the output ends up while it is collected; nil: out
	http     *http.Client // nil: the client's own; tests have another network

	addrs   []string
	token   string
	timeout time.Duration
	json    bool
	yes     bool
	stale   bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "berthctl",
		Short:         "Ask and steer a Berth cluster",
		Long:          "berthctl asks and steers a Berth cluster: what runs where, what is broken, how full is it, what can be stopped, and why is a model not placed.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.StringSliceVar(&a.addrs, "addr", envList("BERTH_ADDR", "127.0.0.1:7300"), "peers to ask, any of them will do (BERTH_ADDR)")
	f.StringVar(&a.token, "token", "", "API token (BERTH_TOKEN)")
	f.Var((*positive)(&a.timeout), "timeout", "give up after this long; watching and following have no limit")
	f.BoolVar(&a.json, "json", false, "print JSON")
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask before destructive commands")
	f.BoolVar(&a.stale, "stale", false, "take the answer of the first peer that answers, also without a leader")
	a.timeout = 30 * time.Second
	f.Lookup("timeout").DefValue = "30s"
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\n  see %s --help", err, c.CommandPath())}
	})
	root.AddCommand(a.statusCmd(), a.eventsCmd(), a.modelsCmd(), a.modelCmd(), a.rolloutCmd(), a.replicasCmd(), a.replicaCmd(), a.nodesCmd(), a.nodeCmd(),
		a.routersCmd(), a.routerCmd(), a.peersCmd(), a.peerCmd(), a.snapshotCmd(), a.freezeCmd(), a.thawCmd(), a.settingsCmd(), a.idleCmd(), a.versionCmd())
	strictGroups(root)
	return root
}

// strictGroups makes a wrong word after a noun an error with a suggestion; cobra alone would print the help and succeed.
func strictGroups(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strictGroups(sub)
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 && !c.HasParent() {
				return c.Help()
			}
			if len(args) == 0 {
				return usageError{fmt.Errorf("%s needs a verb\n  see %s --help", c.CommandPath(), c.CommandPath())}
			}
			return usageError{fmt.Errorf("unknown word %q after %s%s", args[0], c.CommandPath(), suggest(c, args[0]))}
		}
	}
	if c.Args != nil {
		check := c.Args
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				if len(args) > 0 && check(c, nil) == nil {
					err = fmt.Errorf("it takes no argument, and was given %q", args[0])
				}
				return usageError{fmt.Errorf("%s: %w\n  usage: %s", c.CommandPath(), err, c.UseLine())}
			}
			return nil
		}
	}
}

func suggest(c *cobra.Command, word string) string {
	c.SuggestionsMinimumDistance = 2 // cobra's own value, which it sets only when it makes the suggestion itself
	if near := c.SuggestionsFor(word); len(near) > 0 {
		return "; did you mean " + near[0] + "?"
	}
	var verbs []string
	for _, sub := range c.Commands() {
		verbs = append(verbs, sub.Name())
	}
	return "; it has " + strings.Join(verbs, ", ")
}

func envList(name, fallback string) []string {
	if v := os.Getenv(name); v != "" {
		return strings.Split(v, ",")
	}
	return []string{fallback}
}

func (a *app) client() (*client.Client, error) {
	token := a.token
	if token == "" {
		token = os.Getenv("BERTH_TOKEN")
	}
	return client.New(client.Config{Addrs: a.addrs, Token: token, Agent: "berthctl/" + release.Version + " (" + whoami() + ")", HTTP: a.http})
}

// do runs a command's work with a client under the time limit.
func (a *app) do(work func(context.Context, *client.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := a.client()
		if err != nil {
			return usageError{err}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		return work(ctx, c)
	}
}

// asking is with for what is destructive: it asks first, and the time limit begins when that is answered. The question's verb and object are format's.
func (a *app) asking(format string, work func(context.Context, *client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.confirm(cmd.Context(), format, args[0]); err != nil {
			return err
		}
		return a.with(work)(cmd, args)
	}
}

// with is do for a command that takes arguments.
func (a *app) with(work func(context.Context, *client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.do(func(ctx context.Context, c *client.Client) error { return work(ctx, c, args) })(cmd, args)
	}
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "the versions of berthctl and of the peer that answers", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, c *client.Client) error {
			v, meta, err := c.Version(ctx)
			switch {
			case a.json && err == nil:
				return a.printJSON(map[string]any{"berthctl": release.Version, "peer": v})
			case a.json:
				return errors.Join(a.printJSON(map[string]any{"berthctl": release.Version, "peer": nil}), err)
			}
			fmt.Fprintf(a.out, "berthctl %s\n", release.Version)
			if err == nil {
				fmt.Fprintf(a.out, "peer     %s (level %d, %s) at %s\n", v.Version, v.Level, v.Go, meta.Peer)
			}
			return err
		})}
}
