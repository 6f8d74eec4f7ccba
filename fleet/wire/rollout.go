package wire

// RolloutView is where the replacement of a model's replicas by those of its present generation stands (GET rollouts/{model}).
type RolloutView struct {
	Model      string `json:"model"`
	Generation uint64 `json:"generation"`
	State      string `json:"state"` // complete, going, waiting, paused, stopped
	Reason     string `json:"reason,omitempty"`
	Want       int    `json:"want"`
	New        int    `json:"new"`       // of the present generation, starting or ready
	NewReady   int    `json:"new_ready"` // of those
	Failed     int    `json:"failed"`    // of the present generation
	Old        int    `json:"old"`       // still to be replaced
	OldReady   int    `json:"old_ready"` // of those
	Ending     int    `json:"ending"`    // draining
}
