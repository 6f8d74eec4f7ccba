package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
)

func (a *app) routersCmd() *cobra.Command {
	return a.watchable("routers", "list the routers that report", func(ctx context.Context, c *client.Client, _ client.ReadOptions) (client.Meta, error) {
		list, meta, err := c.Routers(ctx)
		if err != nil {
			return meta, err
		}
		return meta, rows(a, list, "ID STATE HEARD BOOT TABLE IN-FLIGHT ADDRESS VERSION", func(r wire.RouterView) []any {
			return []any{r.ID, r.State, age(r.HeardSeconds), r.Boot, r.Table, r.InFlight, r.Address, r.Version}
		})
	})
}

func (a *app) routerCmd() *cobra.Command {
	c := &cobra.Command{Use: "router", Short: "show what one router reports"}
	c.AddCommand(&cobra.Command{Use: "show ID", Short: "what a router itself has seen used since its start; what it has not served has no entry", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			r, _, err := c.Router(ctx, args[0])
			if err != nil || a.json {
				return orJSON(a, r, err)
			}
			fmt.Fprintf(a.out, "%s is %s; boot %d, heard %s ago, routes by the table of index %s\n", r.ID, r.State, r.Boot, age(r.HeardSeconds), r.Table)
			replicas, _, err := c.Replicas(ctx, nil)
			if err != nil {
				return err
			}
			if err := rows(a, replicas, "REPLICA MODEL IDLE IN-FLIGHT", func(v wire.ReplicaView) []any {
				if u, ok := r.Uses[v.ID]; ok {
					return []any{v.ID, v.Model, age(u.Age), u.InFlight}
				}
				return []any{v.ID, v.Model, "-", "-"}
			}); err != nil {
				return err
			}
			for model, d := range r.Demand {
				fmt.Fprintf(a.out, "waiting for %s: %d request(s), the oldest for %s\n", model, d.Waiting, age(d.Oldest))
			}
			return nil
		})})
	return c
}

func (a *app) peersCmd() *cobra.Command {
	return a.watchable("peers", "list the peers", func(ctx context.Context, c *client.Client, _ client.ReadOptions) (client.Meta, error) {
		list, meta, err := c.Peers(ctx)
		if err != nil {
			return meta, err
		}
		return meta, rows(a, list, "ID STATE VOTER HEARD APPLIED FINGERPRINT LEVEL VERSION HTTP RAFT", func(p wire.PeerView) []any {
			return []any{p.ID, p.State, p.Voter, age(p.HeardSeconds), p.AppliedIndex, short(p.Fingerprint), p.Level, p.Version, p.HTTP, p.Raft}
		})
	})
}

// short cuts a hash to what people compare by eye.
func short(hash string) string { return hash[:min(12, len(hash))] }

func (a *app) peerCmd() *cobra.Command {
	c := &cobra.Command{Use: "peer", Short: "show, remove, move, promote or demote one peer, or hand leadership over"}
	verb := func(name, short, done string, ask bool, do func(context.Context, *client.Client, string) error) *cobra.Command {
		work := func(ctx context.Context, c *client.Client, args []string) error {
			return a.say(do(ctx, c, args[0]), "%s: %s", args[0], done)
		}
		run := a.with(work)
		if ask {
			run = a.asking(name+" the peer %s", work)
		}
		return &cobra.Command{Use: name + " ID", Short: short, Args: cobra.ExactArgs(1), RunE: run}
	}
	c.AddCommand(
		&cobra.Command{Use: "show ID", Short: "one peer", Args: cobra.ExactArgs(1), RunE: a.with(a.peerShow)},
		verb("remove", "remove a peer from the cluster", "removed", true, func(ctx context.Context, c *client.Client, id string) error { return c.RemovePeer(ctx, id) }),
		a.peerMove(),
		verb("promote", "make a peer a voter", "promoted", false, func(ctx context.Context, c *client.Client, id string) error { return c.PeerDo(ctx, id, "promote") }),
		verb("demote", "make a peer a non-voter", "demoted", true, func(ctx context.Context, c *client.Client, id string) error { return c.PeerDo(ctx, id, "demote") }),
		verb("transfer", "make a peer the leader", "leads, or will in a moment", false, func(ctx context.Context, c *client.Client, id string) error { return c.TransferLeadership(ctx, id) }),
	)
	return c
}

func (a *app) peerMove() *cobra.Command {
	var force bool
	c := &cobra.Command{Use: "move ID HOST:PORT", Short: "say that a peer has another raft address", Args: cobra.ExactArgs(2),
		Long: "Say that a peer has another raft address. A peer that is started at a new address asks for this itself. It is refused while another process\n" +
			"answers in its name at the old address, or nobody at the new one; --force does not ask.",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if force {
				if err := a.confirm(ctx, "take whoever will answer at %s for the peer %s", args[1], args[0]); err != nil {
					return err
				}
			}
			return a.say(c.MovePeer(ctx, args[0], args[1], force), "%s: known at %s", args[0], args[1])
		})}
	c.Flags().BoolVar(&force, "force", false, "whoever answers at the old address and the new one")
	return c
}

func (a *app) peerShow(ctx context.Context, c *client.Client, args []string) error {
	list, _, err := c.Peers(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.ID == args[0] {
			return a.printJSON(p)
		}
	}
	return fleet.Errorf(fleet.NotFound, "there is no peer %s", args[0]).WithHint("berthctl peers lists them")
}

func (a *app) snapshotCmd() *cobra.Command {
	c := &cobra.Command{Use: "snapshot", Short: "save, restore, inspect or verify the whole state"}
	c.AddCommand(a.snapshotSave(), a.snapshotRestore(),
		a.snapshotInspect(), a.snapshotVerify())
	return c
}

func (a *app) snapshotSave() *cobra.Command {
	return &cobra.Command{Use: "save FILE", Short: "save the whole state to a file (--stale: also without a leader)", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			body, meta, err := c.SaveSnapshot(ctx, a.stale)
			if err != nil {
				return err
			}
			defer body.Close()
			n, err := writeWhole(args[0], body)
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := c.VerifySnapshot(ctx, f)
			if err != nil {
				return fmt.Errorf("%s was saved but does not verify: %w", args[0], err)
			}
			if a.json {
				return a.printJSON(info)
			}
			fmt.Fprintf(a.out, "%s: %d bytes, %d records, index %s, from %s\n", args[0], n, info.Records, info.Index, meta.Peer)
			return nil
		})}
}

// writeWhole writes a file that is either whole or not there; it holds secrets, so it is for its owner alone.
func writeWhole(path string, r io.Reader) (int64, error) {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // what is left of a failure; the failure is what counts
		return n, fmt.Errorf("the snapshot was not saved: %w", err)
	}
	return n, nil
}

func (a *app) snapshotRestore() *cobra.Command {
	var force bool
	c := &cobra.Command{Use: "restore FILE", Short: "replace the whole state by a snapshot file", Args: cobra.ExactArgs(1),
		RunE: a.asking("replace the whole state of the cluster by %s", func(ctx context.Context, c *client.Client, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := c.RestoreSnapshot(ctx, f, force)
			if err != nil || a.json {
				return orJSON(a, info, err)
			}
			fmt.Fprintf(a.out, "restored %d records of index %s\n", info.Records, info.Index)
			return nil
		})}
	c.Flags().BoolVar(&force, "force", false, "also a snapshot of another cluster; this cluster keeps its id")
	return c
}

func (a *app) snapshotVerify() *cobra.Command {
	return &cobra.Command{Use: "verify FILE", Short: "have a peer check a snapshot file whole, changing nothing", Args: cobra.ExactArgs(1), RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := c.VerifySnapshot(ctx, f)
		if err != nil || a.json {
			return orJSON(a, info, err)
		}
		fmt.Fprintf(a.out, "good: cluster %s, index %s, %d records, format %d, level %d, fingerprint %s\n",
			info.Cluster, info.Index, info.Records, info.Format, info.Level, short(info.Fingerprint))
		return nil
	})}
}

func (a *app) freezeCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{Use: "freeze --reason TEXT", Short: "stop placement, eviction and unloading until thaw", Args: cobra.NoArgs, RunE: a.do(func(ctx context.Context, c *client.Client) error {
		return a.say(c.Freeze(ctx, reason), "frozen: %s", reason)
	})}
	c.Flags().StringVar(&reason, "reason", "", "why; status shows it first")
	c.PreRunE = func(*cobra.Command, []string) error {
		if strings.TrimSpace(reason) == "" {
			return usageError{errors.New("freeze needs --reason TEXT; whoever finds the fleet frozen at night will want to know why")}
		}
		return nil
	}
	return c
}

func (a *app) thawCmd() *cobra.Command {
	return &cobra.Command{Use: "thaw", Short: "end a freeze", Args: cobra.NoArgs, RunE: a.do(func(ctx context.Context, c *client.Client) error {
		return a.say(c.Thaw(ctx), "thawed")
	})}
}

func (a *app) settingsCmd() *cobra.Command {
	c := &cobra.Command{Use: "settings", Short: "the cluster's settings"}
	c.AddCommand(
		&cobra.Command{Use: "show", Short: "show them", Args: cobra.NoArgs, RunE: a.do(func(ctx context.Context, c *client.Client) error {
			s, _, err := c.Settings(ctx)
			return orJSON(a, s, err)
		})},
		&cobra.Command{Use: "set NAME=VALUE …", Short: "change the ones that are named", Args: cobra.MinimumNArgs(1), RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			change := map[string]any{}
			for _, arg := range args {
				name, value, ok := strings.Cut(arg, "=")
				if !ok {
					return usageError{fmt.Errorf("%q is not NAME=VALUE; for example idle_threshold=10m", arg)}
				}
				change[name] = settingValue(value)
			}
			s, err := c.SetSettings(ctx, change)
			return orJSON(a, s, err)
		})},
	)
	return c
}

func settingValue(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return b
	}
	return text
}
