package fsm

import (
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm/record"
)

// The fields of every row, as a snapshot stores them. The number of a field is for ever: a field that is dropped leaves a gap, and a new one
// takes the next number of its type, whatever its place in the Go type. A test fails when a field of a type is missing here.

func coreFields(c *record.Codec, v *core) {
	record.Struct(c, 1, &v.Cluster, clusterFields)
	record.Struct(c, 2, &v.Settings, settingsFields)
	record.Ptr(c, 3, &v.Freeze, freezeFields)
	record.Struct(c, 4, &v.Floor, indexFields)
}

func clusterFields(c *record.Codec, v *fleet.Cluster) {
	record.Str(c, 1, &v.ID)
	record.Uint(c, 2, &v.Epoch)
	record.Int(c, 3, &v.Level)
	record.Int(c, 4, &v.CreatedAt)
}

func settingsFields(c *record.Codec, v *fleet.Settings) {
	record.Int(c, 1, &v.IdleThreshold)
	record.Int(c, 2, &v.NodeGrace)
	record.Int(c, 3, &v.Truce)
	record.Int(c, 4, &v.RemoveDeadPeerAfter)
}

func freezeFields(c *record.Codec, v *fleet.Freeze) {
	record.Str(c, 1, &v.Reason)
	record.Str(c, 2, &v.By)
	record.Int(c, 3, &v.At)
}

func indexFields(c *record.Codec, v *fleet.Index) {
	record.Uint(c, 1, &v.Epoch)
	record.Uint(c, 2, &v.N)
}

func serverFields(c *record.Codec, v *fleet.Server) {
	record.Str(c, 1, &v.ID)
	record.Str(c, 2, &v.HTTP)
	record.Str(c, 3, &v.Raft)
	record.Int(c, 4, &v.MaxLevel)
	record.Str(c, 5, &v.Version)
	record.Struct(c, 6, &v.Changed, indexFields)
}

func nodeFields(c *record.Codec, v *fleet.Node) {
	record.Str(c, 1, &v.Name)
	record.Str(c, 2, &v.ID)
	record.Uint(c, 3, &v.Instance)
	record.Str(c, 4, &v.Address)
	record.Str(c, 5, &v.EngineAddress)
	record.Str(c, 6, &v.Version)
	record.Pairs(c, 7, &v.Labels)
	record.Pairs(c, 8, &v.Overrides)
	record.Struct(c, 9, &v.Inventory, inventoryFields)
	record.List(c, 10, &v.Engines, offerFields)
	record.Strings(c, 11, &v.ModelRoots)
	record.Str(c, 12, &v.Admin)
	record.Str(c, 13, &v.AdminReason)
	record.Int(c, 14, &v.AdminAt)
	record.Ptr(c, 15, &v.Drain, nodeDrainFields)
	record.Bool(c, 16, &v.Unreachable)
	record.Str(c, 17, &v.UnreachableReason)
	record.Int(c, 18, &v.UnreachableAt)
	record.List(c, 19, &v.Unmanaged, unmanagedFields)
	record.Int(c, 20, &v.RegisteredAt)
	record.Struct(c, 21, &v.Changed, indexFields)
}

func inventoryFields(c *record.Codec, v *fleet.Inventory) {
	record.Str(c, 1, &v.Source)
	record.Str(c, 2, &v.Note)
	record.Str(c, 3, &v.Fabric)
	record.List(c, 4, &v.GPUs, gpuFields)
	record.Int(c, 5, &v.CPUs)
	record.Int(c, 6, &v.Memory)
	record.Str(c, 7, &v.Driver)
}

func gpuFields(c *record.Codec, v *fleet.GPU) {
	record.Str(c, 1, &v.UUID)
	record.Int(c, 2, &v.Index)
	record.Str(c, 3, &v.Class)
	record.Str(c, 4, &v.Name)
	record.Int(c, 5, &v.Memory)
	record.Str(c, 6, &v.Health)
	record.Str(c, 7, &v.Reason)
	record.Bool(c, 8, &v.Foreign)
}

func offerFields(c *record.Codec, v *fleet.EngineOffer) {
	record.Str(c, 1, &v.Driver)
	record.Str(c, 2, &v.Version)
	record.Bool(c, 3, &v.Hub)
	record.Bool(c, 4, &v.SpanNodes)
	record.Strings(c, 5, &v.AllowArgs)
}

func nodeDrainFields(c *record.Codec, v *fleet.NodeDrain) {
	record.Struct(c, 1, &v.Started, indexFields)
	record.Int(c, 2, &v.Deadline)
	record.Int(c, 3, &v.StartAt)
	record.Str(c, 4, &v.State)
}

func unmanagedFields(c *record.Codec, v *fleet.Unmanaged) {
	record.Str(c, 1, &v.What)
	record.Int(c, 2, &v.PID)
	record.Strings(c, 3, &v.GPUs)
}

// requestFields and what follows is what is remembered of requests.
func requestFields(c *record.Codec, v *request) {
	record.Str(c, 1, &v.ID)
	record.Str(c, 2, &v.Hash)
	record.Struct(c, 3, &v.Outcome, outcomeFields)
}

func outcomeFields(c *record.Codec, v *Outcome) {
	record.Struct(c, 1, &v.Index, indexFields)
	record.Ptr(c, 2, &v.Err, errorFields)
	record.List(c, 3, &v.Items, itemFields)
	record.Bool(c, 4, &v.Changed)
	record.Uint(c, 5, &v.Generation)
}

func itemFields(c *record.Codec, v **fleet.Error) { record.Ptr(c, 1, v, errorFields) }

func errorFields(c *record.Codec, v *fleet.Error) {
	record.Str(c, 1, &v.Code)
	record.Str(c, 2, &v.Message)
	record.Str(c, 3, &v.Hint)
}

// feedRow is a row of the table of feeds.
type feedRow struct {
	Name    string
	Changed fleet.Index
}

func feedFields(c *record.Codec, v *feedRow) {
	record.Str(c, 1, &v.Name)
	record.Struct(c, 2, &v.Changed, indexFields)
}

func strayFields(c *record.Codec, v *stray) {
	record.Str(c, 1, &v.Node)
	record.Struct(c, 2, &v.Run, runningFields)
}

func runningFields(c *record.Codec, v *wire.Running) {
	record.Str(c, 1, &v.Replica)
	record.Int(c, 2, &v.Rank)
	record.Str(c, 3, &v.Model)
	record.Uint(c, 4, &v.Generation)
	record.Str(c, 5, &v.RunHash)
	record.Struct(c, 6, &v.Order, indexFields)
	record.Uint(c, 7, &v.Start)
	record.Bool(c, 8, &v.Ready)
	record.Uint(c, 9, &v.Shim)
	record.Ptr(c, 10, &v.Door, doorFields)
	record.List(c, 11, &v.Claims, claimFields)
}
