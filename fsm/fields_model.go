package fsm

import (
	"berth/fleet"
	"berth/fsm/record"
)

func modelFields(c *record.Codec, v *fleet.Model) {
	record.Struct(c, 1, &v.Spec, specFields)
	record.Uint(c, 2, &v.Generation)
	record.Int(c, 3, &v.Want)
	record.Bool(c, 4, &v.Deleting)
	record.Struct(c, 5, &v.Created, indexFields)
	record.Struct(c, 6, &v.Changed, indexFields)
	record.Int(c, 7, &v.CreatedAt)
	record.Int(c, 8, &v.ChangedAt)
	record.Bool(c, 9, &v.Paused)
}

// pastSpec is a row of the table of specs: that of a generation which is not the model's present one, but of which a replica still runs.
type pastSpec struct {
	Generation uint64
	Spec       fleet.ModelSpec
}

func pastSpecFields(c *record.Codec, v *pastSpec) {
	record.Uint(c, 1, &v.Generation)
	record.Struct(c, 2, &v.Spec, specFields)
}

func specFields(c *record.Codec, v *fleet.ModelSpec) {
	record.Int(c, 1, &v.Version)
	record.Str(c, 2, &v.Kind)
	record.Str(c, 3, &v.Name)
	record.Strings(c, 4, &v.Aliases)
	record.Pairs(c, 5, &v.Labels)
	record.Struct(c, 6, &v.Engine, engineFields)
	record.Struct(c, 7, &v.Placement, placementFields)
	record.Struct(c, 8, &v.Replicas, countFields)
	record.Int(c, 9, &v.Priority)
	record.Bool(c, 10, &v.Pin)
	record.Struct(c, 11, &v.Idle, idleFields)
	record.Struct(c, 12, &v.Serve, serveFields)
	record.Struct(c, 13, &v.Start, startFields)
	record.Struct(c, 14, &v.Drain, drainSpecFields)
	record.Struct(c, 15, &v.Rollout, rolloutFields)
}

func engineFields(c *record.Codec, v *fleet.EngineSpec) {
	record.Str(c, 1, &v.Driver)
	record.Str(c, 2, &v.Version)
	record.Str(c, 3, &v.Weights)
	record.Strings(c, 4, &v.Args)
}

func placementFields(c *record.Codec, v *fleet.PlacementSpec) {
	record.Int(c, 1, &v.Nodes)
	record.Int(c, 2, &v.GPUsPerNode)
	record.Int(c, 3, &v.GPUShare)
	record.Strings(c, 4, &v.Classes)
	record.Int(c, 5, &v.GPUMemory)
	record.Int(c, 6, &v.CPUs)
	record.Int(c, 7, &v.Memory)
	record.Pairs(c, 8, &v.Require)
	record.Pairs(c, 9, &v.Prefer)
	record.Strings(c, 10, &v.Spread)
}

func countFields(c *record.Codec, v *fleet.ReplicaCount) {
	record.Int(c, 1, &v.Min)
	record.Int(c, 2, &v.Max)
}

func idleFields(c *record.Codec, v *fleet.IdleSpec) {
	record.Int(c, 1, &v.UnloadAfter)
	record.Int(c, 2, &v.MinResidence)
}

func serveFields(c *record.Codec, v *fleet.ServeSpec) {
	record.Str(c, 1, &v.Policy)
	record.Int(c, 2, &v.MaxInFlight)
	record.Struct(c, 3, &v.Queue, queueFields)
}

func queueFields(c *record.Codec, v *fleet.QueueSpec) {
	record.Int(c, 1, &v.Limit)
	record.Int(c, 2, &v.Timeout)
}

func startFields(c *record.Codec, v *fleet.StartSpec) {
	record.Int(c, 1, &v.Timeout)
	record.Int(c, 2, &v.MaxRestarts)
}

func drainSpecFields(c *record.Codec, v *fleet.DrainSpec) {
	record.Int(c, 1, &v.Deadline)
	record.Int(c, 2, &v.Minimum)
}

func rolloutFields(c *record.Codec, v *fleet.RolloutSpec) {
	record.Int(c, 1, &v.MaxSurge)
	record.Int(c, 2, &v.MaxUnavailable)
}

func replicaFields(c *record.Codec, v *fleet.Replica) {
	record.Str(c, 1, &v.ID)
	record.Str(c, 2, &v.Model)
	record.Uint(c, 3, &v.Generation)
	record.Str(c, 4, &v.RunHash)
	record.Str(c, 5, &v.State)
	record.Str(c, 6, &v.Reason)
	record.List(c, 7, &v.Shards, shardFields)
	record.Ptr(c, 8, &v.Door, doorFields)
	record.Str(c, 9, &v.Master)
	record.Uint(c, 10, &v.Start)
	record.Int(c, 11, &v.Restarts)
	record.Struct(c, 12, &v.Order, indexFields)
	record.Ptr(c, 13, &v.Drain, drainFields)
	record.Strings(c, 14, &v.Marks)
	record.Int(c, 15, &v.CreatedAt)
	record.Int(c, 16, &v.StateAt)
	record.Struct(c, 17, &v.Changed, indexFields)
}

func shardFields(c *record.Codec, v *fleet.Shard) {
	record.Str(c, 1, &v.Node)
	record.List(c, 2, &v.Claims, claimFields)
	record.Bool(c, 3, &v.Released)
	record.Uint(c, 4, &v.Shim)
	record.Ptr(c, 5, &v.Exit, exitFields)
}

func claimFields(c *record.Codec, v *fleet.Claim) {
	record.Str(c, 1, &v.GPU)
	record.Int(c, 2, &v.Share)
}

func exitFields(c *record.Codec, v *fleet.Exit) {
	record.Int(c, 1, &v.Code)
	record.Str(c, 2, &v.Signal)
	record.Int(c, 3, &v.At)
	record.Strings(c, 4, &v.Log)
}

func doorFields(c *record.Codec, v *fleet.Door) {
	record.Str(c, 1, &v.Address)
	record.Str(c, 2, &v.Key)
}

func markFields(c *record.Codec, v *fleet.Mark) {
	record.Uint(c, 1, &v.Shim)
	record.Uint(c, 2, &v.Engine)
	record.Uint(c, 3, &v.Admissions)
}

func drainFields(c *record.Codec, v *fleet.Drain) {
	record.Str(c, 1, &v.Reason)
	record.Int(c, 2, &v.Minimum)
	record.Int(c, 3, &v.Deadline)
	record.Int(c, 4, &v.At)
	record.Ptr(c, 5, &v.Mark, markFields)
	record.Bool(c, 6, &v.DoorShut)
	record.Str(c, 7, &v.Failed)
}
