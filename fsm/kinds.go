package fsm

import "berth/fleet"

// kind is what the package knows of one kind of command: the level that brought it, how its body is read, and what it does.
type kind struct {
	level  int
	decode func(body []byte) (Command, error)
	apply  func(*txn, Command) result
}

// result is what a command did, before it becomes an Outcome.
type result struct {
	err        *fleet.Error
	items      []*fleet.Error
	generation uint64
}

// kindOf returns the row of a kind. A switch, not a map filled at start: there is nothing to register and nothing to forget, and the compiler
// sees a name that is there twice.
func kindOf(name string) (kind, bool) {
	switch name {
	case "cluster.create":
		return simple(1, (*txn).createCluster), true
	case "server.announce":
		return simple(1, (*txn).announceServer), true
	case "server.forget":
		return simple(1, (*txn).forgetServer), true
	case "level.raise":
		return simple(1, (*txn).raiseLevel), true
	case "model.apply":
		return full(1, (*txn).applyModel), true
	case "model.scale":
		return full(1, (*txn).scaleModel), true
	case "rollout.pause":
		return simple(1, (*txn).pauseRollout), true
	case "model.delete":
		return simple(1, (*txn).deleteModel), true
	case "plan":
		return full(1, (*txn).applyPlan), true
	case "replica.transitions":
		return full(1, (*txn).applyTransitions), true
	case "replica.stop":
		return simple(1, (*txn).stopReplica), true
	case "replica.restart":
		return simple(1, (*txn).restartReplica), true
	case "replica.fail":
		return simple(1, (*txn).failReplica), true
	case "replica.withdraw":
		return simple(1, (*txn).withdrawStop), true
	case "settings.set":
		return simple(1, (*txn).setSettings), true
	case "freeze.set":
		return simple(1, (*txn).setFreeze), true
	case "epoch.raise":
		return simple(1, (*txn).raiseEpoch), true
	}
	return nodeKindOf(name)
}

func nodeKindOf(name string) (kind, bool) {
	switch name {
	case "node.register":
		return simple(1, (*txn).registerNode), true
	case "node.admin":
		return simple(1, (*txn).setNodeAdmin), true
	case "node.drain":
		return simple(1, (*txn).drainNode), true
	case "node.drain.end":
		return simple(1, (*txn).endNodeDrain), true
	case "node.label":
		return simple(1, (*txn).labelNode), true
	case "node.forget":
		return simple(1, (*txn).forgetNode), true
	case "node.liveness":
		return simple(1, (*txn).setLiveness), true
	}
	return kind{}, false
}

// simple makes the row of a command that is accepted or refused as a whole.
func simple[C Command](level int, apply func(*txn, C) *fleet.Error) kind {
	return full(level, func(tx *txn, c C) result { return result{err: apply(tx, c)} })
}

// full makes the row of a command that answers more than that.
func full[C Command](level int, apply func(*txn, C) result) kind {
	return kind{
		level: level,
		decode: func(body []byte) (Command, error) {
			c, err := strict[C](body)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		apply: func(tx *txn, c Command) result { return apply(tx, c.(C)) },
	}
}
