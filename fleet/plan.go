package fleet

// Plan is what the planner proposes: a list of items, each applied or refused alone.
type Plan struct {
	Items    []PlanItem `json:"items"`
	Refusals []Refusal  `json:"-"` // explanations, for status; never committed
}

// PlanItem is one decision; exactly one field is set.
type PlanItem struct {
	Place   *PlaceItem   `json:"place,omitempty"`
	Stop    *StopItem    `json:"stop,omitempty"`
	Restart *RestartItem `json:"restart,omitempty"`
	Wake    *WakeItem    `json:"wake,omitempty"`
}

// PlaceItem places all shards of one new replica, rank by rank, or none.
type PlaceItem struct {
	Model      string  `json:"model"`
	Generation uint64  `json:"generation"`
	Shards     []Shard `json:"shards"`
}

// StopItem drains one replica.
type StopItem struct {
	Replica string `json:"replica"`
	Reason  string `json:"reason"`
	Mark    *Mark  `json:"mark,omitempty"`   // makes it conditional
	Failed  string `json:"failed,omitempty"` // the replica ends as failed, for this reason
	// Want, when set, also lowers the model's wanted number to this.
	Want *int `json:"want,omitempty"`
}

// RestartItem starts all ranks of a gang again under a new start number.
type RestartItem struct {
	Replica string `json:"replica"`
	Start   uint64 `json:"start"` // the new number; refused unless it is one above the present one
	Reason  string `json:"reason"`
}

// WakeItem raises the wanted number of a model at zero to one, because requests wait for it.
type WakeItem struct {
	Model string `json:"model"`
}

// Refusal explains why a model has fewer replicas than it wants.
type Refusal struct {
	Model     string        `json:"model"`
	Short     int           `json:"short"` // replicas that are missing
	Reason    string        `json:"reason"`
	Counts    []ReasonCount `json:"counts,omitempty"`
	WouldHelp string        `json:"would_help,omitempty"`
}

// ReasonCount says how many nodes cannot take a replica for one reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}
