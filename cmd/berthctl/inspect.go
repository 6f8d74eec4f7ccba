package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"berth/fleet/wire"
	"berth/fsm"
)

// inspection is what a snapshot file holds, as inspect --json prints it.
type inspection struct {
	wire.SnapshotInfo
	Models   int `json:"models"`
	Nodes    int `json:"nodes"`
	Replicas int `json:"replicas"`
	Peers    int `json:"peers"`
}

// snapshotInspect reads the file itself: when it is needed most there may be no peer to ask.
func (a *app) snapshotInspect() *cobra.Command {
	return &cobra.Command{Use: "inspect FILE", Short: "what a snapshot file holds; asks no peer", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		state, info, err := fsm.Load(f)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		in := inspection{SnapshotInfo: info}
		for range state.Models() {
			in.Models++
		}
		for range state.Nodes() {
			in.Nodes++
		}
		for range state.Replicas() {
			in.Replicas++
		}
		for range state.Servers() {
			in.Peers++
		}
		if a.json {
			return a.printJSON(in)
		}
		fmt.Fprintf(a.out, "cluster %s, index %s, format %d, level %d, fingerprint %s\n%d models, %d nodes, %d replicas, %d peers; %d records, %d bytes\n",
			in.Cluster, in.Index, in.Format, in.Level, short(in.Fingerprint), in.Models, in.Nodes, in.Replicas, in.Peers, in.Records, in.Bytes)
		return nil
	}}
}
